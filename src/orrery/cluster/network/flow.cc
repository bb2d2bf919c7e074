#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "orrery/cluster/network/network.h"

namespace orrery::fabric {
namespace {

/// Ranks that are ready this close, relatively, are ready at once.
constexpr double kAtOnce = 1e-12;

/// Unfolded turns that are walked event by event: about an hour.
constexpr double kEventsPerTurnWalked = 10;

struct Routed {
  std::vector<int> first = {0}, link;
  std::vector<double> latency;
};

Routed route_all(const Topology& topology, const Phase& phase) {
  Routed routed;
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
    }
    return number;
  }

 private:
  const Topology& topology_;
  FlowSystem& system_;
  std::vector<int> number_;
};

/// Appends the transfers of a phase; `ready` is by rank. Returns the number of the first.
int add_phase(FlowSystem& s, const Phase& phase, const Routed& routed, UsedLinks& used,
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
      std::vector<Remaining> all;
      for (size_t j = 0; j < jobs_.size(); ++j) all.push_back({j, 0, ready_for(jobs_[j])});
      together(all);
    } else if (!jobs_.empty()) {
      one_by_one(ready_for(jobs_[0]));
    }
    for (const Seconds finish : answer_.job_finish) answer_.time = std::max(answer_.time, finish);
    return std::move(answer_);
  }

 private:
  /// What is left of a job: its phases from `phase` on, and when ranks are ready for them.
  struct Remaining {
    size_t job = 0, phase = 0;
    std::vector<double> ready;
  };

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
          std::vector<Remaining> rest;
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
    FlowSystem whole;
    UsedLinks used(topology_, whole);
    add_phase(whole, phase, route_all(topology_, phase), used, ready);
    const FoldedSystem folded = fold(std::move(whole));
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
      check_work(kEventsPerTurnWalked * turns(folded.system));
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
      const Routed routed = route_all(topology_, plain);
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

  /// All that is left of the jobs in one system: a rank's entry into its next phase is a flow
  /// without bytes that waits for what the rank sends and is sent in this one.
  void together(const std::vector<Remaining>& rest) {
    FlowSystem s;
    UsedLinks used(topology_, s);
    struct Part {
      size_t job = 0;
      int first = 0;
      Phase phase;
    };
    std::vector<Part> parts;
    for (const Remaining& remaining : rest) {
      const std::vector<Phase>& phases = jobs_[remaining.job].schedule.phases;
      std::vector<int> entry(remaining.ready.size(), -1);
      std::vector<double> ready = remaining.ready;
      for (size_t p = remaining.phase; p < phases.size(); ++p) {
        Phase plain = without_crowds(phases[p]);
        const size_t waits_before = s.wait_on.size();
        const size_t flows_before = s.bytes.size();
        const int first = add_phase(s, plain, route_all(topology_, plain), used, ready);
        if (p > remaining.phase) wait_for_entries(s, plain, entry, flows_before, waits_before);
        if (p + 1 < phases.size()) add_entries(s, plain, first, entry, ready);
        parts.push_back({remaining.job, first, std::move(plain)});
      }
    }
    FoldedSystem folded;
    if (options_.exact) {
      check_work(kEventsPerTurnWalked * turns(s));
      folded.class_of.resize(s.bytes.size());
      std::iota(folded.class_of.begin(), folded.class_of.end(), 0);
      folded.system = std::move(s);
    } else {
      folded = fold(std::move(s));
      if (folded.system.bytes.size() == folded.class_of.size())
        check_work(kEventsPerTurnWalked * turns(folded.system));
    }
    const SentTimes sent = run_events(folded.system, false, answer_.work);
    for (const Remaining& remaining : rest)
      for (size_t r = 0; r < remaining.ready.size(); ++r)
        if (remaining.ready[r] > 0 && rest.size() == 1 && touched(static_cast<int>(r)))
          finish(remaining.job, static_cast<int>(r), remaining.ready[r]);
    for (const Part& part : parts)
      for (size_t i = 0; i < part.phase.transfers.size(); ++i) {
        const auto c = static_cast<size_t>(folded.class_of[static_cast<size_t>(part.first) + i]);
        finish(part.job, part.phase.transfers[i].source, sent[c]);
        finish(part.job, part.phase.transfers[i].destination, sent[c] + folded.system.latency[c]);
      }
  }

  /// Rewrites the waits of the flows just added so that they also wait for their ranks.
  static void wait_for_entries(FlowSystem& s, const Phase& phase, const std::vector<int>& entry,
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
  static void add_entries(FlowSystem& s, const Phase& phase, int first, std::vector<int>& entry,
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
