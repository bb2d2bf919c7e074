#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/cluster/training/strategy.h"

namespace orrery {

/// Devices that compute slower than the others.
struct SlowRanks {
  int first = 0, last = 0;  ///< Both included.
  double speed = 1;         ///< Of the others' speed; kernels take 1/speed of their time.
};

/// Nodes whose links into the network are slower than the others'.
struct SlowNodes {
  int first = 0, last = 0;
  double share = 1;  ///< Of the others' bandwidth.
  /// Collectives on a cluster all of whose nodes are that slow: one of them is enough, since all
  /// members of a collective wait for the slowest.
  std::shared_ptr<const CollectivePredictor> collectives;
};

struct Stragglers {
  std::vector<SlowRanks> ranks;
  std::vector<SlowNodes> nodes;

  bool empty() const { return ranks.empty() && nodes.empty(); }
};

/// How fast the slowest of those ranks is that run one stage for one data rank.
struct Pace {
  double speed = 1;
  const SlowNodes* link = nullptr;  ///< Where it touches slow nodes, the slowest of them.
  bool operator==(const Pace&) const = default;
};

/// A pipeline: its stages' paces, and the first data rank that has them.
struct PipelinePace {
  std::vector<Pace> stages;
  int data_rank = 0;

  /// The slowest link of all its stages.
  const SlowNodes* slowest_link() const;
};

/// Pipelines that differ in their paces; those of data ranks that wait for each other within
/// every micro-batch, because they share experts or (ZeRO-3) weights, count as one. Ranks and
/// nodes beyond the strategy's devices are `kUsage`, and so are paces outside (0, 1].
std::vector<PipelinePace> pipeline_paces(const Strategy& strategy, const Stragglers& stragglers,
                                         int node);

}  // namespace orrery
