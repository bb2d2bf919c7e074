#pragma once

#include <string>
#include <vector>

namespace orrery {

/// A collective simulated on the cluster's fabric, in place of a library's closed form.
struct CollectiveNetwork {
  std::string name;  ///< "analytic", "flow" or "packet"; empty: the library's closed form.
  bool exact = false;
  std::vector<std::string> slow_links;  ///< "3-nvlink.0=0.5"
  std::vector<std::string> stragglers;  ///< "3=2ms" late, "3=0.5x" slow
  double background = 0;                ///< Share of every link that other traffic takes.
  std::string routing = "destination";  ///< Of fat trees; or "hash", as equal-cost multipath.
};

/// What a simulation knows beside the time.
struct NetworkFigures {
  struct BusyLink {
    std::string link;
    double bytes = 0;
    double share = 0;  ///< Of what it could have carried.
  };
  int ranks = 0;                      ///< Of all groups that run at once.
  std::vector<double> rank_finish_s;  ///< By rank.
  std::vector<BusyLink> busiest_links;
  int64_t flows = 0, events = 0;  ///< Simulated.
};

struct Cluster;
struct CollectiveAnswer;
struct CollectiveCall;
struct CollectiveRequest;

/// The request's call over the network it names. Throws `kUsage` where the request also asks
/// for what belongs to a library.
CollectiveAnswer simulated_collective(const Cluster& cluster, const CollectiveCall& call,
                                      const CollectiveRequest& request);

/// Throws `kUsage` where conditions of a fabric are given and no network.
void check_network(const CollectiveNetwork& network);

}  // namespace orrery
