#pragma once

#include <string>
#include <vector>

#include "orrery/api/train.h"
#include "orrery/cluster/training/plan.h"

namespace orrery {

/// Of the strategy, batch, length, number format, schedule and how traffic and kernels run are
/// given; sizes, recomputation and ZeRO are searched.
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
