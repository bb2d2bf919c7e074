#include <bit>

#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

class HalvingDoubling final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    const bool powers = std::has_single_bit(static_cast<unsigned>(place.ranks)) &&
                        std::has_single_bit(static_cast<unsigned>(place.per_node));
    return powers && place.inside->shape != FabricShape::kTorus &&
           place.inside->shape != FabricShape::kRing &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kBarrier);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    const double turns = ring_steps(kind, place.ranks) / (place.ranks - 1);
    const auto log2 = [](int n) { return std::bit_width(static_cast<unsigned>(n)) - 1.0; };
    const double p = place.per_node;
    const double k = place.nodes;
    // Within the node first, so that only a part of 1/p leaves it.
    return {turns * log2(place.per_node), turns * log2(place.nodes), bytes * (turns * (p - 1) / p),
            place.nodes == 1 ? Bytes() : bytes * (turns * (k - 1) / k)};
  }
};

const Registration<CollectiveAlgorithm> kHalvingDoubling(
    {.name = "halving-doubling",
     .summary = "Ranks a power of two apart exchange halves: log2(n) λ + (n − 1)/n S / B for "
                "all-gather and reduce-scatter, twice that for all-reduce; powers of two only",
     .source = "Thakur, Rabenseifner, Gropp, Optimization of collective communication operations "
               "in MPICH, IJHPCA 2005",
     .parameters = {}},
    [] { return std::make_unique<HalvingDoubling>(); });

}  // namespace
}  // namespace orrery
