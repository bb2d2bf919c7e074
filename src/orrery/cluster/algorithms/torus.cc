#include <algorithm>
#include <vector>

#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

/// What the group takes of the torus: extents of the axes it runs along, and the share of a
/// chip's links that these have, halved for an axis it does not close.
struct Axes {
  double hops = 0;     ///< Half around each axis.
  double share = 0;    ///< Of all links' bandwidth.
  double longest = 1;  ///< Extent, doubled where the axis is not closed.
};

Axes axes_of(const GroupPlace& place) {
  const std::vector<int>& extents = place.inside->dimensions;
  Axes axes;
  int left = place.ranks;
  int stride = place.stride;
  for (const int extent : extents) {
    if (stride >= extent) {
      stride = (stride + extent - 1) / extent;
      continue;
    }
    if (left <= 1) break;
    const int used = std::min(left, std::max(1, extent / stride));
    left = (left + used - 1) / used;
    stride = 1;
    if (used == 1) continue;
    const bool closed = used == extent && extent > 2;
    axes.hops += closed ? used / 2 : used - 1;
    axes.share += (closed || extent == 2 ? 1.0 : 0.5) / static_cast<double>(extents.size());
    axes.longest = std::max(axes.longest, used * (closed ? 1.0 : 2.0));
  }
  if (axes.share == 0) axes = {1, 1.0 / static_cast<double>(extents.size()), 2};
  return axes;
}

class Torus final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)kind, (void)type;
    return place.inside->shape == FabricShape::kTorus && place.nodes == 1;
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    const Axes axes = axes_of(place);
    CollectiveWork work;
    work.hops_inside = axes.hops;
    switch (kind) {
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kBarrier:
        work.hops_inside *= 2;
        [[fallthrough]];
      case CollectiveKind::kAllGather:
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kReduce:
        work.wire_inside = ring_bytes(kind, bytes, place.ranks) / axes.share;
        break;
      case CollectiveKind::kAllToAll: {
        // Half of all bytes cross the middle of the longest axis, over two cuts of it.
        const double links = place.inside->links;
        work.wire_inside = bytes * (axes.longest / 8 * links);
        break;
      }
      case CollectiveKind::kGather:
      case CollectiveKind::kScatter:
        work.wire_inside = bytes * (place.ranks - 1) / axes.share;
        break;
      case CollectiveKind::kSendReceive:
      case CollectiveKind::kPermute:
        // To a neighbour, over one link.
        work.hops_inside = 1;
        work.wire_inside = bytes * place.inside->links;
        break;
    }
    return work;
  }
};

const Registration<CollectiveAlgorithm> kTorus(
    {.name = "torus",
     .summary = "Rings in both directions along every axis at once, each with its part of the "
                "data: Σ ⌊d/2⌋ λ + (n − 1)/n S / B for all-gather and reduce-scatter, twice that "
                "for all-reduce; S D / (8 b) for all-to-all over the longest axis D with links b; "
                "an axis that the group does not close counts half",
     .source = "Austin et al., How to Scale Your Model, Google DeepMind, 2025, part 3",
     .parameters = {}},
    [] { return std::make_unique<Torus>(); });

}  // namespace
}  // namespace orrery
