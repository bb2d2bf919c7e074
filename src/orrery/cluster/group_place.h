#pragma once

#include "orrery/cluster/collective.h"
#include "orrery/hardware/cluster.h"

namespace orrery {

/// Where a group of ranks lies on a cluster, and what of the fabric is its own when all groups
/// alike run at once.
struct GroupPlace {
  int ranks = 1;
  int stride = 1;
  int nodes = 1;     ///< That it touches.
  int per_node = 1;  ///< Ranks of it in one node, the fullest.
  const FabricTier* inside = nullptr;
  const FabricTier* outside = nullptr;  ///< The tier that joins its nodes; null for one node.
  BytesPerSecond inside_bandwidth;      ///< Of one rank, one direction.
  /// Of the group's ranks in one node together, one direction: the node's adapters are shared
  /// among the node_size / per_node groups that cross it, tiers above by their
  /// oversubscription.
  BytesPerSecond outside_bandwidth;
  Seconds inside_latency, outside_latency;
};

/// Throws `kUsage` for fewer than one rank or a stride below one, `kInfeasible` for more devices
/// than there can be.
GroupPlace place_group(const Cluster& cluster, const RankGroup& group);

}  // namespace orrery
