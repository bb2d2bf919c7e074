#pragma once

#include <vector>

#include "orrery/cluster/network/flow_system.h"
#include "orrery/cluster/network/network.h"

namespace orrery::fabric {

/// Routes of a phase's transfers: links first[i] up to first[i + 1] of transfer i.
struct Routes {
  std::vector<int> first = {0}, link;
  std::vector<double> latency;
};

Routes route_all(const Topology& topology, const Phase& phase);

/// A phase without crowds as a system of its own; `ready` is by rank.
FlowSystem phase_system(const Topology& topology, const Phase& phase,
                        const std::vector<double>& ready);

/// What is left of a job: its phases from `phase` on, and when ranks are ready for them.
struct RemainingJob {
  size_t job = 0, phase = 0;
  std::vector<double> ready;  ///< By rank.
};

/// All that is left of some jobs in one system. A rank's entry into its next phase is a flow
/// without bytes that waits for what the rank sends and is sent in this one.
struct JointSystem {
  struct Part {
    size_t job = 0;
    int first = 0;  ///< Its transfers are the system's flows from here on.
    Phase phase;    ///< Without crowds.
  };
  FlowSystem system;
  std::vector<Part> parts;
  std::vector<int> links;  ///< The topology's link that each of the system's is.
};

JointSystem join_phases(const Topology& topology, const std::vector<Job>& jobs,
                        const std::vector<RemainingJob>& rest);

}  // namespace orrery::fabric
