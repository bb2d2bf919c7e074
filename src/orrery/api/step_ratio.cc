#include "orrery/api/step_ratio.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

/// A prime number of points, and the generator of the lattice: coordinates of point i are
/// i, i·g and i·g² modulo the number. With these, quantiles of sums of the three are right to
/// 0.015 standard deviations.
constexpr size_t kPoints = 4093;
constexpr size_t kGenerator = 1897;

/// The quantiles (i + ½) / kPoints of the standard normal distribution.
const std::array<double, kPoints>& normal_quantiles() {
  static const std::array<double, kPoints> kTable = [] {
    std::array<double, kPoints> table{};
    for (size_t i = 0; i < kPoints; ++i) {
      const double wanted = (static_cast<double>(i) + 0.5) / kPoints;
      double low = -8, high = 8;
      while (true) {
        const double middle = (low + high) / 2;
        if (middle <= low || middle >= high) break;
        (std::erfc(-middle / std::sqrt(2.0)) / 2 < wanted ? low : high) = middle;
      }
      table[i] = (low + high) / 2;
    }
    return table;
  }();
  return kTable;
}

double shared_variance(const StepDetail& first, const KernelErrors& a, const StepDetail& second,
                       const KernelErrors& b) {
  const bool same_device = first.device.name == second.device.name;
  const bool same_model =
      first.kernel_model == second.kernel_model && first.kernels_of == second.kernels_of;
  double shared = 0;
  if (same_model)
    for (size_t f = 0; f < a.by_family.size(); ++f) shared += a.by_family[f] * b.by_family[f];
  if (same_model && same_device)
    for (const auto& [i, j] : match_launches(first, second).pairs) shared += a.own[i] * b.own[j];
  if (same_device)
    for (size_t f = 0; f < a.by_factor.size(); ++f) shared += a.by_factor[f] * b.by_factor[f];
  if (first.stack == second.stack) shared += a.structure * b.structure;
  return shared;
}

}  // namespace

StepRatio step_ratio(const StepDetail& first, const StepDetail& second) {
  StepRatio ratio;
  if (std::min(first.total.step.value, second.total.step.value) <= Seconds(0))
    return ratio;  // nothing to run
  ratio.value = second.total.step.value / first.total.step.value;
  const KernelErrors a = kernel_errors(first.launches, first.estimates, first.costs);
  const KernelErrors b = kernel_errors(second.launches, second.estimates, second.costs);
  const double deviations = std::sqrt(a.variance() * b.variance());
  const double correlation =
      deviations > 0 ? std::min(1.0, shared_variance(first, a, second, b) / deviations) : 0;
  const double apart = std::sqrt(1 - correlation * correlation);
  const auto& normal = normal_quantiles();
  std::vector<double> ratios;
  ratios.reserve(kPoints);
  const double spread_a = a.spread(), spread_b = b.spread();
  const auto time = [](const StepDetail& step, double kernels, double host) {
    return std::max(kernels + step.total.gaps.value,
                    step.total.host.value * std::exp(step.costs.host_spread * host));
  };
  for (size_t i = 0; i < kPoints; ++i) {
    const double z1 = normal[i], z2 = normal[i * kGenerator % kPoints],
                 host = normal[i * kGenerator % kPoints * kGenerator % kPoints];
    const double of_a = a.middle.value * std::exp(spread_a * z1);
    const double of_b = b.middle.value * std::exp(spread_b * (correlation * z1 + apart * z2));
    ratios.push_back(time(second, of_b, host) / time(first, of_a, host));
  }
  ratio.low = std::min(ratio.value, quantile(ratios, 0.05));
  ratio.high = std::max(ratio.value, quantile(std::move(ratios), 0.95));
  return ratio;
}

}  // namespace orrery
