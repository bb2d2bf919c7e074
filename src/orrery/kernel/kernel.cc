#include "orrery/kernel/kernel.h"

#include <algorithm>
#include <span>

namespace orrery {
namespace {

int64_t product(const Type& type, std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= std::max<int64_t>(1, type.dims[static_cast<size_t>(d)]);
  return n;
}

void set_loops(Kernel& kernel, std::initializer_list<LoopDimension> loops) {
  for (const LoopDimension& loop : loops) kernel.loops[kernel.loop_count++] = loop;
}

void add_tensor(Kernel& kernel, const Type& type, unsigned loops, bool written,
                double density = 1) {
  if (kernel.tensor_count == Kernel::kMaxTensors) return;
  kernel.tensors[kernel.tensor_count++] = {type.bytes, type.element, static_cast<uint8_t>(loops),
                                           written, static_cast<float>(density)};
}

/// Loops batch, m, n, k as bits 0 to 3.
constexpr unsigned kBatch = 1, kM = 2, kN = 4, kK = 8;

void describe_product(Kernel& kernel, const OpView& op, int64_t batch, int64_t m, int64_t n,
                      int64_t k) {
  set_loops(kernel, {{batch}, {m}, {n}, {k, true}});
  add_tensor(kernel, op.operand_type(0), kBatch | kM | kK, false);
  add_tensor(kernel, op.operand_type(1), kBatch | kN | kK, false);
  if (op.result_count() > 0) add_tensor(kernel, op.result_type(0), kBatch | kM | kN, true);
}

void describe_dot(Kernel& kernel, const OpView& op) {
  const Type& lhs = op.operand_type(0);
  const Type& rhs = op.operand_type(1);
  const auto contracting = op.integers(Attr::kLhsContracting);
  int64_t k = product(lhs, contracting);
  if (contracting.empty() && op.code() == Opcode::k_dot && lhs.rank() > 0)
    k = std::max<int64_t>(1, lhs.dims.back());
  const int64_t batch = product(lhs, op.integers(Attr::kLhsBatching));
  const int64_t m = std::max<int64_t>(1, lhs.elements / std::max<int64_t>(1, batch * k));
  const int64_t n = std::max<int64_t>(1, rhs.elements / std::max<int64_t>(1, batch * k));
  describe_product(kernel, op, batch, m, n, k);
}

void describe_grouped_dot(Kernel& kernel, const OpView& op) {
  const Type& x = op.operand_type(0);
  const Type& w = op.operand_type(1);
  const int64_t k = x.rank() > 0 ? std::max<int64_t>(1, x.dims.back()) : 1;
  const int64_t rows = std::max<int64_t>(1, x.elements / k);
  const int64_t n = w.rank() > 0 ? std::max<int64_t>(1, w.dims.back()) : 1;
  const int64_t groups = w.rank() >= 3 ? std::max<int64_t>(1, w.dims[0]) : 1;
  describe_product(kernel, op, groups, std::max<int64_t>(1, rows / groups), n, k);
}

void describe_convolution(Kernel& kernel, const OpView& op) {
  const Type& filter = op.operand_type(1);
  if (op.result_count() == 0 || op.result_type(0).kind != Type::Kind::kTensor) return;
  const Type& output = op.result_type(0);
  const int64_t groups = std::max<int64_t>(1, op.integer(Attr::kFeatureGroups, 1));
  const int64_t features =
      std::max<int64_t>(1, filter.dims[static_cast<size_t>(op.integer(Attr::kKernelOutput, 0))]);
  const int64_t depth =
      product(filter, op.integers(Attr::kKernelSpatial)) *
      std::max<int64_t>(1, filter.dims[static_cast<size_t>(op.integer(Attr::kKernelInput, 0))]);
  const int64_t n = std::max<int64_t>(1, features / groups);
  const int64_t m = std::max<int64_t>(1, output.elements / features);
  describe_product(kernel, op, groups, m, n, depth);
}

void describe_attention(Kernel& kernel, const OpView& op) {
  const bool backward =
      op.code() == Opcode::k_attention_backward || op.code() == Opcode::k_linear_attention_backward;
  const uint32_t first = backward ? 1 : 0;
  const Type& q = op.operand_type(first);
  const Type& k = op.operand_type(first + 1);
  set_loops(
      kernel,
      {{std::max<int64_t>(1, q.dims[0] * q.dims[1])}, {q.dims[2]}, {k.dims[2], true}, {q.dims[3]}});
  add_tensor(kernel, q, 1 | 2 | 8, false);
  add_tensor(kernel, k, 1 | 4 | 8, false);
  add_tensor(kernel, op.operand_type(first + 2), 1 | 4 | 8, false);
  add_tensor(kernel, op.result_type(0), 1 | 2 | 8, true);
}

/// The dimensions of the largest tensor, leading ones joined when there are more
/// than a kernel holds.
void describe_pointwise(Kernel& kernel, const OpView& op) {
  const Type* largest = nullptr;
  const auto consider = [&](const Type& type) {
    if (type.kind == Type::Kind::kTensor &&
        (largest == nullptr || type.elements > largest->elements))
      largest = &type;
  };
  for (uint32_t i = 0; i < op.operand_count(); ++i) consider(op.operand_type(i));
  for (uint32_t i = 0; i < op.result_count(); ++i) consider(op.result_type(i));
  if (largest == nullptr) return;
  const auto rank = static_cast<size_t>(largest->rank());
  const size_t joined = rank > Kernel::kMaxLoops ? rank - Kernel::kMaxLoops : 0;
  int64_t lead = 1;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = std::max<int64_t>(0, largest->dims[d]);
    if (d < joined) {
      lead *= extent;
    } else {
      kernel.loops[kernel.loop_count++] = {d == joined ? lead * extent : extent, false};
    }
  }
  if (op_class(op.code()) == OpClass::kReduction) {
    for (int64_t d : op.integers(Attr::kDimensions)) {
      const auto at = static_cast<size_t>(d) < joined ? 0 : static_cast<size_t>(d) - joined;
      if (at < kernel.loop_count) kernel.loops[at].reduction = true;
    }
  }
  const unsigned all = (1u << kernel.loop_count) - 1;
  for (uint32_t i = 0; i < op.operand_count(); ++i)
    add_tensor(kernel, op.operand_type(i), all, false);
  for (uint32_t i = 0; i < op.result_count(); ++i) add_tensor(kernel, op.result_type(i), all, true);
}

}  // namespace

std::string_view name(KernelFamily family) {
  static constexpr std::array<std::string_view, kKernelFamilyCount> kNames = {
      "gemm",          "convolution", "attention", "elementwise", "reduction", "normalization",
      "data movement", "indexed",     "sort",      "library",     "collective"};
  return kNames[static_cast<size_t>(family)];
}

KernelFamily family_of(Opcode code) {
  switch (code) {
    case Opcode::k_convolution:
    case Opcode::k_dynamic_conv:
      return KernelFamily::kConvolution;
    case Opcode::k_attention:
    case Opcode::k_attention_backward:
    case Opcode::k_linear_attention:
    case Opcode::k_linear_attention_backward:
      return KernelFamily::kAttention;
    case Opcode::k_softmax:
    case Opcode::k_layer_norm:
    case Opcode::k_rms_norm:
    case Opcode::k_group_norm:
    case Opcode::k_batch_norm_grad:
    case Opcode::k_batch_norm_inference:
    case Opcode::k_batch_norm_training:
    case Opcode::k_normalization_backward:
      return KernelFamily::kNormalization;
    case Opcode::k_sort:
    case Opcode::k_top_k:
      return KernelFamily::kSort;
    default:
      break;
  }
  switch (op_class(code)) {
    case OpClass::kContraction:
      return KernelFamily::kGemm;
    case OpClass::kReduction:
      return KernelFamily::kReduction;
    case OpClass::kMove:
      return KernelFamily::kDataMovement;
    case OpClass::kIndexed:
      return KernelFamily::kIndexed;
    case OpClass::kLibrary:
      return KernelFamily::kLibrary;
    case OpClass::kCollective:
      return KernelFamily::kCollective;
    default:
      return KernelFamily::kElementwise;
  }
}

Kernel kernel_of(const Workload& workload, OpId id) {
  const OpView op = workload.view(id);
  Kernel kernel;
  kernel.code = op.code();
  kernel.family = family_of(op.code());
  kernel.cost = cost(workload, id);
  switch (kernel.family) {
    case KernelFamily::kGemm:
      if (op.code() == Opcode::k_grouped_dot)
        describe_grouped_dot(kernel, op);
      else
        describe_dot(kernel, op);
      break;
    case KernelFamily::kConvolution:
      describe_convolution(kernel, op);
      break;
    case KernelFamily::kAttention:
      describe_attention(kernel, op);
      break;
    case KernelFamily::kLibrary:
      if (!op.integers(Attr::kLhsContracting).empty()) {
        kernel.family = KernelFamily::kGemm;
        describe_dot(kernel, op);
      } else if (!op.integers(Attr::kKernelSpatial).empty()) {
        kernel.family = KernelFamily::kConvolution;
        describe_convolution(kernel, op);
      } else {
        describe_pointwise(kernel, op);
      }
      break;
    default:
      describe_pointwise(kernel, op);
      break;
  }
  return kernel;
}

}  // namespace orrery
