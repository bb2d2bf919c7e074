#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "orrery/cluster/network/joint_system.h"
#include "orrery/cluster/network/network.h"

namespace orrery::fabric {
namespace {

/// Ranks that are ready this close, relatively, are ready at once.
constexpr double kAtOnce = 1e-12;

/// A turn walked event by event, as against one of the recurrence: about a microsecond.
constexpr double kCostOfEvents = 20;

double turns(const FlowSystem& system) {
  return std::accumulate(system.repeat.begin(), system.repeat.end(), 0.0,
                         [](double sum, int64_t n) { return sum + static_cast<double>(n); });
}

bool all_at_once(const std::vector<double>& ready) {
  const auto [first, last] = std::minmax_element(ready.begin(), ready.end());
  return *last - *first <= kAtOnce * *last;
}

class FlowRun {
 public:
  FlowRun(const Topology& topology, const std::vector<Job>& jobs, const NetworkOptions& options)
      : topology_(topology), jobs_(jobs), options_(options) {
    answer_.rank_finish.resize(static_cast<size_t>(topology.ranks()));
    answer_.job_finish.resize(jobs.size());
    answer_.link_bytes.resize(topology.links().size());
  }

  NetworkAnswer run() {
    for (const Job& job : jobs_)
      for (const Phase& phase : job.schedule.phases) {
        const std::vector<double> loads = link_loads(topology_, phase);
        for (size_t l = 0; l < loads.size(); ++l) answer_.link_bytes[l] += Bytes(loads[l]);
      }
    if (options_.exact || jobs_.size() > 1) {
      std::vector<RemainingJob> all;
      for (size_t j = 0; j < jobs_.size(); ++j) all.push_back({j, 0, ready_for(jobs_[j])});
      together(all);
    } else if (!jobs_.empty()) {
      one_by_one(ready_for(jobs_[0]));
    }
    for (const Seconds finish : answer_.job_finish) answer_.time = std::max(answer_.time, finish);
    return std::move(answer_);
  }

 private:
  std::vector<double> ready_for(const Job& job) const {
    std::vector<double> ready(static_cast<size_t>(topology_.ranks()), 0);
    for (size_t r = 0; r < std::min(ready.size(), job.ready.size()); ++r)
      ready[r] = job.ready[r].value;
    return ready;
  }

  void finish(size_t job, int rank, double time) {
    Seconds& of_rank = answer_.rank_finish[static_cast<size_t>(rank)];
    of_rank = std::max(of_rank, Seconds(time));
    answer_.job_finish[job] = std::max(answer_.job_finish[job], Seconds(time));
  }

  /// Phases one at a time, for as long as a phase's ranks all start at once or its links are
  /// not those of another phase; then all that is left together.
  void one_by_one(std::vector<double> ready) {
    const std::vector<Phase>& phases = jobs_[0].schedule.phases;
    bool apart_known = false;
    for (size_t p = 0; p < phases.size(); ++p) {
      const bool last = p + 1 == phases.size();
      std::vector<double> after;
      if (all_at_once(ready) && crowds_are_alike(topology_, phases[p])) {
        after = crowd_phase(phases[p], ready);
      } else {
        const Phase plain = without_crowds(phases[p]);
        after = plain_phase(plain, ready);
      }
      if (!last && !all_at_once(after) && !apart_known) {
        apart_known = phases_apart(p);
        if (!apart_known) {
          for (int r = 0; p > 0 && r < topology_.ranks(); ++r)
            if (touched(r)) finish(0, r, ready[static_cast<size_t>(r)]);
          std::vector<RemainingJob> rest;
          rest.push_back({0, p, std::move(ready)});
          return together(rest);
        }
      }
      ready.swap(after);
    }
    for (int r = 0; r < topology_.ranks(); ++r)
      if (touched(r)) finish(0, r, ready[static_cast<size_t>(r)]);
  }

  /// Whether the job's schedule has anything to do with a rank.
  bool touched(int rank) {
    if (touched_.empty()) {
      touched_.resize(static_cast<size_t>(topology_.ranks()), false);
      for (const Phase& phase : jobs_[0].schedule.phases) {
        for (const Transfer& t : phase.transfers)
          touched_[static_cast<size_t>(t.source)] = touched_[static_cast<size_t>(t.destination)] =
              true;
        for (const std::vector<int>& crowd : phase.crowds)
          for (const int r : crowd) touched_[static_cast<size_t>(r)] = true;
      }
    }
    return touched_[static_cast<size_t>(rank)];
  }

  std::vector<double> plain_phase(const Phase& phase, const std::vector<double>& ready) {
    const FoldedSystem folded = fold(phase_system(topology_, phase, ready));
    const SentTimes sent = solve(folded);
    std::vector<double> after = ready;
    for (size_t i = 0; i < phase.transfers.size(); ++i) {
      const Transfer& t = phase.transfers[i];
      const auto c = static_cast<size_t>(folded.class_of[i]);
      double& source = after[static_cast<size_t>(t.source)];
      double& destination = after[static_cast<size_t>(t.destination)];
      source = std::max(source, sent[c]);
      destination = std::max(destination, sent[c] + folded.system.latency[c]);
    }
    return after;
  }

  SentTimes solve(const FoldedSystem& folded) {
    if (folded.system.uncontended()) return run_cascade(folded.system, answer_.work);
    if (folded.system.bytes.size() == folded.class_of.size())
      check_work(turns(folded.system), kCostOfEvents);
    return run_events(folded.system, true, answer_.work);
  }

  /// One rank's flows stand for everyone's: each kind of link carries, on each of its links,
  /// ranks · hops / links of the kind. Flows over the same kinds have the same rate.
  std::vector<double> crowd_phase(const Phase& phase, const std::vector<double>& ready) {
    const std::vector<int>& crowd = phase.crowds.front();
    std::map<std::vector<int>, size_t> number;
    std::map<int, double> members, capacity;
    for (const NetworkLink& link : topology_.links()) {
      members[link.kind] += 1;
      capacity[link.kind] = link.bandwidth.value;
    }
    struct Bundle {
      double latency = 0;
      std::map<int, double> hops;
    };
    std::vector<Bundle> bundles;
    RouteMemory memory;
    std::vector<int> way, kinds;
    for (size_t i = 1; i < crowd.size(); ++i) {
      way.clear();
      topology_.route(crowd[0], crowd[i], memory, way);
      kinds.clear();
      double latency = 0;
      for (const int l : way) {
        kinds.push_back(topology_.links()[static_cast<size_t>(l)].kind);
        latency += topology_.links()[static_cast<size_t>(l)].latency.value;
      }
      std::vector<int> support = kinds;
      std::sort(support.begin(), support.end());
      support.erase(std::unique(support.begin(), support.end()), support.end());
      const auto [it, fresh] = number.try_emplace(std::move(support), bundles.size());
      if (fresh) bundles.emplace_back();
      Bundle& bundle = bundles[it->second];
      bundle.latency = std::max(bundle.latency, latency);
      for (const int kind : kinds) bundle.hops[kind] += 1;
    }
    FlowSystem s;
    std::map<int, int> link;
    const double start = *std::max_element(ready.begin(), ready.end());
    for (const Bundle& bundle : bundles) {
      s.bytes.push_back(phase.crowd_bytes.value);
      s.latency.push_back(bundle.latency);
      s.start.push_back(start);
      s.repeat.push_back(1);
      for (const auto& [kind, hops] : bundle.hops) {
        const auto [it, fresh] = link.try_emplace(kind, static_cast<int>(link.size()));
        if (fresh) s.capacity.push_back(capacity[kind]);
        s.link.push_back(it->second);
        s.crossing.push_back(hops * topology_.ranks() / members[kind]);
      }
      s.first_link.push_back(static_cast<int>(s.link.size()));
      s.first_wait.push_back(0);
    }
    const SentTimes sent = run_events(s, false, answer_.work);
    double end = start;
    for (size_t b = 0; b < sent.size(); ++b) end = std::max(end, sent[b] + s.latency[b]);
    return std::vector<double>(ready.size(), end);
  }

  /// No link can be asked by two phases from `from` on at the same time for more than it has:
  /// what crosses it has one rank for source, or one for destination, which takes its phases
  /// one after another; or it belongs to one phase; or it is wide enough for all.
  bool phases_apart(size_t from) const {
    constexpr int kNone = -1, kMany = -2;
    struct Use {
      int source = kNone, destination = kNone, phase = kNone;
      double asked = 0;
    };
    const auto meet = [](int& known, int now) {
      known = known == kNone || known == now ? now : kMany;
    };
    std::vector<Use> uses(topology_.links().size());
    for (size_t p = from; p < jobs_[0].schedule.phases.size(); ++p) {
      const Phase plain = without_crowds(jobs_[0].schedule.phases[p]);
      const Routes routed = route_all(topology_, plain);
      for (size_t i = 0; i < plain.transfers.size(); ++i) {
        double rate = HUGE_VAL;
        for (int e = routed.first[i]; e < routed.first[i + 1]; ++e)
          rate = std::min(
              rate, topology_.links()[static_cast<size_t>(routed.link[static_cast<size_t>(e)])]
                        .bandwidth.value);
        for (int e = routed.first[i]; e < routed.first[i + 1]; ++e) {
          Use& use = uses[static_cast<size_t>(routed.link[static_cast<size_t>(e)])];
          meet(use.source, plain.transfers[i].source);
          meet(use.destination, plain.transfers[i].destination);
          meet(use.phase, static_cast<int>(p));
          use.asked += rate;
        }
      }
    }
    for (size_t l = 0; l < uses.size(); ++l)
      if (uses[l].source == kMany && uses[l].destination == kMany && uses[l].phase == kMany &&
          uses[l].asked > topology_.links()[l].bandwidth.value * (1 + 1e-9))
        return false;
    return true;
  }

  void together(const std::vector<RemainingJob>& rest) {
    JointSystem joint = join_phases(topology_, jobs_, rest);
    FoldedSystem folded;
    if (options_.exact) {
      folded.class_of.resize(joint.system.bytes.size());
      std::iota(folded.class_of.begin(), folded.class_of.end(), 0);
      folded.system = std::move(joint.system);
    } else {
      folded = fold(std::move(joint.system));
    }
    if (folded.system.bytes.size() == folded.class_of.size())
      check_work(turns(folded.system), kCostOfEvents);
    const SentTimes sent = run_events(folded.system, false, answer_.work);
    for (const JointSystem::Part& part : joint.parts)
      for (size_t i = 0; i < part.phase.transfers.size(); ++i) {
        const auto c = static_cast<size_t>(folded.class_of[static_cast<size_t>(part.first) + i]);
        finish(part.job, part.phase.transfers[i].source, sent[c]);
        finish(part.job, part.phase.transfers[i].destination, sent[c] + folded.system.latency[c]);
      }
  }

  const Topology& topology_;
  const std::vector<Job>& jobs_;
  const NetworkOptions& options_;
  NetworkAnswer answer_;
  std::vector<bool> touched_;
};

class FlowNetwork final : public Network {
 public:
  NetworkAnswer run(const Topology& topology, const std::vector<Job>& jobs,
                    const NetworkOptions& options) const override {
    return FlowRun(topology, jobs, options).run();
  }
};

const Registration<Network> kFlow(
    {.name = "flow",
     .summary = "transfers share links max-min fairly, event by event; t = bytes / rate + "
                "latencies of the route; ranks in equal places are simulated once",
     .source = "Bertsekas and Gallager, Data Networks, 1992; Casanova et al., SimGrid, 2014",
     .parameters = {}},
    [] { return std::make_unique<FlowNetwork>(); });

}  // namespace
}  // namespace orrery::fabric
