#pragma once

#include <string>

#include "orrery/api/capacity.h"

namespace orrery {

std::string capacity_text(const CapacityAnswer& answer, const CapacityRequest& request);

}  // namespace orrery
