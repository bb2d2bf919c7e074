#include <cmath>

#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

class BidirectionalRing final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    return place.inside->shape != FabricShape::kTorus &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kBarrier);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    // Parts travel both ways and meet half around.
    const double turns = ring_steps(kind, place.ranks) / (place.ranks - 1);
    const double steps = turns * std::ceil((place.ranks - 1) / 2.0);
    const double outside = place.nodes == 1 ? 0 : steps * place.nodes / place.ranks;
    const Bytes sent = ring_bytes(kind, bytes, place.ranks);
    return {steps - outside, outside, sent, place.nodes == 1 ? Bytes() : sent};
  }
};

const Registration<CollectiveAlgorithm> kBidirectionalRing(
    {.name = "bidirectional-ring",
     .summary = "A ring in both directions at once: ⌈(n − 1)/2⌉ λ + (n − 1)/n S / B for "
                "all-gather and reduce-scatter, twice that for all-reduce; B of both directions' "
                "links together",
     .source = "Chan et al., Collective communication: theory, practice, and experience, "
               "Concurrency and Computation 2007",
     .parameters = {}},
    [] { return std::make_unique<BidirectionalRing>(); });

}  // namespace
}  // namespace orrery
