// Two steps of one kernel each, of 1 s and 2 s, whose true times are spread around them by what
// each test says. The 90 % interval of a ratio with a spread σ is 2·exp(± 1.645·σ).

#include "orrery/api/step_ratio.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/api/step_for_test.h"

namespace orrery {
namespace {

constexpr size_t kFamily = static_cast<size_t>(ErrorFactor::kFamily);
constexpr size_t kDevice = static_cast<size_t>(ErrorFactor::kDevice);

struct Spreads {
  float own = 0, family = 0, device = 0;
};

StepDetail step(const std::string& device, double seconds, const Spreads& spreads) {
  StepDetail s =
      StepForTest(device, {.gigaflops = 1, .gigabytes = 1}).run({.gflop = 1, .gbyte = 1}, seconds);
  Estimate& e = s.estimates.front();
  e.own_spread = spreads.own;
  e.loadings[kFamily] = spreads.family;
  e.loadings[kDevice] = spreads.device;
  StepForTest::compose_again(s);
  return s;
}

void expect_interval(const StepRatio& ratio, double spread) {
  EXPECT_DOUBLE_EQ(ratio.value, 2);
  // The lattice is right to 0.015 standard deviations.
  EXPECT_NEAR(std::log(ratio.low / 2), -kNinetyPercent * spread, 0.015 * spread + 1e-12);
  EXPECT_NEAR(std::log(ratio.high / 2), kNinetyPercent * spread, 0.015 * spread + 1e-12);
}

TEST(StepRatio, OfTwoDevicesOnlyTheFamilysErrorCancels) {
  const Spreads spreads{.own = 0.1F, .family = 0.3F, .device = 0.05F};
  // √(2·0.1² + 2·0.05²) = 0.158
  expect_interval(step_ratio(step("one", 1, spreads), step("other", 2, spreads)),
                  std::sqrt(2 * 0.1 * 0.1 + 2 * 0.05 * 0.05));
}

TEST(StepRatio, AFamilysErrorCancelsAsFarAsItIsShared) {
  // Loadings 0.3 and 0.1 on one cause: 0.2 is left.
  expect_interval(step_ratio(step("one", 1, {.family = 0.3F}), step("other", 2, {.family = 0.1F})),
                  0.2);
}

TEST(StepRatio, OfOneDeviceWithOtherFiguresAllErrorsCancel) {
  const Spreads spreads{.own = 0.1F, .family = 0.3F, .device = 0.05F};
  const StepRatio ratio = step_ratio(step("one", 1, spreads), step("one", 2, spreads));
  EXPECT_DOUBLE_EQ(ratio.low, 2);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
}

TEST(StepRatio, OfOtherKernelModelsNothingOfTheKernelsCancels) {
  const Spreads spreads{.own = 0.1F, .family = 0.3F};
  StepDetail second = step("other", 2, spreads);
  second.kernel_model = "systolic";
  expect_interval(step_ratio(step("one", 1, spreads), second), std::sqrt(2 * 0.1));
}

TEST(StepRatio, StructureIsSharedUnderOneStack) {
  StepDetail first = step("one", 1, {}), second = step("other", 2, {});
  first.costs.structure_spread = second.costs.structure_spread = 0.06;
  expect_interval(step_ratio(first, second), 0);
  second.stack = "torch-eager";
  expect_interval(step_ratio(first, second), 0.06 * std::sqrt(2));
}

TEST(StepRatio, StepsThatWaitForTheSameHostDoNotDiffer) {
  StepDetail first = step("one", 1, {.own = 0.1F}), second = step("other", 2, {.own = 0.1F});
  for (StepDetail* s : {&first, &second}) {
    s->costs.call = Seconds(1000);
    s->costs.host_spread = 0.3;
    StepForTest::compose_again(*s);
  }
  const StepRatio ratio = step_ratio(first, second);
  EXPECT_DOUBLE_EQ(ratio.low, 1);
  EXPECT_DOUBLE_EQ(ratio.value, 1);
  EXPECT_DOUBLE_EQ(ratio.high, 1);
}

TEST(StepRatio, AHostThatOneOfThemWaitsForIsNotInTheOther) {
  // The second step is the host's 2 s, spread by 0.3; the first its kernel's 1 s.
  StepDetail second = step("other", 0.001, {});
  second.costs.call = Seconds(2);
  second.costs.host_spread = 0.3;
  StepForTest::compose_again(second);
  expect_interval(step_ratio(step("one", 1, {}), second), 0.3);
}

TEST(StepRatio, NothingToRunTakesAsLongAsNothing) {
  const StepRatio ratio = step_ratio(StepDetail{}, StepDetail{});
  EXPECT_EQ(ratio.value, 1);
}

}  // namespace
}  // namespace orrery
