#pragma once

#include <string>
#include <vector>

#include "orrery/api/train.h"
#include "orrery/cluster/training/plan.h"

namespace orrery {

/// Of the strategy, batch, length, number format and schedule are given; sizes are searched.
struct PlanRequest : TrainingQuestion {
  std::vector<int> gpus;
  size_t most = 5;  ///< Layouts that are listed.
};

struct PlanAnswer {
  Plan plan;
  double capacity_bytes = 0;
  double peak_flops = 0;  ///< Of one device in the number format asked for.
  std::vector<std::string> gaps;
};

std::string to_json(const PlanAnswer& answer, const PlanRequest& request);

}  // namespace orrery
