#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/hardware/cluster.h"

namespace orrery::fabric {

/// A tier with links of 100 GB/s a member and 1 µs, for tests that work values out by hand.
inline FabricTier test_tier(std::string name, FabricShape shape, int size, double bandwidth = 100e9,
                            double latency = 1e-6) {
  FabricTier tier;
  tier.name = std::move(name);
  tier.shape = shape;
  tier.size = size;
  tier.bandwidth = BytesPerSecond(bandwidth);
  tier.latency = Seconds(latency);
  return tier;
}

inline Cluster test_cluster(std::vector<FabricTier> tiers) {
  Cluster cluster;
  cluster.name = "test";
  cluster.tiers = std::move(tiers);
  return cluster;
}

inline Cluster test_ring(int size, double bandwidth = 100e9, double latency = 1e-6) {
  return test_cluster({test_tier("ici", FabricShape::kRing, size, bandwidth, latency)});
}

inline Cluster test_switch(int size, double bandwidth = 100e9, double latency = 1e-6) {
  return test_cluster({test_tier("nvlink", FabricShape::kSwitch, size, bandwidth, latency)});
}

inline Cluster test_torus(std::vector<int> dimensions, double bandwidth = 100e9,
                          double latency = 1e-6) {
  int size = 1;
  for (const int extent : dimensions) size *= extent;
  FabricTier tier = test_tier("ici", FabricShape::kTorus, size, bandwidth, latency);
  tier.dimensions = std::move(dimensions);
  return test_cluster({tier});
}

/// Nodes of 8 behind a switch of 400 GB/s and 1 µs; 8 adapters of 50 GB/s a node, 5 µs.
inline Cluster test_nodes(int nodes, FabricShape outer = FabricShape::kSwitch, int group = 0,
                          double oversubscription = 1, int adapters = 8) {
  FabricTier network = test_tier("infiniband", outer, nodes, 50e9 * adapters, 5e-6);
  network.links = adapters;
  network.group = group;
  network.oversubscription = oversubscription;
  return test_cluster({test_tier("nvlink", FabricShape::kSwitch, 8, 400e9, 1e-6), network});
}

}  // namespace orrery::fabric
