#include "orrery/base/random_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace orrery {
namespace {

TEST(RandomStream, IsTheSameOnEveryMachine) {
  // From an independent implementation of splitmix64 and xoshiro256++.
  RandomStream random(1);
  EXPECT_EQ(random.bits(), 0x49c4ee6dd6ceb014U);
  EXPECT_EQ(random.bits(), 0x97a4fca792215406U);
  EXPECT_NE(RandomStream(1).bits(), RandomStream(1, 1).bits());
  EXPECT_NE(RandomStream(1).bits(), RandomStream(2).bits());
}

/// Mean and variance of many draws.
template <class Draw>
std::pair<double, double> moments(Draw draw) {
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

TEST(RandomStream, DrawsTheLawsItNames) {
  RandomStream random(7);
  const auto [uniform, uniform_variance] = moments([&] { return random.uniform(); });
  EXPECT_NEAR(uniform, 0.5, 0.003);
  EXPECT_NEAR(uniform_variance, 1.0 / 12, 0.001);
  const auto [exponential, exponential_variance] = moments([&] { return random.exponential(); });
  EXPECT_NEAR(exponential, 1, 0.01);
  EXPECT_NEAR(exponential_variance, 1, 0.03);
  const auto [normal, normal_variance] = moments([&] { return random.normal(); });
  EXPECT_NEAR(normal, 0, 0.01);
  EXPECT_NEAR(normal_variance, 1, 0.02);
  for (const double shape : {0.25, 1.0, 4.0}) {
    const auto [gamma, gamma_variance] = moments([&] { return random.gamma(shape); });
    EXPECT_NEAR(gamma, shape, 0.02 * shape + 0.01);
    EXPECT_NEAR(gamma_variance, shape, 0.05 * shape + 0.01);
  }
}

TEST(RandomStream, DrawsIntegersEvenly) {
  RandomStream random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[static_cast<size_t>(random.integer(-3, 3) + 3)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_EQ(random.integer(5, 5), 5);
  EXPECT_NO_THROW(random.integer(INT64_MIN, INT64_MAX));
}

TEST(PortableFunctions, AgreeWithTheLibrarys) {
  for (double x = 1e-12; x < 1e12; x *= 1.37)
    EXPECT_NEAR(portable_log(x), std::log(x), 4e-16 * std::max(1.0, std::abs(std::log(x)))) << x;
  for (double x = -600; x < 600; x += 0.73)
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 3e-13) << x;
  for (double x = -20; x < 20; x += 0.037) EXPECT_NEAR(portable_sin(x), std::sin(x), 1e-14) << x;
}

}  // namespace
}  // namespace orrery
