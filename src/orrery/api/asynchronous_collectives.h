#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "orrery/model/stack.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Collectives that a program starts and awaits later: HLO's `all-gather-start` with
/// `all-gather-done`, and `async-start` of a computation that holds one. They run one after the
/// other on a stream of their own, beside the kernels launched between their start and their end.
/// With the compute stream at c and the network's at n,
///   start:  n ← max(c, n) + time of the collective, f ← n
///   kernel: c ← c + its time;  a collective that is not asynchronous: c, n ← max(c, n) + its time
///   done:   the program waits for max(0, f − c), and c ← max(c, f).
class AsynchronousCollectives {
 public:
  /// `collectives`: those of the program's launches that run over a network.
  AsynchronousCollectives(const Workload& workload, const Program& program,
                          const std::vector<bool>& collectives);

  size_t size() const { return count_; }
  /// Leaves of the time of each what the program waits for it.
  void hide(std::span<Estimate> estimates) const;

 private:
  struct Event {
    enum class Kind : uint8_t { kKernel, kCollective, kStart, kDone };
    uint32_t op = 0;
    Kind kind = Kind::kKernel;
    size_t launch = 0;
    double times = 1;  ///< Its time over its estimate's, for each run of the region.
    double hidden = 0;
  };
  std::vector<std::vector<Event>> regions_;  ///< Inner regions before those around them.
  size_t launches_ = 0;
  size_t count_ = 0;
};

}  // namespace orrery
