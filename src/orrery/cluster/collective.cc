#include "orrery/cluster/collective.h"

#include <array>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {
namespace {

constexpr std::array<std::string_view, kCollectiveKindCount> kNames = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce",
    "gather",     "scatter",    "send-receive",   "permute",    "barrier"};

}  // namespace

std::string_view name(CollectiveKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string with_article(CollectiveKind kind) {
  const std::string_view word = name(kind);
  return (word.front() == 'a' ? "an " : "a ") + std::string(word);
}

CollectiveKind collective_kind(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<CollectiveKind>(i);
  throw_usage("unknown collective '" + std::string(text) + "'" +
              suggestion(text, {kNames.begin(), kNames.end()}));
}

std::string_view default_library(const Cluster& cluster) {
  return cluster.device.kind == "gpu" ? "nccl" : "alpha-beta";
}

}  // namespace orrery
