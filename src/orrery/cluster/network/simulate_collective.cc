#include "orrery/cluster/network/simulate_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "orrery/base/error.h"

namespace orrery::fabric {
namespace {

constexpr size_t kBusiestShown = 8;

/// Some gigabytes of links and transfers.
constexpr int kMostRanks = 1 << 22;

/// Hops that are walked to price an algorithm nobody asked for: about a second.
constexpr double kMostPricedHops = 1 << 28;

double factor(std::string_view text, const std::string& whole) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
      !std::isfinite(value))
    throw_usage(fmt::format("'{}': '{}' is not a factor of 0 or more", whole, text));
  return value;
}

void apply(const FabricConditions& conditions, Topology& topology) {
  if (!(conditions.background >= 0 && conditions.background < 1))
    throw_usage(fmt::format("background traffic takes a share from 0 up to 1, not {}",
                            conditions.background));
  if (conditions.background > 0) topology.scale_all(1 - conditions.background);
  for (const auto& link : conditions.links) topology.scale_link(link.a, link.b, link.factor);
  for (const auto& straggler : conditions.stragglers)
    topology.scale_rank(straggler.rank, straggler.speed);
}

std::vector<Seconds> ready_times(const FabricConditions& conditions, int ranks) {
  std::vector<Seconds> ready(static_cast<size_t>(ranks));
  for (const auto& straggler : conditions.stragglers)
    ready[static_cast<size_t>(straggler.rank)] += straggler.delay;
  return ready;
}

Bytes most_sent(const Schedule& schedule, int ranks) {
  std::vector<double> sent(static_cast<size_t>(ranks), 0);
  for (const Phase& phase : schedule.phases) {
    for (const Transfer& t : phase.transfers)
      sent[static_cast<size_t>(t.source)] += t.bytes.value * static_cast<double>(t.repeat);
    for (const std::vector<int>& crowd : phase.crowds)
      for (const int rank : crowd)
        sent[static_cast<size_t>(rank)] +=
            phase.crowd_bytes.value * static_cast<double>(crowd.size() - 1);
  }
  return Bytes(*std::max_element(sent.begin(), sent.end()));
}

std::vector<LinkUse> busiest_links(const Topology& topology, const NetworkAnswer& answer) {
  std::vector<size_t> order(answer.link_bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto seconds = [&](size_t l) {
    return answer.link_bytes[l].value / std::max(topology.links()[l].bandwidth.value, 1e-300);
  };
  const size_t shown = std::min(kBusiestShown, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](size_t a, size_t b) {
                      const double of_a = seconds(a), of_b = seconds(b);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  std::vector<LinkUse> busiest;
  for (size_t i = 0; i < shown && answer.link_bytes[order[i]].value > 0; ++i)
    busiest.push_back({topology.link_name(static_cast<int>(order[i])), answer.link_bytes[order[i]],
                       answer.time.value > 0 ? seconds(order[i]) / answer.time.value : 0});
  return busiest;
}

struct Quickest {
  std::string algorithm;
  std::vector<std::string> too_large;  ///< Algorithms that were not priced.
};

/// The quickest algorithm by the analytic network. Those that take long to price stand back
/// while another runs; what no way leads to is refused where nothing else runs.
Quickest quickest_algorithm(const Topology& topology, const CollectiveCall& call,
                            const GroupLayout& layout, const std::vector<Seconds>& ready) {
  struct Candidate {
    std::string name;
    std::unique_ptr<ScheduleAlgorithm> code;
    double hops = 0;
  };
  std::vector<Candidate> candidates;
  std::optional<Error> refused;
  double fewest = HUGE_VAL;
  for (const auto& entry : Registry<ScheduleAlgorithm>::instance().entries()) {
    Candidate candidate{entry.description.name, entry.create()};
    if (!candidate.code->runs(call.kind, layout.grid)) continue;
    try {
      for (const Phase& phase : candidate.code->schedule(call.kind, call.bytes, layout).phases)
        candidate.hops += walked_hops(topology, phase);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
      if (!refused) refused = error;
      continue;
    }
    fewest = std::min(fewest, candidate.hops);
    candidates.push_back(std::move(candidate));
  }
  const auto analytic = Registry<Network>::instance().at("analytic", "network").create();
  Quickest best;
  double least = HUGE_VAL;
  for (const Candidate& candidate : candidates) {
    if (candidate.hops > std::max(kMostPricedHops, fewest)) {
      best.too_large.push_back(candidate.name);
      continue;
    }
    try {
      const std::vector<Job> jobs = {
          {candidate.code->schedule(call.kind, call.bytes, layout), ready}};
      const double time = analytic->run(topology, jobs, {}).time.value;
      if (time < least) best.algorithm = candidate.name;
      least = std::min(least, time);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
      if (!refused) refused = error;
    }
  }
  if (best.algorithm.empty() && refused) throw Error(*refused);
  return best;
}

}  // namespace

FabricConditions::ScaledLink parse_scaled_link(const std::string& text) {
  const size_t equals = text.rfind('='), dash = text.find('-');
  if (equals == std::string::npos || dash == std::string::npos || dash > equals)
    throw_usage(fmt::format("'{}' is not LINK=FACTOR, such as 3-4=0.5 or 3-nvlink.0=0.5", text));
  return {text.substr(0, dash), text.substr(dash + 1, equals - dash - 1),
          factor(std::string_view(text).substr(equals + 1), text)};
}

FabricConditions::Straggler parse_straggler(const std::string& text) {
  const size_t equals = text.find('=');
  int rank = -1;
  if (equals != std::string::npos) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + equals, rank);
    if (fault != std::errc() || end != text.data() + equals) rank = -1;
  }
  if (rank < 0)
    throw_usage(
        fmt::format("'{}' is not RANK=DELAY, such as 3=2ms, or RANK=SPEED, such as 3=0.5x", text));
  const std::string value = text.substr(equals + 1);
  FabricConditions::Straggler straggler;
  straggler.rank = rank;
  if (!value.empty() && value.back() == 'x') {
    straggler.speed = factor(std::string_view(value).substr(0, value.size() - 1), text);
    return straggler;
  }
  try {
    straggler.delay = Seconds(parse_quantity(value, Dimension::kTime));
  } catch (const std::invalid_argument& error) {
    throw_usage(fmt::format("'{}': {}", text, error.what()));
  }
  if (!(straggler.delay.value >= 0) || !std::isfinite(straggler.delay.value))
    throw_usage(fmt::format("'{}': a delay is 0 or more", text));
  return straggler;
}

CollectiveSimulation simulate_collective(const Cluster& cluster, const CollectiveCall& call,
                                         const FlowOptions& options) {
  const RankGroup& group = call.group;
  if (group.size < 1 || group.stride < 1 ||
      double{1} * group.size * group.stride > cluster.largest())
    throw_infeasible(
        fmt::format("{} has {} devices at most; a group of {} ranks, {} apart, spans "
                    "more",
                    cluster.name, cluster.largest(), group.size, group.stride));
  if (double{1} * group.size * group.stride > kMostRanks)
    throw_infeasible(
        fmt::format("{} ranks at most are simulated; a group of {} ranks, {} apart, "
                    "spans more",
                    kMostRanks, group.size, group.stride));
  const int ranks =
      static_cast<int>(std::min<double>(call_ranks(group, cluster.node_size()), cluster.largest()));
  Topology topology(cluster, ranks, options.spreading);
  apply(options.conditions, topology);
  const GroupLayout layout = lay_groups(group, ranks, topology.extents());
  const std::vector<Seconds> ready = ready_times(options.conditions, ranks);

  const auto& algorithms = Registry<ScheduleAlgorithm>::instance();
  const auto jobs_of = [&](const ScheduleAlgorithm& algorithm) {
    return std::vector<Job>{{algorithm.schedule(call.kind, call.bytes, layout), ready}};
  };
  CollectiveSimulation simulation;
  simulation.ranks = ranks;
  if (!options.algorithm.empty()) {
    const auto& entry = algorithms.at(options.algorithm, "collective algorithm");
    if (!entry.create()->runs(call.kind, layout.grid))
      throw_usage(fmt::format("algorithm '{}' does not run {} over {} ranks here",
                              options.algorithm, name(call.kind), group.size));
    simulation.algorithm = options.algorithm;
  } else {
    Quickest quickest = quickest_algorithm(topology, call, layout, ready);
    simulation.algorithm = std::move(quickest.algorithm);
    simulation.too_large = std::move(quickest.too_large);
  }
  const auto algorithm = algorithms.at(simulation.algorithm, "collective algorithm").create();
  const auto& networks = Registry<Network>::instance();
  if (options.network == "packet" && networks.find("packet") == nullptr)
    throw_usage("network 'packet' runs on ns-3, which this program was built without (ORRERY_NS3)");
  const auto network = networks.at(options.network, "network").create();
  const std::vector<Job> jobs = jobs_of(*algorithm);
  NetworkAnswer answer = network->run(topology, jobs, {options.exact});
  simulation.sent = most_sent(jobs.front().schedule, ranks);
  simulation.time = answer.time;
  simulation.busiest = busiest_links(topology, answer);
  simulation.rank_finish = std::move(answer.rank_finish);
  simulation.work = answer.work;
  return simulation;
}

}  // namespace orrery::fabric
