#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orrery/api/asynchronous_collectives.h"
#include "orrery/cluster/collective.h"
#include "orrery/model/stack.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// What a collective operation asks of a network; nothing for the end of an asynchronous one and
/// for host transfers. Groups that are not evenly spaced are taken as if they were, and `uneven`
/// says so.
struct ModuleCall {
  CollectiveCall call;
  bool uneven = false;
};
std::optional<ModuleCall> collective_call(const Workload& workload, OpId op);

/// The collectives of a program as a cluster's library runs them, in place of what their local
/// memory traffic would take. Each waits for what is before it and is waited for, unless the
/// program starts and awaits it by two operations (asynchronous_collectives.h). Where `combines`,
/// those of one kind, type and group that do not wait for one another go together in pieces of at
/// most 30 MiB, as XLA's combiners put them, and share their piece's time by their bytes.
class ModuleCollectives {
 public:
  ModuleCollectives(const Workload& workload, const Program& program,
                    const CollectivePredictor& library, bool combines);

  /// Puts their times into the estimates of the program's launches.
  void put(std::span<Estimate> estimates) const;
  bool holds(size_t launch) const { return times_[launch].has_value(); }
  const std::vector<std::string>& gaps() const { return gaps_; }

 private:
  std::vector<std::optional<Estimate>> times_;  ///< By launch.
  std::optional<AsynchronousCollectives> asynchronous_;
  std::vector<std::string> gaps_;
};

}  // namespace orrery
