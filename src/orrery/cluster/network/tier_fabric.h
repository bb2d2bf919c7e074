#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orrery/cluster/network/topology.h"

namespace orrery::fabric {

/// Links and named vertices of a topology while and after it is laid.
class FabricTable {
 public:
  explicit FabricTable(int devices) : vertices_(devices), devices_(devices) {}

  /// Numbers `count` vertices "label.0", "label.1" …; returns the first.
  int add_vertices(const std::string& label, int count);
  /// Throws `kInfeasible` when there would be more links than memory should hold.
  int add_link(int from, int to, double bandwidth, double latency, int kind);
  int new_kind() { return kinds_++; }

  std::string vertex_name(int vertex) const;
  /// -1 when nothing has the name.
  int vertex(std::string_view name) const;

  std::vector<NetworkLink> links;

 private:
  struct Block {
    std::string label;
    int first = 0, count = 0;
  };
  int vertices_, devices_, kinds_ = 0;
  std::vector<Block> blocks_;
};

/// Where one tier stands among the others.
struct TierPlace {
  int below = 1;      ///< Devices of one member.
  int members = 1;    ///< Of one instance.
  int instances = 1;  ///< Copies of the tier side by side.
  int ports = 1;      ///< Adapters of one member that carry traffic apart.
};

/// An adapter: the member of the instance it belongs to, and which of its ports it is.
struct Endpoint {
  int instance = 0, member = 0, port = 0;
};

/// One tier: it has laid its links and knows the ways over them.
class TierFabric {
 public:
  TierFabric(const FabricTier& tier, const TierPlace& place, FabricTable& table);
  virtual ~TierFabric() = default;

  /// Between two members of one instance.
  virtual void route(const Endpoint& from, const Endpoint& to, RouteMemory& memory,
                     std::vector<int>& way) const = 0;
  /// Every member and every port may stand for any other.
  virtual bool uniform() const = 0;

  Endpoint endpoint(int device) const;
  const TierPlace& place() const { return place_; }

 protected:
  /// The vertex an endpoint is: a device that has the port to itself, or a shared port.
  int vertex(const Endpoint& endpoint) const;
  int endpoints() const { return place_.instances * place_.members * place_.ports; }
  int index(const Endpoint& e) const {
    return (e.instance * place_.members + e.member) * place_.ports + e.port;
  }
  double port_bandwidth() const { return tier_.bandwidth.value / place_.ports; }

  FabricTier tier_;
  TierPlace place_;
  FabricTable& table_;

 private:
  int first_port_ = -1;
};

std::unique_ptr<TierFabric> make_switched_tier(const FabricTier& tier, const TierPlace& place,
                                               Spreading spreading, FabricTable& table);
std::unique_ptr<TierFabric> make_linked_tier(const FabricTier& tier, const TierPlace& place,
                                             FabricTable& table);

}  // namespace orrery::fabric
