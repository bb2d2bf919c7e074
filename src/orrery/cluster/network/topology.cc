#include "orrery/cluster/network/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orrery/base/error.h"
#include "orrery/cluster/network/tier_fabric.h"

namespace orrery::fabric {
namespace {

/// Far more than any machine that was built; about 700 MB.
constexpr size_t kMostLinks = size_t{1} << 24;

bool switched(FabricShape shape) {
  return shape == FabricShape::kSwitch || shape == FabricShape::kFatTree ||
         shape == FabricShape::kDragonfly;
}

void check(const FabricTier& tier) {
  if (tier.size < 1) throw_infeasible(fmt::format("tier '{}' joins no member", tier.name));
  if (!(tier.bandwidth.value > 0) && tier.shape != FabricShape::kGraph)
    throw_infeasible(fmt::format("tier '{}' has no bandwidth", tier.name));
  if (tier.links < 1) throw_infeasible(fmt::format("tier '{}' has no links", tier.name));
  if (!(tier.oversubscription > 0))
    throw_infeasible(fmt::format("tier '{}': oversubscription must be above 0", tier.name));
}

int number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

}  // namespace

int FabricTable::add_vertices(const std::string& label, int count) {
  blocks_.push_back({label, vertices_, count});
  vertices_ += count;
  return blocks_.back().first;
}

int FabricTable::add_link(int from, int to, double bandwidth, double latency, int kind) {
  if (links.size() == kMostLinks)
    throw_infeasible(
        fmt::format("the fabric has more than {} links; use a shape with switches", kMostLinks));
  links.push_back({from, to, BytesPerSecond(bandwidth), Seconds(latency), kind});
  return static_cast<int>(links.size()) - 1;
}

std::string FabricTable::vertex_name(int vertex) const {
  if (vertex < devices_) return std::to_string(vertex);
  for (const Block& block : blocks_)
    if (vertex < block.first + block.count)
      return fmt::format("{}.{}", block.label, vertex - block.first);
  return "?";
}

int FabricTable::vertex(std::string_view name) const {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) {
    const int device = number(name);
    return device < devices_ ? device : -1;
  }
  const int place = number(name.substr(dot + 1));
  for (const Block& block : blocks_)
    if (block.label == name.substr(0, dot) && place >= 0 && place < block.count)
      return block.first + place;
  return -1;
}

TierFabric::TierFabric(const FabricTier& tier, const TierPlace& place, FabricTable& table)
    : tier_(tier), place_(place), table_(table) {
  if (place.ports < place.below) first_port_ = table.add_vertices(tier.name + ".port", endpoints());
}

Endpoint TierFabric::endpoint(int device) const {
  const int member = device / place_.below;
  return {member / place_.members, member % place_.members,
          static_cast<int>(int64_t{device % place_.below} * place_.ports / place_.below)};
}

int TierFabric::vertex(const Endpoint& e) const {
  return first_port_ < 0 ? index(e) : first_port_ + index(e);
}

Topology::Topology(const Cluster& cluster, int ranks, Spreading spreading) : ranks_(ranks) {
  if (ranks < 1) throw_usage("a collective needs one rank at least");
  if (ranks > cluster.largest())
    throw_infeasible(fmt::format("{} has {} devices at most; {} ranks were asked for", cluster.name,
                                 cluster.largest(), ranks));
  std::vector<TierPlace> places;
  int below = 1;
  for (const FabricTier& tier : cluster.tiers) {
    check(tier);
    TierPlace place;
    place.below = below;
    const bool outermost = &tier == &cluster.tiers.back();
    place.members = outermost && switched(tier.shape) ? (ranks + below - 1) / below : tier.size;
    place.ports = std::min(tier.links, below);
    if (place.members > INT32_MAX / below)
      throw_infeasible(fmt::format("{} is larger than can be simulated", cluster.name));
    units_.push_back(below);
    below *= place.members;
    places.push_back(place);
    if (tier.shape == FabricShape::kTorus) {
      extents_.insert(extents_.end(), tier.dimensions.begin(), tier.dimensions.end());
    } else {
      extents_.push_back(place.members);
    }
  }
  devices_ = below;
  table_ = std::make_unique<FabricTable>(devices_);
  uniform_ = ranks_ == devices_;
  for (size_t t = 0; t < places.size(); ++t) {
    places[t].instances = devices_ / (places[t].below * places[t].members);
    const FabricTier& tier = cluster.tiers[t];
    tiers_.push_back(switched(tier.shape) ? make_switched_tier(tier, places[t], spreading, *table_)
                                          : make_linked_tier(tier, places[t], *table_));
    uniform_ = uniform_ && tiers_.back()->uniform() && places[t].below % places[t].ports == 0;
  }
}

Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::~Topology() = default;

const std::vector<NetworkLink>& Topology::links() const { return table_->links; }

std::string Topology::vertex_name(int vertex) const { return table_->vertex_name(vertex); }

std::string Topology::link_name(int link) const {
  const NetworkLink& l = table_->links[static_cast<size_t>(link)];
  return vertex_name(l.from) + "-" + vertex_name(l.to);
}

int Topology::vertex(std::string_view name) const {
  const int found = table_->vertex(name);
  if (found < 0)
    throw_usage(
        fmt::format("the fabric has no '{}'; ranks go from 0 to {}, switches are named "
                    "as in 'nvlink.0'",
                    name, devices_ - 1));
  return found;
}

void Topology::scale_link(std::string_view a, std::string_view b, double factor) {
  const int from = vertex(a), to = vertex(b);
  bool found = false;
  for (NetworkLink& link : table_->links) {
    if ((link.from != from || link.to != to) && (link.from != to || link.to != from)) continue;
    link.bandwidth = link.bandwidth * factor;
    found = true;
  }
  if (!found) {
    std::string neighbours;
    int listed = 0;
    for (const NetworkLink& link : table_->links) {
      if (link.from != from || ++listed > 8) continue;
      neighbours += (listed > 1 ? ", " : "") + vertex_name(link.to);
    }
    throw_usage(fmt::format("there is no link {}-{}; {} is joined to {}{}", a, b, a,
                            neighbours.empty() ? "nothing" : neighbours, listed > 8 ? " …" : ""));
  }
  uniform_ = uniform_ && factor == 1;
}

void Topology::scale_rank(int rank, double factor) {
  if (rank < 0 || rank >= ranks_)
    throw_usage(fmt::format("there is no rank {}; ranks go from 0 to {}", rank, ranks_ - 1));
  for (NetworkLink& link : table_->links)
    if (link.from == rank) link.bandwidth = link.bandwidth * factor;
  uniform_ = uniform_ && factor == 1;
}

void Topology::scale_all(double factor) {
  for (NetworkLink& link : table_->links) link.bandwidth = link.bandwidth * factor;
}

void Topology::route(int source, int destination, RouteMemory& memory,
                     std::vector<int>& way) const {
  for (const auto& tier : tiers_) {
    const int unit = tier->place().below * tier->place().members;
    if (source / unit != destination / unit) continue;
    const size_t first = way.size();
    tier->route(tier->endpoint(source), tier->endpoint(destination), memory, way);
    for (size_t i = first; i < way.size(); ++i)
      if (!(table_->links[static_cast<size_t>(way[i])].bandwidth.value > 0))
        throw_infeasible(fmt::format("rank {} cannot send to rank {}: link {} is dead", source,
                                     destination, link_name(way[i])));
    if (way.size() == first && source != destination)
      throw_infeasible(
          fmt::format("rank {} cannot send to rank {}: no way leads there", source, destination));
    return;
  }
}

}  // namespace orrery::fabric
