#include "orrery/cluster/network/joint_system.h"

#include <algorithm>
#include <utility>

namespace orrery::fabric {
namespace {

/// Numbers only the links that flows use.
class UsedLinks {
 public:
  UsedLinks(const Topology& topology, FlowSystem& system)
      : topology_(topology), system_(system), number_(topology.links().size(), -1) {}
  int operator()(int link) {
    int& number = number_[static_cast<size_t>(link)];
    if (number < 0) {
      number = static_cast<int>(system_.capacity.size());
      system_.capacity.push_back(topology_.links()[static_cast<size_t>(link)].bandwidth.value);
      used_.push_back(link);
    }
    return number;
  }
  const std::vector<int>& used() const { return used_; }

 private:
  const Topology& topology_;
  FlowSystem& system_;
  std::vector<int> number_, used_;
};

/// Appends the transfers of a phase; `ready` is by rank. Returns the number of the first.
int add_phase(FlowSystem& s, const Phase& phase, const Routes& routed, UsedLinks& used,
              const std::vector<double>& ready) {
  const int first = s.size();
  for (size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& t = phase.transfers[i];
    s.bytes.push_back(t.bytes.value);
    s.latency.push_back(routed.latency[i]);
    s.start.push_back(
        std::max(ready[static_cast<size_t>(t.source)], ready[static_cast<size_t>(t.destination)]));
    s.repeat.push_back(t.repeat);
    for (int e = routed.first[i]; e < routed.first[i + 1]; ++e) {
      s.link.push_back(used(routed.link[static_cast<size_t>(e)]));
      s.crossing.push_back(1);
    }
    s.first_link.push_back(static_cast<int>(s.link.size()));
    for (int n = phase.first_need[i]; n < phase.first_need[i + 1]; ++n) {
      const Need& need = phase.needs[static_cast<size_t>(n)];
      s.wait_on.push_back(first + need.transfer);
      s.wait.push_back(need.previous ? Wait::kPreviousTurn : Wait::kSameTurn);
    }
    s.first_wait.push_back(static_cast<int>(s.wait_on.size()));
  }
  return first;
}

/// Rewrites the waits of the flows just added so that they also wait for their ranks.
void wait_for_entries(FlowSystem& s, const Phase& phase, const std::vector<int>& entry,
                      size_t flows_before, size_t waits_before) {
  const std::vector<int> on(s.wait_on.begin() + static_cast<std::ptrdiff_t>(waits_before),
                            s.wait_on.end());
  const std::vector<Wait> kind(s.wait.begin() + static_cast<std::ptrdiff_t>(waits_before),
                               s.wait.end());
  std::vector<int> bounds(s.first_wait.begin() + static_cast<std::ptrdiff_t>(flows_before),
                          s.first_wait.end());
  s.wait_on.resize(waits_before);
  s.wait.resize(waits_before);
  for (size_t i = 0; i < phase.transfers.size(); ++i) {
    for (int w = bounds[i]; w < bounds[i + 1]; ++w) {
      s.wait_on.push_back(on[static_cast<size_t>(w) - waits_before]);
      s.wait.push_back(kind[static_cast<size_t>(w) - waits_before]);
    }
    for (const int rank : {phase.transfers[i].source, phase.transfers[i].destination})
      if (entry[static_cast<size_t>(rank)] >= 0) {
        s.wait_on.push_back(entry[static_cast<size_t>(rank)]);
        s.wait.push_back(Wait::kAllArrived);
      }
    s.first_wait[flows_before + i + 1] = static_cast<int>(s.wait_on.size());
  }
}

/// Adds each rank's entry into the phase after `phase`, and notes it in `entry`.
void add_entries(FlowSystem& s, const Phase& phase, int first, std::vector<int>& entry,
                 const std::vector<double>& ready) {
  std::vector<std::vector<std::pair<int, Wait>>> waits(entry.size());
  for (size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& t = phase.transfers[i];
    const int flow = first + static_cast<int>(i);
    waits[static_cast<size_t>(t.source)].emplace_back(flow, Wait::kAllSent);
    waits[static_cast<size_t>(t.destination)].emplace_back(flow, Wait::kAllArrived);
  }
  for (size_t r = 0; r < entry.size(); ++r) {
    if (waits[r].empty()) continue;
    if (entry[r] >= 0) waits[r].emplace_back(entry[r], Wait::kAllArrived);
    entry[r] = s.size();
    s.bytes.push_back(0);
    s.latency.push_back(0);
    s.start.push_back(ready[r]);
    s.repeat.push_back(1);
    s.first_link.push_back(static_cast<int>(s.link.size()));
    for (const auto& [on, wait] : waits[r]) {
      s.wait_on.push_back(on);
      s.wait.push_back(wait);
    }
    s.first_wait.push_back(static_cast<int>(s.wait_on.size()));
  }
}

}  // namespace

Routes route_all(const Topology& topology, const Phase& phase) {
  Routes routed;
  RouteMemory memory;
  for (const Transfer& t : phase.transfers) {
    const size_t before = routed.link.size();
    topology.route(t.source, t.destination, memory, routed.link);
    double latency = 0;
    for (size_t i = before; i < routed.link.size(); ++i)
      latency += topology.links()[static_cast<size_t>(routed.link[i])].latency.value;
    routed.latency.push_back(latency);
    routed.first.push_back(static_cast<int>(routed.link.size()));
  }
  return routed;
}

FlowSystem phase_system(const Topology& topology, const Phase& phase,
                        const std::vector<double>& ready) {
  FlowSystem system;
  UsedLinks used(topology, system);
  add_phase(system, phase, route_all(topology, phase), used, ready);
  return system;
}

JointSystem join_phases(const Topology& topology, const std::vector<Job>& jobs,
                        const std::vector<RemainingJob>& rest) {
  JointSystem joint;
  FlowSystem& s = joint.system;
  UsedLinks used(topology, s);
  for (const RemainingJob& remaining : rest) {
    const std::vector<Phase>& phases = jobs[remaining.job].schedule.phases;
    std::vector<int> entry(remaining.ready.size(), -1);
    for (size_t p = remaining.phase; p < phases.size(); ++p) {
      Phase plain = without_crowds(phases[p]);
      const size_t waits_before = s.wait_on.size(), flows_before = s.bytes.size();
      const int first = add_phase(s, plain, route_all(topology, plain), used, remaining.ready);
      if (p > remaining.phase) wait_for_entries(s, plain, entry, flows_before, waits_before);
      if (p + 1 < phases.size()) add_entries(s, plain, first, entry, remaining.ready);
      joint.parts.push_back({remaining.job, first, std::move(plain)});
    }
  }
  joint.links = used.used();
  return joint;
}

}  // namespace orrery::fabric
