#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/hardware/cluster.h"

namespace orrery::fabric {

/// One direction of a cable, bundle or bus.
struct NetworkLink {
  int from = 0, to = 0;  ///< Vertices: devices first, then ports and switches.
  BytesPerSecond bandwidth;
  Seconds latency;
  int kind = 0;  ///< Links of one kind change places under the symmetries of a uniform topology.
};

/// How a fat tree picks the switch above its leaves.
enum class Spreading : uint8_t {
  kDestination,  ///< By the destination's place under its leaf: permutations never collide.
  kHash,         ///< By a hash of both ends, as equal-cost multipath does: flows may collide.
};

/// What the last search over a drawn graph found; one a thread, any number of routes.
struct RouteMemory {
  const void* graph = nullptr;
  int instance = -1, source = -1;
  size_t expanded = 0;
  std::vector<int> order;      ///< Vertices in the order they were reached.
  std::vector<int> came_over;  ///< Link over which each was; -1 where not yet.
};

class FabricTable;
class TierFabric;

/// Vertices, directed links and routes of a cluster as far as `ranks` reach.
///
/// Ranks meet in the innermost tier that joins them, and a route crosses that tier alone: a
/// device reaches an outer tier through its own adapter, or through the one it shares with
/// its neighbours. Between adapters a route is
/// - over the switch; over leaf, spine and leaf of a fat tree (`Spreading`);
/// - along the shorter way of each dimension in turn on rings and tori, upwards when equal;
/// - over the one link between two groups of a dragonfly (Kim et al., ISCA 2008, balanced:
///   routers a = 2p for p members each), never through a third group;
/// - the fewest hops on a drawn graph, of equals the first drawn.
/// A fabric of switches is as large as the ranks need; one of links between members stands
/// whole. Latency: `FabricTier::latency` a hop between members, half of it to or from a switch.
class Topology {
 public:
  /// Throws `kInfeasible` when the cluster holds fewer ranks.
  Topology(const Cluster& cluster, int ranks, Spreading spreading = Spreading::kDestination);
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;
  ~Topology();

  int ranks() const { return ranks_; }
  const std::vector<NetworkLink>& links() const;
  /// Extents of the grid that ranks fill in order, inside first: members of each tier, of a
  /// torus each dimension.
  const std::vector<int>& extents() const { return extents_; }
  /// Devices below each tier's member: 1, then the node's size …
  const std::vector<int>& units() const { return units_; }
  /// Any rank may stand for any other: full, of equal links, and routed alike everywhere.
  bool uniform() const { return uniform_; }

  /// "3" for rank 3, "nvlink.0" for a switch, "infiniband.leaf.2" …
  std::string vertex_name(int vertex) const;
  /// "3-nvlink.0"
  std::string link_name(int link) const;

  /// Both directions between two named vertices get `factor` of their bandwidth; 0 kills
  /// them. Throws `kUsage` with the neighbours of `a` when there is no such link.
  void scale_link(std::string_view a, std::string_view b, double factor);
  /// What leaves the rank gets `factor` of its bandwidth.
  void scale_rank(int rank, double factor);
  /// Every link.
  void scale_all(double factor);

  /// Appends the links from one rank to another. Throws `kInfeasible`, naming what is in the
  /// way, when a link is dead or no way exists.
  void route(int source, int destination, RouteMemory& memory, std::vector<int>& way) const;

 private:
  int vertex(std::string_view name) const;

  int ranks_ = 0, devices_ = 0;
  bool uniform_ = false;
  std::vector<int> extents_, units_;
  std::unique_ptr<FabricTable> table_;
  std::vector<std::unique_ptr<TierFabric>> tiers_;
};

}  // namespace orrery::fabric
