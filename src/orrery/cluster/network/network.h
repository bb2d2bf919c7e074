#pragma once

#include <string>
#include <vector>

#include "orrery/base/registry.h"
#include "orrery/base/units.h"
#include "orrery/cluster/network/flow_system.h"
#include "orrery/cluster/network/schedule.h"
#include "orrery/cluster/network/topology.h"

namespace orrery::fabric {

/// A schedule and when each rank is ready for it; ranks not named are so at once. Jobs on the
/// same ranks do not wait for each other: they share links.
struct Job {
  Schedule schedule;
  std::vector<Seconds> ready;  ///< By rank, or empty.
};

struct NetworkOptions {
  bool exact = false;  ///< Every transfer is simulated by itself.
};

struct NetworkAnswer {
  Seconds time;                      ///< When the last rank is done.
  std::vector<Seconds> job_finish;   ///< By job.
  std::vector<Seconds> rank_finish;  ///< By rank: when it has sent and been sent all, in any job.
  std::vector<Bytes> link_bytes;     ///< By link.
  FlowWork work;
};

/// A fidelity at which transfers cross a fabric, registered by name ("analytic", "flow"):
/// `Registry<Network>`. The same question has the same answer.
class Network {
 public:
  virtual ~Network() = default;
  virtual NetworkAnswer run(const Topology& topology, const std::vector<Job>& jobs,
                            const NetworkOptions& options) const = 0;
};

/// Throws `kInfeasible` where a crowd has more pairs than can be held one by one.
Phase without_crowds(const Phase& phase);

/// Whether, on this topology, each rank of the phase's crowds may stand for any other: one
/// crowd of all ranks, or crowds that are whole units of the fabric or cut across them.
bool crowds_are_alike(const Topology& topology, const Phase& phase);

/// Hops that `link_loads` walks for a phase, by a sample of its routes; infinite where a crowd
/// whose ranks are not alike has more pairs than can be held one by one.
double walked_hops(const Topology& topology, const Phase& phase);

/// Bytes over each link in one phase.
std::vector<double> link_loads(const Topology& topology, const Phase& phase);

}  // namespace orrery::fabric
