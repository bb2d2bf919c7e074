#pragma once

#include <string>
#include <vector>

#include "orrery/api/compare.h"

namespace orrery {

/// Side by side, as people read it in a terminal.
std::string comparison_text(const CompareAnswer& answer, const CompareRequest& request);

/// The same as one page that needs nothing beside itself, no script either. Its sources are
/// page/compare.html and the style sheets beside it.
std::string comparison_page(const CompareAnswer& answer, const CompareRequest& request);

// What both are made of:

/// Devices' names as column titles: "h200", or "h200 [2]" where several entries are of one device.
std::vector<std::string> compare_titles(const std::vector<Compared>& on);
/// What an entry has of its own in words; empty: nothing.
std::string entry_text(const CompareEntry& entry);
/// Rows of a table: what it is, then a cell for each device.
std::vector<std::vector<std::string>> figure_rows(const CompareAnswer& answer,
                                                  const std::vector<std::string>& titles);
/// Those that matter anywhere, the largest first.
std::vector<Cause> causes_by_size(const CompareAnswer& answer);
std::string cannot_hold_text(const std::string& title);
/// "+1.20 ms", "−3.00 us", "0"
std::string signed_seconds(double seconds);

}  // namespace orrery
