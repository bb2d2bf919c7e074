#pragma once

#include <string>
#include <vector>

#include "orrery/cluster/network/network.h"

namespace orrery::fabric {

/// A fabric or ranks that are not as they should be.
struct FabricConditions {
  struct ScaledLink {
    std::string a, b;   ///< As `Topology::vertex_name`.
    double factor = 1;  ///< Of its bandwidth, both ways; 0 is a dead link.
  };
  struct Straggler {
    int rank = 0;
    Seconds delay;     ///< It starts this much later,
    double speed = 1;  ///< and sends at this part of its bandwidth.
  };
  std::vector<ScaledLink> links;
  std::vector<Straggler> stragglers;
  double background = 0;  ///< Share of every link that other traffic takes.
};

/// "3-4=0.5": the link between ranks 3 and 4 has half of its bandwidth. Throws `kUsage`.
FabricConditions::ScaledLink parse_scaled_link(const std::string& text);
/// "3=2ms": rank 3 starts 2 ms late; "3=0.5x": it sends half as fast. Throws `kUsage`.
FabricConditions::Straggler parse_straggler(const std::string& text);

struct FlowOptions {
  std::string network = "flow";  ///< Of `Registry<Network>`.
  std::string algorithm;         ///< Of `Registry<ScheduleAlgorithm>`; "" for the quickest.
  bool exact = false;
  Spreading spreading = Spreading::kDestination;
  FabricConditions conditions;
};

struct LinkUse {
  std::string link;
  Bytes bytes;
  double share = 0;  ///< Of what it could have carried in the time.
};

struct CollectiveSimulation {
  Seconds time;
  std::string algorithm;
  std::vector<std::string> too_large;  ///< Algorithms that would take too long to compare with.
  int ranks = 0;                       ///< Of all groups that run at once.
  Bytes sent;                          ///< By the rank that sends most.
  std::vector<Seconds> rank_finish;    ///< By rank.
  std::vector<LinkUse> busiest;        ///< Eight at most, the busiest first.
  FlowWork work;
};

/// One call of a collective over a cluster's fabric. Throws `kUsage` for names that do not
/// exist or do not fit the call, `kInfeasible` for ranks that cannot reach each other.
CollectiveSimulation simulate_collective(const Cluster& cluster, const CollectiveCall& call,
                                         const FlowOptions& options);

}  // namespace orrery::fabric
