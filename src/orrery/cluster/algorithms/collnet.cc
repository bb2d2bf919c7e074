#include <algorithm>

#include "orrery/cluster/nccl/tuning.h"

namespace orrery {
namespace {

class Collnet final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    return kind == CollectiveKind::kAllReduce && place.nodes > 1 && place.outside->reduces &&
           bit_width(type) >= 16 && !is_complex(type);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    (void)kind;
    // Reduce-scatter inside, the network's switches add each rank's part, all-gather inside.
    return {2.0 * std::min(1, place.per_node - 1), 1,
            bytes * (2.0 * (place.per_node - 1) / place.per_node), bytes};
  }
  bool in_nccl(Protocol protocol) const override { return protocol == Protocol::kSimple; }
  double nccl_cost(CollectiveKind, Bytes bytes, const GroupPlace& place, Protocol,
                   const NcclTopology& topology) const override {
    const double latency =
        2 * (std::min(1, place.per_node - 1) * 3.7 + (place.per_node - 1) * 0.4) +
        nccl::kCollnetNetHop;
    const double bandwidth = std::min(topology.bus_bandwidth, topology.net_bandwidth) * 0.85 * 0.5;
    return latency + bytes.value / (1e3 * bandwidth);
  }
  double net_hop(Protocol) const override { return nccl::kCollnetNetHop; }
};

const Registration<CollectiveAlgorithm> kCollnet(
    {.name = "collnet",
     .summary = "Where the network's switches add (SHARP): reduce-scatter and all-gather inside "
                "each node, the sum in the network: launch + 2 λ + λnet + the slower of 2 (p − "
                "1)/p S / B and S / Bnet",
     .source = "Graham et al., Scalable hierarchical aggregation protocol (SHArP), COMHPC 2016; "
               "NCCL 2.27",
     .parameters = {}},
    [] { return std::make_unique<Collnet>(); });

}  // namespace
}  // namespace orrery
