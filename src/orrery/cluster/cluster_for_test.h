#pragma once

#include <string>

#include "orrery/base/registry.h"
#include "orrery/cluster/collective.h"
#include "orrery/hardware/catalogue.h"

namespace orrery {

inline Cluster catalogue_cluster(const std::string& name) {
  return Catalogue(ORRERY_SOURCE_DIR "/hardware").cluster(name);
}

/// So many devices on one switch of 100 GB/s and 1 µs, in nodes of that size over 10 GB/s and 5
/// µs.
inline Cluster plain_cluster(int node, int nodes) {
  Cluster cluster;
  cluster.name = "plain";
  cluster.device.name = "toy";
  cluster.device.kind = "gpu";
  FabricTier inside;
  inside.name = "nvlink";
  inside.size = node;
  inside.bandwidth = BytesPerSecond(100e9);
  inside.latency = Seconds(1e-6);
  cluster.tiers.push_back(inside);
  if (nodes > 1) {
    FabricTier outside;
    outside.name = "infiniband";
    outside.shape = FabricShape::kFatTree;
    outside.size = nodes;
    outside.bandwidth = BytesPerSecond(10e9);
    outside.links = node;
    outside.latency = Seconds(5e-6);
    cluster.tiers.push_back(outside);
  }
  return cluster;
}

inline std::unique_ptr<CollectivePredictor> bound(const std::string& library,
                                                  const Cluster& cluster,
                                                  const std::string& algorithm = "",
                                                  const std::string& protocol = "") {
  return Registry<CollectiveLibrary>::instance()
      .at(library, "library")
      .create()
      ->bind(cluster, {ORRERY_SOURCE_DIR "/data", algorithm, protocol});
}

}  // namespace orrery
