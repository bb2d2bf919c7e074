#include "orrery/kernel/systolic/array_cycles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

constexpr SystolicArray kSquare{128, 128};

TEST(ArrayCycles, WeightsThatFillTheArrayOnce) {
  const Folding f = fold(Dataflow::kWeight, kSquare, {1000, 128, 128});
  EXPECT_EQ(f.folds, 1);
  EXPECT_EQ(f.stream, 1000);
  EXPECT_EQ(f.mapped, 1);
  EXPECT_EQ(isolated_cycles(f), 1000 + 3 * 128 - 2 - 1);
  EXPECT_EQ(overlapped_cycles(f, kSquare, 1, 1), 1000 + 3 * 128 - 2);
}

TEST(ArrayCycles, EdgeFoldsLeaveCellsIdle) {
  // 2 × 3 folds of 4 × 8 cells; 7 of 8 rows and 17 of 24 columns hold something.
  const Folding f = fold(Dataflow::kWeight, {4, 8}, {100, 17, 7});
  EXPECT_EQ(f.folds, 6);
  EXPECT_NEAR(f.mapped, 7.0 / 8 * 17 / 24, 1e-12);
  EXPECT_EQ(isolated_cycles(f), 6 * (100 + 2 * 4 + 8 - 2) - 1);
}

TEST(ArrayCycles, EveryDataflowHoldsAnotherOperand) {
  const ProductSize p{256, 512, 1024};
  EXPECT_EQ(isolated_cycles(fold(Dataflow::kOutput, kSquare, p)), 2 * 4 * (1024 + 254) - 1);
  EXPECT_EQ(isolated_cycles(fold(Dataflow::kWeight, kSquare, p)), 8 * 4 * (256 + 382) - 1);
  EXPECT_EQ(isolated_cycles(fold(Dataflow::kInput, kSquare, p)), 8 * 2 * (512 + 382) - 1);
}

TEST(ArrayCycles, ShortStreamsWaitForTheNextWeights) {
  // 16 rows stream through faster than 128 rows of weights arrive.
  const Folding f = fold(Dataflow::kWeight, kSquare, {16, 1280, 128});
  EXPECT_EQ(overlapped_cycles(f, kSquare, 1, 1), 10 * 128 + 382);
}

TEST(ArrayCycles, FoldsAreDealtToArrays) {
  // 10 folds on 4 arrays: three rounds.
  const Folding ten = fold(Dataflow::kWeight, kSquare, {512, 1280, 128});
  EXPECT_EQ(overlapped_cycles(ten, kSquare, 4, 1), std::min(3 * 512.0, 5 * 256.0) + 382);
  // One fold: its stream is cut in four.
  const Folding one = fold(Dataflow::kWeight, kSquare, {4096, 128, 128});
  EXPECT_EQ(overlapped_cycles(one, kSquare, 4, 1), 1024 + 382);
  EXPECT_EQ(overlapped_cycles(one, kSquare, 4, 4), 4096 + 382);
  EXPECT_EQ(separate_cycles(one, 4, 1), 1024 + 382);
}

TEST(ArrayCycles, NothingTakesNoTime) {
  const Folding f = fold(Dataflow::kWeight, kSquare, {16, 0, 128});
  EXPECT_EQ(isolated_cycles(f), 0);
  EXPECT_EQ(overlapped_cycles(f, kSquare, 2, 1), 0);
}

/// SCALE-Sim's tables have blanks around their fields and an empty last one.
std::vector<std::vector<double>> numbers_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::vector<double>> rows;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<double> row;
    std::stringstream fields(line);
    std::string field;
    while (std::getline(fields, field, ',')) row.push_back(std::strtod(field.c_str(), nullptr));
    if (row.size() > 2) rows.push_back(std::move(row));
  }
  return rows;
}

/// Layers of AlexNet and ResNet-50 as SCALE-Sim v3 ran them: cycles without stalls to the
/// last one, and its share of cells in use.
TEST(ArrayCycles, ScaleSimsReports) {
  ORRERY_SHARED_DATA_OR_SKIP(root, "accel/scalesim/runs");
  int layers = 0;
  for (const auto& [network, run] : {std::pair{"alexnet", "tpu128_ws"},
                                     {"alexnet", "tpu128_os"},
                                     {"alexnet", "tpu128_is"},
                                     {"alexnet", "tpu256_ws"},
                                     {"alexnet", "tpu256_os"},
                                     {"resnet50_unique", "tpu128_ws"},
                                     {"resnet50_unique", "tpu128_os"}}) {
    const std::string name = run;
    const int64_t side = std::stoi(name.substr(3, 3));
    const Dataflow dataflow = name.ends_with("ws")   ? Dataflow::kWeight
                              : name.ends_with("os") ? Dataflow::kOutput
                                                     : Dataflow::kInput;
    const auto topology = numbers_of(fmt::format("{}/{}.csv", root, network));
    const auto report = numbers_of(fmt::format("{}/{}/{}/COMPUTE_REPORT.csv", root, network, run));
    ASSERT_EQ(topology.size(), report.size());
    for (size_t i = 0; i < topology.size(); ++i, ++layers) {
      const auto at = [&](size_t field) { return static_cast<int64_t>(topology[i][field]); };
      const int64_t stride = at(7);
      const auto out = [&](int64_t in, int64_t window) {
        return (in - window + stride + stride - 1) / stride;
      };
      const ProductSize p{out(at(1), at(3)) * out(at(2), at(4)), at(6), at(3) * at(4) * at(5)};
      const Folding f = fold(dataflow, {side, side}, p);
      const double cycles = report[i][2] - report[i][3];  // total less stalls
      EXPECT_EQ(static_cast<double>(isolated_cycles(f)), cycles) << network << " " << run << i;
      EXPECT_NEAR(100 * f.mapped, report[i][5], 1e-9) << network << " " << run << i;
    }
  }
  EXPECT_EQ(layers, 65);
}

/// The shipped reference run: AlexNet's first layer on 32 × 32 cells.
TEST(ArrayCycles, ScaleSimsShippedRun) {
  EXPECT_EQ(isolated_cycles(fold(Dataflow::kWeight, {32, 32}, {3025, 96, 363})), 112283);
}

}  // namespace
}  // namespace orrery
