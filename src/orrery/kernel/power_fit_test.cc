#include "orrery/kernel/power_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "orrery/base/error.h"
#include "orrery/base/output_file.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/tile/fit_store.h"
#include "orrery/learn/json_value.h"

namespace orrery {
namespace {

using testing::HasSubstr;

Device h200() { return Catalogue(ORRERY_SOURCE_DIR "/hardware").device("h200"); }

std::vector<MeasuredRow> measured_pairs() {
  return read_measured_table(ORRERY_SOURCE_DIR "/data/measured/h200_power.csv.gz").rows;
}

/// Operators that behave exactly as the model says give back its coefficients.
TEST(PowerFitting, FindsWhatMadeTheRows) {
  const Device device = h200();
  auto made = std::make_shared<PowerFit>();
  made->coefficients = {.idle = 0.15,
                        .busy = 0.45,
                        .matrix_byte = 1.3,
                        .matrix_half = 1.2,
                        .matrix_single = 0.8,
                        .vector = 0.6,
                        .memory = 0.35,
                        .burst = 1.4,
                        .still = 1.2,
                        .stir = 0.06};
  const PowerModel model(device, made);
  const TileGpu gpu(device);
  std::vector<MeasuredRow> rows = measured_pairs();
  TileDescription d;
  for (size_t i = 0; i + 1 < rows.size(); i += 2) {
    gpu.describe(rows[i].kernel, Hertz(0), d);
    const PowerState s =
        model.sustained(model.burst_terms(rows[i].kernel, d, Seconds(rows[i].seconds)));
    rows[i + 1].seconds = s.time.value;
    rows[i + 1].sm_hz = s.clock.value;
    rows[i + 1].watts = s.power.value;
  }
  const PowerFitting found = fit_power(device, rows, nullptr);
  EXPECT_EQ(found.fit.rows, 110);
  EXPECT_LT(found.errors.sustained_time, 0.005);
  EXPECT_LT(found.errors.sustained_clock.value, 10e6);
  EXPECT_LT(found.errors.sustained_power, 0.01);
  const PowerCoefficients &a = made->coefficients, &b = found.fit.coefficients;
  EXPECT_NEAR(b.idle, a.idle, 0.01);
  EXPECT_NEAR(b.busy, a.busy, 0.03);
  EXPECT_NEAR(b.matrix_half, a.matrix_half, 0.05);
  EXPECT_NEAR(b.vector, a.vector, 0.05);
  EXPECT_NEAR(b.memory, a.memory, 0.03);
  EXPECT_EQ(b.warm, 0);
}

TEST(PowerFitting, WantsEnoughPairs) {
  const std::vector<MeasuredRow> rows = measured_pairs();
  const auto message = [](const Device& device, std::span<const MeasuredRow> given) {
    try {
      fit_power(device, given, nullptr);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(h200(), std::span(rows).first(38)), HasSubstr("there are 19"));
  Device unlimited = h200();
  unlimited.power_limit = Watts(0);
  EXPECT_THAT(message(unlimited, rows), HasSubstr("no power limit"));
}

/// Rows that draw 1.3 times what the coefficients say, and too few of another class.
TEST(PowerFitting, CorrectsClassesOfManyRows) {
  const Device device = h200();
  const MeasuredTable table =
      read_measured_table(ORRERY_SOURCE_DIR "/data/measured/h200_kernels.csv.gz");
  PowerFit fit = fit_power(device, measured_pairs(), nullptr).fit;
  const PowerModel model(device, std::make_shared<PowerFit>(fit));
  const TileGpu gpu(device);
  std::vector<MeasuredRow> rows = table.rows;
  size_t scans = 0;  // one fewer than is enough
  std::erase_if(rows, [&](const MeasuredRow& row) {
    return gpu.class_of(row.kernel) == TileClass::kScan && ++scans >= kFewestCorrectedRows;
  });
  TileDescription d;
  for (MeasuredRow& row : rows) {
    gpu.describe(row.kernel, Hertz(0), d);
    row.watts = 1.3 * model.sustained(model.terms(row.kernel, d, Seconds(row.seconds))).power.value;
  }
  fit_power_corrections(fit, device, rows, {}, 1);
  EXPECT_FALSE(fit.corrections[static_cast<size_t>(TileClass::kScan)]);
  const auto& product = fit.corrections[static_cast<size_t>(TileClass::kProduct)];
  ASSERT_TRUE(product);
  EXPECT_GE(product->rows, kFewestCorrectedRows);
  const PowerModel corrected(device, std::make_shared<PowerFit>(fit));
  gpu.describe(rows[100].kernel, Hertz(0), d);
  ASSERT_TRUE(fit.corrections[static_cast<size_t>(d.tile_class)]);
  EXPECT_NEAR(corrected.correction(d), 1.3, 0.01);
}

/// data/kernels/power.json is what the measurements that come with it give. Where it is
/// not, the text it should be lies in the folder the message names.
TEST(PowerFile, IsWhatTheMeasurementsGive) {
  const Device device = h200();
  const auto times = load_tile_fit(ORRERY_SOURCE_DIR "/data/kernels/h200.torch.json");
  PowerFit made = fit_power(device, measured_pairs(), times.get()).fit;
  made.command = "kernel_test --gtest_filter=PowerFile.*";
  made.sources = {"data/measured/h200_power.csv.gz", "data/kernels/h200.torch.json"};
  const std::string fresh = testing::TempDir() + "power.json";
  OutputFile out(fresh);
  out.write(to_json(made));
  out.commit();

  const PowerFit kept = power_fit_from_json(
      JsonValue::parse(Source::from_file(ORRERY_SOURCE_DIR "/data/kernels/power.json")));
  EXPECT_EQ(kept.device, "h200");
  const PowerCoefficients &a = kept.coefficients, &b = made.coefficients;
  EXPECT_NEAR(a.idle, b.idle, 1e-6) << fresh;
  EXPECT_NEAR(a.busy, b.busy, 1e-6) << fresh;
  EXPECT_NEAR(a.matrix_half, b.matrix_half, 1e-6) << fresh;
  EXPECT_NEAR(a.memory, b.memory, 1e-6) << fresh;
  EXPECT_NEAR(a.burst, b.burst, 1e-6) << fresh;
  // Follows every new fit of times a little.
  EXPECT_NEAR(a.warm, b.warm, 0.1) << fresh;
}

}  // namespace
}  // namespace orrery
