#include <fmt/format.h>

#include <algorithm>

#include "orrery/cluster/algorithm.h"

namespace orrery {
namespace {

/// Nothing of it was measured: one standard deviation as a prior.
constexpr double kSpread = 0.3;

class AlphaBetaPredictor final : public CollectivePredictor {
 public:
  AlphaBetaPredictor(const Cluster& cluster, const CollectiveBinding& binding) : cluster_(cluster) {
    const auto& registry = Registry<CollectiveAlgorithm>::instance();
    if (!binding.algorithm.empty()) registry.at(binding.algorithm, "algorithm");
    if (!binding.protocol.empty())
      throw_usage("the library alpha-beta has no protocols; leave --protocol out");
    for (const auto& entry : registry.entries())
      if (binding.algorithm.empty() || binding.algorithm == entry.description.name)
        algorithms_.emplace_back(entry.description.name, entry.create());
  }

  CollectiveEstimate predict(const CollectiveCall& call) const override {
    const GroupPlace place = place_group(cluster_, call.group);
    CollectiveEstimate answer;
    if (place.ranks == 1) {
      answer.algorithm = "none";
      return answer;
    }
    double least = INFINITY;
    for (const auto& [name, algorithm] : algorithms_) {
      if (!algorithm->takes(call.kind, place, call.type)) continue;
      const CollectiveWork work = algorithm->work(call.kind, call.bytes, place, Protocol::kSimple);
      double wire = work.wire_inside.value / place.inside_bandwidth.value;
      if (work.wire_outside.value > 0)
        wire = std::max(wire, work.wire_outside.value / place.outside_bandwidth.value);
      const double seconds = work.hops_inside * place.inside_latency.value +
                             work.hops_outside * place.outside_latency.value + wire;
      if (seconds >= least) continue;
      least = seconds;
      answer.algorithm = name;
      answer.sent = work.wire_inside + work.wire_outside / place.per_node;
    }
    if (least == INFINITY)
      throw_usage(fmt::format("no algorithm takes a {} of {} ranks on {}", name(call.kind),
                              call.group.size, cluster_.name));
    answer.estimate.seconds = Seconds(least);
    answer.estimate.loadings[static_cast<size_t>(ErrorFactor::kDevice)] = kSpread;
    return answer;
  }

  CollectiveTrust trust(const CollectiveCall& call) const override {
    (void)call;
    return {"untested", "a bound from published figures; nothing of it was measured"};
  }

  std::vector<std::string> gaps() const override {
    std::vector<std::string> list = cluster_.gaps;
    list.emplace_back(
        "alpha-beta takes links at their full bandwidth, and no time for launches and chunks");
    return list;
  }
  std::vector<std::pair<std::string, std::string>> provenance() const override {
    return {{"library", "alpha-beta"}};
  }

 private:
  Cluster cluster_;
  std::vector<std::pair<std::string, std::shared_ptr<const CollectiveAlgorithm>>> algorithms_;
};

class AlphaBetaLibrary final : public CollectiveLibrary {
 public:
  std::unique_ptr<CollectivePredictor> bind(const Cluster& cluster,
                                            const CollectiveBinding& binding) const override {
    return std::make_unique<AlphaBetaPredictor>(cluster, binding);
  }
};

const Registration<CollectiveLibrary> kAlphaBeta(
    {.name = "alpha-beta",
     .summary = "The fastest of all algorithms on the fabric's published figures: hops · α + the "
                "slower of inside and outside bytes / bandwidth; a bound, for any fabric",
     .source = "Hockney, The communication challenge for MPP, Parallel Computing 1994",
     .parameters = {}},
    [] { return std::make_unique<AlphaBetaLibrary>(); });

}  // namespace
}  // namespace orrery
