#include <algorithm>
#include <cmath>

#include "orrery/cluster/network/network.h"

namespace orrery::fabric {
namespace {

/// The time of one phase by itself.
class PhaseTime {
 public:
  PhaseTime(const Topology& topology, const Phase& phase, const std::vector<double>& loads)
      : topology_(topology), phase_(phase), loads_(loads) {
    for (const Transfer& t : phase.transfers) walk(t);
  }

  /// The busiest link's time for all turns and how long a turn takes to come through; or the
  /// turns of a ring of waits, if that is more.
  double seconds() const {
    double busiest = 0;
    for (size_t l = 0; l < loads_.size(); ++l)
      if (loads_[l] > 0)
        busiest = std::max(busiest, loads_[l] / topology_.links()[l].bandwidth.value);
    return std::max(busiest + transit(), rings());
  }

 private:
  void walk(const Transfer& t) {
    way_.clear();
    topology_.route(t.source, t.destination, memory_, way_);
    double latency = 0, busy = 0, narrowest = HUGE_VAL;
    for (const int l : way_) {
      const NetworkLink& link = topology_.links()[static_cast<size_t>(l)];
      latency += link.latency.value;
      busy = std::max(busy, loads_[static_cast<size_t>(l)] / link.bandwidth.value);
      narrowest = std::min(narrowest, link.bandwidth.value);
    }
    latency_.push_back(latency);
    turn_.push_back(busy / static_cast<double>(t.repeat));
    alone_.push_back(t.bytes.value / narrowest);
  }

  /// The longest chain of one turn; transfers are numbered after what they need in it.
  double transit() const {
    double longest = 0;
    std::vector<double> chain(phase_.transfers.size(), 0);
    for (size_t i = 0; i < chain.size(); ++i) {
      for (int n = phase_.first_need[i]; n < phase_.first_need[i + 1]; ++n) {
        const Need& need = phase_.needs[static_cast<size_t>(n)];
        if (!need.previous)
          chain[i] = std::max(chain[i], chain[static_cast<size_t>(need.transfer)] + alone_[i]);
      }
      chain[i] += latency_[i];
      longest = std::max(longest, chain[i]);
    }
    if (phase_.crowds.empty()) return longest;
    RouteMemory memory;
    std::vector<int> way;
    const std::vector<int>& crowd = phase_.crowds.front();
    for (size_t i = 1; i < crowd.size(); ++i) {
      way.clear();
      topology_.route(crowd[0], crowd[i], memory, way);
      double latency = 0;
      for (const int l : way) latency += topology_.links()[static_cast<size_t>(l)].latency.value;
      longest = std::max(longest, latency);
    }
    return longest;
  }

  /// Transfers that each wait for the turn before of another, in rings: a turn takes the mean of
  /// (busiest link + latency) around the ring, or the slowest transfer's own time (the largest
  /// cycle mean of the recurrence in flow_system.h).
  double rings() const {
    double longest = 0;
    std::vector<char> seen(phase_.transfers.size(), 0);
    for (size_t start = 0; start < seen.size(); ++start) {
      double sum = 0, slowest = 0;
      int64_t members = 0;
      size_t at = start;
      while (seen[at] == 0 && phase_.first_need[at + 1] - phase_.first_need[at] == 1) {
        const Need& need = phase_.needs[static_cast<size_t>(phase_.first_need[at])];
        if (!need.previous) break;
        seen[at] = 1;
        sum += turn_[at] + latency_[at];
        slowest = std::max(slowest, turn_[at]);
        ++members;
        at = static_cast<size_t>(need.transfer);
      }
      if (members == 0 || at != start) continue;
      longest = std::max(longest, static_cast<double>(phase_.transfers[start].repeat) *
                                      std::max(slowest, sum / static_cast<double>(members)));
    }
    return longest;
  }

  const Topology& topology_;
  const Phase& phase_;
  const std::vector<double>& loads_;
  RouteMemory memory_;
  std::vector<int> way_;
  std::vector<double> latency_, turn_, alone_;
};

class AnalyticNetwork final : public Network {
 public:
  NetworkAnswer run(const Topology& topology, const std::vector<Job>& jobs,
                    const NetworkOptions& /*options*/) const override {
    NetworkAnswer answer;
    answer.rank_finish.resize(static_cast<size_t>(topology.ranks()));
    answer.link_bytes.resize(topology.links().size());
    for (const Job& job : jobs) {
      double time = 0;
      for (const Seconds ready : job.ready) time = std::max(time, ready.value);
      for (const Phase& phase : job.schedule.phases) {
        const std::vector<double> loads = link_loads(topology, phase);
        time += PhaseTime(topology, phase, loads).seconds();
        for (size_t l = 0; l < loads.size(); ++l) answer.link_bytes[l] += Bytes(loads[l]);
        const auto touch = [&](int rank) {
          Seconds& finish = answer.rank_finish[static_cast<size_t>(rank)];
          finish = std::max(finish, Seconds(time));
        };
        for (const Transfer& t : phase.transfers) {
          touch(t.source);
          touch(t.destination);
        }
        for (const std::vector<int>& crowd : phase.crowds)
          for (const int rank : crowd) touch(rank);
      }
      answer.job_finish.emplace_back(time);
      answer.time = std::max(answer.time, Seconds(time));
    }
    // Jobs share links: none is done before the busiest link has carried all of them.
    if (jobs.size() > 1)
      for (size_t l = 0; l < answer.link_bytes.size(); ++l)
        if (answer.link_bytes[l].value > 0)
          answer.time = std::max(answer.time, answer.link_bytes[l] / topology.links()[l].bandwidth);
    return answer;
  }
};

const Registration<Network> kAnalytic(
    {.name = "analytic",
     .summary = "closed form with contention: Σ over phases of max over links (bytes / bandwidth) "
                "+ the longest chain of latencies, of rings turns · mean (link + latency)",
     .source = "Hockney, The communication challenge for MPP, 1994, with loads of routed links",
     .parameters = {}},
    [] { return std::make_unique<AnalyticNetwork>(); });

}  // namespace
}  // namespace orrery::fabric
