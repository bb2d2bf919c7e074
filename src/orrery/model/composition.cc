#include "orrery/model/composition.h"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

/// One call from its first argument to its last kernel: what the host has queued, a kernel or a
/// whole graph, runs when the device is through with what came before.
class CallQueue {
 public:
  void add(Seconds host, Seconds device) {
    host_ += host;
    device_ = std::max(device_, host_) + device;
  }
  Seconds end() const { return std::max(host_, device_); }

 private:
  Seconds host_, device_;
};

}  // namespace

std::vector<LaunchOverhead> launch_overheads(const Program& program, const LaunchCosts& costs) {
  const auto& launches = program.launches;
  std::vector<LaunchOverhead> all(launches.size());
  const Seconds node = costs.graph_node + costs.graph_update * program.donated_share;
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    if (launch.graph == 0) {
      const bool library = launch.kernel.family == KernelFamily::kConvolution;
      all[i] = {costs.gap, costs.dispatch + (library ? costs.library : Seconds(0))};
      continue;
    }
    all[i].host = node;
    const bool ends = i + 1 == launches.size() || launches[i + 1].graph != launch.graph;
    if (ends) all[i].gap = costs.graph_gap / launch.count;
  }
  if (!all.empty()) {
    all.back().gap += costs.call_gap / launches.back().count;
    all.front().host +=
        (costs.call + costs.argument * program.argument_count) / launches.front().count;
  }
  return all;
}

double KernelErrors::variance() const {
  double sum = 0;
  for (double s : own) sum += s * s;
  for (double s : by_family) sum += s * s;
  for (double s : by_factor) sum += s * s;
  return sum + structure * structure;
}

double KernelErrors::spread() const {
  return middle.value > 0 ? std::sqrt(variance()) / middle.value : 0;
}

KernelErrors kernel_errors(std::span<const Launch> launches, std::span<const Estimate> estimates,
                           const LaunchCosts& costs) {
  KernelErrors errors;
  errors.own.reserve(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    const Estimate& e = estimates[i];
    const double t = launches[i].count * e.seconds.value * std::exp(static_cast<double>(e.skew));
    errors.middle += Seconds(t);
    errors.own.push_back(t * e.own_spread);
    constexpr auto kFamily = static_cast<size_t>(ErrorFactor::kFamily);
    errors.by_family[static_cast<size_t>(launches[i].kernel.family)] += t * e.loadings[kFamily];
    for (size_t f = 0; f < kErrorFactorCount; ++f)
      if (f != kFamily) errors.by_factor[f] += t * e.loadings[f];
  }
  errors.structure = errors.middle.value * costs.structure_spread;
  return errors;
}

Composition compose(const Program& program, std::span<const Estimate> estimates,
                    const LaunchCosts& costs) {
  Composition c;
  CallQueue call;
  LaunchOverhead graph;  // of the graph that is being filled: what runs, and what the host takes
  const auto& launches = program.launches;
  const std::vector<LaunchOverhead> overheads = launch_overheads(program, costs);
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    const Estimate& e = estimates[i];
    const double n = launch.count;
    c.kernels += e.seconds * n;
    c.launches += n;
    const Seconds host = overheads[i].host * n, gap = overheads[i].gap * n;
    c.host += host;
    c.gaps += gap;
    graph.host += host;
    graph.gap += e.seconds * n + gap;
    const bool ends =
        launch.graph == 0 || i + 1 == launches.size() || launches[i + 1].graph != launch.graph;
    if (!ends) continue;
    call.add(graph.host, graph.gap);
    graph = {};
  }
  const KernelErrors errors = kernel_errors(launches, estimates, costs);
  const double middle = errors.middle.value, spread = errors.spread();

  // How far kernels and host may be off, either way.
  const double reach = kNinetyPercent * spread, host_reach = kNinetyPercent * costs.host_spread;
  const auto step_of = [&](double kernels, double host) {
    return Seconds(std::max(kernels + c.gaps.value, host));
  };
  c.step.value = step_of(c.kernels.value, c.host.value);
  c.step.low = std::min(c.step.value,
                        step_of(middle * std::exp(-reach), c.host.value * std::exp(-host_reach)));
  c.step.high = std::max(c.step.value,
                         step_of(middle * std::exp(reach), c.host.value * std::exp(host_reach)));
  const Seconds single = call.end() + costs.wait;
  // Of a single call, what is not the kernels' is the host's.
  const double rest = std::max(0.0, single.value - c.kernels.value);
  c.single_call = {
      single, std::min(single, Seconds(middle * std::exp(-reach) + rest * std::exp(-host_reach))),
      std::max(single, Seconds(middle * std::exp(reach) + rest * std::exp(host_reach)))};
  return c;
}

}  // namespace orrery
