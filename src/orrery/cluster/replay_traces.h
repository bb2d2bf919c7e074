#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orrery/cluster/astra/player.h"
#include "orrery/workload/chakra/trace.h"

namespace orrery {

/// The traces of a replay: which rank plays which.
struct ReplayTraces {
  std::vector<std::unique_ptr<chakra::Trace>> files;  ///< Those that differ.
  std::vector<astra::Part> parts;                     ///< By rank.
  int traced_ranks = 0;
  bool all_alike = false;  ///< Every rank has the same to do, peers aside.
};

/// The traces of `ranks` ranks. Files alike in every byte are held once. Throws `kInput` for a
/// rank without a file, unless `extend`: then the ranks that have none do as the others do,
/// which must all do the same. Sends and receives go to ranks as far away as in the trace.
ReplayTraces load_traces(const std::string& prefix, int ranks, bool extend);

/// Writes each rank's trace to PREFIX.<rank>.et, peers being those that it is played with.
void write_traces(const ReplayTraces& traces, const std::string& prefix);

}  // namespace orrery
