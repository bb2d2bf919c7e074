#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/kernel/profile/measured_profile.h"

namespace orrery {

/// What models that answer from a `MeasuredProfile` share.

/// The model that answers for kinds of kernels the table lacks.
std::unique_ptr<Predictor> without_profile(const Device& device, const Binding& binding);

/// The estimate of a reading. Energy is the power that was measured, else that of the estimate
/// `otherwise` for as long as that takes and idle power for the rest. One tenth of the variance is
/// common to kernels of one family, as among the tile model's residuals.
Estimate measured_estimate(const MeasuredProfile::Reading& reading, const Estimate& otherwise,
                           Watts idle);

std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const Kernel& kernel,
                                      const Predictor& otherwise);
std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const OperatingPoint& point);
std::vector<std::pair<std::string, std::string>> profile_provenance(const MeasuredProfile& profile);

}  // namespace orrery
