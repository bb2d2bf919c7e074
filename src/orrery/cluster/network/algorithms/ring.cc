#include <algorithm>
#include <cmath>

#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

/// NCCL's slice of a chain: its 4 MiB buffer in eight steps.
constexpr double kSliceBytes = 524288;

class Ring final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& /*grid*/) const override {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
           kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kBroadcast ||
           kind == CollectiveKind::kReduce;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const int n = layout.size();
    Phase phase;
    for (const std::vector<int>& ranks : layout.groups) {
      if (kind == CollectiveKind::kBroadcast) {
        chain(phase, ranks, bytes);
      } else if (kind == CollectiveKind::kReduce) {
        chain(phase, {ranks.rbegin(), ranks.rend()}, bytes);
      } else if (n > 1) {
        const int steps = kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
        add_ring(phase, ranks, bytes / n, steps);
      }
    }
    return {{std::move(phase)}};
  }

 private:
  static void chain(Phase& phase, const std::vector<int>& ranks, Bytes bytes) {
    const auto slices = static_cast<int64_t>(std::max(1.0, std::ceil(bytes.value / kSliceBytes)));
    for (size_t i = 0; i + 1 < ranks.size(); ++i) {
      const Transfer transfer{ranks[i], ranks[i + 1], bytes / static_cast<double>(slices), slices};
      if (i == 0) {
        phase.add(transfer);
      } else {
        phase.add(transfer, {Need{static_cast<int>(phase.transfers.size()) - 1, false}});
      }
    }
  }
};

const Registration<ScheduleAlgorithm> kRing(
    {.name = "ring",
     .summary = "each rank to the next: all-reduce 2(n−1)(S/nB + L), all-gather and "
                "reduce-scatter (n−1)(S/nB + L); broadcast and reduce as a chain of c slices, "
                "(n−2)(S/cB + L) + S/B + L",
     .source = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009",
     .parameters = {{"slice", kSliceBytes, "bytes of a chain's slice (NCCL 2)"}}},
    [] { return std::make_unique<Ring>(); });

/// One ring for each device of a node. Ring j runs through the node from device j to device
/// j − 1, so that every adapter carries one ring out and one in.
class RailRings final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& grid) const override {
    return grid.size() > 1 &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter);
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const auto n = static_cast<size_t>(layout.size()), node = static_cast<size_t>(layout.grid[0]);
    const auto steps = static_cast<int64_t>((kind == CollectiveKind::kAllReduce ? 2 : 1) * (n - 1));
    Phase phase;
    std::vector<int> ring(n);
    for (const std::vector<int>& ranks : layout.groups)
      for (size_t j = 0; j < node; ++j) {
        for (size_t i = 0; i < n; ++i) ring[i] = ranks[i / node * node + (i + j) % node];
        add_ring(phase, ring, bytes / static_cast<double>(n * node), steps);
      }
    return {{std::move(phase)}};
  }
};

const Registration<ScheduleAlgorithm> kRailRings(
    {.name = "rail-rings",
     .summary = "a ring for each of the e devices of a node with a part of the bytes, so that all "
                "adapters are busy: all-reduce 2(n−1)(S/enB + L) at the adapter's bandwidth B",
     .source = "NCCL 2, which gives every channel's ring another adapter",
     .parameters = {}},
    [] { return std::make_unique<RailRings>(); });

class BidirectionalRing final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& /*grid*/) const override {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
           kind == CollectiveKind::kReduceScatter;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const int n = layout.size();
    const int steps = kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
    Phase phase;
    for (const std::vector<int>& ranks : layout.groups) {
      if (n == 1) break;
      add_ring(phase, ranks, bytes / (2.0 * n), steps);
      add_ring(phase, ranks, bytes / (2.0 * n), steps, true);
    }
    return {{std::move(phase)}};
  }
};

const Registration<ScheduleAlgorithm> kBidirectionalRing(
    {.name = "bidirectional-ring",
     .summary = "half of the bytes each way round: all-reduce 2(n−1)(S/2nB + L), B one "
                "direction of a link",
     .source = "Chan et al., Collective communication: theory, practice, and experience, 2007",
     .parameters = {}},
    [] { return std::make_unique<BidirectionalRing>(); });

}  // namespace
}  // namespace orrery::fabric
