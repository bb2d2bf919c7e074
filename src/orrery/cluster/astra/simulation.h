#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orrery/cluster/astra/groups.h"
#include "orrery/cluster/astra/network.h"
#include "orrery/cluster/astra/player.h"
#include "orrery/cluster/astra/system.h"

namespace orrery::astra {

struct SimulationOptions {
  bool congestion = true;
  bool record = false;  ///< Keep when each node ran.
  /// Simulate the first rank for all; see `foldable`.
  bool folded = false;
};

struct RankTimes {
  uint64_t finish_ns = 0;
  uint64_t compute_ns = 0;  ///< Of nodes on the compute units.
  uint64_t host_ns = 0;     ///< Of nodes on the host.
  std::vector<Interval> intervals;
};

struct SimulationResult {
  std::vector<RankTimes> ranks;  ///< One, if folded.
  uint64_t messages = 0;
  std::vector<std::string> notes;
};

/// Plays a trace on every rank of the network. Throws `kInput` for what a trace asks that is
/// not modelled, and where ranks wait for each other for ever.
SimulationResult simulate(const Network& network, const System& system, const Groups& groups,
                          const std::vector<Part>& parts, const SimulationOptions& options);

/// Whether all ranks do the same at the same time, so that one tells of all: the network
/// looks the same from each, and all play `trace`, which has collectives of all ranks alone, by
/// ring, direct or halving-doubling; with congestion on a ring of more than 3 by ring only.
bool foldable(const Network& network, const System& system, const Groups& groups,
              const chakra::Trace& trace, bool congestion);

}  // namespace orrery::astra
