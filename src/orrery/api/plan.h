#pragma once

#include <string>
#include <vector>

#include "orrery/api/train.h"
#include "orrery/cluster/training/plan.h"

namespace orrery {

struct PlanRequest {
  std::string model, cluster;
  std::vector<Override> overrides;
  std::string framework = "megatron-core";
  Strategy strategy;  ///< Batch, length, number format, schedule; sizes are searched.
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
