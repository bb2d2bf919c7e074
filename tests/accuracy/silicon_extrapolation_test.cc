#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/tile/calibration.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

constexpr int64_t kMostFittedColumns = 8192;

/// Median and worst tenth of the errors, in per cent.
struct Bound {
  double median = 0, p90 = 0;
};

/// Products of more columns than any that were fitted: as they are, and a little room.
/// Table look-ups are 9–15 off in the median there and 51–112 in the worst tenth.
struct Wider {
  const char* device;
  const char* table;
  Bound all;
  std::map<TileClass, Bound> classes;
};

class WiderThanFitted : public testing::TestWithParam<Wider> {};

void expect_within(const std::string& what, const std::vector<double>& errors, const Bound& bound) {
  fmt::print("{}: n > 8192 median {:.1f} %, p90 {:.1f} % of {}\n", what, median(errors),
             quantile(errors, 0.9), errors.size());
  EXPECT_LE(median(errors), bound.median) << what;
  EXPECT_LE(quantile(errors, 0.9), bound.p90) << what;
}

TEST_P(WiderThanFitted, ArePredicted) {
  const Wider& expected = GetParam();
  ORRERY_SHARED_DATA_OR_SKIP(path, std::string("gpu/silicon/") + expected.table + ".csv");
  const Device device = Catalogue(ORRERY_SOURCE_DIR "/hardware").device(expected.device);
  const MeasuredTable table = read_measured_table(path);
  CalibrationOptions options;
  options.folds = 2;
  options.protocol = {table.quantizes, table.warm, table.eager};
  std::vector<MeasuredRow> narrow, wide;
  for (const MeasuredRow& row : table.rows) {
    const bool fitted = std::get<ProductShape>(row.kernel.shape).n <= kMostFittedColumns;
    (fitted ? narrow : wide).push_back(row);
  }
  ASSERT_GT(wide.size(), 1000u);
  const Calibration found = calibrate(device, narrow, options);
  const TileGpu gpu(device, options.protocol);
  std::vector<double> all;
  std::map<TileClass, std::vector<double>> by_class;
  TileDescription description;
  for (const MeasuredRow& row : wide) {
    gpu.describe(row.kernel, Hertz(0), description);
    const ClassFit* fit = found.fit.find(description.tile_class);
    ASSERT_NE(fit, nullptr);
    const double predicted = estimate_of(*fit, description).seconds.value;
    all.push_back(100 * std::abs(predicted / row.seconds - 1));
    by_class[description.tile_class].push_back(all.back());
  }
  expect_within(expected.table, all, expected.all);
  for (const auto& [tile_class, errors] : by_class)
    expect_within(fmt::format("{} {}", expected.table, name(tile_class)), errors,
                  expected.classes.at(tile_class));
}

INSTANTIATE_TEST_SUITE_P(Tables, WiderThanFitted,
                         testing::Values(Wider{"a100-sxm-80gb",
                                               "a100_sxm_gemm",
                                               {4, 12.8},
                                               {{TileClass::kProduct, {4, 12.8}}}},
                                         Wider{"h100-sxm",
                                               "h100_sxm_gemm",
                                               {5.5, 16.7},
                                               {{TileClass::kProduct, {5, 13.2}},
                                                {TileClass::kByteProduct, {7.2, 22}},
                                                {TileClass::kScaledProduct, {4.7, 16.1}}}},
                                         Wider{"h200",
                                               "h200_sxm_gemm",
                                               {5, 16.5},
                                               {{TileClass::kProduct, {4.3, 11.3}},
                                                {TileClass::kByteProduct, {8, 22.5}},
                                                {TileClass::kScaledProduct, {3.7, 14.2}}}},
                                         Wider{"l40s",
                                               "l40s_gemm",
                                               {8.2, 22},
                                               {{TileClass::kProduct, {8.7, 25.3}},
                                                {TileClass::kByteProduct, {10.2, 29}},
                                                {TileClass::kScaledProduct, {6.1, 14.2}}}}),
                         [](const auto& row) { return std::string(row.param.table); });

}  // namespace
}  // namespace orrery
