#include "orrery/cluster/algorithm.h"

namespace orrery {

std::string_view name(Protocol protocol) {
  constexpr std::array<std::string_view, kProtocolCount> kNames = {"ll", "ll128", "simple"};
  return kNames[static_cast<size_t>(protocol)];
}

double ring_steps(CollectiveKind kind, int ranks) {
  const bool twice = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBarrier;
  return (twice ? 2.0 : 1.0) * (ranks - 1);
}

Bytes ring_bytes(CollectiveKind kind, Bytes bytes, int ranks) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBarrier:
      return bytes * (2.0 * (ranks - 1) / ranks);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return bytes * ((ranks - 1.0) / ranks);
    default:
      return bytes;
  }
}

}  // namespace orrery
