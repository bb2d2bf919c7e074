#pragma once

#include <optional>
#include <span>

namespace orrery {

/// Where the truth lies with 90 % probability; an end that the values do not tell is not there.
struct SamplingInterval {
  std::optional<double> low, high;
};

/// Values of requests in the order they came are no independent draws: neighbours share steps and
/// queues. What their mean's variance is shows in the means y of 5 batches of consecutive ones,
///
///   var(ȳ) = s²_y / 5 · (1 + r) / (1 − r),   never below s²_x / n,
///
/// where r is the batches' lag-1 autocorrelation and 1/5, by which five values of no correlation
/// show less; r is cut to 0 … 0.8. The interval is ȳ ± t(4) · √var. Fewer than 240 values have
/// none: shorter batches than 48 would all see the same queue.
SamplingInterval interval_of_mean(std::span<const double> values);

/// Woodruff's interval of a quantile (J. Am. Stat. Assoc. 47, 1952): the quantiles of the shares
/// between which the share of values at or below the true one may lie,
///
///   q + (1 − 2q) (t² − 1) / (6 n') ± (t √(q (1 − q) / n') + 1 / (2 n')).
///
/// n' = q (1 − q) / var is how many independent values would tell that share as well, with the
/// variance above of whether each is at or below the quantile; the second term is Cornish and
/// Fisher's for the binomial distribution's skewness, the last for its steps. A share beyond 0 or
/// 1 leaves that end open: the 99 % quantile of few requests has no upper end. `sorted`: the same
/// values in ascending order.
SamplingInterval interval_of_quantile(std::span<const double> values,
                                      std::span<const double> sorted, double q);

/// The quantile `q` of type 7 of Hyndman and Fan, of one value at least in ascending order.
double quantile_of_sorted(std::span<const double> sorted, double q);

}  // namespace orrery
