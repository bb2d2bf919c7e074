#include <bit>

#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

Phase exchange(const GroupLayout& layout, int distance, Bytes bytes) {
  Phase phase;
  for (const std::vector<int>& ranks : layout.groups)
    for (size_t i = 0; i < ranks.size(); ++i)
      phase.add({ranks[i], ranks[i ^ static_cast<size_t>(distance)], bytes});
  return phase;
}

class HalvingDoubling final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& grid) const override {
    unsigned n = 1;
    for (const int extent : grid) n *= static_cast<unsigned>(extent);
    return std::has_single_bit(n) &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter);
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const int n = layout.size();
    Schedule schedule;
    const auto step = [&](int distance) {
      schedule.phases.push_back(exchange(layout, distance, bytes * (distance / double(n))));
    };
    if (kind != CollectiveKind::kAllGather)
      for (int distance = n / 2; distance > 0; distance /= 2) step(distance);
    if (kind != CollectiveKind::kReduceScatter)
      for (int distance = 1; distance < n; distance *= 2) step(distance);
    return schedule;
  }
};

const Registration<ScheduleAlgorithm> kHalvingDoubling(
    {.name = "halving-doubling",
     .summary = "exchange of S·d/n with the rank at distance d = n/2, n/4 … 1, and back: "
                "all-reduce 2(n−1)S/nB + 2·log2(n)·L; n a power of two",
     .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication "
               "operations in MPICH, 2005",
     .parameters = {}},
    [] { return std::make_unique<HalvingDoubling>(); });

}  // namespace
}  // namespace orrery::fabric
