#include <algorithm>

#include "orrery/cluster/nccl/tuning.h"

namespace orrery {
namespace {

class Ring final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    if (place.inside->shape == FabricShape::kTorus) return false;
    switch (kind) {
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kAllGather:
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kReduce:
      case CollectiveKind::kBarrier:
        return true;
      default:
        return false;
    }
  }

  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    const double steps = ring_steps(kind, place.ranks);
    // Of each turn around the ring, one hop a node leaves it.
    const double outside = place.nodes == 1 ? 0 : steps * place.nodes / place.ranks;
    // Of a fabric that is a ring itself only the links of one direction are used.
    const double spare = place.inside->shape == FabricShape::kRing ? place.inside->links : 1;
    const Bytes sent = ring_bytes(kind, bytes, place.ranks) * spare;
    return {steps - outside, outside, sent, place.nodes == 1 ? Bytes() : sent};
  }

  bool in_nccl(Protocol) const override { return true; }

  double nccl_cost(CollectiveKind kind, Bytes bytes, const GroupPlace& place, Protocol protocol,
                   const NcclTopology& topology) const override {
    using namespace nccl;
    const auto p = static_cast<size_t>(protocol);
    const double steps = ring_steps(kind, place.ranks);
    const bool reduces = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
                         kind == CollectiveKind::kBarrier;
    double bandwidth = graph_bandwidth(place, topology);
    if (protocol == Protocol::kLL)
      bandwidth = std::min(kMostLL[topology.generation][nodes_index(place.nodes)],
                           bandwidth * (place.nodes > 1 || reduces ? 1.0 / 4 : 1.0 / 3)) *
                  topology.ll_scale;
    if (protocol == Protocol::kLL128)
      bandwidth = std::min(bandwidth * (place.nodes > 1 && place.per_node < 2 ? 0.7 : 0.92),
                           topology.channels * kMostRingLL128[topology.generation]);
    const double sent = ring_bytes(kind, bytes, place.ranks).value;
    double inside = kRingHop[inside_index(topology)][p];
    if (place.nodes > 1)
      inside = std::max(inside, protocol == Protocol::kSimple ? 3 * kNetOverhead : kNetOverhead);
    const double outside_steps = place.nodes == 1 ? 0
                                 : kind == CollectiveKind::kAllReduce
                                     ? 2.0 * place.nodes
                                     : std::min(steps, place.nodes - 1.0);
    double latency =
        kBaseRing[p] + (steps - outside_steps) * inside + outside_steps * kRingHop[2][p];
    const double per_slice = bytes.value / (topology.channels * place.ranks);
    if (protocol == Protocol::kSimple && place.nodes > 1 && kind == CollectiveKind::kAllReduce &&
        per_slice >= 64)
      latency *= topology.generation == NcclTopology::kVolta ? 1.9 : 1.4;
    return latency + sent / (1e3 * bandwidth);
  }
};

const Registration<CollectiveAlgorithm> kRing(
    {.name = "ring",
     .summary = "Every rank passes S/n to the next: launch + 2(n − 1) (λ + S / (n B)) for an "
                "all-reduce, half the steps for all-gather and reduce-scatter; over nodes one hop "
                "a node and turn goes through the adapters",
     .source = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
               "workstations, JPDC 2009; NCCL 2.27",
     .parameters = {}},
    [] { return std::make_unique<Ring>(); });

}  // namespace
}  // namespace orrery
