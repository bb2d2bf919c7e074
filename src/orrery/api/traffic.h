#pragma once

#include <memory>

#include "orrery/api/serving.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// The table of requests or lengths that is asked for, or none.
std::shared_ptr<const Trace> read_table(const TrafficRequest& request);

/// The requests that are asked for; `kUsage` for what is said twice, not at all or wrongly.
std::unique_ptr<RequestSource> make_traffic(const TrafficRequest& request);

}  // namespace orrery
