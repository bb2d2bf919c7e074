#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "orrery/base/registry.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/power_fit.h"
#include "orrery/kernel/tile/calibration.h"
#include "orrery/kernel/tile/fit_store.h"
#include "orrery/learn/json_value.h"

namespace orrery {
namespace {

Device h200() { return Catalogue(ORRERY_SOURCE_DIR "/hardware").device("h200"); }

PowerFit shipped_power() {
  return power_fit_from_json(
      JsonValue::parse(Source::from_file(ORRERY_SOURCE_DIR "/data/kernels/power.json")));
}

/// Mean of |predicted / true - 1|, in per cent.
struct MeanError {
  double sum = 0;
  size_t count = 0;
  void add(double predicted, double truth) {
    sum += 100 * std::abs(predicted / truth - 1);
    ++count;
  }
  double percent() const { return sum / static_cast<double>(count); }
};

/// 257 to 258 TFLOP/s with random numbers at 400 W (thonking.ai, 2024), by which the chip's
/// reference power was set: a guard, no check.
TEST(PowerAccuracy, A100sSustainWhatIsPublished) {
  const auto predictor =
      Registry<KernelModel>::instance()
          .at("tile", "kernel model")
          .create()
          ->bind(Catalogue(ORRERY_SOURCE_DIR "/hardware").device("a100-sxm-80gb"),
                 {.stack = "torch-eager", .data = ORRERY_SOURCE_DIR "/data"});
  const Kernel product = operator_kernel("gemm", "bf16", R"({"m": 8192, "n": 8192, "k": 8192})");
  Estimate e;
  const OperatingPoint sustained{.regime = OperatingPoint::Regime::kSustained, .clock = {}};
  predictor->predict({&product, 1}, sustained, {&e, 1});
  EXPECT_NEAR(2 * std::pow(8192.0, 3) / e.seconds.value / 1e12, 257.5, 4);
}

/// 37 operators in a cool burst and sustained, none of which any fit has seen: with the
/// burst's time as measured, and with what the shipped fit predicts for it.
TEST(PowerAccuracy, SustainedOperatorsOnH200) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/power_points.csv");
  const Device device = h200();
  const PowerModel model(device, std::make_shared<PowerFit>(shipped_power()));
  const auto times = load_tile_fit(ORRERY_SOURCE_DIR "/data/kernels/h200.torch.json");
  const TileGpu gpu(device);
  const MeasuredTable table = read_measured_table(path);
  ASSERT_EQ(table.rows.size(), 74);
  for (const bool predicted : {false, true}) {
    MeanError burst_time, time, power;
    double clock = 0;
    TileDescription d;
    for (size_t i = 0; i < table.rows.size(); i += 2) {
      const MeasuredRow &burst = table.rows[i], &sustained = table.rows[i + 1];
      gpu.describe(burst.kernel, Hertz(0), d);
      const ClassFit* fit = times->find(d.tile_class);
      ASSERT_NE(fit, nullptr);
      const Seconds guess = estimate_of(*fit, d).seconds;
      const PowerState s =
          model.sustained(predicted ? model.terms(burst.kernel, d, guess)
                                    : model.burst_terms(burst.kernel, d, Seconds(burst.seconds)));
      burst_time.add(guess.value, burst.seconds);
      time.add(s.time.value, sustained.seconds);
      power.add(s.power.value, sustained.watts);
      clock += std::abs(s.clock.value - sustained.sm_hz) / 1e6 / 37;
    }
    fmt::print(
        "power_points.csv from {} bursts: burst time {:.2f} %, sustained time {:.2f} %, clock "
        "{:.1f} MHz, power {:.2f} %\n",
        predicted ? "predicted" : "measured", burst_time.percent(), time.percent(), clock,
        power.percent());
    EXPECT_LT(time.percent(), predicted ? 8.7 : 2.5);
    EXPECT_LT(clock, 60);
    EXPECT_LT(power.percent(), 7.5);
    EXPECT_LT(burst_time.percent(), 8.5);
  }
}

/// Energy of vLLM's kernels, predicted power times predicted time, on the fifth that was
/// not fitted. Times are within a few per cent; the table's power is not the kernel's
/// alone: it samples a driver's running mean every 0.1 s over runs of 0.03 to 1 s, so that
/// short runs read what ran before them. Rows of the same attention and the same time (to
/// 5 %) that differ in the type of the cache alone are 17 % apart in power (context) and
/// 27 % (generation) on average, so no prediction can come nearer than 12 % and 19 %.
TEST(PowerAccuracy, EnergyOfVllmKernelsOnH200) {
  struct Part {
    const char* table;
    double most_time, most_energy, most_long_energy;  // per cent
  };
  const Device device = h200();
  const TileProtocol quantizing{.quantizes = true};
  const TileGpu gpu(device, quantizing);
  for (const Part& part : {Part{"gemm", 4, 12, 6}, Part{"context_attention", 4.5, 16.5, 16.5},
                           Part{"generation_attention", 4, 22.5, 24}}) {
    ORRERY_SHARED_DATA_OR_SKIP(path, fmt::format("gpu/power/h200_power_{}.csv", part.table));
    std::vector<MeasuredRow> fitted, held_out;
    for (const MeasuredRow& row : read_measured_table(path).rows)
      (is_held_out(row, 5) ? held_out : fitted).push_back(row);
    CalibrationOptions options;
    options.folds = 2;
    options.protocol = quantizing;
    const TileFit times = calibrate(device, fitted, options).fit;
    PowerFit power = shipped_power();
    fit_power_corrections(power, device, fitted, quantizing, 2);
    const PowerModel model(device, std::make_shared<PowerFit>(power));
    MeanError time, watts, energy, long_energy;
    TileDescription d;
    for (const MeasuredRow& row : held_out) {
      gpu.describe(row.kernel, Hertz(0), d);
      const ClassFit* fit = times.find(d.tile_class);
      ASSERT_NE(fit, nullptr);
      const Seconds guess = estimate_of(*fit, d).seconds;
      const Watts drawn =
          model.sustained(model.terms(row.kernel, d, guess)).power * model.correction(d);
      time.add(guess.value, row.seconds);
      watts.add(drawn.value, row.watts);
      energy.add((drawn * guess).value, row.watts * row.seconds);
      if (row.seconds > 0.2e-3) long_energy.add((drawn * guess).value, row.watts * row.seconds);
    }
    fmt::print(
        "{}: {} rows, time {:.2f} %, power {:.2f} %, energy {:.2f} %; over 0.2 ms {:.2f} %\n",
        part.table, held_out.size(), time.percent(), watts.percent(), energy.percent(),
        long_energy.percent());
    EXPECT_LT(time.percent(), part.most_time) << part.table;
    EXPECT_LT(energy.percent(), part.most_energy) << part.table;
    EXPECT_LT(long_energy.percent(), part.most_long_energy) << part.table;
  }
}

}  // namespace
}  // namespace orrery
