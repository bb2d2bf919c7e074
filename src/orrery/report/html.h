#pragma once

#include <string>

#include "orrery/api/session.h"

namespace orrery {

/// Launches a page shows one by one; of a longer timeline the longest.
inline constexpr size_t kMostPageLaunches = 100'000;

/// An answer with its timeline as one page that needs nothing beside itself: headline
/// figures, the time by layer and by operator, a roofline, memory, and a table. The page's
/// sources are in page/; the figures travel in it as JSON, whatever names a workload has.
std::string html_report(const PredictAnswer& answer, const PredictRequest& request);

}  // namespace orrery
