#pragma once

#include <string>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/hardware/device.h"

namespace orrery {

/// How the members of one tier of a fabric are joined.
enum class FabricShape {
  kSwitch,          ///< Every member to one non-blocking switch, or to a plane of them.
  kFullyConnected,  ///< A link between any two.
  kRing,
  kTorus,      ///< `dimensions` give its extents.
  kFatTree,    ///< Non-blocking but for `oversubscription` above the leaves.
  kDragonfly,  ///< Groups of `group` members, joined to each other.
  kGraph,      ///< as `drawn` says.
};

/// A link of a tier that is drawn link by link; both ways alike.
struct FabricLink {
  int from = 0, to = 0;  ///< Members, or switches from the number of members on.
  BytesPerSecond bandwidth;
  Seconds latency;
};

/// One tier of a cluster's fabric. The first joins devices, each later one what the
/// tier before it makes ("nodes").
struct FabricTier {
  std::string name;  ///< "nvlink", "infiniband", "ici", "pcie" …
  FabricShape shape = FabricShape::kSwitch;
  int size = 1;                   ///< Members joined; of the last tier the most there can be.
  std::vector<int> dimensions;    ///< Of a torus; their product is `size`.
  BytesPerSecond bandwidth;       ///< Of one member into this tier, one direction, all its links.
  int links = 1;                  ///< Links, rails or adapters of one member.
  Seconds latency;                ///< From one member to another of the same switch.
  double oversubscription = 1;    ///< Of a fat tree, above its leaves.
  int group = 0;                  ///< Members of a leaf switch or of a dragonfly's group; 0: all.
  bool reduces = false;           ///< The switch adds: NVLS, SHARP.
  std::vector<FabricLink> drawn;  ///< Of a graph.
};

/// Devices of one kind and the fabric between them. Rank r is device r: ranks fill the
/// first tier in order, then the next.
struct Cluster {
  std::string name;   ///< "dgx-h100"
  std::string title;  ///< "NVIDIA DGX H100 over 8 × 400 Gb/s InfiniBand rails"
  std::string notes;
  Device device;
  std::vector<FabricTier> tiers;  ///< Inside first; one at least.
  std::vector<std::string> gaps;

  /// Devices that the first tier joins: a node, or an NVLink domain.
  int node_size() const { return tiers.front().size; }
  /// Devices in all, at most.
  double largest() const {
    double devices = 1;
    for (const FabricTier& tier : tiers) devices *= tier.size;
    return devices;
  }
};

}  // namespace orrery
