#include "orrery/api/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using testing::ElementsAre;

/// A workload of unary operations of 8 numbers each, in order, and a launch of each.
struct Example {
  explicit Example(const std::vector<std::string>& operations)
      : workload(stablehlo::read_text(text(operations))),
        device(Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200")) {
    for (uint32_t i = 0; i < operations.size(); ++i) {
      Launch launch;
      launch.op = OpId{i};
      launch.kernel = kernel_of(workload, launch.op);
      program.launches.push_back(launch);
      names.push_back(operations[i]);
      bounds.emplace_back("memory");
      Estimate estimate;
      estimate.seconds = Seconds(1e-6);
      estimates.push_back(estimate);
    }
    costs.gap = Seconds(1e-6);
    costs.dispatch = Seconds(5e-7);
  }
  static std::string text(const std::vector<std::string>& operations) {
    std::string body = "func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n";
    std::string last = "%a";
    for (size_t i = 0; i < operations.size(); ++i) {
      const std::string name = "%" + std::to_string(i);
      body += "  " + name + " = stablehlo." + operations[i] + " " + last + " : tensor<8xf32>\n";
      last = name;
    }
    return body + "  return " + last + " : tensor<8xf32>\n}\n";
  }
  Timeline timeline() const {
    double step = 0;
    for (size_t i = 0; i < names.size(); ++i) step += estimates[i].seconds.value + 1e-6;
    return make_timeline({.workload = workload,
                          .program = program,
                          .estimates = estimates,
                          .names = names,
                          .bounds = bounds,
                          .held = held,
                          .costs = costs,
                          .step_s = step,
                          .device = device});
  }

  Workload workload;
  Device device;
  Program program;
  std::vector<std::string> names, bounds;
  std::vector<Estimate> estimates;
  std::vector<MemoryPoint> held;
  LaunchCosts costs;
};

TEST(TimelineTest, LaunchesAlikeShareAKernel) {
  Example example({"tanh", "sine", "tanh"});
  example.estimates[1].own_spread = 0.1F;
  const Timeline t = example.timeline();
  ASSERT_EQ(t.kernels.size(), 2u);
  EXPECT_EQ(t.kernels[0].name, "tanh");
  EXPECT_EQ(t.kernels[0].operation, "tanh");
  EXPECT_EQ(t.kernels[0].kind, "elementwise");
  EXPECT_EQ(t.kernels[0].bytes, 64);  // 8 numbers read and written
  EXPECT_EQ(t.kernels[0].low_s, 1e-6);
  EXPECT_NEAR(t.kernels[1].low_s, 1e-6 * 0.8483, 1e-10);  // exp(−1.645 · 0.1)
  EXPECT_NEAR(t.kernels[1].high_s, 1e-6 * 1.1788, 1e-10);
  std::vector<uint32_t> order;
  for (const TimelineLaunch& l : t.launches) order.push_back(l.kernel);
  EXPECT_THAT(order, ElementsAre(0, 1, 0));
}

TEST(TimelineTest, TimesThatDifferAreTwoKernels) {
  Example example({"tanh", "tanh"});
  example.estimates[1].seconds = Seconds(2e-6);
  EXPECT_EQ(example.timeline().kernels.size(), 2u);
}

TEST(TimelineTest, MemoryIsWhatIsHeldWhileEachStepRuns) {
  Example example({"tanh", "sine", "sqrt", "abs"});
  EXPECT_TRUE(example.timeline().memory.empty());
  example.estimates[2].seconds = Seconds(4e-6);
  // The first two are one step; the planner runs the last of all before the third.
  example.held = {{OpId{1}, 10}, {OpId{3}, 30}, {OpId{2}, 20}};
  const Timeline t = example.timeline();
  ASSERT_EQ(t.memory.size(), 3u);
  EXPECT_DOUBLE_EQ(t.memory[0].time_s, t.step_start_s);
  EXPECT_EQ(t.memory[0].bytes, 10);
  EXPECT_NEAR(t.memory[1].time_s, t.step_start_s + 4e-6, 1e-12);  // two of 1 and their gaps of 1
  EXPECT_EQ(t.memory[1].bytes, 30);
  EXPECT_NEAR(t.memory[2].time_s, t.step_start_s + 6e-6, 1e-12);
  EXPECT_EQ(t.memory[2].bytes, 20);
}

TEST(TimelineTest, StepsThatTakeNoTimeShowTheMostTheyHold) {
  Example example({"tanh"});
  example.held = {{OpId{0}, 10}, {OpId{1}, 5}};  // the second launches nothing
  EXPECT_EQ(example.timeline().memory.size(), 2u);
  example.held = {{OpId{1}, 5}, {OpId{0}, 10}};
  const Timeline t = example.timeline();
  ASSERT_EQ(t.memory.size(), 1u);
  EXPECT_EQ(t.memory[0].bytes, 10);
}

TEST(TimelineTest, RoofsAreThoseOfTheTypesInUse) {
  const Timeline t = Example({"abs"}).timeline();
  ASSERT_EQ(t.roofs.size(), 1u);
  EXPECT_EQ(t.roofs[0].name, "f32 vectors");
  EXPECT_NEAR(t.roofs[0].flops_per_s, 66.9e12, 0.1e12);
  EXPECT_NEAR(t.bandwidth, 4.8e12, 1e9);
}

TEST(TimelineTest, BlocksThatRepeatTakeTheNameOfLayers) {
  std::vector<std::string> operations = {"abs"};
  for (int layer = 0; layer < 3; ++layer)
    for (const char* operation : {"tanh", "sine", "sqrt", "cosine"})
      operations.emplace_back(operation);
  operations.emplace_back("negate");
  const Timeline t = Example(operations).timeline();
  std::vector<std::string> names;
  for (const auto& part : t.parts) names.push_back(part.name);
  names.erase(names.begin());  // the whole
  EXPECT_THAT(names, ElementsAre("3 blocks of 4 kernels", "block 1", "block 2", "block 3"));
  EXPECT_EQ(t.launches.front().part, 0u);
  EXPECT_EQ(t.launches[1].part, 2u);
  EXPECT_EQ(t.launches[12].part, 4u);
  EXPECT_EQ(t.launches.back().part, 0u);
  EXPECT_EQ(t.parts[2].parent, 1u);
}

TEST(TimelineTest, MoreLaunchesThanCanBeShownAreFolded) {
  Example example({"tanh", "sine"});
  example.program.launches[0].count = kMostTimelineLaunches;
  const Timeline t = example.timeline();
  EXPECT_TRUE(t.folded);
  ASSERT_EQ(t.launches.size(), 2u);
  EXPECT_EQ(t.launches[0].count, kMostTimelineLaunches);
}

}  // namespace
}  // namespace orrery
