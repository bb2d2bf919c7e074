#pragma once

#include <span>

#include "orrery/kernel/estimate.h"
#include "orrery/kernel/kernel.h"
#include "orrery/model/stack.h"

namespace orrery {

/// The time and energy of one step from its kernels.
struct Composition {
  TimeInterval step;         ///< Back to back: the longer of the device's and the host's time.
  TimeInterval single_call;  ///< One call and a wait for it.
  Joules energy;
  Seconds kernels;  ///< Σ count · kernel time.
  Seconds gaps;     ///< Σ count · launch gap.
  Seconds host;     ///< Σ count · dispatch.
  double launches = 0;
};

/// T = max(Σ nᵢ·(tᵢ + gap), Σ nᵢ·dispatch). The interval treats repeats of one
/// kernel, and what loads on a shared factor, as erring together, and the own
/// errors of different kernels as independent:
///   σ² = Σᵢ (nᵢ·tᵢ·ownᵢ)² + Σ_family (Σ_{i in it} nᵢ·tᵢ·loadᵢ)² + Σ_factor (Σᵢ nᵢ·tᵢ·loadᵢ)²
///        + (T·structure)².
Composition compose(std::span<const Launch> launches, std::span<const Estimate> estimates,
                    const LaunchCosts& costs, Watts idle_power);

}  // namespace orrery
