#include <algorithm>
#include <cmath>

#include "orrery/cluster/network/network.h"

namespace orrery::fabric {
namespace {

/// Routes of a phase's transfers as seen by the longest chain of waits.
class PhaseTime {
 public:
  PhaseTime(const Topology& topology, const Phase& phase) : topology_(topology), phase_(phase) {}

  /// The busiest link's time for all turns; and how long a turn takes to come through.
  double run(const std::vector<double>& loads) const {
    double busiest = 0;
    for (size_t l = 0; l < loads.size(); ++l)
      if (loads[l] > 0)
        busiest = std::max(busiest, loads[l] / topology_.links()[l].bandwidth.value);
    return busiest + transit();
  }

 private:
  double transit() const {
    RouteMemory memory;
    std::vector<int> way;
    double longest = 0;
    const auto latency = [&](int source, int destination) {
      way.clear();
      topology_.route(source, destination, memory, way);
      double sum = 0;
      for (const int l : way) sum += topology_.links()[static_cast<size_t>(l)].latency.value;
      return sum;
    };
    const auto narrowest = [&] {
      double bandwidth = HUGE_VAL;
      for (const int l : way)
        bandwidth = std::min(bandwidth, topology_.links()[static_cast<size_t>(l)].bandwidth.value);
      return bandwidth;
    };
    // A chain within one turn: transfers are numbered after what they need in the same turn.
    std::vector<double> chain(phase_.transfers.size(), 0);
    for (size_t i = 0; i < phase_.transfers.size(); ++i) {
      const Transfer& t = phase_.transfers[i];
      const double own = latency(t.source, t.destination);
      const double turn = t.bytes.value / narrowest();
      double before = 0;
      bool previous = false;
      for (int n = phase_.first_need[i]; n < phase_.first_need[i + 1]; ++n) {
        const Need& need = phase_.needs[static_cast<size_t>(n)];
        if (need.previous) {
          previous = true;
        } else {
          before = std::max(before, chain[static_cast<size_t>(need.transfer)] + turn);
        }
      }
      chain[i] = before + own;
      longest =
          std::max(longest, chain[i] + (previous ? own * static_cast<double>(t.repeat - 1) : 0));
    }
    if (!phase_.crowds.empty() && phase_.crowds.front().size() > 1) {
      const std::vector<int>& crowd = phase_.crowds.front();
      for (size_t i = 1; i < crowd.size(); ++i)
        longest = std::max(longest, latency(crowd[0], crowd[i]));
    }
    return longest;
  }

  const Topology& topology_;
  const Phase& phase_;
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
        time += PhaseTime(topology, phase).run(loads);
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
                "+ the longest chain of latencies",
     .source = "Hockney, The communication challenge for MPP, 1994, with loads of routed links",
     .parameters = {}},
    [] { return std::make_unique<AnalyticNetwork>(); });

}  // namespace
}  // namespace orrery::fabric
