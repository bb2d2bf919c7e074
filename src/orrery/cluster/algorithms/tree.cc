#include <algorithm>
#include <bit>

#include "orrery/cluster/nccl/tuning.h"

namespace orrery {
namespace {

double depth(int nodes) { return std::bit_width(static_cast<unsigned>(nodes)) - 1; }

class Tree final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    return place.inside->shape != FabricShape::kTorus &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBarrier);
  }

  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    (void)kind;
    // Up and down: each half of the buffer has a tree of its own, so that of two nodes each
    // sends half up and half down, and of more each has two children in one of the trees.
    CollectiveWork work;
    work.hops_inside = 2.0 * (place.per_node - 1);
    work.wire_inside = bytes * (place.per_node > 1 ? 2.0 : 0.0);
    if (place.nodes > 1) {
      work.hops_outside = 2 * depth(place.nodes);
      work.wire_outside = bytes * (place.nodes == 2 ? 1.0 : 2.0);
    }
    return work;
  }

  bool in_nccl(Protocol) const override { return true; }

  double nccl_cost(CollectiveKind, Bytes bytes, const GroupPlace& place, Protocol protocol,
                   const NcclTopology& topology) const override {
    using namespace nccl;
    const auto p = static_cast<size_t>(protocol);
    const size_t n = nodes_index(place.nodes);
    // On two nodes half of what goes over NVLink goes over the network.
    const double graph = place.nodes == 2
                             ? std::min(topology.bus_bandwidth, 2 * topology.net_bandwidth)
                             : graph_bandwidth(place, topology);
    double bandwidth =
        std::min(graph * 0.92, topology.channels * kMostTree[topology.generation][n]);
    if (protocol == Protocol::kLL)
      bandwidth = std::min(bandwidth / 3.8, kMostLL[topology.generation][n]) * topology.ll_scale;
    if (protocol == Protocol::kLL128)
      bandwidth = std::min(bandwidth * (place.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                           topology.channels * kMostTreeLL128[topology.generation][n]);
    // Over more nodes one GPU of each takes in and sends on.
    bandwidth *= place.nodes > 2 ? 0.85 * 0.5 : 0.5;
    const auto size = static_cast<uint64_t>(std::max(64.0, bytes.value)) >> 6U;
    const auto octave = static_cast<size_t>(std::bit_width(size) - 1);
    if (octave < kTreeCorrection[p].size()) bandwidth *= kTreeCorrection[p][octave];
    const double latency =
        kBaseTree[p] + 2 * ((place.per_node - 1) * kTreeHop[inside_index(topology)][p] +
                            depth(place.nodes) * kTreeHop[2][p]);
    return latency + bytes.value / (1e3 * bandwidth);
  }

  double net_hop(Protocol protocol) const override {
    return nccl::kTreeHop[2][static_cast<size_t>(protocol)];
  }
  /// An eighth of NCCL's buffer of 4 MiB.
  Bytes chunk(Protocol protocol) const override {
    return Bytes(protocol == Protocol::kSimple ? 512 * 1024 : 0);
  }
  /// 150 GB/s of bus bandwidth over five nodes with adapters for 200, where a tree sends twice
  /// its bytes (github.com/NVIDIA/nccl/issues/1368).
  double net_share(Protocol protocol) const override {
    return 0.77 / 0.95 * CollectiveAlgorithm::net_share(protocol);
  }
};

const Registration<CollectiveAlgorithm> kTree(
    {.name = "tree",
     .summary =
         "Double binary tree over k nodes, a chain of p ranks inside each: launch + 2 ((p − "
         "1) λ + log2(k) λnet) + the slower of 2 S / B and 2 S / Bnet (S / Bnet of two "
         "nodes); over nodes each hop of Simple passes on a chunk of 512 KiB on each channel",
     .source = "Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, "
               "reduction and scan, Parallel Computing 2009; NCCL 2.27",
     .parameters = {}},
    [] { return std::make_unique<Tree>(); });

}  // namespace
}  // namespace orrery
