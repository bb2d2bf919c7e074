#include "orrery/serving/sampling_interval.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {
namespace {

constexpr size_t kBatches = 5;
constexpr size_t kShortestBatch = 48;
constexpr double kStudent4 = 2.131847;  ///< 95 % point of Student's t with 4 degrees.
constexpr double kMostCorrelation = 0.8;

bool enough(std::span<const double> values) { return values.size() >= kBatches * kShortestBatch; }

struct MeanOf {
  double mean = 0;
  double variance = 0;  ///< Of the mean.
};

/// Of `figure` of each value.
template <typename Figure>
MeanOf mean_of(std::span<const double> values, Figure figure) {
  const auto n = static_cast<double>(values.size());
  std::array<double, kBatches> batches{};
  double sum = 0, squares = 0;
  for (size_t b = 0; b < kBatches; ++b) {
    const size_t begin = values.size() * b / kBatches, end = values.size() * (b + 1) / kBatches;
    double of_batch = 0;
    for (const double value : values.subspan(begin, end - begin)) {
      const double x = figure(value);
      of_batch += x;
      squares += x * x;
    }
    batches[b] = of_batch / static_cast<double>(end - begin);
    sum += of_batch;
  }
  double middle = 0;
  for (const double batch : batches) middle += batch / kBatches;
  double square = 0, product = 0;
  for (size_t b = 0; b < kBatches; ++b) {
    square += (batches[b] - middle) * (batches[b] - middle);
    if (b > 0) product += (batches[b - 1] - middle) * (batches[b] - middle);
  }
  const double seen = square > 0 ? product / square + 1.0 / kBatches : 0;
  const double correlation = std::clamp(seen, 0.0, kMostCorrelation);
  const double variance =
      square / (kBatches - 1) / kBatches * (1 + correlation) / (1 - correlation);
  const double mean = sum / n;
  const double independent = std::max(0.0, squares / n - mean * mean) / n;
  return {mean, std::max(variance, independent)};
}

}  // namespace

SamplingInterval interval_of_mean(std::span<const double> values) {
  if (!enough(values)) return {};
  const MeanOf of = mean_of(values, [](double value) { return value; });
  const double half = kStudent4 * std::sqrt(of.variance);
  return {std::max(0.0, of.mean - half), of.mean + half};
}

SamplingInterval interval_of_quantile(std::span<const double> values,
                                      std::span<const double> sorted, double q) {
  if (!enough(values)) return {};
  const double quantile = quantile_of_sorted(sorted, q);
  // Those that are the quantile count for what makes the share of all just q.
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), quantile);
  const auto ties = static_cast<double>(last - first);
  const double missing =
      q * static_cast<double>(sorted.size()) - static_cast<double>(first - sorted.begin());
  const double tie = ties > 0 ? std::clamp(missing / ties, 0.0, 1.0) : 0;
  const MeanOf below = mean_of(values, [&](double value) {
    return value < quantile ? 1.0 : value > quantile ? 0.0 : tie;
  });
  const double variance =
      std::max(below.variance, q * (1 - q) / static_cast<double>(values.size()));
  const double one = variance / (q * (1 - q));  // of n'
  const double middle = q + (1 - 2 * q) * (kStudent4 * kStudent4 - 1) / 6 * one;
  const double half = kStudent4 * std::sqrt(variance) + one / 2;
  SamplingInterval interval;
  if (middle - half > 0)
    interval.low = std::min(quantile, quantile_of_sorted(sorted, middle - half));
  if (middle + half < 1)
    interval.high = std::max(quantile, quantile_of_sorted(sorted, middle + half));
  return interval;
}

double quantile_of_sorted(std::span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double low = sorted[below];
  if (place == static_cast<double>(below)) return low;
  return low + (place - static_cast<double>(below)) * (sorted[below + 1] - low);
}

}  // namespace orrery
