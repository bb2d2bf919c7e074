#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// Mean of |predicted / true - 1|. Throws `kInternal` when there are no pairs or as many
/// of one as of the other are not given.
double mean_absolute_percentage_error(std::span<const double> predicted,
                                      std::span<const double> truth);

/// The quantile at `q` in [0, 1] of at least one value, by linear interpolation between
/// the order statistics around 1 + (n - 1) q: type 7 of Hyndman and Fan ("Sample
/// quantiles in statistical packages", American Statistician 1996), the default of R and
/// NumPy.
double quantile(std::vector<double> values, double q);
double median(std::vector<double> values);

/// The smallest value at which the weights of it and all smaller ones reach `q` of the
/// sum of weights. Weights are at least 0 and not all 0.
double weighted_quantile(const std::vector<double>& values, std::span<const double> weights,
                         double q);

/// Spearman's rank correlation: Pearson's of the ranks, where equal values share the
/// mean of their ranks. 0 when one side is constant, for there is no order to agree with.
double spearman_correlation(std::span<const double> a, std::span<const double> b);

/// The chance, under `trials` draws of probability `p`, of an outcome no more likely than
/// `successes`: the two-sided exact test as R's binom.test has it, with outcomes up to
/// 1 + 1e-7 times as likely counted as equal.
double binomial_test(int64_t successes, int64_t trials, double p);

/// Winkler's score of a central interval of the coverage given: its width, and 2 / (1 -
/// coverage) for each unit the truth lies outside (Gneiting and Raftery: "Strictly proper
/// scoring rules", JASA 2007). Smaller is better.
double interval_score(double low, double high, double truth, double coverage = 0.9);

}  // namespace orrery
