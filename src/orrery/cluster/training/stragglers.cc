#include "orrery/cluster/training/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "orrery/base/error.h"

namespace orrery {
namespace {

void check(const char* what, int first, int last, int count, double pace) {
  if (first < 0 || last < first || last >= count)
    throw_usage(
        fmt::format("slow {0}s {1} to {2}: {0}s are 0 to {3} here", what, first, last, count - 1));
  if (!(pace > 0 && pace <= 1))
    throw_usage(fmt::format("slow {}s {} to {}: {} is not a share above 0 and at most 1", what,
                            first, last, pace));
}

const SlowNodes* slower(const SlowNodes* a, const SlowNodes* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return b->share < a->share ? b : a;
}

}  // namespace

const SlowNodes* PipelinePace::slowest_link() const {
  const SlowNodes* slowest = nullptr;
  for (const Pace& pace : stages) slowest = slower(slowest, pace.link);
  return slowest;
}

std::vector<PipelinePace> pipeline_paces(const Strategy& s, const Stragglers& stragglers,
                                         int node) {
  const int replica = s.tensor * s.context;  // ranks of a stage that share a micro-batch
  const int stage_ranks = replica * s.data();
  int together = replica;  // … and those that wait for each other in every layer
  if (s.expert > replica) together = std::lcm(s.expert, replica);
  if (s.zero == 3) together = stage_ranks;

  std::map<int, std::vector<Pace>> slow;  // by group of those, its stages
  const auto pace_of = [&](int rank) -> Pace& {
    auto& stages = slow[rank % stage_ranks / together];
    stages.resize(static_cast<size_t>(s.pipeline));
    return stages[static_cast<size_t>(rank / stage_ranks)];
  };
  for (const SlowRanks& ranks : stragglers.ranks) {
    check("rank", ranks.first, ranks.last, s.gpus, ranks.speed);
    for (int rank = ranks.first; rank <= ranks.last; ++rank) {
      Pace& pace = pace_of(rank);
      pace.speed = std::min(pace.speed, ranks.speed);
    }
  }
  for (const SlowNodes& nodes : stragglers.nodes) {
    check("node", nodes.first, nodes.last, (s.gpus + node - 1) / node, nodes.share);
    for (int rank = nodes.first * node; rank < std::min(s.gpus, (nodes.last + 1) * node); ++rank) {
      Pace& pace = pace_of(rank);
      pace.link = slower(pace.link, &nodes);
    }
  }
  std::vector<PipelinePace> found;
  if (slow.size() < static_cast<size_t>(stage_ranks / together)) {
    int first = 0;  // the first of those without stragglers
    while (slow.contains(first)) ++first;
    found.push_back(
        {std::vector<Pace>(static_cast<size_t>(s.pipeline)), first * together / replica});
  }
  for (auto& [group, stages] : slow)
    if (std::ranges::find(found, stages, &PipelinePace::stages) == found.end())
      found.push_back({std::move(stages), group * together / replica});
  return found;
}

}  // namespace orrery
