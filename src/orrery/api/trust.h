#pragma once

#include <string>

#include "orrery/api/session.h"

namespace orrery {

/// Looks up data/validation.yaml, the record of what was checked against real
/// machines: this device, stack and kernel model were measured (validated), only
/// others were (extrapolated), or none (untested).
/// Only records of whole programs count.
Trust trust_of(const std::string& data_folder, const std::string& device, const std::string& stack,
               const std::string& kernel_model);

}  // namespace orrery
