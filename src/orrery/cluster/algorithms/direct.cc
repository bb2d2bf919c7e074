#include <algorithm>

#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

class Direct final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    if (place.inside->shape == FabricShape::kTorus) return false;
    switch (kind) {
      case CollectiveKind::kAllToAll:
      case CollectiveKind::kGather:
      case CollectiveKind::kScatter:
      case CollectiveKind::kSendReceive:
      case CollectiveKind::kPermute:
        return true;
      default:
        return false;
    }
  }

  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    const double n = place.ranks;
    const double p = place.per_node;
    CollectiveWork work;
    if (place.nodes == 1)
      work.hops_inside = 1;
    else
      work.hops_outside = 1;
    if (kind == CollectiveKind::kSendReceive || kind == CollectiveKind::kPermute) {
      // One neighbour: of a node's ranks the last sends to another node, through its own of the
      // adapters that the node's ranks have.
      work.wire_inside = bytes;
      if (place.nodes > 1) work.wire_outside = bytes * p;
      return work;
    }
    if (kind == CollectiveKind::kAllToAll) {
      // Each peer has channels of its own, and LL does not fill them.
      work.wire_inside =
          protocol == Protocol::kLL && place.nodes == 1 ? bytes / n : bytes * ((p - 1) / n);
      work.wire_outside = bytes * (p * (n - p) / n);
      return work;
    }
    // The root has a buffer from or for each of the others.
    work.wire_inside = bytes * (p - 1);
    work.wire_outside = bytes * (n - p);
    return work;
  }

  bool in_nccl(Protocol protocol) const override { return protocol != Protocol::kLL128; }
  double nccl_cost(CollectiveKind, Bytes bytes, const GroupPlace& place, Protocol protocol,
                   const NcclTopology& topology) const override {
    (void)topology;
    // Not by cost: NCCL sends LL what is at most 16 KiB on each of a peer's two channels, else
    // Simple.
    const bool small = bytes.value / place.ranks <= 2 * 16384;
    return small == (protocol == Protocol::kLL) ? 0 : 1;
  }
};

const Registration<CollectiveAlgorithm> kDirect(
    {.name = "direct",
     .summary = "Each rank sends to each of its peers at once: launch + λ + the slower of (p − "
                "1)/n S / B inside and p (n − p)/n S / Bnet of a node outside for an all-to-all; "
                "S / B to one peer",
     .source = "NCCL 2.27, ncclSend and ncclRecv",
     .parameters = {}},
    [] { return std::make_unique<Direct>(); });

}  // namespace
}  // namespace orrery
