#include "orrery/cluster/training/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/training/model_for_test.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using training_for_test::attention_alone;
using training_for_test::FakeCollectives;
using training_for_test::model;
using training_for_test::nothing;
using training_for_test::pipeline;

/// Speeds of the stages of each pipeline.
std::vector<std::vector<double>> speeds(const Strategy& s, const Stragglers& stragglers) {
  std::vector<std::vector<double>> found;
  for (const PipelinePace& p : pipeline_paces(s, stragglers, 8)) {
    found.emplace_back();
    for (const Pace& pace : p.stages) found.back().push_back(pace.speed);
  }
  return found;
}

/// Two copies of four stages: rank 2·s + d is stage s of data rank d. 8 micro-batches each.
Strategy two_pipelines() {
  Strategy s = pipeline(4, 1, 16);
  s.gpus = 8;
  return s;
}

TEST(Stragglers, RanksBelongToAStageAndADataRank) {
  const Strategy s = two_pipelines();
  EXPECT_THAT(speeds(s, {}), ElementsAre(ElementsAre(1, 1, 1, 1)));
  EXPECT_THAT(speeds(s, {{{5, 5, 0.8}}, {}}),
              ElementsAre(ElementsAre(1, 1, 1, 1), ElementsAre(1, 1, 0.8, 1)));
  EXPECT_THAT(speeds(s, {{{5, 6, 0.8}, {3, 3, 0.5}}, {}}),
              ElementsAre(ElementsAre(1, 1, 1, 0.8), ElementsAre(1, 0.5, 0.8, 1)));
  EXPECT_EQ(pipeline_paces(s, {{{5, 5, 0.8}}, {}}, 8).back().data_rank, 1);
}

TEST(Stragglers, RanksThatShareExpertsOrWeightsWaitForEachOther) {
  // tp 2, dp 4: ranks 2·d and 2·d + 1.
  Strategy s = pipeline(1, 1, 4);
  s.tensor = 2;
  s.gpus = 8;
  const Stragglers two = {{{1, 1, 0.8}, {2, 2, 0.5}}, {}};
  EXPECT_THAT(speeds(s, two), ElementsAre(ElementsAre(1), ElementsAre(0.8), ElementsAre(0.5)));
  s.expert = 4;  // ranks 0 to 3, and 4 to 7
  EXPECT_THAT(speeds(s, two), ElementsAre(ElementsAre(1), ElementsAre(0.5)));
  s.expert = 1;
  s.zero = 3;
  EXPECT_THAT(speeds(s, two), ElementsAre(ElementsAre(0.5)));
}

TEST(Stragglers, WhatIsNotThereIsRefused) {
  const auto refusal = [](const Stragglers& stragglers) -> std::string {
    try {
      (void)pipeline_paces(two_pipelines(), stragglers, 8);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({{{8, 8, 0.5}}, {}}), "slow ranks 8 to 8: ranks are 0 to 7 here");
  EXPECT_EQ(refusal({{{3, 2, 0.5}}, {}}), "slow ranks 3 to 2: ranks are 0 to 7 here");
  EXPECT_EQ(refusal({{{0, 1, 1.5}}, {}}),
            "slow ranks 0 to 1: 1.5 is not a share above 0 and at most 1");
  EXPECT_EQ(refusal({{}, {{1, 1, 0.5, nullptr}}}), "slow nodes 1 to 1: nodes are 0 to 0 here");
}

TEST(Stragglers, OneSlowDeviceHoldsItsPipelineAndThePipelineAllOthers) {
  // Stages take f + b = 6 ms: (8 + 3) · 6. At 0.8 of the speed one takes 7.5 in one of the two
  // pipelines: 8 · 7.5 + 3 · 6.
  const TrainingModel m = model(attention_alone, nothing);
  const auto step = [&](const Stragglers& stragglers) {
    return m.evaluate(two_pipelines(), stragglers).step.value.value;
  };
  EXPECT_NEAR(step({}), 66e-3, 1e-12);
  EXPECT_NEAR(step({{{5, 5, 0.8}}, {}}), 78e-3, 1e-12);
  // Two in different pipelines cost no more, two in one pipeline 1.5 ms once, while it fills.
  EXPECT_NEAR(step({{{5, 5, 0.8}, {2, 2, 0.8}}, {}}), 78e-3, 1e-12);
  EXPECT_NEAR(step({{{5, 5, 0.8}, {3, 3, 0.8}}, {}}), 79.5e-3, 1e-12);
  // All of them: everything takes 1/0.8.
  EXPECT_NEAR(step({{{0, 7, 0.8}}, {}}), 66e-3 / 0.8, 1e-12);
  const StepEstimate e = m.evaluate(two_pipelines(), {{{5, 5, 0.8}}, {}});
  EXPECT_NEAR(e.compute().value, 60e-3, 1e-12);
  EXPECT_NEAR(e.bubble.value, 18e-3, 1e-12);
  EXPECT_EQ(m.evaluate_in_detail(two_pipelines(), {{{5, 5, 0.8}}, {}}).costs.data_rank, 1);
}

TEST(Stragglers, TheOptimizerWaitsForTheSlowestDevice) {
  // Only what reads the gradients of all 6.6 million parameters, their copies or their moments
  // takes time, 1 ms: a norm, clipping, the step, and the copy to 16 bits.
  const TrainingModel m = model(
      [](const Kernel& kernel) { return kernel.cost.bytes_read > 4 * 6.5e6 ? 1e-3 : 0; }, nothing);
  Strategy s = pipeline(1, 1, 2);
  s.gpus = 2;
  EXPECT_NEAR(m.evaluate(s).optimizer.value, 4e-3, 1e-12);
  EXPECT_NEAR(m.evaluate(s, {{{1, 1, 0.5}}, {}}).optimizer.value, 8e-3, 1e-12);
}

TEST(Stragglers, ASlowNodeHoldsTheSumOfGradients) {
  // 16 data ranks on two nodes; a backward pass of 8 layers takes 16 ms and hides as much of the
  // sum, which takes 20 ms, and 40 over links at half their bandwidth.
  const auto all_reduce = [](double seconds) {
    return [seconds](const CollectiveCall& call) {
      return call.kind == CollectiveKind::kAllReduce ? seconds : 0;
    };
  };
  const TrainingModel m = model(attention_alone, all_reduce(20e-3));
  Strategy s = pipeline(1, 1, 16);
  s.gpus = 16;
  const Stragglers slow = {{}, {{1, 1, 0.5, std::make_shared<FakeCollectives>(all_reduce(40e-3))}}};
  EXPECT_NEAR(m.evaluate(s).step.value.value, 24e-3 + 4e-3, 1e-12);
  EXPECT_NEAR(m.evaluate(s, slow).step.value.value, 24e-3 + 24e-3, 1e-12);
}

}  // namespace
}  // namespace orrery
