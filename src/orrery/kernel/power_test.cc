#include "orrery/kernel/power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "orrery/base/error.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/learn/json_value.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// 1 TFLOP/s of bf16 products, 1 TB/s and 100 W at 1 GHz.
Device round_device() {
  Device d;
  d.name = "round";
  d.compute_units = 10;
  d.clock = d.matrix_clock = Hertz(1e9);
  d.matrix.set(ElementType::kBF16, FlopsPerSecond(1e12));
  d.matrix.set(ElementType::kF8E4M3FN, FlopsPerSecond(2e12));
  d.vector.set(ElementType::kF32, FlopsPerSecond(1e11));
  d.memory = {{"hbm", Bytes(1e9), BytesPerSecond(1e12)}};
  d.power_limit = Watts(100);
  return d;
}

std::shared_ptr<PowerFit> round_fit() {
  auto fit = std::make_shared<PowerFit>();
  fit->device = "round";
  fit->coefficients = {.idle = 0.1,
                       .busy = 0.2,
                       .matrix_byte = 1.6,
                       .matrix_half = 1,
                       .matrix_single = 0.9,
                       .vector = 0.5,
                       .memory = 0.4,
                       .burst = 2,
                       .still = 0,
                       .stir = 0};
  return fit;
}

/// Of 10⁹ FLOPs in 1 ms at the full rate, and of 0.5 ms of memory traffic.
Kernel product(ElementType type, double flops = 1e9) {
  Kernel k;
  k.cost.matrix_flops = flops;
  k.cost.matrix_type = type;
  return k;
}

TileDescription half_of_memory() {
  TileDescription d;
  d.tile_class = TileClass::kProduct;
  d.compute_seconds = 1e-3;
  d.memory_seconds = 0.5e-3;
  return d;
}

TEST(Power, TermsAreUtilisationsOfTheLimit) {
  const PowerModel model(round_device(), round_fit());
  const PowerTerms t =
      model.burst_terms(product(ElementType::kBF16), half_of_memory(), Seconds(2e-3));
  EXPECT_DOUBLE_EQ(t.time.value, 2e-3);
  // u_core = 1/2, u_memory = 1/4: two thirds of the time follow the clock.
  EXPECT_DOUBLE_EQ(t.core_time.value, 2e-3 * 2 / 3);
  EXPECT_DOUBLE_EQ(t.busy.value, 20 * 2e-3);
  EXPECT_DOUBLE_EQ(t.core.value, 100 * 0.5 * 2e-3);
  EXPECT_DOUBLE_EQ(t.memory.value, 40 * 0.25 * 2e-3);
  EXPECT_NEAR(model.burst(t).power.value, 10 + 20 + 50 + 10, 1e-9);
}

TEST(Power, UnitsDrawTheirOwnShare) {
  const PowerModel model(round_device(), round_fit());
  const TileDescription d = half_of_memory();
  const Seconds time(2e-3);
  EXPECT_DOUBLE_EQ(
      model.burst_terms(product(ElementType::kF8E4M3FN, 2e9), d, time).core.value / 2e-3,
      160 * 0.5);
  EXPECT_DOUBLE_EQ(model.burst_terms(product(ElementType::kF32, 1e8), d, time).core.value / 2e-3,
                   50 * 0.5);
  Kernel elementwise;
  elementwise.cost.vector_flops = 1e8;
  elementwise.cost.vector_type = ElementType::kF32;
  EXPECT_DOUBLE_EQ(model.burst_terms(elementwise, d, time).core.value / 2e-3, 50 * 0.5);
}

TEST(Power, ZerosOfAProductDrawNextToNothing) {
  const PowerModel model(round_device(), round_fit());
  Kernel k = product(ElementType::kBF16);
  ProductShape shape;
  shape.filled = 0.125f;
  k.shape = shape;
  // A full product draws 100 W for 1 ms: an eighth of the rows, 2.6 times its share.
  EXPECT_NEAR(model.terms(k, half_of_memory(), Seconds(1e-3)).core.value, 0.0325, 1e-9);
  shape.filled = 0.6f;
  k.shape = shape;
  EXPECT_NEAR(model.terms(k, half_of_memory(), Seconds(1e-3)).core.value, 0.1, 1e-9);
}

TEST(Power, SmsThatStandStillOrWaitDrawLess) {
  auto fit = round_fit();
  fit->coefficients.still = 2;
  fit->coefficients.stir = 0.5;
  TileDescription d = half_of_memory();
  d.floor_seconds = 0.5e-3;
  const PowerTerms t =
      PowerModel(round_device(), fit).burst_terms(product(ElementType::kBF16), d, Seconds(2e-3));
  // Moving for half of the time, and u / (u + stir) = 1/2 of it.
  EXPECT_DOUBLE_EQ(t.busy.value, 20 * 0.5 * 0.5 * 2e-3);
}

TEST(Power, WorkWithinTheLimitKeepsTheBoostClock) {
  const PowerModel model(round_device(), round_fit());
  const PowerTerms t =
      model.burst_terms(product(ElementType::kBF16), half_of_memory(), Seconds(2e-3));
  const PowerState s = model.sustained(t);
  EXPECT_DOUBLE_EQ(s.clock.value, 1e9);
  EXPECT_DOUBLE_EQ(s.time.value, 2e-3);
  EXPECT_NEAR(s.energy().value, 0.18, 1e-12);
}

/// 10 + 20 r² + 100 r · r = 100, for time goes with 1 / r: r = √(90 / 120).
TEST(Power, SustainedWorkSettlesAtTheLimit) {
  const PowerModel model(round_device(), round_fit());
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  EXPECT_NEAR(model.burst(t).power.value, 130, 1e-9);
  const PowerState s = model.sustained(t);
  EXPECT_NEAR(s.clock.value, 1e9 * std::sqrt(0.75), 1e3);
  EXPECT_NEAR(s.power.value, 100, 1e-6);
  EXPECT_NEAR(s.time.value, 1e-3 / std::sqrt(0.75), 1e-9);
  EXPECT_NEAR(model.at(t, Hertz(0.5e9)).time.value, 2e-3, 1e-12);
  EXPECT_NEAR(model.at(t, Hertz(0.5e9)).power.value, 10 + 20 * 0.25 + 100 * 0.25, 1e-9);
}

/// The chip draws what it draws: 10 + 120 r² = 64 gives r = √0.45, of the same burst, and times of
/// fits were taken under the limit that the board is rated at.
TEST(Power, ALimitThatSomebodySetLowersTheClock) {
  auto fit = round_fit();
  fit->coefficients.warm = 0.5;
  Device held = round_device();
  held.rated_power = held.power_limit;
  held.power_limit = Watts(64);
  const PowerModel model(held, fit);
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  EXPECT_NEAR(model.burst(t).power.value, 130, 1e-9);
  const PowerState s = model.sustained(t);
  EXPECT_NEAR(s.clock.value, 1e9 * std::sqrt(0.45), 1e3);
  EXPECT_NEAR(s.power.value, 64, 1e-6);
  EXPECT_NEAR(model.settled(t).clock.value, 1e9 * std::sqrt(0.45), 1e3);
  const Seconds warm(1e-3 * std::pow(0.75, -0.25));
  EXPECT_NEAR(model.terms(product(ElementType::kBF16), d, warm).time.value, 1e-3, 1e-6);
}

/// 10 + 20 / 4 W and half of the arithmetic's 0.1 J in 2 ms, whether the time was taken at the
/// boost clock or at half of it.
TEST(Power, ATimeTakenAtAClockIsNotSlowedAgain) {
  const PowerModel model(round_device(), round_fit());
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const Kernel kernel = product(ElementType::kBF16);
  const PowerState slowed = model.at(model.burst_terms(kernel, d, Seconds(1e-3)), Hertz(0.5e9));
  const PowerState taken =
      model.taken_at(model.burst_terms(kernel, d, Seconds(2e-3)), Hertz(0.5e9));
  EXPECT_NEAR(taken.time.value, 2e-3, 1e-12);
  EXPECT_NEAR(taken.energy().value, 0.08, 1e-12);
  EXPECT_NEAR(slowed.energy().value, 0.08, 1e-12);
}

/// At a quarter of the clock 10 + 120 / 16 = 17.5 W are left.
TEST(Power, SaysThatALimitIsExceeded) {
  Device held = round_device();
  held.rated_power = held.power_limit;
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const auto gap = [&](double limit, double draw) {
    held.power_limit = Watts(limit);
    const PowerModel model(held, round_fit());
    const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
    return model.gap(model.settled(t, draw), draw);
  };
  EXPECT_EQ(gap(64, 1), "");
  EXPECT_EQ(gap(18, 1), "");
  EXPECT_EQ(gap(17, 1),
            "the power limit of 17 W is exceeded: round draws more at 250 MHz, the lowest clock "
            "that work is taken to fall to");
  EXPECT_NE(gap(18, 1.1), "");
  const PowerModel model(round_device(), round_fit());
  const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  EXPECT_EQ(model.gap(model.at(t, Hertz(0.8e9))), "");
  EXPECT_EQ(model.gap(model.at(t, Hertz(1e9))),
            "the power limit of 100 W is exceeded: round draws more at 1000 MHz");
}

/// 20 W more at rest, above the 10 that the fit has: 30 + 120 r² = 100. What was measured, a burst
/// and its share of a fit's time, stays.
TEST(Power, AWhatIfOnThePowerAtRestIsAddedToWhatTheFitHas) {
  auto fit = round_fit();
  fit->coefficients.burst = 1.1;
  fit->coefficients.warm = 0.5;
  Device device = round_device();
  device.idle_power = Watts(7);
  const PowerModel before(device, fit);
  device.as_described = std::make_shared<Device>(device);
  device.idle_power = Watts(27);
  const PowerModel model(device, fit);
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const Kernel kernel = product(ElementType::kBF16);
  const PowerTerms t = model.burst_terms(kernel, d, Seconds(1e-3));
  EXPECT_NEAR(model.settled({}).power.value, 30, 1e-9);
  EXPECT_NEAR(model.settled(t).clock.value, 1e9 * std::sqrt(70.0 / 120), 1e3);
  EXPECT_NEAR(model.burst(t).clock.value, before.burst(t).clock.value, 1e3);
  EXPECT_NEAR(model.burst(t).power.value, 130, 1e-6);
  EXPECT_NEAR(model.terms(kernel, d, Seconds(1.1e-3)).time.value,
              before.terms(kernel, d, Seconds(1.1e-3)).time.value, 1e-9);
  // Where the catalogue has none, it is what was set.
  Device unknown = round_device();
  unknown.as_described = std::make_shared<Device>(unknown);
  unknown.idle_power = Watts(27);
  EXPECT_NEAR(PowerModel(unknown, fit).settled({}).power.value, 27, 1e-9);
}

/// With 1.1 times the limit for a burst, 10 + 20 r² + 100 r = 110 gives r = 0.854102…; the
/// millisecond given is what the burst took at that clock.
TEST(Power, BurstsAreHeldToo) {
  auto fit = round_fit();
  fit->coefficients.burst = 1.1;
  const PowerModel model(round_device(), fit);
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  const double r = (std::sqrt(45.0) - 5) / 2;
  EXPECT_NEAR(model.burst(t).clock.value, 1e9 * r, 1e3);
  EXPECT_DOUBLE_EQ(model.burst(t).time.value, 1e-3);
  const PowerState s = model.sustained(t);
  EXPECT_LT(s.clock.value, 1e9 * r);
  EXPECT_NEAR(s.time.value, 1e-3 * 1e9 * r / s.clock.value, 1e-12);
}

TEST(Power, WarmTimesAreCooledBeforeTheyAreSlowed) {
  auto fit = round_fit();
  fit->coefficients.warm = 0.5;
  const PowerModel model(round_device(), fit);
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  // 1 ms in a burst slows by 1/√0.75; half of that, of the logarithm, is in the time given.
  const double slowdown = 1 / std::sqrt(0.75);
  const Seconds warm(1e-3 * std::sqrt(slowdown));
  const PowerTerms t = model.terms(product(ElementType::kBF16), d, warm);
  EXPECT_NEAR(t.time.value, 1e-3, 1e-6);
  EXPECT_NEAR(model.sustained(t).time.value, 1e-3 * slowdown, 1e-6);
}

/// As above, burst at the full clock and sustained at √0.75 of it: a time half-way between was
/// taken at the square root of both.
TEST(Power, AFitsTimeIsOfTheClockThatThePowerAllowed) {
  auto fit = round_fit();
  fit->coefficients.warm = 0.5;
  const PowerModel model(round_device(), fit);
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const double measured_at = std::pow(0.75, 0.25);
  const Seconds warm(1e-3 / measured_at);
  const ClockOfFit at = model.clock_of_fit(product(ElementType::kBF16), d, warm);
  EXPECT_NEAR(at.measured.value, 1e9 * measured_at, 1e6);
  EXPECT_NEAR(at.slowdown(Hertz(1e9)), measured_at, 1e-3);
  EXPECT_NEAR(at.slowdown(Hertz(0.5e9)), 2 * measured_at, 2e-3);
  EXPECT_EQ(at.slowdown(Hertz()), 1);
  // Where memory is half as busy as the matrix units, a third of the time stays. In 4 ms they draw
  // 10 + 20 + 25 + 5 W: the board holds its full clock.
  const ClockOfFit light =
      model.clock_of_fit(product(ElementType::kBF16), half_of_memory(), Seconds(4e-3));
  EXPECT_NEAR(light.measured.value, 1e9, 1e3);
  EXPECT_NEAR(light.slowdown(Hertz(0.5e9)), 1.0 / 3 + 2.0 / 3 * 2, 1e-6);
}

TEST(Power, AStepIsTheSumOfItsKernels) {
  const PowerModel model(round_device(), round_fit());
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  PowerTerms step = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  PowerTerms gap;
  gap.time = Seconds(1e-3);
  step += gap;
  // Half of the time 130 W, half idle: within the limit.
  EXPECT_NEAR(model.sustained(step).power.value, 10 + (20 + 100) / 2.0, 1e-9);
  EXPECT_DOUBLE_EQ(model.sustained(step).clock.value, 1e9);
}

TEST(Power, TheCardThatDrawsMostSetsThePace) {
  const PowerModel model(round_device(), round_fit());
  TileDescription d = half_of_memory();
  d.memory_seconds = 0;
  const PowerTerms t = model.burst_terms(product(ElementType::kBF16), d, Seconds(1e-3));
  // 10 + (20 + 100) r² = 100 W, and 100 / 1.2 W of a usual card where the slowest draws a fifth
  // more.
  const PowerState usual = model.settled(t);
  const PowerState slowest = model.settled(t, 1.2);
  EXPECT_NEAR(usual.clock.value, 1e9 * std::sqrt(90.0 / 120), 1e3);
  EXPECT_NEAR(slowest.clock.value, 1e9 * std::sqrt((100 / 1.2 - 10) / 120), 1e3);
  // A usual card is through after 1.1547 of 1.2792 ms and draws 10 W from then on.
  EXPECT_NEAR(slowest.time.value, 1.2792e-3, 1e-7);
  EXPECT_NEAR(model.waiting_for(t, slowest).value, (100 * 1.1547 + 10 * 0.1245) / 1.2792, 0.01);
  EXPECT_DOUBLE_EQ(model.waiting_for(t, usual).value, usual.power.value);
}

TEST(Power, AttentionFollowsTheClock) {
  TileDescription d = half_of_memory();
  d.tile_class = TileClass::kAttention;
  const PowerTerms t = PowerModel(round_device(), round_fit())
                           .burst_terms(product(ElementType::kBF16), d, Seconds(2e-3));
  EXPECT_DOUBLE_EQ(t.core_time.value, 2e-3);
}

TEST(Power, SaysWhatItDoesNotKnow) {
  Device device = round_device();
  EXPECT_THAT(PowerModel(device, round_fit()).gaps(), IsEmpty());
  device.name = "square";
  EXPECT_THAT(PowerModel(device, round_fit()).gaps(),
              ElementsAre(HasSubstr("power of square was not measured: shares of the power limit "
                                    "as on round")));
  device.power_limit = Watts(0);
  const PowerModel unlimited(device, round_fit());
  EXPECT_THAT(unlimited.gaps(), ElementsAre(HasSubstr("power limit of square is not published")));
  const PowerTerms t =
      unlimited.burst_terms(product(ElementType::kBF16), half_of_memory(), Seconds(1e-3));
  EXPECT_DOUBLE_EQ(unlimited.sustained(t).time.value, 1e-3);
}

PowerFit read(const std::string& text) {
  return power_fit_from_json(JsonValue::parse(Source::from_memory("fit.json", text)));
}

TEST(PowerJson, ReadsWhatItWrites) {
  PowerFit fit = *round_fit();
  fit.command = "made \"so\"";
  fit.sources = {"a.csv", "b.csv"};
  fit.rows = 7;
  const size_t features = TileGpu::feature_names(TileClass::kDecode).size();
  fit.corrections[static_cast<size_t>(TileClass::kDecode)] =
      PowerCorrection{BoostedTrees(features, 0.25, 0.5, {{{{0, 1.5F}}, {-1, 1}}}, {}), 300};
  const std::string text = to_json(fit);
  const PowerFit again = read(text);
  EXPECT_EQ(to_json(again), text);
  TileDescription d = half_of_memory();
  d.tile_class = TileClass::kDecode;
  d.count = features;
  d.features[0] = 2;
  const PowerModel model(round_device(), std::make_shared<PowerFit>(again));
  EXPECT_DOUBLE_EQ(model.correction(d), std::exp(0.75));
  d.tile_class = TileClass::kProduct;
  EXPECT_DOUBLE_EQ(model.correction(d), 1);
}

TEST(PowerJson, NamesWhatIsWrong) {
  const std::string good = to_json(*round_fit());
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    try {
      read(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("\"memory\":0.4", "\"memory\":-1"),
              HasSubstr("coefficients.memory: must lie within 0 and 100"));
  EXPECT_THAT(message("\"memory\":0.4", "\"momory\":0.4"), HasSubstr("no such coefficient"));
  EXPECT_THAT(message("\"memory\":0.4,", ""), HasSubstr("memory"));
  EXPECT_THAT(message("orrery-power-fit", "orrery-tile-fit"), HasSubstr("schema"));
  EXPECT_THAT(message("\"corrections\":{", "\"corrections\":{\"tea\":{}"),
              HasSubstr("no such class of kernels"));
}

}  // namespace
}  // namespace orrery
