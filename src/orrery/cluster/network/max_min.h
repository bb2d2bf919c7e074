#pragma once

#include <vector>

#include "orrery/cluster/network/flow_system.h"

namespace orrery::fabric {

/// Max-min fair rates of the flows that run now: no flow can go faster without slowing one
/// that is no faster (Bertsekas and Gallager, Data Networks, 1992, §6.5.2). Progressive
/// filling: the link that offers least to each of its open flows fixes them at that.
class MaxMinShares {
 public:
  explicit MaxMinShares(const FlowSystem& system);

  void start(int flow);
  void stop(int flow);
  /// Brings rates up to date and returns the running flows that start and stop have touched,
  /// over however many shared links. The list lives until the next call.
  const std::vector<int>& update();
  double rate(int flow) const { return rate_[static_cast<size_t>(flow)]; }

 private:
  struct Offer {
    double share = 0;
    int link = 0;
    bool operator>(const Offer& o) const {
      return share != o.share ? share > o.share : link > o.link;
    }
  };
  void touch(int link);
  void collect();
  void fill();
  double share(int link) const;

  const FlowSystem& s_;
  std::vector<std::vector<int>> running_;  ///< By link: entries of `FlowSystem::link`.
  std::vector<int> place_;                 ///< Of each entry in its link's list.
  std::vector<int> owner_;                 ///< Flow of each entry.
  std::vector<double> rate_, left_, open_;
  std::vector<char> touched_, fixed_, met_;
  std::vector<int> links_, flows_;
  std::vector<Offer> offers_;
};

}  // namespace orrery::fabric
