#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "orrery/kernel/shape.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Kinds of kernels that share how they use the hardware, and so their errors.
enum class KernelFamily : uint8_t {
  kGemm,  ///< dot_general, batched or not, grouped
  kConvolution,
  kAttention,  ///< fused attention, linear attention
  kElementwise,
  kReduction,      ///< reduce, arg_max, reduce_window, cumsum, scan
  kNormalization,  ///< softmax, layer, rms, batch and group norm
  kDataMovement,   ///< transpose, copy, concatenate, pad, broadcast
  kIndexed,        ///< gather, scatter, slices
  kSort,           ///< sort, top_k
  kLibrary,        ///< custom calls, fft, solvers
  kCollective,
};
inline constexpr int kKernelFamilyCount = static_cast<int>(KernelFamily::kCollective) + 1;

std::string_view name(KernelFamily family);
KernelFamily family_of(Opcode code);

/// One loop of a kernel's iteration space.
struct LoopDimension {
  int64_t extent = 1;
  bool reduction = false;  ///< Summed over; the result does not have it.
  bool operator==(const LoopDimension&) const = default;
};

/// A tensor as the loops touch it.
struct TensorUse {
  int64_t bytes = 0;
  ElementType element = ElementType::kNone;
  uint8_t loops = 0;  ///< Bit i: indexed by loop i (its projection).
  bool written = false;
  float density = 1;  ///< Share of it that is touched or not zero.
  bool operator==(const TensorUse&) const = default;
};

/// What one launch runs: an operation or a fused group. Small and flat, so that
/// a million of them can be predicted in a second; with its iteration space and
/// its tensors' projections, so that tile, systolic and loop-nest models can all
/// read it.
struct Kernel {
  static constexpr size_t kMaxLoops = 6;
  static constexpr size_t kMaxTensors = 6;

  KernelFamily family = KernelFamily::kElementwise;
  Opcode code = Opcode::k_unknown;  ///< The operation that gives it its shape.
  uint8_t loop_count = 0;
  uint8_t tensor_count = 0;  ///< The first kMaxTensors; `cost` counts all.
  bool counted = false;      ///< Its vector work was counted in clocks on kernels like it.
  Cost cost;
  std::array<LoopDimension, kMaxLoops> loops{};
  std::array<TensorUse, kMaxTensors> tensors{};
  KernelShape shape;
  bool operator==(const Kernel&) const = default;
};

/// The kernel that runs `op` alone. Contractions have the loops batch, m, n, k
/// (convolutions as implicit GEMM: m = batch × output pixels, n = output
/// features, k = window × input features); attention batch × heads, queries,
/// keys, head size; others the dimensions of their largest tensor.
Kernel kernel_of(const Workload& workload, OpId op);

}  // namespace orrery
