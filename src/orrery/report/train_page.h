#pragma once

#include <string>

#include "orrery/api/train.h"

namespace orrery {

/// A training step as one page that needs nothing beside itself, no script either: headline
/// figures, the breakdown, the pipeline's schedule, memory by stage, the strategy. Its sources
/// are page/train.html and the style sheets beside it.
std::string training_page(const TrainAnswer& answer, const TrainRequest& request);

}  // namespace orrery
