#include <algorithm>
#include <cmath>

#include "orrery/cluster/network/tier_fabric.h"

namespace orrery::fabric {
namespace {

/// Ports, each joined to one switch of `switch_of`, up and down.
class SwitchedTier : public TierFabric {
 public:
  using TierFabric::TierFabric;

 protected:
  template <class SwitchOf>
  void join_ports(SwitchOf switch_of) {
    up_ = static_cast<int>(table_.links.size());
    const int up_kind = table_.new_kind(), down_kind = table_.new_kind();
    const double half = tier_.latency.value / 2;
    for (int i = 0; i < place_.instances; ++i)
      for (int m = 0; m < place_.members; ++m)
        for (int p = 0; p < place_.ports; ++p) {
          const Endpoint e{i, m, p};
          table_.add_link(vertex(e), switch_of(e), port_bandwidth(), half, up_kind);
          table_.add_link(switch_of(e), vertex(e), port_bandwidth(), half, down_kind);
        }
  }
  int up(const Endpoint& e) const { return up_ + 2 * index(e); }
  int down(const Endpoint& e) const { return up_ + 2 * index(e) + 1; }

 private:
  int up_ = 0;
};

class OneSwitch final : public SwitchedTier {
 public:
  OneSwitch(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : SwitchedTier(tier, place, table) {
    const int first = table.add_vertices(tier.name, place.instances);
    join_ports([&](const Endpoint& e) { return first + e.instance; });
  }
  void route(const Endpoint& from, const Endpoint& to, RouteMemory& /*memory*/,
             std::vector<int>& way) const override {
    way.push_back(up(from));
    way.push_back(down(to));
  }
  bool uniform() const override { return true; }
};

/// Leaves of `group` members, one for each rail of a group, under spines that stand for
/// whatever lies above. A leaf has group / oversubscription links up, one to each spine.
class FatTree final : public SwitchedTier {
 public:
  FatTree(const FabricTier& tier, const TierPlace& place, Spreading spreading, FabricTable& table)
      : SwitchedTier(tier, place, table), spreading_(spreading), group_(tier.group) {
    groups_ = (place.members + group_ - 1) / group_;
    spines_ =
        std::max(1, static_cast<int>(std::lround(group_ / std::max(1.0, tier.oversubscription))));
    const int leaves = place.instances * groups_ * place.ports;
    const int leaf = table.add_vertices(tier.name + ".leaf", leaves);
    const int spine = table.add_vertices(tier.name + ".spine", place.instances * spines_);
    join_ports([&](const Endpoint& e) { return leaf + leaf_of(e); });
    above_ = static_cast<int>(table.links.size());
    const int up_kind = table.new_kind(), down_kind = table.new_kind();
    const double bandwidth = port_bandwidth() * group_ / tier.oversubscription / spines_;
    const double half = tier.latency.value / 2;
    for (int l = 0; l < leaves; ++l)
      for (int s = 0; s < spines_; ++s) {
        const int at = spine + l / (groups_ * place.ports) * spines_ + s;
        table.add_link(leaf + l, at, bandwidth, half, up_kind);
        table.add_link(at, leaf + l, bandwidth, half, down_kind);
      }
  }
  void route(const Endpoint& from, const Endpoint& to, RouteMemory& /*memory*/,
             std::vector<int>& way) const override {
    way.push_back(up(from));
    const int a = leaf_of(from), b = leaf_of(to);
    if (a != b) {
      const int spine = spine_of(from, to);
      way.push_back(above_ + 2 * (a * spines_ + spine));
      way.push_back(above_ + 2 * (b * spines_ + spine) + 1);
    }
    way.push_back(down(to));
  }
  bool uniform() const override {
    return spreading_ == Spreading::kDestination && place_.members % group_ == 0 &&
           group_ % spines_ == 0;
  }

 private:
  int leaf_of(const Endpoint& e) const {
    return (e.instance * groups_ + e.member / group_) * place_.ports + e.port;
  }
  int spine_of(const Endpoint& from, const Endpoint& to) const {
    if (spreading_ == Spreading::kDestination) return to.member % group_ % spines_;
    // The finaliser of SplitMix64.
    auto hash = static_cast<uint64_t>(index(from)) << 32U | static_cast<uint64_t>(index(to));
    hash = (hash ^ hash >> 30U) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ hash >> 27U) * 0x94d049bb133111ebU;
    return static_cast<int>((hash ^ hash >> 31U) % static_cast<uint64_t>(spines_));
  }

  Spreading spreading_;
  int group_, groups_ = 0, spines_ = 0, above_ = 0;
};

/// Groups of routers that are all joined to each other, one link between any two groups. A
/// group's links to others carry together what its members do, less the oversubscription.
class Dragonfly final : public SwitchedTier {
 public:
  Dragonfly(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : SwitchedTier(tier, place, table), group_(tier.group) {
    groups_ = (place.members + group_ - 1) / group_;
    members_ = std::max(1, static_cast<int>(std::lround(std::sqrt(group_ / 2.0))));
    routers_ = (group_ + members_ - 1) / members_;
    const int first =
        table.add_vertices(tier.name + ".router", place.instances * groups_ * routers_);
    const auto vertex_of = [&](int instance, int group, int router) {
      return first + (instance * groups_ + group) * routers_ + router;
    };
    join_ports(
        [&](const Endpoint& e) { return vertex_of(e.instance, e.member / group_, router_of(e)); });
    const int local_kind = table.new_kind(), global_kind = table.new_kind();
    const double half = tier.latency.value / 2, bandwidth = tier.bandwidth.value;
    local_ = static_cast<int>(table.links.size());
    for (int i = 0; i < place.instances; ++i)
      for (int g = 0; g < groups_; ++g)
        for (int a = 0; a < routers_; ++a)
          for (int b = 0; b < routers_; ++b)
            if (a != b)
              table.add_link(vertex_of(i, g, a), vertex_of(i, g, b), bandwidth, half, local_kind);
    global_ = static_cast<int>(table.links.size());
    const double between = bandwidth * group_ / tier.oversubscription / std::max(1, groups_ - 1);
    for (int i = 0; i < place.instances; ++i)
      for (int g = 0; g < groups_; ++g)
        for (int h = 0; h < groups_; ++h)
          if (g != h)
            table.add_link(vertex_of(i, g, gateway(g, h)), vertex_of(i, h, gateway(h, g)), between,
                           half, global_kind);
  }
  void route(const Endpoint& from, const Endpoint& to, RouteMemory& /*memory*/,
             std::vector<int>& way) const override {
    way.push_back(up(from));
    const int g = from.member / group_, h = to.member / group_;
    if (g == h) {
      local(from.instance, g, router_of(from), router_of(to), way);
    } else {
      local(from.instance, g, router_of(from), gateway(g, h), way);
      way.push_back(global_ + (from.instance * groups_ + g) * (groups_ - 1) + other(g, h));
      local(from.instance, h, gateway(h, g), router_of(to), way);
    }
    way.push_back(down(to));
  }
  bool uniform() const override { return false; }

 private:
  static int other(int of, int to) { return to < of ? to : to - 1; }
  int gateway(int of, int to) const { return other(of, to) % routers_; }
  int router_of(const Endpoint& e) const { return e.member % group_ / members_; }
  void local(int instance, int group, int a, int b, std::vector<int>& way) const {
    if (a == b) return;
    way.push_back(local_ + ((instance * groups_ + group) * routers_ + a) * (routers_ - 1) +
                  other(a, b));
  }

  int group_, groups_ = 0, members_ = 1, routers_ = 1, local_ = 0, global_ = 0;
};

}  // namespace

std::unique_ptr<TierFabric> make_switched_tier(const FabricTier& tier, const TierPlace& place,
                                               Spreading spreading, FabricTable& table) {
  const bool grouped = tier.group > 0 && tier.group < place.members;
  if (tier.shape == FabricShape::kFatTree && grouped)
    return std::make_unique<FatTree>(tier, place, spreading, table);
  if (tier.shape == FabricShape::kDragonfly && grouped)
    return std::make_unique<Dragonfly>(tier, place, table);
  return std::make_unique<OneSwitch>(tier, place, table);
}

}  // namespace orrery::fabric
