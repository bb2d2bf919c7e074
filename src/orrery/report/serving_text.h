#pragma once

#include <string>

#include "orrery/api/serving.h"

namespace orrery {

std::string serving_text(const ServingAnswer& answer, const ServingRequest& request);
/// The same as one page that needs nothing beside itself, no script either, with the run's course
/// and its first requests. Its sources are page/serving.html and the style sheets beside it.
std::string serving_page(const ServingAnswer& answer, const ServingRequest& request);
/// "Engines: 2 × (tp 4)"; where pools are on different devices "prefill on h200: 1 × (tp 4)".
std::string pool_title(const PoolAnswer& pool, const std::vector<PoolAnswer>& all);
/// "41.6 ms … 42.6 ms", "52.6 ms or more", "too few requests"
std::string by_chance_text(const SamplingInterval& interval);
/// One line a request: when it came, was scheduled, got its first and last token.
std::string requests_csv(const ServingAnswer& answer);

}  // namespace orrery
