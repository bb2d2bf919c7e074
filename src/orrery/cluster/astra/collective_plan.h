#pragma once

#include <map>
#include <vector>

#include "orrery/cluster/astra/machine.h"
#include "orrery/cluster/astra/step_algorithm.h"

namespace orrery::astra {

/// One collective as its node asks for it.
struct CollectiveRequest {
  chakra::Collective kind = chakra::Collective::kAllReduce;
  uint64_t bytes = 0;
  const std::vector<int>* group = nullptr;  ///< Null: all ranks.
  uint32_t dimensions = UINT32_MAX;         ///< Those that take part.
  uint64_t node = 0;                        ///< Its id.
};

/// MPI's reduce-scatter of equal blocks is a reduce-scatter; all others are what they are.
constexpr chakra::Collective played_as(chakra::Collective kind) {
  return kind == chakra::Collective::kReduceScatterBlock ? chakra::Collective::kReduceScatter
                                                         : kind;
}

/// How ASTRA-sim cuts a collective into chunks and sends each through the dimensions of the
/// network. An all-gather goes down them, all else up; `localBWAware` reduce-scatters up,
/// all-reduces in the last and all-gathers down, `baseline` all-reduces in each.
class CollectivePlanner {
 public:
  CollectivePlanner(Machine& machine, int rank) : machine_(&machine), rank_(rank) {}

  /// Size of a chunk and how many there are. A chunk has at least a byte for each rank.
  /// Throws `std::invalid_argument` where it cannot be done, with the reason.
  std::pair<uint64_t, uint64_t> chunks(const CollectiveRequest& request) const;
  /// The phases of one chunk; in two calls the trees of a double binary tree differ.
  std::vector<Phase> phases(const CollectiveRequest& request, uint64_t bytes);

 private:
  struct Level {
    RankRing ring;
    Implementation implementation;
    size_t dimension = 0;
  };
  std::vector<Level> levels(const CollectiveRequest& request) const;
  Phase phase(const Level& level, const CollectiveRequest& request, chakra::Collective kind,
              uint64_t bytes, bool clockwise);

  Machine* machine_;
  int rank_;
  std::map<std::pair<chakra::Collective, size_t>, uint32_t> trees_taken_;
};

}  // namespace orrery::astra
