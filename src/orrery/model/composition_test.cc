#include "orrery/model/composition.h"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery {
namespace {

constexpr auto kFamily = static_cast<size_t>(ErrorFactor::kFamily);
constexpr auto kDevice = static_cast<size_t>(ErrorFactor::kDevice);

Launch launch(KernelFamily family, double count) {
  Launch l;
  l.kernel.family = family;
  l.count = count;
  return l;
}

Estimate estimate(double seconds, float own, float family, float device) {
  Estimate e;
  e.seconds = Seconds(seconds);
  e.joules = Joules(100 * seconds);
  e.own_spread = own;
  e.loadings[kFamily] = family;
  e.loadings[kDevice] = device;
  return e;
}

LaunchCosts some_costs() {
  LaunchCosts costs;
  costs.gap = Seconds(1e-6);
  costs.dispatch = Seconds(2e-6);
  costs.wait = Seconds(1e-3);
  return costs;
}
const LaunchCosts kCosts = some_costs();

Composition composed(std::initializer_list<Launch> launches, std::span<const Estimate> estimates,
                     const LaunchCosts& costs) {
  Program program;
  program.launches = launches;
  return compose(program, estimates, costs);
}

TEST(Compose, SumsKernelsGapsAndEnergy) {
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kGemm, 10),
                                                  launch(KernelFamily::kElementwise, 20)};
  const Estimate estimates[] = {estimate(1e-3, 0, 0, 0), estimate(1e-4, 0, 0, 0)};
  const Composition c = composed(launches, estimates, kCosts);
  EXPECT_DOUBLE_EQ(c.kernels.value, 10 * 1e-3 + 20 * 1e-4);
  EXPECT_DOUBLE_EQ(c.launches, 30);
  EXPECT_DOUBLE_EQ(c.gaps.value, 30e-6);
  EXPECT_DOUBLE_EQ(c.host.value, 60e-6);
  EXPECT_DOUBLE_EQ(c.step.value.value, 12e-3 + 30e-6);
  // The first launch, ten at once, waits for the host; the others' dispatch is hidden.
  EXPECT_DOUBLE_EQ(c.single_call.value.value, 20e-6 + 12e-3 + 30e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(c.step.low.value, c.step.value.value);  // no spread given
}

TEST(Compose, OneKernelHasItsOwnInterval) {
  const std::initializer_list<Launch> one = {launch(KernelFamily::kSort, 1)};
  for (const float skew : {-0.8F, 0.0F, 0.05F, 0.8F}) {
    Estimate e = estimate(3e-6, 0.1F, 0.2F, 0.05F);
    e.skew = skew;
    const Composition c = composed(one, {&e, 1}, {});
    const TimeInterval alone = interval(e);
    EXPECT_DOUBLE_EQ(alone.value.value, c.step.value.value);
    EXPECT_NEAR(alone.low.value, c.step.low.value, 1e-20);
    EXPECT_NEAR(alone.high.value, c.step.high.value, 1e-20);
  }
  // σ = √(0.1² + 0.2² + 0.05²) = 0.22913; 3 µs · exp(∓1.64485·0.22913)
  EXPECT_NEAR(interval(estimate(3e-6, 0.1F, 0.2F, 0.05F)).low.value, 2.05799e-6, 1e-11);
  EXPECT_NEAR(interval(estimate(3e-6, 0.1F, 0.2F, 0.05F)).high.value, 4.37320e-6, 1e-11);
}

TEST(Compose, AStepOfTinyKernelsWaitsForTheHost) {
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kElementwise, 100)};
  const Estimate estimates[] = {estimate(1e-7, 0, 0, 0)};
  const Composition c = composed(launches, estimates, kCosts);
  // Device 100·(0.1 + 1) µs, host 100·2 µs.
  EXPECT_DOUBLE_EQ(c.step.value.value, 200e-6);
}

TEST(Compose, GraphsAreQueuedWholeAndArgumentsAreLookedAtFirst) {
  Program program;
  program.argument_count = 10;
  program.donated_share = 0.5;
  program.launches = {launch(KernelFamily::kGemm, 1), launch(KernelFamily::kGemm, 1),
                      launch(KernelFamily::kConvolution, 1)};
  program.launches[0].graph = program.launches[1].graph = 1;
  const Estimate estimates[] = {estimate(100e-6, 0, 0, 0), estimate(100e-6, 0, 0, 0),
                                estimate(50e-6, 0, 0, 0)};
  LaunchCosts costs;
  costs.gap = Seconds(1e-6);
  costs.graph_gap = Seconds(5e-6);
  costs.call_gap = Seconds(15e-6);
  costs.dispatch = Seconds(3e-6);
  costs.library = Seconds(6e-6);
  costs.graph_node = Seconds(1e-6);
  costs.graph_update = Seconds(2e-6);
  costs.call = Seconds(40e-6);
  costs.argument = Seconds(4e-6);
  costs.wait = Seconds(70e-6);
  const Composition c = compose(program, estimates, costs);
  EXPECT_NEAR(c.gaps.value, 15e-6 + 5e-6 + 1e-6, 1e-12);
  // 40 + 10·4, two nodes of 1 + 2/2, a convolution of 3 + 6.
  EXPECT_NEAR(c.host.value, 93e-6, 1e-12);
  EXPECT_NEAR(c.step.value.value, 250e-6 + 21e-6, 1e-12);
  // The graph starts at 84 us and runs 205; the convolution has been queued long before.
  EXPECT_NEAR(c.single_call.value.value, 84e-6 + 205e-6 + 51e-6 + 15e-6 + 70e-6, 1e-12);
}

TEST(Compose, HostsDiffer) {
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kElementwise, 100)};
  const Estimate estimates[] = {estimate(1e-7, 0, 0, 0)};
  LaunchCosts costs = kCosts;
  costs.host_spread = 0.2;
  const Composition c = composed(launches, estimates, costs);
  EXPECT_NEAR(c.step.high.value, 200e-6 * std::exp(kNinetyPercent * 0.2), 1e-9);
  EXPECT_NEAR(c.step.low.value, 200e-6 * std::exp(-kNinetyPercent * 0.2), 1e-9);
}

TEST(Compose, SpreadsOfTwoKernelsByHand) {
  // Three launches of 2 ms and one of 4 ms, of two families.
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kGemm, 3),
                                                  launch(KernelFamily::kReduction, 1)};
  const Estimate estimates[] = {estimate(2e-3, 0.1F, 0.2F, 0.05F),
                                estimate(4e-3, 0.3F, 0.1F, 0.05F)};
  const Composition c = composed(launches, estimates, {});
  const double a = 6e-3, b = 4e-3;
  const double own = a * 0.1 * a * 0.1 + b * 0.3 * b * 0.3;     // independent
  const double family = a * 0.2 * a * 0.2 + b * 0.1 * b * 0.1;  // each its own
  const double device = std::pow((a + b) * 0.05, 2);            // together
  const double spread = std::sqrt(own + family + device) / (a + b);
  EXPECT_NEAR(c.step.high.value, 10e-3 * std::exp(kNinetyPercent * spread), 1e-8);
  EXPECT_NEAR(c.step.low.value, 10e-3 * std::exp(-kNinetyPercent * spread), 1e-8);
}

TEST(Compose, KernelsOfOneFamilyErrTogether) {
  const std::initializer_list<Launch> same = {launch(KernelFamily::kGemm, 1),
                                              launch(KernelFamily::kGemm, 1)};
  const std::initializer_list<Launch> other = {launch(KernelFamily::kGemm, 1),
                                               launch(KernelFamily::kReduction, 1)};
  const Estimate estimates[] = {estimate(1e-3, 0, 0.2F, 0), estimate(1e-3, 0, 0.2F, 0)};
  const Composition together = composed(same, estimates, {});
  const Composition apart = composed(other, estimates, {});
  EXPECT_NEAR(together.step.high.value, 2e-3 * std::exp(kNinetyPercent * 0.2), 1e-9);
  EXPECT_NEAR(apart.step.high.value, 2e-3 * std::exp(kNinetyPercent * 0.2 / std::sqrt(2)), 1e-9);
}

TEST(Compose, ASkewMovesTheIntervalNotTheValue) {
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kGemm, 1)};
  Estimate e = estimate(1e-3, 0.1F, 0, 0);
  e.skew = 0.5F;
  const Composition c = composed(launches, {&e, 1}, {});
  EXPECT_DOUBLE_EQ(c.step.value.value, 1e-3);
  EXPECT_NEAR(c.step.high.value, 1e-3 * std::exp(0.5 + kNinetyPercent * 0.1), 1e-9);
  EXPECT_DOUBLE_EQ(c.step.low.value, 1e-3);  // the interval always holds the value
}

TEST(Compose, TheStacksStructureErrsForAllKernelsTogether) {
  const std::initializer_list<Launch> launches = {launch(KernelFamily::kGemm, 1),
                                                  launch(KernelFamily::kReduction, 1)};
  const Estimate estimates[] = {estimate(1e-3, 0, 0, 0), estimate(1e-3, 0, 0, 0)};
  LaunchCosts costs;
  costs.structure_spread = 0.3;
  const Composition c = composed(launches, estimates, costs);
  EXPECT_NEAR(c.step.high.value, 2e-3 * std::exp(kNinetyPercent * 0.3), 1e-9);
}

TEST(Compose, NothingTakesNoTime) {
  const Composition c = composed({}, {}, kCosts);
  EXPECT_EQ(c.step.value.value, 0);
  EXPECT_EQ(c.step.high.value, 0);
  EXPECT_DOUBLE_EQ(c.single_call.value.value, 1e-3);
}

}  // namespace
}  // namespace orrery
