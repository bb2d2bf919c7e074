#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orrery/model/memory_planner.h"
#include "orrery/model/region_graph.h"
#include "orrery/model/stack.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Plans the memory of a program region by region: what a loop, a branch or a
/// call runs needs its temporaries while that step of the outer region runs.
class ProgramMemory {
 public:
  ProgramMemory(const Workload& workload, const FusionRules& rules);

  /// Inner regions and callees before what runs them.
  void add_region(FunctionId function, RegionId region, const RegionGraph& graph);

  /// After the entry's body was added. Constants are left to the caller.
  MemoryPlan plan() const;

 private:
  struct PlannedRegion {
    std::vector<MemoryHolder> holders;
    OpId peak;  ///< The operation that runs when most is needed.
  };
  std::string name_of(const MemoryHolder& holder) const;
  std::string name_of(OpId op) const;
  /// Holders of one name together, arguments by what they are for.
  std::vector<MemoryUse> by_name(const std::vector<MemoryHolder>& holders) const;
  /// The region among those that `op` runs which needs the most; not valid when none needs any.
  RegionId neediest(OpId op) const;

  const Workload& w_;
  const FusionRules& rules_;
  std::vector<int32_t> result_of_argument_;  ///< Of the entry.
  std::vector<int64_t> region_bytes_;
  std::vector<PlannedRegion> regions_;
  BufferPlan entry_;
  std::vector<OpId> entry_steps_;
};

}  // namespace orrery
