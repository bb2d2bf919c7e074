#include "orrery/model/torch/torch_kernels.h"

#include <algorithm>

#include "orrery/kernel/describe.h"
#include "orrery/workload/cost_formula.h"

namespace orrery {
namespace {

/// Clocks that an SM takes for an element of an indexed loop: a part of its own, one for each
/// dimension it must divide by, less where there is a single operand, more where a thread takes
/// two elements instead of four; and those of widening copies. From profiles of Llama, GPT-2 and
/// vision models (tools/measure/torch_models.py on an H200).
constexpr double kIndexedClocks = 0.32, kClocksOfDimension = 0.16, kSingleOperand = -0.1;
constexpr double kWideElements = 1.28, kWideningClocks = 0.7;
/// Lanes of an SM, and the FLOPs of a multiply-add: `clocks` of all of them in fp32 FLOPs.
constexpr double kFlopsPerClock = 256;

/// Dimensions left once those that all tensors walk through as one are joined, as
/// TensorIterator does (ATen/TensorIterator.cpp, coalesce_dimensions).
int joined_dimensions(std::span<const TorchTensor> inputs, const TorchTensor& output) {
  const TensorLayout& out = output.layout;
  std::vector<size_t> order;
  for (size_t d = 0; d < out.dims.size(); ++d)
    if (out.dims[d] != 1) order.push_back(d);
  std::ranges::stable_sort(order, std::less(), [&](size_t d) { return out.strides[d]; });
  int count = order.empty() ? 0 : 1;
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t fast = order[i - 1], slow = order[i];
    const auto follows = [&](const TensorLayout& l) {
      return l.strides.size() == out.dims.size() &&
             l.strides[slow] == l.strides[fast] * l.dims[fast];
    };
    bool joins = follows(out);
    for (const TorchTensor& input : inputs) joins &= follows(input.layout);
    count += joins ? 0 : 1;
  }
  return count;
}

double indexed_clocks(std::span<const TorchTensor> inputs, const TorchTensor& output) {
  const int dimensions = joined_dimensions(inputs, output);
  if (dimensions <= 1) return kWideningClocks;
  const double clocks =
      kIndexedClocks + kClocksOfDimension * dimensions + (inputs.size() == 1 ? kSingleOperand : 0);
  return clocks * (bit_width(output.element) > 16 ? kWideElements : 1);
}

TensorSize size_of(const TorchTensor& t) {
  return {t.element, t.elements(), static_cast<int64_t>(t.bytes())};
}

TensorSize size_of(ElementType element, int64_t elements) {
  return {element, elements, elements * bit_width(element) / 8};
}

double bytes_of(ElementType element, int64_t elements) {
  return static_cast<double>(elements) * bit_width(element) / 8;
}

Kernel begun(Opcode code, KernelFamily family, std::span<const int64_t> dims) {
  Kernel kernel;
  kernel.code = code;
  kernel.family = family;
  add_dimension_loops(kernel, dims);
  return kernel;
}

void read(Kernel& kernel, const TensorSize& t, double bytes) {
  add_tensor(kernel, t, (1u << kernel.loop_count) - 1, false);
  kernel.cost.bytes_read += bytes;
}

void write(Kernel& kernel, const TensorSize& t, double bytes) {
  add_tensor(kernel, t, (1u << kernel.loop_count) - 1, true);
  kernel.cost.bytes_written += bytes;
}

}  // namespace

int64_t TorchTensor::elements() const {
  int64_t n = 1;
  for (const int64_t d : layout.dims) n = joined(n, d);
  return n;
}

double TorchTensor::bytes() const { return bytes_of(element, layout.stored()); }

namespace torch_kernels {

bool is_vectorized(std::span<const TorchTensor> inputs, const TorchTensor& output) {
  if (!output.layout.is_dense()) return false;
  for (const TorchTensor& input : inputs) {
    if (!input.layout.steps_like(output.layout)) return false;
    if (bit_width(input.element) < bit_width(output.element)) return false;
  }
  return true;
}

Kernel elementwise(Opcode code, std::span<const TorchTensor> inputs, const TorchTensor& output) {
  Kernel kernel = begun(code, KernelFamily::kElementwise, output.layout.dims);
  for (const TorchTensor& input : inputs) read(kernel, size_of(input), input.bytes());
  write(kernel, size_of(output), output.bytes());
  kernel.cost.vector_type = output.element;
  add_work(kernel.cost, static_cast<double>(output.elements()),
           elementwise_work(code, output.element));
  if (is_vectorized(inputs, output)) return kernel;
  // Timed by its instructions: as a loop that no operator was measured of.
  kernel.family = code == Opcode::k_copy ? KernelFamily::kDataMovement : KernelFamily::kIndexed;
  kernel.cost.vector_type = ElementType::kF32;
  const double work = kernel.cost.vector_flops;
  kernel.cost.vector_flops =
      static_cast<double>(output.elements()) * indexed_clocks(inputs, output) * kFlopsPerClock;
  kernel.cost.index_flops = std::max(0.0, kernel.cost.vector_flops - work);
  kernel.counted = true;
  return kernel;
}

Kernel loop(Opcode code, KernelFamily family, ElementType element, int64_t elements, double read,
            double written, double clocks) {
  Kernel kernel = begun(code, family, {&elements, 1});
  add_tensor(kernel, size_of(element, elements), 1, true);
  kernel.cost.bytes_read = read;
  kernel.cost.bytes_written = written;
  kernel.cost.vector_type = ElementType::kF32;
  kernel.cost.vector_flops = static_cast<double>(elements) * clocks * kFlopsPerClock;
  if (family == KernelFamily::kDataMovement || family == KernelFamily::kIndexed)
    kernel.cost.index_flops = kernel.cost.vector_flops;
  kernel.counted = true;
  return kernel;
}

Kernel fill(ElementType element, int64_t elements) {
  Kernel kernel = begun(Opcode::k_broadcast, KernelFamily::kElementwise, {&elements, 1});
  write(kernel, size_of(element, elements), bytes_of(element, elements));
  return kernel;
}

Kernel reduction(ElementType element, int64_t rows, int64_t columns, int64_t inner) {
  const std::array<int64_t, 2> dims = {rows, columns};
  Kernel kernel = begun(Opcode::k_reduce, KernelFamily::kReduction, dims);
  const int64_t elements = joined(rows, columns);
  read(kernel, size_of(element, elements), bytes_of(element, elements));
  write(kernel, size_of(element, rows), bytes_of(element, rows));
  kernel.cost.vector_type = element;
  add_work(kernel.cost, static_cast<double>(elements), {1, 0});
  kernel.shape = RowShape{rows, columns, inner};
  return kernel;
}

Kernel over_rows(Opcode code, ElementType element, int64_t rows, int64_t columns,
                 int64_t tensors_read) {
  const std::array<int64_t, 2> dims = {rows, columns};
  Kernel kernel = begun(code, KernelFamily::kNormalization, dims);
  const int64_t elements = joined(rows, columns);
  for (int64_t i = 0; i < tensors_read; ++i)
    read(kernel, size_of(element, elements), bytes_of(element, elements));
  write(kernel, size_of(element, elements), bytes_of(element, elements));
  kernel.cost.vector_type = element;
  add_work(kernel.cost, static_cast<double>(elements), row_work(code, 0));
  kernel.shape = RowShape{rows, columns, 1};
  return kernel;
}

Kernel product(ElementType element, int64_t batch, int64_t m, int64_t n, int64_t k) {
  Kernel kernel;
  kernel.code = Opcode::k_dot_general;
  kernel.family = KernelFamily::kGemm;
  ProductShape shape;
  shape.batch = batch;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.weight = element;
  const TensorSize lhs = size_of(element, joined(batch, joined(m, k)));
  const TensorSize rhs = size_of(element, joined(batch, joined(n, k)));
  const TensorSize out = size_of(element, joined(batch, joined(m, n)));
  describe_product(kernel, shape, lhs, rhs);
  add_tensor(kernel, out, kBatchLoop | kRowLoop | kColumnLoop, true);
  add_products(kernel.cost, static_cast<double>(out.elements) * static_cast<double>(k), element);
  kernel.cost.bytes_read = static_cast<double>(lhs.bytes + rhs.bytes);
  kernel.cost.bytes_written = static_cast<double>(out.bytes);
  return kernel;
}

Kernel lookup(ElementType element, int64_t count, int64_t width, int64_t table_rows,
              bool accumulate) {
  const std::array<int64_t, 2> dims = {count, width};
  Kernel kernel =
      begun(accumulate ? Opcode::k_scatter : Opcode::k_gather, KernelFamily::kIndexed, dims);
  const TensorSize rows = size_of(element, joined(count, width));
  const auto bytes = static_cast<double>(rows.bytes);
  read(kernel, rows, accumulate ? 2 * bytes : bytes);
  kernel.cost.bytes_read += static_cast<double>(count) * 8;
  write(kernel, rows, bytes);
  kernel.shape = LookupShape{count, width, table_rows, accumulate};
  return kernel;
}

}  // namespace torch_kernels
}  // namespace orrery
