#pragma once

#include <string>
#include <vector>

#include "orrery/hardware/device.h"
#include "orrery/kernel/estimate.h"
#include "orrery/kernel/kernel.h"

namespace orrery {

/// The true time of a kernel is rarely below what its device's data sheet allows and can
/// be several times that. Without a measurement the interval says just that: from
/// `kUnmeasuredBest` to `kUnmeasuredWorst` times the time, as a 90 % interval.
inline constexpr double kUnmeasuredBest = 0.95;
inline constexpr double kUnmeasuredWorst = 5.0;
/// Where its clocks were counted, from `kCountedBest` to `kCountedWorst`: by kind, such kernels
/// were between 27 % too short (batch norms) and 37 % too long (scatters), indexed loops 13 to 20 %
/// too long, each summed over a model of h200/torch_models.csv (tools/validation/torch_kernels.py).
inline constexpr double kCountedBest = 0.7;
inline constexpr double kCountedWorst = 1.45;
Estimate unmeasured_estimate(Seconds seconds, bool counted = false);

/// Which rates the kernel needs that the device has no published figure for, and what
/// was taken instead; sentences for `gaps`.
std::vector<std::string> unpublished_rates(const Device& device, const Kernel& kernel);

}  // namespace orrery
