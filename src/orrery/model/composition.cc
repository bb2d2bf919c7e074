#include "orrery/model/composition.h"

#include <algorithm>
#include <array>
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

Composition compose(const Program& program, std::span<const Estimate> estimates,
                    const LaunchCosts& costs) {
  Composition c;
  double middle = 0;
  double own_variance = 0;
  std::array<double, kKernelFamilyCount> by_family{};
  std::array<double, kErrorFactorCount> by_factor{};
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
    const double t = n * e.seconds.value * std::exp(static_cast<double>(e.skew));
    middle += t;
    own_variance += t * e.own_spread * t * e.own_spread;
    constexpr auto kFamily = static_cast<size_t>(ErrorFactor::kFamily);
    by_family[static_cast<size_t>(launch.kernel.family)] += t * e.loadings[kFamily];
    for (size_t f = 0; f < kErrorFactorCount; ++f)
      if (f != kFamily) by_factor[f] += t * e.loadings[f];

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
  double variance = own_variance;
  for (double s : by_family) variance += s * s;
  for (double s : by_factor) variance += s * s;
  variance += std::pow(middle * costs.structure_spread, 2);
  const double spread = middle > 0 ? std::sqrt(variance) / middle : 0;

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
