#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "orrery/api/step_detail.h"

namespace orrery {

/// What one step takes longer or shorter by than another.
enum class Cause : uint8_t {
  kArithmetic,  ///< Peak rates of matrix units, vector units and special functions.
  kBandwidth,   ///< Of main memory.
  kClock,       ///< What the power of the step takes from the clock.
  kEfficiency,  ///< How near the kernels come to the roofline.
  kKernels,     ///< Other kernels, or as many more of them.
  kLaunches,    ///< Gaps between kernels, and the shortest time one takes.
  kHost,        ///< The device waiting for the host.
};
inline constexpr size_t kCauseCount = static_cast<size_t>(Cause::kHost) + 1;

std::string_view name(Cause cause);

/// Seconds of the difference by cause: index by `Cause`.
using Difference = std::array<double, kCauseCount>;

/// How `second.total.step − first.total.step` comes about; the parts add up to it exactly.
///
/// A step is T = Σ kernels + gaps + wait, wait = max(0, host − device). Differences of gaps and
/// wait are causes as they are. Kernels are taken in groups g: two launches of the same kernel, one
/// from either step (match_launches), or what is left over of a family on both sides. The time of
/// a group is
///
///   T_g = R_g · φ_g · η_g,   R_g = Σ n·max(arithmetic, memory, floor)   the roofline
///   (kernel/roofline.h)
///                            φ_g = T_g / T_g in a cool burst            the clock
///                            η_g                                        the rest: efficiency
///
/// and its difference is split by the logarithmic mean, L(a, b) = (a − b) / ln(a / b),
///
///   T_g₂ − T_g₁ = L(T_g₂, T_g₁) · (ln R₂/R₁ + ln φ₂/φ₁ + ln η₂/η₁)
///
/// (LMDI-I: Ang, Energy Policy 33(7), 2005), which leaves no residual and takes the opposite sign
/// when the steps change places. Where a kernel changes sides of the roofline, no single resource
/// owns ln R₂/R₁: each of kernels, arithmetic, bandwidth and floor is charged its Shapley
/// value, its mean effect over all orders in which the four can be replaced one by one.
///
/// A group that one step lacks is wholly `kKernels`; one without a roofline (no published rate)
/// has no R: what is not the clock is efficiency.
Difference difference(const StepDetail& first, const StepDetail& second);

}  // namespace orrery
