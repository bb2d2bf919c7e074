#pragma once

#include <string>
#include <vector>

#include "orrery/api/compare.h"

namespace orrery {

/// Devices' names as column titles: "h200", or "h200 [2]" where several entries are of one device.
std::vector<std::string> compare_titles(const std::vector<Compared>& on);

/// Side by side, as people read it in a terminal.
std::string comparison_text(const CompareAnswer& answer, const CompareRequest& request);

}  // namespace orrery
