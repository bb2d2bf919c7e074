#include "orrery/kernel/describe.h"

namespace orrery {
namespace {

size_t joined_dimensions(size_t rank) {
  return rank > Kernel::kMaxLoops ? rank - Kernel::kMaxLoops : 0;
}

}  // namespace

void add_loops(Kernel& kernel, std::initializer_list<LoopDimension> loops) {
  for (const LoopDimension& loop : loops) kernel.loops[kernel.loop_count++] = loop;
}

void add_tensor(Kernel& kernel, const TensorSize& tensor, unsigned loops, bool written,
                double density) {
  if (kernel.tensor_count == Kernel::kMaxTensors) return;
  kernel.tensors[kernel.tensor_count++] = {tensor.bytes, tensor.element,
                                           static_cast<uint8_t>(loops), written,
                                           static_cast<float>(density)};
}

void add_dimension_loops(Kernel& kernel, std::span<const int64_t> dims) {
  const size_t first = joined_dimensions(dims.size());
  int64_t lead = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t extent = std::max<int64_t>(0, dims[d]);
    if (d < first) {
      lead = joined(lead, extent);
    } else {
      kernel.loops[kernel.loop_count++] = {d == first ? joined(lead, extent) : extent, false};
    }
  }
}

void mark_reduced(Kernel& kernel, size_t rank, std::span<const int64_t> reduced) {
  const size_t first = joined_dimensions(rank);
  for (int64_t d : reduced) {
    const auto at = static_cast<size_t>(d) < first ? 0 : static_cast<size_t>(d) - first;
    if (at < kernel.loop_count) kernel.loops[at].reduction = true;
  }
}

void describe_product(Kernel& kernel, int64_t batch, int64_t m, int64_t n, int64_t k,
                      const TensorSize& lhs, const TensorSize& rhs) {
  add_loops(kernel, {{batch}, {m}, {n}, {k, true}});
  add_tensor(kernel, lhs, kBatchLoop | kRowLoop | kDepthLoop, false);
  add_tensor(kernel, rhs, kBatchLoop | kColumnLoop | kDepthLoop, false);
}

void describe_product(Kernel& kernel, const ProductShape& shape, const TensorSize& lhs,
                      const TensorSize& rhs) {
  if (shape.groups > 1)
    describe_product(kernel, shape.groups, std::max<int64_t>(1, shape.m / shape.groups), shape.n,
                     shape.k, lhs, rhs);
  else
    describe_product(kernel, shape.batch, shape.m, shape.n, shape.k, lhs, rhs);
  kernel.shape = shape;
}

void describe_attention(Kernel& kernel, const AttentionShape& shape) {
  add_loops(kernel, {{std::max<int64_t>(1, joined(shape.batch, shape.heads))},
                     {shape.queries},
                     {shape.keys, true},
                     {shape.head}});
  kernel.shape = shape;
}

RowShape row_shape(std::span<const int64_t> dims, std::span<const int64_t> reduced) {
  RowShape shape;
  int64_t last = -1;
  for (int64_t d : reduced) {
    if (d < 0 || d >= static_cast<int64_t>(dims.size())) continue;
    shape.columns = joined(shape.columns, std::max<int64_t>(1, dims[static_cast<size_t>(d)]));
    last = std::max(last, d);
  }
  int64_t elements = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    elements = joined(elements, std::max<int64_t>(1, dims[d]));
    if (last >= 0 && static_cast<int64_t>(d) > last)
      shape.inner = joined(shape.inner, std::max<int64_t>(1, dims[d]));
  }
  shape.rows = std::max<int64_t>(1, elements / shape.columns);
  return shape;
}

MoveShape move_shape(std::span<const int64_t> dims, std::span<const int64_t> from,
                     std::span<const int64_t> to) {
  MoveShape shape;
  for (int64_t size : dims) shape.elements = joined(shape.elements, std::max<int64_t>(1, size));
  const auto size_of = [&](int64_t d) {
    return d >= 0 && d < static_cast<int64_t>(dims.size()) ? dims[static_cast<size_t>(d)] : 1;
  };
  size_t read = from.size(), written = to.size();
  int64_t run = 1;
  while (true) {
    while (read > 0 && size_of(from[read - 1]) <= 1) --read;
    while (written > 0 && size_of(to[written - 1]) <= 1) --written;
    if (read == 0 || written == 0 || from[read - 1] != to[written - 1]) break;
    run = joined(run, size_of(from[--read]));
    --written;
  }
  shape.read_run = shape.write_run = run;
  return shape;
}

}  // namespace orrery
