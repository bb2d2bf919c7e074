#pragma once

#include <vector>

#include "orrery/cluster/network/flow_system.h"

namespace orrery::fabric {

/// How many turns of each flow have left and arrived, and so which flow may start its next.
class Turns {
 public:
  explicit Turns(const FlowSystem& system);

  int64_t sent(int flow) const { return sent_[static_cast<size_t>(flow)]; }
  int64_t arrived(int flow) const { return arrived_[static_cast<size_t>(flow)]; }
  /// All that the next turn waits for is there; whether it runs already is not known here.
  bool may_start(int flow) const;

  /// Counts one turn as gone or come; flows that may
  /// start now, among others, are appended to `woken`.
  void send(int flow, std::vector<int>& woken);
  void arrive(int flow, std::vector<int>& woken);
  /// Counts `turns` of every flow as gone and come.
  void skip(int64_t turns);

 private:
  void wake(int flow, std::vector<int>& woken) const;

  const FlowSystem& s_;
  std::vector<int64_t> sent_, arrived_;
  std::vector<int> first_dependent_, dependent_;
};

}  // namespace orrery::fabric
