#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

Phase crowd(const GroupLayout& layout, Bytes bytes) {
  Phase phase;
  phase.crowds = layout.groups;
  phase.crowd_bytes = bytes;
  return phase;
}

class Direct final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind /*kind*/, const std::vector<int>& /*grid*/) const override {
    return true;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const Bytes share = bytes / layout.size();
    switch (kind) {
      case CollectiveKind::kAllReduce:
        return {{crowd(layout, share), crowd(layout, share)}};
      case CollectiveKind::kAllGather:
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kAllToAll:
        return {{crowd(layout, share)}};
      case CollectiveKind::kBarrier:
        return {{crowd(layout, Bytes(0))}};
      default:
        break;
    }
    Phase phase;
    for (const std::vector<int>& ranks : layout.groups)
      for (size_t i = 0; i < ranks.size(); ++i) {
        const int root = ranks.front(), rank = ranks[i];
        if (kind == CollectiveKind::kSendReceive || kind == CollectiveKind::kPermute) {
          const bool last = i + 1 == ranks.size();
          if (ranks.size() > 1 && (!last || kind == CollectiveKind::kPermute))
            phase.add({rank, ranks[last ? 0 : i + 1], bytes});
        } else if (i > 0) {
          const bool outwards =
              kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter;
          phase.add({outwards ? root : rank, outwards ? rank : root, bytes});
        }
      }
    return {{std::move(phase)}};
  }
};

const Registration<ScheduleAlgorithm> kDirect(
    {.name = "direct",
     .summary = "every rank to every other at once: all-to-all, all-gather and reduce-scatter "
                "(n−1)S/nB + L behind a switch, all-reduce twice that; root to or from all; each "
                "rank to the next for send-receive and permute",
     .source = "Chan et al., Collective communication: theory, practice, and experience, 2007",
     .parameters = {}},
    [] { return std::make_unique<Direct>(); });

}  // namespace
}  // namespace orrery::fabric
