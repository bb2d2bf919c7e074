#pragma once

#include <string>

#include "orrery/api/plan.h"
#include "orrery/api/train.h"

namespace orrery {

std::string plan_text(const PlanAnswer& answer, const PlanRequest& request);
/// "cost 1.20 s, 6.1 %: without them 19.7 s"
std::string stragglers_text(const TrainAnswer& answer);
std::string train_text(const TrainAnswer& answer, const TrainRequest& request);

}  // namespace orrery
