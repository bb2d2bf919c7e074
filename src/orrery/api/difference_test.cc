// Steps whose parts can be worked out by hand: a device of 1 GFLOP/s and 1 GB/s, kernels of a
// few GFLOP and GB.

#include "orrery/api/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "orrery/api/step_for_test.h"

namespace orrery {
namespace {

using testing::DoubleNear;
using testing::Each;

double part(const Difference& d, Cause cause) { return d[static_cast<size_t>(cause)]; }
double sum(const Difference& d) { return std::accumulate(d.begin(), d.end(), 0.0); }

TEST(Difference, TwiceTheBandwidthExplainsHalfTheTime) {
  const StepDetail first =
      StepForTest("slow", {.gigaflops = 1, .gigabytes = 1}).run({.gflop = 2, .gbyte = 8}, 8);
  const StepDetail second =
      StepForTest("fast", {.gigaflops = 1, .gigabytes = 2}).run({.gflop = 2, .gbyte = 8}, 4);
  const Difference d = difference(first, second);
  EXPECT_DOUBLE_EQ(part(d, Cause::kBandwidth), -4);
  EXPECT_DOUBLE_EQ(sum(d), -4);
  for (size_t i = 0; i < kCauseCount; ++i)
    if (static_cast<Cause>(i) != Cause::kBandwidth) {
      EXPECT_NEAR(d[i], 0, 1e-14) << i;
    }
}

TEST(Difference, RateClockAndEfficiencyAreToldApart) {
  // First: roofline 4 s, twice that as run. Second: roofline 2 s, in a burst 4.8 s, as run 6 s.
  const StepDetail first =
      StepForTest("slow", {.gigaflops = 1, .gigabytes = 1}).run({.gflop = 4, .gbyte = 1}, 8);
  const StepDetail second =
      StepForTest("fast", {.gigaflops = 2, .gigabytes = 1}).run({.gflop = 4, .gbyte = 1}, 6, 4.8);
  const Difference d = difference(first, second);
  const double mean = -2 / std::log(0.75);                                // L(6, 8) = 6.952
  EXPECT_NEAR(part(d, Cause::kArithmetic), mean * std::log(0.5), 1e-12);  // −4.819
  EXPECT_NEAR(part(d, Cause::kClock), mean * std::log(1.25), 1e-12);      // +1.551
  EXPECT_NEAR(part(d, Cause::kEfficiency), mean * std::log(1.2), 1e-12);  // +1.268
  EXPECT_EQ(part(d, Cause::kBandwidth), 0);
  EXPECT_NEAR(sum(d), -2, 1e-12);
}

TEST(Difference, OnBothSidesOfTheRooflineResourcesShareTheChange) {
  // 8 s of arithmetic and 2 of memory become 2 and 4. Replacing the rate first: 8 → 2 → 4; the
  // bandwidth first: 8 → 8 → 4. Arithmetic ½·(ln ¼ + ln ½) = −1.5·ln 2, bandwidth ½·ln 2;
  // L(4, 8) = 4 / ln 2.
  const StepDetail first =
      StepForTest("one", {.gigaflops = 1, .gigabytes = 2}).run({.gflop = 8, .gbyte = 4}, 8);
  const StepDetail second =
      StepForTest("other", {.gigaflops = 4, .gigabytes = 1}).run({.gflop = 8, .gbyte = 4}, 4);
  const Difference d = difference(first, second);
  EXPECT_NEAR(part(d, Cause::kArithmetic), -6, 1e-12);
  EXPECT_NEAR(part(d, Cause::kBandwidth), 2, 1e-12);
  EXPECT_NEAR(sum(d), -4, 1e-12);
}

TEST(Difference, KernelsOfOneStepAloneAreOtherKernels) {
  const StepForTest device("one", {.gigaflops = 1, .gigabytes = 1});
  StepDetail first = device.run({.gflop = 1, .gbyte = 3}, 3);
  StepDetail second = device.run({.gflop = 1, .gbyte = 3}, 3);
  device.add(second, {.code = Opcode::k_reduce, .gflop = 1, .gbyte = 2}, 2.5);
  const Difference d = difference(first, second);
  EXPECT_DOUBLE_EQ(part(d, Cause::kKernels), 2.5);
  EXPECT_DOUBLE_EQ(sum(d), 2.5);
}

TEST(Difference, OtherKernelsOfAFamilyDifferByTheirWork) {
  // Two kernels of 3 GB become one of 4: of the same family, a third less traffic, all of it at
  // the roofline.
  const StepForTest device("one", {.gigaflops = 1, .gigabytes = 1});
  StepDetail first = device.run({.gflop = 1, .gbyte = 3}, 3);
  device.add(first, {.gflop = 1, .gbyte = 3}, 3);
  const StepDetail second = device.run({.gflop = 1, .gbyte = 4}, 4);
  const Difference d = difference(first, second);
  EXPECT_NEAR(part(d, Cause::kKernels), -2, 1e-12);
  EXPECT_NEAR(part(d, Cause::kEfficiency), 0, 1e-12);
  // More launches of the same kernel are work as well.
  StepDetail twice = device.run({.gflop = 1, .gbyte = 3}, 3);
  twice.launches.front().count = 2;
  device.compose_again(twice);
  EXPECT_NEAR(part(difference(device.run({.gflop = 1, .gbyte = 3}, 3), twice), Cause::kKernels), 3,
              1e-12);
}

TEST(Difference, GapsAndTheWaitForTheHostAreCausesAsTheyAre) {
  const StepForTest device("one", {.gigaflops = 1, .gigabytes = 1});
  StepDetail first = device.run({.gflop = 1, .gbyte = 3}, 3);
  StepDetail second = first;
  second.costs.gap = Seconds(0.5);
  second.costs.call = Seconds(5);
  device.compose_again(second);
  const Difference d = difference(first, second);
  EXPECT_DOUBLE_EQ(part(d, Cause::kLaunches), 0.5);
  EXPECT_DOUBLE_EQ(part(d, Cause::kHost), 1.5);  // 5 − (3 + 0.5)
  EXPECT_DOUBLE_EQ(sum(d), 2);
}

TEST(Difference, WithoutARooflineItIsEfficiency) {
  const StepDetail first = StepForTest("one", {}).run({.gflop = 1, .gbyte = 3}, 3);
  const StepDetail second =
      StepForTest("other", {.gigaflops = 1, .gigabytes = 1}).run({.gflop = 1, .gbyte = 3}, 4);
  const Difference d = difference(first, second);
  EXPECT_DOUBLE_EQ(part(d, Cause::kEfficiency), 1);
  EXPECT_DOUBLE_EQ(sum(d), 1);
}

TEST(Difference, TakesTheOtherSignWhenStepsChangePlaces) {
  StepDetail first =
      StepForTest("one", {.gigaflops = 1, .gigabytes = 2}).run({.gflop = 8, .gbyte = 4}, 9, 8.5);
  const StepForTest other("other", {.gigaflops = 4, .gigabytes = 1});
  StepDetail second = other.run({.gflop = 8, .gbyte = 4}, 7, 5);
  other.add(second, {.gflop = 1, .gbyte = 1}, 3, 2);
  const Difference there = difference(first, second), back = difference(second, first);
  Difference both{};
  for (size_t i = 0; i < kCauseCount; ++i) both[i] = there[i] + back[i];
  EXPECT_THAT(both, Each(DoubleNear(0, 1e-12)));
  EXPECT_NEAR(sum(there), (second.total.step.value - first.total.step.value).value, 1e-12);
}

}  // namespace
}  // namespace orrery
