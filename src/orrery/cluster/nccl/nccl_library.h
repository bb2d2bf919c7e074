#pragma once

#include "orrery/cluster/nccl/link_fit.h"
#include "orrery/cluster/nccl/network_fit.h"

namespace orrery {

/// The algorithm that a library of its own kernels runs for a call, Simple; "" for NCCL's.
using CustomKernels = std::string_view (*)(const Cluster& cluster, const CollectiveCall& call,
                                           const GroupPlace& place);

/// What NCCL's choice and the time it takes are predicted from, for one cluster; also for the
/// program that fits the constants.
class NcclModel {
 public:
  /// `custom` is what takes calls before NCCL does.
  NcclModel(const Cluster& cluster, LinkFit fit, const CollectiveBinding& binding,
            CustomKernels custom = nullptr);

  struct Choice {
    size_t algorithm = 0;  ///< In the order of the registry.
    Protocol protocol = Protocol::kSimple;
  };
  /// The algorithm and protocol with the least cost by NCCL's own model.
  Choice choose(const CollectiveCall& call, const GroupPlace& place) const;
  std::string_view algorithm_name(size_t algorithm) const { return algorithms_[algorithm].name; }
  MeasuredKind measured(const Choice& choice, CollectiveKind kind) const {
    return measured_kind(kind, algorithms_[choice.algorithm].name);
  }
  CollectiveWork work(const Choice& choice, const CollectiveCall& call,
                      const GroupPlace& place) const;
  /// By physics alone, without corrections.
  Seconds physical(const Choice& choice, const CollectiveCall& call, const GroupPlace& place) const;
  /// … with these constants of several nodes.
  Seconds physical(const Choice& choice, const CollectiveCall& call, const GroupPlace& place,
                   const NetworkConstants& network) const;
  /// Of the adapters' bandwidth, where none was measured.
  double unmeasured_share(const Choice& choice) const {
    return algorithms_[choice.algorithm].code->net_share(choice.protocol);
  }
  Seconds time(const Choice& choice, const CollectiveCall& call, const GroupPlace& place) const;
  /// Channels that NCCL opens for so many bytes.
  int channels(const Choice& choice, const CollectiveCall& call, const GroupPlace& place) const;

  const Cluster& cluster() const { return cluster_; }
  const LinkFit& fit() const { return fit_; }

 private:
  struct Algorithm {
    std::string name;
    std::shared_ptr<const CollectiveAlgorithm> code;
    bool in_nccl = true;
    bool allowed = true;
    std::array<std::array<LinkConstants, kProtocolCount>, kMeasuredKindCount> constants;
    std::array<std::array<NetworkConstants, kProtocolCount>, kCollectiveKindCount> network;
  };
  NcclTopology topology(const GroupPlace& place) const;

  Cluster cluster_;
  LinkFit fit_;
  std::vector<Algorithm> algorithms_;
  std::array<bool, kProtocolCount> allowed_{true, true, true};
  CustomKernels custom_;
};

}  // namespace orrery
