#pragma once

#include <string>

#include "orrery/api/serving.h"

namespace orrery {

std::string serving_text(const ServingAnswer& answer, const ServingRequest& request);
/// One line a request: when it came, was scheduled, got its first and last token.
std::string requests_csv(const ServingAnswer& answer);

}  // namespace orrery
