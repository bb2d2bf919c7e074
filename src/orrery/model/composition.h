#pragma once

#include <array>
#include <span>
#include <vector>

#include "orrery/kernel/estimate.h"
#include "orrery/kernel/kernel.h"
#include "orrery/model/stack.h"

namespace orrery {

/// The time and energy of one step from its kernels.
struct Composition {
  TimeInterval step;         ///< Back to back: the longer of the device's and the host's time.
  TimeInterval single_call;  ///< One call and a wait for it.
  Seconds kernels;           ///< Σ count · kernel time.
  Seconds gaps;              ///< Of the device, between kernels, graphs and calls.
  Seconds host;              ///< Of the host for one call.
  double launches = 0;

  Seconds device() const { return kernels + gaps; }
};

/// What one launch costs beside its kernel: the stream rests, the host queues.
struct LaunchOverhead {
  Seconds gap, host;
};
/// Of each launch of a program. A graph's gap stands with its last kernel, that of the call with
/// the last of all; what the host takes to enter the program with the first.
std::vector<LaunchOverhead> launch_overheads(const Program& program, const LaunchCosts& costs);

/// How far the sum of a step's kernels may be off: seconds for one standard deviation of each
/// cause of error. The causes are independent of each other.
struct KernelErrors {
  Seconds middle;           ///< Σ nᵢ·tᵢ·exp(skewᵢ), that the true sum is spread around.
  std::vector<double> own;  ///< Of each launch.
  std::array<double, kKernelFamilyCount> by_family{};
  std::array<double, kErrorFactorCount> by_factor{};  ///< 0 for the family's.
  double structure = 0;

  double variance() const;
  /// Of ln(true sum).
  double spread() const;
};
KernelErrors kernel_errors(std::span<const Launch> launches, std::span<const Estimate> estimates,
                           const LaunchCosts& costs);

/// T = max(device, host): queued back to back, the slower of the two is never waited for.
///   device = call_gap + Σ nᵢ·(tᵢ + gapᵢ), gapᵢ that of kernels queued one by one or, once a
///   graph, of graphs;
///   host = call + arguments · argument + Σ nᵢ·hostᵢ, hostᵢ dispatch (and library), or
///   graph_node + donated share · graph_update.
/// A single call queues in program order, each kernel or graph as soon as the host is through
/// with it, and waits for the last. The interval treats repeats of one
/// kernel, and what loads on a shared factor, as erring together, and the own
/// errors of different kernels as independent:
///   σ² = Σᵢ (nᵢ·tᵢ·ownᵢ)² + Σ_family (Σ_{i in it} nᵢ·tᵢ·loadᵢ)² + Σ_factor (Σᵢ nᵢ·tᵢ·loadᵢ)²
///        + (T·structure)²;
/// the host's time has its own, host_spread.
Composition compose(const Program& program, std::span<const Estimate> estimates,
                    const LaunchCosts& costs);

}  // namespace orrery
