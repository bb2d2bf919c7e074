#include <algorithm>

#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

/// Every rank to the one 2^s places on, s = 0, 1 …
class Bruck final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& /*grid*/) const override {
    return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll ||
           kind == CollectiveKind::kBarrier;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const int n = layout.size();
    Schedule schedule;
    for (int distance = 1; distance < n; distance *= 2) {
      int blocks = 0;
      if (kind == CollectiveKind::kAllGather) blocks = std::min(distance, n - distance);
      if (kind == CollectiveKind::kAllToAll)
        for (int block = 0; block < n; ++block) blocks += (block & distance) != 0 ? 1 : 0;
      Phase& phase = schedule.phases.emplace_back();
      for (const std::vector<int>& ranks : layout.groups)
        for (int i = 0; i < n; ++i)
          phase.add({ranks[static_cast<size_t>(i)],
                     ranks[static_cast<size_t>((int64_t{i} + distance) % n)],
                     bytes * (blocks / double(n))});
    }
    return schedule;
  }
};

const Registration<ScheduleAlgorithm> kBruck(
    {.name = "bruck",
     .summary = "⌈log2 n⌉ steps to the rank 2^s on: all-gather (n−1)S/nB + ⌈log2 n⌉·L, "
                "all-to-all about log2(n)·S/2B + ⌈log2 n⌉·L, barrier ⌈log2 n⌉·L",
     .source = "Bruck et al., Efficient algorithms for all-to-all communications in multiport "
               "message-passing systems, 1997",
     .parameters = {}},
    [] { return std::make_unique<Bruck>(); });

/// Half of the ranks that have the data pass it on in every step, or the other way round.
class Binomial final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& /*grid*/) const override {
    return outwards(kind) || kind == CollectiveKind::kReduce || kind == CollectiveKind::kGather;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const int n = layout.size();
    const bool whole = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
    int widest = 1;
    while (widest < n) widest *= 2;
    Schedule schedule;
    for (int distance = widest / 2; distance > 0; distance /= 2) {
      Phase& phase = schedule.phases.emplace_back();
      for (const std::vector<int>& ranks : layout.groups)
        for (int i = 0; i + distance < n; i += 2 * distance) {
          const int partner = i + distance;
          const int near = ranks[static_cast<size_t>(i)];
          const int far = ranks[static_cast<size_t>(partner)];
          const Bytes sent = bytes * (whole ? 1 : std::min(distance, n - partner));
          phase.add({outwards(kind) ? near : far, outwards(kind) ? far : near, sent});
        }
    }
    if (!outwards(kind)) std::reverse(schedule.phases.begin(), schedule.phases.end());
    return schedule;
  }

 private:
  static bool outwards(CollectiveKind kind) {
    return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter;
  }
};

const Registration<ScheduleAlgorithm> kBinomial(
    {.name = "binomial",
     .summary = "a tree that doubles in every step: broadcast and reduce ⌈log2 n⌉(S/B + L), "
                "scatter and gather (n−1)S/B + ⌈log2 n⌉·L",
     .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication "
               "operations in MPICH, 2005",
     .parameters = {}},
    [] { return std::make_unique<Binomial>(); });

}  // namespace
}  // namespace orrery::fabric
