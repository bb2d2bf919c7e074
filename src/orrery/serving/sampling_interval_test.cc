#include "orrery/serving/sampling_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

/// e^z where each z, of variance 1, is `memory` times the one before and something new.
std::vector<double> values_of(uint64_t seed, size_t count, double memory) {
  RandomStream random(seed);
  std::vector<double> values(count);
  double z = random.normal();
  for (double& value : values) {
    value = std::exp(z);
    z = memory * z + std::sqrt(1 - memory * memory) * random.normal();
  }
  return values;
}

struct Covered {
  int mean = 0, median = 0, p90 = 0, p99 = 0;
  int open = 0;  ///< 99 % quantiles without an upper end.
};

bool holds(const SamplingInterval& interval, double truth) {
  return interval.low.value_or(truth) <= truth && truth <= interval.high.value_or(truth);
}

/// Of 1,000 runs.
Covered covered(size_t count, double memory) {
  Covered c;
  for (uint64_t run = 0; run < 1000; ++run) {
    const std::vector<double> values = values_of(run, count, memory);
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    c.mean += holds(interval_of_mean(values), std::exp(0.5));
    c.median += holds(interval_of_quantile(values, sorted, 0.5), 1);
    c.p90 += holds(interval_of_quantile(values, sorted, 0.9), std::exp(1.281552));
    const SamplingInterval p99 = interval_of_quantile(values, sorted, 0.99);
    c.p99 += holds(p99, std::exp(2.326348));
    c.open += !p99.high;
  }
  return c;
}

TEST(SamplingInterval, HoldsTheTruthOfIndependentValues) {
  const Covered c = covered(1000, 0);
  for (const int inside : {c.mean, c.median, c.p90, c.p99}) EXPECT_NEAR(inside, 955, 45);
  EXPECT_LT(c.open, 300);
}

TEST(SamplingInterval, HoldsTheTruthOfValuesThatHangTogether) {
  // Of the mean they tell no more than 70 independent ones.
  const Covered c = covered(1000, 0.9);
  for (const int inside : {c.mean, c.median, c.p90, c.p99}) EXPECT_NEAR(inside, 900, 55);
  EXPECT_GT(c.open, 500);
}

TEST(SamplingInterval, HasNoWidthOfZeroWhereThereIsTooLittleToTell) {
  std::vector<double> values = values_of(1, 239, 0);
  EXPECT_FALSE(interval_of_mean(values).low);
  EXPECT_FALSE(interval_of_mean(values).high);
  EXPECT_FALSE(interval_of_quantile(values, values, 0.5).low);
  values = values_of(1, 240, 0);
  ASSERT_TRUE(interval_of_mean(values).low);
  EXPECT_LT(*interval_of_mean(values).low, *interval_of_mean(values).high);
  std::ranges::sort(values);
  const SamplingInterval p99 = interval_of_quantile(values, values, 0.99);
  EXPECT_TRUE(p99.low);
  EXPECT_FALSE(p99.high);
}

TEST(SamplingInterval, OfValuesAllAlikeIsTheirValue) {
  const std::vector<double> values(300, 2.0);
  EXPECT_DOUBLE_EQ(*interval_of_mean(values).low, 2);
  EXPECT_DOUBLE_EQ(*interval_of_mean(values).high, 2);
  EXPECT_DOUBLE_EQ(*interval_of_quantile(values, values, 0.5).low, 2);
}

}  // namespace
}  // namespace orrery
