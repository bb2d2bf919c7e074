#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/error.h"
#include "orrery/cluster/network/tier_fabric.h"

namespace orrery::fabric {
namespace {

/// Members that are joined to each other. A device is its own member; a member of devices
/// has a hub that its ports lead to.
class LinkedTier : public TierFabric {
 public:
  LinkedTier(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : TierFabric(tier, place, table) {
    if (place.below == 1) return;
    hub_ = table.add_vertices(tier.name, place.instances * place.members);
    access_ = static_cast<int>(table.links.size());
    const int up = table.new_kind(), down = table.new_kind();
    for (int i = 0; i < place.instances; ++i)
      for (int m = 0; m < place.members; ++m)
        for (int p = 0; p < place.ports; ++p) {
          table.add_link(vertex({i, m, p}), member(i, m), port_bandwidth(), 0, up);
          table.add_link(member(i, m), vertex({i, m, p}), port_bandwidth(), 0, down);
        }
  }
  void route(const Endpoint& from, const Endpoint& to, RouteMemory& memory,
             std::vector<int>& way) const final {
    if (access_ < 0) return between(from.instance, from.member, to.member, memory, way);
    const size_t before = way.size();
    way.push_back(access_ + 2 * index(from));
    between(from.instance, from.member, to.member, memory, way);
    if (way.size() == before + 1) return way.resize(before);
    way.push_back(access_ + 2 * index(to) + 1);
  }

 protected:
  int member(int instance, int m) const {
    const int at = instance * place_.members + m;
    return hub_ < 0 ? at : hub_ + at;
  }
  virtual void between(int instance, int from, int to, RouteMemory& memory,
                       std::vector<int>& way) const = 0;

 private:
  int hub_ = -1, access_ = -1;
};

/// Rings are tori of one dimension. A member has two links in each dimension, one where the
/// dimension has two members, and shares its bandwidth evenly among them.
class Torus final : public LinkedTier {
 public:
  Torus(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : LinkedTier(tier, place, table),
        extents_(tier.shape == FabricShape::kRing ? std::vector<int>{place.members}
                                                  : tier.dimensions) {
    int64_t product = 1, links = 0;
    for (const int extent : extents_) {
      if (extent < 1)
        throw_infeasible(fmt::format("tier '{}': a dimension has no member", tier.name));
      product *= extent;
      links += std::min(extent - 1, 2);
    }
    if (product != place.members)
      throw_infeasible(fmt::format("tier '{}': dimensions make {} members, not {}", tier.name,
                                   product, place.members));
    first_ = static_cast<int>(table.links.size());
    const double bandwidth =
        links == 0 ? tier.bandwidth.value : tier.bandwidth.value / static_cast<double>(links);
    std::vector<int> kinds;
    for (size_t i = 0; i < 2 * extents_.size(); ++i) kinds.push_back(table.new_kind());
    for (int i = 0; i < place.instances; ++i)
      for (int m = 0; m < place.members; ++m) {
        int stride = 1;
        for (size_t d = 0; d < extents_.size(); stride *= extents_[d++])
          for (int way = 0; way < ways(extents_[d]); ++way)
            table.add_link(member(i, m), member(i, neighbour(m, stride, extents_[d], way)),
                           bandwidth, tier.latency.value, kinds[2 * d + static_cast<size_t>(way)]);
      }
    links_of_member_ = static_cast<int>(links);
  }
  bool uniform() const override { return true; }

 protected:
  void between(int instance, int from, int to, RouteMemory& /*memory*/,
               std::vector<int>& way) const override {
    int stride = 1, first_link = 0, at = from;
    for (const int extent : extents_) {
      const int forward = (to / stride % extent - at / stride % extent + extent) % extent;
      const bool up = 2 * forward <= extent;
      for (int hops = up ? forward : extent - forward; hops > 0; --hops) {
        way.push_back(first_ + (instance * place_.members + at) * links_of_member_ + first_link +
                      (up ? 0 : 1));
        at = neighbour(at, stride, extent, up ? 0 : 1);
      }
      first_link += ways(extent);
      stride *= extent;
    }
  }

 private:
  static int ways(int extent) { return std::min(extent - 1, 2); }
  static int neighbour(int m, int stride, int extent, int way) {
    const int place = m / stride % extent;
    const int next = (place + (way == 0 ? 1 : extent - 1)) % extent;
    return m + (next - place) * stride;
  }

  std::vector<int> extents_;
  int first_ = 0, links_of_member_ = 0;
};

class FullyConnected final : public LinkedTier {
 public:
  FullyConnected(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : LinkedTier(tier, place, table), first_(static_cast<int>(table.links.size())) {
    const int kind = table.new_kind();
    const double bandwidth = tier.bandwidth.value / std::max(1, place.members - 1);
    for (int i = 0; i < place.instances; ++i)
      for (int a = 0; a < place.members; ++a)
        for (int b = 0; b < place.members; ++b)
          if (a != b)
            table.add_link(member(i, a), member(i, b), bandwidth, tier.latency.value, kind);
  }
  bool uniform() const override { return true; }

 protected:
  void between(int instance, int from, int to, RouteMemory& /*memory*/,
               std::vector<int>& way) const override {
    way.push_back(first_ + (instance * place_.members + from) * (place_.members - 1) +
                  (to < from ? to : to - 1));
  }

 private:
  int first_;
};

/// As drawn; dead links are walked around.
class DrawnGraph final : public LinkedTier {
 public:
  DrawnGraph(const FabricTier& tier, const TierPlace& place, FabricTable& table)
      : LinkedTier(tier, place, table) {
    int vertices = place.members;
    for (const FabricLink& link : tier.drawn) {
      if (link.from < 0 || link.to < 0 || link.from == link.to)
        throw_infeasible(
            fmt::format("tier '{}': a link from {} to {}", tier.name, link.from, link.to));
      vertices = std::max({vertices, link.from + 1, link.to + 1});
    }
    if (vertices > place.members + 2 * static_cast<int>(tier.drawn.size()))
      throw_infeasible(fmt::format("tier '{}': switch {} is joined to nothing before it", tier.name,
                                   vertices - 1));
    const int switches = vertices - place.members;
    const int first_switch = table.add_vertices(tier.name + ".switch", place.instances * switches);
    leaving_.resize(static_cast<size_t>(vertices));
    first_ = static_cast<int>(table.links.size());
    const int kind = table.new_kind();
    for (int i = 0; i < place.instances; ++i)
      for (const FabricLink& link : tier.drawn) {
        const auto vertex_of = [&](int v) {
          return v < place.members ? member(i, v) : first_switch + i * switches + v - place.members;
        };
        for (const bool back : {false, true}) {
          const int from = back ? link.to : link.from, to = back ? link.from : link.to;
          const int laid = table.add_link(vertex_of(from), vertex_of(to), link.bandwidth.value,
                                          link.latency.value, kind);
          if (i == 0) leaving_[static_cast<size_t>(from)].push_back({to, laid - first_});
        }
      }
  }
  bool uniform() const override { return false; }

 protected:
  void between(int instance, int from, int to, RouteMemory& memory,
               std::vector<int>& way) const override {
    if (memory.graph != this || memory.instance != instance || memory.source != from)
      memory = {this, instance, from, 0, {from}, std::vector<int>(leaving_.size(), -1)};
    const int links = 2 * static_cast<int>(tier_.drawn.size());
    const int base = first_ + instance * links;
    while (memory.came_over[static_cast<size_t>(to)] < 0 && memory.expanded < memory.order.size()) {
      const int at = memory.order[memory.expanded++];
      for (const auto& [next, link] : leaving_[static_cast<size_t>(at)]) {
        int& came = memory.came_over[static_cast<size_t>(next)];
        const int laid = base + link;
        if (next == from || came >= 0 ||
            !(table_.links[static_cast<size_t>(laid)].bandwidth.value > 0))
          continue;
        came = link;
        memory.order.push_back(next);
      }
    }
    if (memory.came_over[static_cast<size_t>(to)] < 0) return;
    const size_t first = way.size();
    for (int at = to; at != from;) {
      const int link = memory.came_over[static_cast<size_t>(at)];
      way.push_back(base + link);
      const FabricLink& drawn = tier_.drawn[static_cast<size_t>(link / 2)];
      at = link % 2 == 0 ? drawn.from : drawn.to;
    }
    std::reverse(way.begin() + static_cast<std::ptrdiff_t>(first), way.end());
  }

 private:
  struct Leaving {
    int to = 0, link = 0;
  };
  std::vector<std::vector<Leaving>> leaving_;
  int first_ = 0;
};

}  // namespace

std::unique_ptr<TierFabric> make_linked_tier(const FabricTier& tier, const TierPlace& place,
                                             FabricTable& table) {
  switch (tier.shape) {
    case FabricShape::kFullyConnected:
      return std::make_unique<FullyConnected>(tier, place, table);
    case FabricShape::kGraph:
      return std::make_unique<DrawnGraph>(tier, place, table);
    default:
      return std::make_unique<Torus>(tier, place, table);
  }
}

}  // namespace orrery::fabric
