#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/kernel/profile/measured_profile.h"

namespace orrery {

/// What models that answer from a `MeasuredProfile` share.

/// The estimate of a reading. Energy is the power that was measured, else that of the
/// `roofline` while it is busy and idle power for the rest. One tenth of the variance is
/// common to kernels of one family, as among the tile model's residuals.
Estimate measured_estimate(const MeasuredProfile::Reading& reading, const Estimate& roofline,
                           Watts idle);

std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const Kernel& kernel);
std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const OperatingPoint& point);
std::vector<std::pair<std::string, std::string>> profile_provenance(const MeasuredProfile& profile);

}  // namespace orrery
