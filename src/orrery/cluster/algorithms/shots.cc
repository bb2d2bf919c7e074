#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

bool one_node_all_reduce(CollectiveKind kind, const GroupPlace& place) {
  return kind == CollectiveKind::kAllReduce && place.nodes == 1 &&
         place.inside->shape != FabricShape::kTorus && place.inside->shape != FabricShape::kRing;
}

class OneShot final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    return one_node_all_reduce(kind, place);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)kind, (void)protocol;
    return {1, 0, bytes * (place.ranks - 1.0), Bytes()};
  }
};

class TwoShot final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    (void)type;
    return one_node_all_reduce(kind, place);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    return {2, 0, ring_bytes(kind, bytes, place.ranks), Bytes()};
  }
};

const Registration<CollectiveAlgorithm> kOneShot(
    {.name = "one-shot",
     .summary = "Every rank reads all others' buffers and adds: launch + λ + (n − 1) S / B",
     .source = "vLLM 0.24, csrc/custom_all_reduce.cuh",
     .parameters = {}},
    [] { return std::make_unique<OneShot>(); });
const Registration<CollectiveAlgorithm> kTwoShot(
    {.name = "two-shot",
     .summary = "Every rank adds one part of all buffers, then reads the others' sums: launch + 2 "
                "λ + 2(n − 1)/n S / B",
     .source = "vLLM 0.24, csrc/custom_all_reduce.cuh",
     .parameters = {}},
    [] { return std::make_unique<TwoShot>(); });

}  // namespace
}  // namespace orrery
