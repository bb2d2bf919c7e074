#include "orrery/learn/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"

namespace orrery {
namespace {

using Values = std::vector<double>;

TEST(Statistics, MeanAbsolutePercentageError) {
  // |1.1 - 1|, |0.5 - 1| and |1 - 1|
  EXPECT_NEAR(mean_absolute_percentage_error(Values{11, 5, 3}, Values{10, 10, 3}), 0.2, 1e-15);
  EXPECT_THROW(mean_absolute_percentage_error(Values{}, Values{}), Error);
  EXPECT_THROW(mean_absolute_percentage_error(Values{1}, Values{1, 2}), Error);
}

TEST(Statistics, QuantilesInterpolateAsType7) {
  // R: quantile(c(1, 2, 4, 8), c(0.1, 0.5, 0.9)) is 1.3, 3.0, 6.8
  EXPECT_NEAR(quantile({8, 1, 4, 2}, 0.1), 1.3, 1e-15);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 0.5), 3);
  EXPECT_NEAR(quantile({8, 1, 4, 2}, 0.9), 6.8, 1e-14);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 0), 1);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 1), 8);
  EXPECT_EQ(quantile({7}, 0.3), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_THROW(quantile({}, 0.5), Error);
  EXPECT_THROW(quantile({1}, 1.5), Error);
}

TEST(Statistics, WeightedQuantileIsTheValueThatReachesTheShare) {
  const Values values = {30, 10, 20};
  const Values weights = {1, 2, 5};  // cumulated by value: 10 → 2, 20 → 7, 30 → 8
  EXPECT_EQ(weighted_quantile(values, weights, 0), 10);
  EXPECT_EQ(weighted_quantile(values, weights, 0.25), 10);
  EXPECT_EQ(weighted_quantile(values, weights, 0.26), 20);
  EXPECT_EQ(weighted_quantile(values, weights, 0.875), 20);
  EXPECT_EQ(weighted_quantile(values, weights, 0.9), 30);
  EXPECT_EQ(weighted_quantile(values, weights, 1), 30);
  EXPECT_EQ(weighted_quantile(values, Values{1, 0, 1}, 0), 20);  // weight 0 is not there
  EXPECT_THROW(weighted_quantile(values, Values{0, 0, 0}, 0.5), Error);
}

TEST(Statistics, SpearmanCorrelation) {
  EXPECT_NEAR(spearman_correlation(Values{1, 2, 3}, Values{1, 8, 27}), 1, 1e-15);
  EXPECT_NEAR(spearman_correlation(Values{1, 2, 3}, Values{9, 8, 7}), -1, 1e-15);
  // Without ties 1 - 6 Σd² / (n (n² - 1)): d = (0, 1, -1, 0), so 1 - 12/60.
  EXPECT_NEAR(spearman_correlation(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}), 0.8, 1e-15);
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 · 5).
  EXPECT_NEAR(spearman_correlation(Values{1, 2, 2, 3}, Values{1, 2, 3, 4}),
              4.5 / std::sqrt(4.5 * 5), 1e-15);
  EXPECT_EQ(spearman_correlation(Values{1, 1}, Values{1, 2}), 0);
}

TEST(Statistics, BinomialTestSumsOutcomesNoMoreLikely) {
  // 3 of 4 fair coins: 0, 1, 3 and 4 heads are no more likely: 10 of 16.
  EXPECT_NEAR(binomial_test(3, 4, 0.5), 10.0 / 16, 1e-12);
  EXPECT_NEAR(binomial_test(4, 4, 0.5), 2.0 / 16, 1e-12);
  EXPECT_EQ(binomial_test(2, 4, 0.5), 1);
  EXPECT_NEAR(binomial_test(0, 10, 0.9), 1e-10, 1e-16);
  EXPECT_EQ(binomial_test(0, 5, 0), 1);
  EXPECT_EQ(binomial_test(1, 5, 0), 0);
  EXPECT_EQ(binomial_test(5, 5, 1), 1);
  EXPECT_EQ(binomial_test(0, 0, 0.3), 1);
  EXPECT_THROW(binomial_test(3, 2, 0.5), Error);
}

TEST(Statistics, BinomialTestAgreesWithSummationInRationalNumbers) {
  EXPECT_NEAR(binomial_test(85, 100, 0.9), 0.09628404792835753, 1e-12);
  EXPECT_NEAR(binomial_test(95, 100, 0.9), 0.13014985175191457, 1e-12);
  EXPECT_NEAR(binomial_test(440, 500, 0.9), 0.13600266151686816, 1e-12);
  EXPECT_NEAR(binomial_test(682, 925, 0.75), 0.3824915595748517, 1e-12);  // R's own example
  EXPECT_NEAR(binomial_test(5, 18, 0.25), 0.7870198401506059, 1e-12);
  // A million trials, summed with sixty digits.
  EXPECT_NEAR(binomial_test(899000, 1000000, 0.9), 0.0008736466018678805, 1e-10);
  EXPECT_NEAR(binomial_test(500500, 1000000, 0.5), 0.3177946913633055, 1e-7);
}

TEST(Statistics, IntervalScoreAddsTwentyTimesTheMiss) {
  EXPECT_NEAR(interval_score(1, 3, 2), 2, 1e-15);
  EXPECT_NEAR(interval_score(1, 3, 3), 2, 1e-15);
  EXPECT_NEAR(interval_score(1, 3, 3.5), 2 + 20 * 0.5, 1e-12);
  EXPECT_NEAR(interval_score(1, 3, 0.9), 2 + 20 * 0.1, 1e-12);
  EXPECT_NEAR(interval_score(1, 3, 5, 0.5), 2 + 4 * 2, 1e-12);
}

}  // namespace
}  // namespace orrery
