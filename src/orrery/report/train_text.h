#pragma once

#include <string>

#include "orrery/api/plan.h"
#include "orrery/api/train.h"

namespace orrery {

std::string plan_text(const PlanAnswer& answer, const PlanRequest& request);
std::string train_text(const TrainAnswer& answer, const TrainRequest& request);

}  // namespace orrery
