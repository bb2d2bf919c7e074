#include "orrery/model/composition.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {

Composition compose(std::span<const Launch> launches, std::span<const Estimate> estimates,
                    const LaunchCosts& costs, Watts idle_power) {
  Composition c;
  double middle = 0;
  double own_variance = 0;
  std::array<double, kKernelFamilyCount> by_family{};
  std::array<double, kErrorFactorCount> by_factor{};
  for (size_t i = 0; i < launches.size(); ++i) {
    const Estimate& e = estimates[i];
    const double n = launches[i].count;
    c.kernels += e.seconds * n;
    c.energy += e.joules * n;
    c.launches += n;
    const double t = n * e.seconds.value * std::exp(static_cast<double>(e.skew));
    middle += t;
    own_variance += t * e.own_spread * t * e.own_spread;
    constexpr auto kFamily = static_cast<size_t>(ErrorFactor::kFamily);
    by_family[static_cast<size_t>(launches[i].kernel.family)] += t * e.loadings[kFamily];
    for (size_t f = 0; f < kErrorFactorCount; ++f)
      if (f != kFamily) by_factor[f] += t * e.loadings[f];
  }
  double variance = own_variance;
  for (double s : by_family) variance += s * s;
  for (double s : by_factor) variance += s * s;
  variance += std::pow(middle * costs.structure_spread, 2);
  const double spread = middle > 0 ? std::sqrt(variance) / middle : 0;

  c.gaps = costs.gap * c.launches;
  c.host = costs.dispatch * c.launches;
  c.energy += idle_power * c.gaps;
  const auto step_of = [&](double kernels) {
    return Seconds(std::max(kernels + c.gaps.value, c.host.value));
  };
  c.step.value = step_of(c.kernels.value);
  c.step.low = std::min(c.step.value, step_of(middle * std::exp(-kNinetyPercent * spread)));
  c.step.high = std::max(c.step.value, step_of(middle * std::exp(kNinetyPercent * spread)));
  c.single_call = {c.step.value + costs.call, c.step.low + costs.call, c.step.high + costs.call};
  return c;
}

}  // namespace orrery
