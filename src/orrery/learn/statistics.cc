#include "orrery/learn/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "orrery/base/error.h"

namespace orrery {
namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw_internal(what);
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> rank(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (size_t i = first; i <= last; ++i)
      rank[order[i]] = static_cast<double>(first + last) / 2 + 1;
    first = last + 1;
  }
  return rank;
}

double log_binomial_probability(int64_t k, int64_t n, double p) {
  // 0 log 0 is 0 here.
  const auto times_log = [](int64_t count, double x) {
    return count == 0 ? 0.0 : static_cast<double>(count) * std::log(x);
  };
  const auto log_factorial = [](int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k) + times_log(k, p) +
         times_log(n - k, 1 - p);
}

/// P(X <= k) for k below the mode: terms fall towards 0 at least geometrically.
double lower_tail(int64_t k, int64_t n, double p) {
  double sum = 0;
  if (k < 0) return sum;
  double term = std::exp(log_binomial_probability(k, n, p));
  for (int64_t i = k; i >= 0 && term > sum * 1e-17; --i) {
    sum += term;
    term *= static_cast<double>(i) / static_cast<double>(n - i + 1) * (1 - p) / p;
  }
  return sum;
}

}  // namespace

double mean_absolute_percentage_error(std::span<const double> predicted,
                                      std::span<const double> truth) {
  expect(!truth.empty() && predicted.size() == truth.size(), "predictions without their truths");
  double sum = 0;
  for (size_t i = 0; i < truth.size(); ++i) sum += std::abs(predicted[i] / truth[i] - 1);
  return sum / static_cast<double>(truth.size());
}

double quantile(std::vector<double> values, double q) {
  expect(!values.empty() && q >= 0 && q <= 1, "a quantile needs values, and q from 0 to 1");
  const double position = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<size_t>(position);
  const auto middle = values.begin() + static_cast<ptrdiff_t>(below);
  std::ranges::nth_element(values, middle);
  if (below + 1 == values.size()) return *middle;
  const double above = *std::min_element(middle + 1, values.end());
  return *middle + (position - static_cast<double>(below)) * (above - *middle);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double weighted_quantile(const std::vector<double>& values, std::span<const double> weights,
                         double q) {
  expect(!values.empty() && values.size() == weights.size() && q >= 0 && q <= 1,
         "a weighted quantile needs values, a weight each, and q from 0 to 1");
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  expect(all > 0, "a weighted quantile needs a weight above 0");
  double sum = 0;
  for (const size_t i : order) {
    sum += weights[i];
    if (weights[i] > 0 && sum >= q * all) return values[i];
  }
  return values[order.back()];  // only where rounding kept the sum below q = 1
}

double spearman_correlation(std::span<const double> a, std::span<const double> b) {
  expect(a.size() == b.size() && !a.empty(), "a correlation needs pairs");
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

double binomial_test(int64_t successes, int64_t trials, double p) {
  expect(trials >= 0 && successes >= 0 && successes <= trials && p >= 0 && p <= 1,
         "a binomial test needs 0 <= successes <= trials and a probability");
  if (p == 0 || p == 1) return successes == (p == 0 ? 0 : trials) ? 1 : 0;
  const double limit = log_binomial_probability(successes, trials, p) + std::log1p(1e-7);
  const auto unlikely = [&](int64_t k) { return log_binomial_probability(k, trials, p) <= limit; };
  const auto mode =
      std::min(trials, static_cast<int64_t>(std::floor((static_cast<double>(trials) + 1) * p)));
  if (unlikely(mode)) return 1;
  // The probabilities rise up to the mode and fall after it: bisect for the last unlikely
  // outcome below it, and the first above it.
  int64_t low = -1, high = mode;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (unlikely(middle) ? low : high) = middle;
  }
  const int64_t last_below = low;
  low = mode, high = trials + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (unlikely(middle) ? high : low) = middle;
  }
  // P(X >= k) is P(n - X <= n - k), and n - X has probability 1 - p.
  return std::min(1.0,
                  lower_tail(last_below, trials, p) + lower_tail(trials - high, trials, 1 - p));
}

double interval_score(double low, double high, double truth, double coverage) {
  const double penalty = 2 / (1 - coverage);
  return high - low + penalty * (std::max(low - truth, 0.0) + std::max(truth - high, 0.0));
}

}  // namespace orrery
