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
  explicit CallQueue(Seconds ready) : host_(ready), device_(ready) {}
  void add(Seconds host, Seconds device) {
    host_ += host;
    device_ = std::max(device_, host_) + device;
  }
  Seconds end() const { return std::max(host_, device_); }

 private:
  Seconds host_, device_;
};

}  // namespace

Composition compose(const Program& program, std::span<const Estimate> estimates,
                    const LaunchCosts& costs) {
  Composition c;
  double middle = 0;
  double own_variance = 0;
  std::array<double, kKernelFamilyCount> by_family{};
  std::array<double, kErrorFactorCount> by_factor{};
  const Seconds entry = costs.call + costs.argument * program.argument_count;
  const Seconds node = costs.graph_node + costs.graph_update * program.donated_share;
  CallQueue call(entry);
  c.host = entry;
  c.gaps = costs.call_gap;
  Seconds graph_host, graph_device;  // of the graph that is being filled
  const auto& launches = program.launches;
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

    const bool ends = i + 1 == launches.size() || launches[i + 1].graph != launch.graph;
    if (launch.graph != 0) {
      graph_host += node * n;
      graph_device += e.seconds * n;
      if (!ends) continue;
      c.gaps += costs.graph_gap;
      c.host += graph_host;
      call.add(graph_host, graph_device + costs.graph_gap);
      graph_host = graph_device = Seconds(0);
      continue;
    }
    const bool library = launch.kernel.family == KernelFamily::kConvolution;
    const Seconds host = (costs.dispatch + (library ? costs.library : Seconds(0))) * n;
    c.host += host;
    c.gaps += costs.gap * n;
    call.add(host, (e.seconds + costs.gap) * n);
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
  const Seconds single = launches.empty() ? entry + costs.wait : call.end() + costs.wait;
  // Of a single call, what is not the kernels' is the host's.
  const double rest = std::max(0.0, single.value - c.kernels.value);
  c.single_call = {
      single,
      Seconds(std::min(single.value, middle * std::exp(-reach) + rest * std::exp(-host_reach))),
      Seconds(std::max(single.value, middle * std::exp(reach) + rest * std::exp(host_reach)))};
  return c;
}

}  // namespace orrery
