#include "orrery/cluster/astra/collective_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "orrery/cluster/astra/rooted_steps.h"

namespace orrery::astra {

using chakra::Collective;

std::pair<uint64_t, uint64_t> CollectivePlanner::chunks(const CollectiveRequest& request) const {
  if (request.kind == Collective::kBarrier) return {1, 1};
  const uint64_t splits = machine_->system.splits;
  if (splits == 0) throw std::invalid_argument("the system JSON must say preferred-dataset-splits");
  uint64_t bytes = request.bytes;
  uint64_t chunk = bytes / splits;
  const bool kept_whole = request.kind == Collective::kAllGather ||
                          request.kind == Collective::kGather ||
                          request.kind == Collective::kReduce;
  if (!kept_whole && chunk < static_cast<uint64_t>(machine_->ranks)) {
    chunk = static_cast<uint64_t>(machine_->ranks);
    bytes = splits * chunk;
  }
  if (chunk == 0)
    throw std::invalid_argument(
        fmt::format("{} bytes cannot be cut into {} chunks", request.bytes, splits));
  return {chunk, (bytes + chunk - 1) / chunk};
}

std::vector<CollectivePlanner::Level> CollectivePlanner::levels(
    const CollectiveRequest& request) const {
  if (request.group != nullptr && request.group->size() != static_cast<size_t>(machine_->ranks)) {
    const std::vector<int>& members = *request.group;
    const auto at = std::find(members.begin(), members.end(), rank_);
    if (at == members.end())
      throw std::invalid_argument(
          fmt::format("rank {} is not in the communicator group it asks for", rank_));
    Level level;
    level.ring.size = static_cast<int>(members.size());
    level.ring.index = static_cast<int>(at - members.begin());
    level.ring.members = members;
    return {level};
  }
  if (has_steps_of_its_own(request.kind)) {
    for (size_t d = 0; d < machine_->network.dimensions.size(); ++d)
      if (machine_->network.dimensions[d].ranks > 1 && (request.dimensions >> d & 1) == 0)
        throw std::invalid_argument(fmt::format(
            "involved_dim leaves out dimension {}; give it a communicator group instead", d));
    Level level;
    level.ring.size = machine_->ranks;
    level.ring.index = rank_;
    return {level};
  }
  const System& system = machine_->system;
  std::vector<Implementation> implementations;
  if (const auto own = system.of_node.find(request.node); own != system.of_node.end())
    implementations = {own->second};
  else if (const auto of_kind = system.implementations.find(request.kind);
           of_kind != system.implementations.end())
    implementations = of_kind->second;
  else
    throw std::invalid_argument(
        fmt::format("the system JSON has no {0}-implementation", name(request.kind)));
  const auto& dimensions = machine_->network.dimensions;
  if (implementations.size() > dimensions.size())
    throw std::invalid_argument(
        fmt::format("{} implementations of {}, but the network has {} dimensions",
                    implementations.size(), name(request.kind), dimensions.size()));
  std::vector<Level> levels;
  int stride = 1;
  for (size_t d = 0; d < implementations.size(); ++d) {
    Level level;
    level.implementation = implementations[d];
    level.dimension = d;
    const int size = level.implementation.one ? machine_->ranks : dimensions[d].ranks;
    if (level.implementation.one) stride = 1;
    const int index = rank_ / stride % size;
    level.ring.size = size;
    level.ring.index = index;
    level.ring.first = rank_ - index * stride;
    level.ring.stride = stride;
    levels.push_back(level);
    if (level.implementation.one) break;
    stride *= size;
  }
  return levels;
}

Phase CollectivePlanner::phase(const Level& level, const CollectiveRequest& request,
                               Collective kind, uint64_t bytes, bool clockwise) {
  Phase p;
  p.kind = kind;
  p.implementation = level.implementation;
  p.ring = level.ring;
  p.bytes = bytes;
  p.queue = level.dimension;
  p.clockwise = clockwise;
  p.local = !level.ring.members.empty();
  const Algorithm algorithm = p.implementation.algorithm;
  const bool tree = algorithm == Algorithm::kDoubleBinaryTree;
  if ((tree || algorithm == Algorithm::kHalvingDoubling) &&
      !std::has_single_bit(static_cast<uint32_t>(level.ring.size)))
    throw std::invalid_argument(fmt::format("{} needs a power of two of ranks, not {}",
                                            tree ? "doubleBinaryTree" : "halvingDoubling",
                                            level.ring.size));
  if (algorithm == Algorithm::kHalvingDoubling && kind == Collective::kAllToAll)
    throw std::invalid_argument("halvingDoubling cannot do an all-to-all");
  if (algorithm != Algorithm::kCustom && machine_->system.memory_bytes_per_s <= 0 &&
      (tree || kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
       kind == Collective::kReduce))
    throw std::invalid_argument("the system JSON must say local-mem-bw, at which it is reduced");
  if (tree) {
    p.root_is_first = trees_taken_[{request.kind, level.dimension}]++ % 2 == 1;
    p.kind = Collective::kAllReduce;
  }
  return p;
}

std::vector<Phase> CollectivePlanner::phases(const CollectiveRequest& request, uint64_t bytes) {
  std::vector<Level> involved;
  for (Level& level : levels(request))
    if (level.ring.size > 1 &&
        (has_steps_of_its_own(request.kind) || (request.dimensions >> level.dimension & 1) != 0))
      involved.push_back(std::move(level));
  std::vector<Phase> phases;
  const auto add = [&](const Level& level, Collective kind, bool clockwise) {
    phases.push_back(phase(level, request, kind, bytes, clockwise));
    bytes = phases.back().bytes_after();
  };
  if (request.kind != Collective::kAllReduce || !machine_->system.bandwidth_aware) {
    if (request.kind == Collective::kAllGather) std::reverse(involved.begin(), involved.end());
    for (const Level& level : involved) add(level, request.kind, true);
    return phases;
  }
  for (size_t i = 0; i + 1 < involved.size(); ++i)
    add(involved[i], Collective::kReduceScatter, true);
  if (!involved.empty()) add(involved.back(), Collective::kAllReduce, true);
  for (size_t i = involved.size(); i-- > 1;) add(involved[i - 1], Collective::kAllGather, false);
  return phases;
}

}  // namespace orrery::astra
