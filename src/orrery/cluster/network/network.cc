#include "orrery/cluster/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"

namespace orrery::fabric {
namespace {

/// Pairs that are held one by one: about a gigabyte.
constexpr double kMostHeldPairs = 1 << 22;
/// Pairs that are walked one by one: about a minute.
constexpr double kMostWalkedPairs = 1 << 28;
/// Routes that stand for all of a phase's.
constexpr size_t kSampledRoutes = 16;

double pairs(const Phase& phase) {
  double count = 0;
  for (const std::vector<int>& crowd : phase.crowds)
    count += static_cast<double>(crowd.size()) * static_cast<double>(crowd.size() - 1);
  return count;
}

}  // namespace

Phase without_crowds(const Phase& phase) {
  if (pairs(phase) > kMostHeldPairs)
    throw_infeasible(fmt::format(
        "{:.0f} million transfers between ranks that are not alike are too many to simulate; use "
        "the analytic network or fewer ranks",
        pairs(phase) / 1e6));
  Phase plain = phase;
  plain.crowds.clear();
  for (const std::vector<int>& crowd : phase.crowds)
    for (size_t i = 0; i < crowd.size(); ++i)
      for (size_t d = 1; d < crowd.size(); ++d)
        plain.add({crowd[i], crowd[(i + d) % crowd.size()], phase.crowd_bytes});
  return plain;
}

bool crowds_are_alike(const Topology& topology, const Phase& phase) {
  if (!topology.uniform() || phase.crowds.empty() || !phase.transfers.empty()) return false;
  const std::vector<int>& crowd = phase.crowds.front();
  const auto size = static_cast<int64_t>(crowd.size());
  if (size * static_cast<int64_t>(phase.crowds.size()) != topology.ranks()) return false;
  if (phase.crowds.size() == 1) return true;
  if (size == 1) return true;
  const int64_t stride = crowd[1] - crowd[0];
  std::vector<int64_t> units(topology.units().begin(), topology.units().end());
  units.push_back(topology.ranks());
  const auto is_unit = [&](int64_t n) {
    return std::find(units.begin(), units.end(), n) != units.end();
  };
  if (!is_unit(stride) || !is_unit(stride * size)) return false;
  return std::all_of(phase.crowds.begin(), phase.crowds.end(), [&](const std::vector<int>& c) {
    if (static_cast<int64_t>(c.size()) != size) return false;
    for (size_t i = 0; i < c.size(); ++i)
      if (c[i] != c[0] + static_cast<int64_t>(i) * stride) return false;
    return c[0] % (stride * size) < stride;
  });
}

double walked_hops(const Topology& topology, const Phase& phase) {
  RouteMemory memory;
  std::vector<int> way;
  const auto sampled = [&](size_t routes, const auto& ends) {
    const size_t apart = routes / kSampledRoutes + 1;
    double hops = 0, walked = 0;
    for (size_t i = 0; i < routes; i += apart, ++walked) {
      way.clear();
      const auto [source, destination] = ends(i);
      topology.route(source, destination, memory, way);
      hops += static_cast<double>(way.size());
    }
    return walked > 0 ? hops / walked : 0;
  };
  double hops =
      static_cast<double>(phase.transfers.size()) * sampled(phase.transfers.size(), [&](size_t i) {
        return std::pair(phase.transfers[i].source, phase.transfers[i].destination);
      });
  if (phase.crowds.empty()) return hops;
  const bool alike = crowds_are_alike(topology, phase);
  if (!alike && pairs(phase) > kMostHeldPairs) return HUGE_VAL;
  const std::vector<int>& crowd = phase.crowds.front();
  hops += (alike ? static_cast<double>(crowd.size()) : pairs(phase)) *
          sampled(crowd.size(), [&](size_t i) { return std::pair(crowd[0], crowd[i]); });
  return hops;
}

std::vector<double> link_loads(const Topology& topology, const Phase& phase) {
  std::vector<double> loads(topology.links().size(), 0);
  RouteMemory memory;
  std::vector<int> way;
  const auto add = [&](int source, int destination, double bytes) {
    way.clear();
    topology.route(source, destination, memory, way);
    for (const int l : way) loads[static_cast<size_t>(l)] += bytes;
  };
  for (const Transfer& t : phase.transfers)
    add(t.source, t.destination, t.bytes.value * static_cast<double>(t.repeat));
  if (crowds_are_alike(topology, phase)) {
    const std::vector<int>& crowd = phase.crowds.front();
    for (size_t i = 1; i < crowd.size(); ++i) add(crowd[0], crowd[i], phase.crowd_bytes.value);
    std::vector<double> total, members;
    for (size_t l = 0; l < loads.size(); ++l) {
      const auto kind = static_cast<size_t>(topology.links()[l].kind);
      total.resize(std::max(total.size(), kind + 1));
      members.resize(total.size());
      total[kind] += loads[l];
      members[kind] += 1;
    }
    for (size_t l = 0; l < loads.size(); ++l) {
      const auto kind = static_cast<size_t>(topology.links()[l].kind);
      loads[l] = total[kind] * topology.ranks() / members[kind];
    }
    return loads;
  }
  if (pairs(phase) > kMostWalkedPairs)
    throw_infeasible(
        fmt::format("{:.0f} million transfers between ranks that are not alike are "
                    "too many; use fewer ranks",
                    pairs(phase) / 1e6));
  for (const std::vector<int>& crowd : phase.crowds)
    for (const int a : crowd)
      for (const int b : crowd)
        if (a != b) add(a, b, phase.crowd_bytes.value);
  return loads;
}

}  // namespace orrery::fabric
