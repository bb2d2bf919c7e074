#include "orrery/cluster/group_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"

namespace orrery {

GroupPlace place_group(const Cluster& cluster, const RankGroup& group) {
  if (group.size < 1 || group.stride < 1)
    throw_usage(fmt::format("a group of {} ranks at a stride of {}: both begin at 1", group.size,
                            group.stride));
  const double last = (static_cast<double>(group.size) - 1) * group.stride + 1;
  if (last > cluster.largest())
    throw_infeasible(
        fmt::format("{} ranks at a stride of {} need {:.0f} devices; {} has at most {:.0f}",
                    group.size, group.stride, last, cluster.name, cluster.largest()));
  GroupPlace place;
  place.ranks = group.size;
  place.stride = group.stride;
  place.inside = &cluster.tiers.front();
  const int node = cluster.node_size();
  place.per_node = std::clamp((node - 1) / group.stride + 1, 1, group.size);
  place.nodes = (group.size + place.per_node - 1) / place.per_node;
  place.inside_bandwidth = place.inside->bandwidth;
  place.inside_latency = place.inside->latency;
  if (place.nodes == 1) return place;

  double share = INFINITY;
  double member = 1;  // devices in a member of the tier
  for (size_t t = 1; t < cluster.tiers.size(); ++t) {
    const FabricTier& tier = cluster.tiers[t];
    member *= cluster.tiers[t - 1].size;
    if (last <= member) break;
    const double in_member =
        std::clamp(std::floor(member / group.stride), 1.0, static_cast<double>(group.size));
    double bandwidth = tier.bandwidth.value;
    // Neighbours of a ring lie this many members apart; so much of the traffic leaves a leaf.
    const double apart = std::max(1.0, group.stride / member);
    const double span = last / member;
    if (tier.group > 0 && span > tier.group)
      bandwidth /= std::max(1.0, tier.oversubscription * std::min(1.0, apart / tier.group));
    share = std::min(share, bandwidth * in_member / member);
    place.outside = &tier;
    place.outside_latency = std::max(place.outside_latency, tier.latency);
  }
  // What is above one node is brought to one node's part of it.
  place.outside_bandwidth = BytesPerSecond(share);
  return place;
}

}  // namespace orrery
