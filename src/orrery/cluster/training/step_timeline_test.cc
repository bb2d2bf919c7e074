#include "orrery/cluster/training/step_timeline.h"

#include <gtest/gtest.h>

#include <map>

#include "orrery/base/error.h"
#include "orrery/cluster/training/model_for_test.h"

namespace orrery {
namespace {

using training_for_test::attention_alone;
using training_for_test::model;
using training_for_test::nothing;
using training_for_test::pipeline;
using training_for_test::plain;
using training_for_test::ten_microseconds;

double end_of(const StageTimeline& stage) {
  double last = 0;
  for (const StepSlice& slice : stage.slices) last = std::max(last, slice.end.value);
  return last;
}

/// Time of slices by what they do; what is left out counts as compute.
std::map<StepWork, double> times(const StageTimeline& stage) {
  std::map<StepWork, double> found;
  for (const StepSlice& slice : stage.slices) {
    if (slice.work == StepWork::kTraffic && !slice.exposed) continue;
    found[slice.work] +=
        slice.work == StepWork::kSkipped ? slice.compute.value : (slice.end - slice.start).value;
  }
  return found;
}

double compute(const StageTimeline& stage) {
  auto found = times(stage);
  return found[StepWork::kForward] + found[StepWork::kBackward] + found[StepWork::kWeights] +
         found[StepWork::kAgain] + found[StepWork::kSkipped];
}

/// What every timeline promises.
void expect_sound(const StepTimeline& t, const StepEstimate& e, const std::string& what) {
  const double step = e.step.value.value;
  double last = 0;
  for (const StageTimeline& stage : t.stages) {
    last = std::max(last, end_of(stage));
    for (size_t i = 1; i < stage.slices.size(); ++i) {
      if (stage.slices[i].track != stage.slices[i - 1].track) continue;
      EXPECT_GE(stage.slices[i].start.value, stage.slices[i - 1].end.value - 1e-9 * step)
          << what << ", stage " << stage.stage << " slice " << i;
    }
    if (stage.stage != static_cast<int>(t.slowest)) continue;
    EXPECT_NEAR(compute(stage), e.compute().value, 1e-9 * step) << what;
    EXPECT_NEAR(times(stage)[StepWork::kOptimizer], e.optimizer.value, 1e-9 * step) << what;
  }
  EXPECT_NEAR(last, step, 1e-9 * step) << what;
}

TEST(StepTimeline, SlicesOfOneForwardOneBackward) {
  // Stages of f = 2 ms and b = 4 ms; m = 2.
  const TrainingModel m = model(attention_alone, nothing, plain(), 4);
  const Strategy s = pipeline(2, 1, 2);
  const StepInDetail step = m.evaluate_in_detail(s, {});
  const StepTimeline t = draw_step(step, s, {});
  ASSERT_EQ(t.stages.size(), 2U);
  EXPECT_NEAR(t.step.value, 18e-3, 1e-12);
  EXPECT_NEAR(t.by_order.value, 18e-3, 1e-12);
  const auto spans = [](const StageTimeline& stage) {
    std::string text;
    for (const StepSlice& slice : stage.slices)
      text += std::string(name(slice.work)) + " " + std::to_string(slice.micro_batch) + " " +
              std::to_string(std::lround(slice.start.value * 1e3)) + "–" +
              std::to_string(std::lround(slice.end.value * 1e3)) + "; ";
    return text;
  };
  EXPECT_EQ(spans(t.stages[0]),
            "forward 0 0–2; forward 1 2–4; backward 0 8–12; backward 1 14–18; ");
  EXPECT_EQ(spans(t.stages[1]),
            "forward 0 2–4; backward 0 4–8; forward 1 8–10; backward 1 10–14; ");
  EXPECT_EQ(t.stages[1].first_rank, 1);
}

TEST(StepTimeline, AddsUpWhateverTheStrategy) {
  TrainingConstants constants = plain();
  constants.loss = constants.loss_backward = constants.accumulation = 1;
  constants.hidden_share = 0.5;
  constants.slowdown = 0.1;
  constants.gap = Seconds(1e-6);
  constants.host = Seconds(5e-6);
  constants.bucket = Bytes(1e6);
  const TrainingModel m = model(
      ten_microseconds, [](const CollectiveCall&) { return 3e-6; }, constants, 12);
  for (const PipelineSchedule schedule : {PipelineSchedule::kOneForwardOneBackward,
                                          PipelineSchedule::kGpipe, PipelineSchedule::kZeroBubble})
    for (const int stages : {1, 2, 4})
      for (const int chunks : {1, 3})
        for (const int64_t micro_batches : {1, 4, 16, 100'000})
          for (const bool slow : {false, true}) {
            Strategy s = pipeline(stages, chunks, 2 * micro_batches);
            s.schedule = schedule;
            s.tensor = 4;
            s.sequence = s.overlap_tensor = true;
            s.zero = 1;
            s.gpus = 8 * stages;
            s.recompute = Recompute::kFull;
            if (!faults(s, m.description()).empty()) continue;
            Stragglers stragglers;
            if (slow) stragglers.ranks.push_back({0, 0, 0.6});
            const StepInDetail step = m.evaluate_in_detail(s, stragglers);
            const std::string what = in_words(s) + ", schedule " +
                                     std::to_string(static_cast<int>(schedule)) + ", " +
                                     std::to_string(micro_batches) + (slow ? ", slow" : "");
            const StepTimeline t = draw_step(step, s, {.stages = 32, .passes = 500});
            expect_sound(t, step.estimate, what);
            size_t slices = 0;
            for (const StageTimeline& stage : t.stages) slices += stage.slices.size();
            EXPECT_LT(slices, 7000U) << what;
            EXPECT_EQ(t.micro_batches, micro_batches);
          }
}

TEST(StepTimeline, OfManyMicroBatchesTheMiddleIsLeftOut) {
  const TrainingModel m = model(attention_alone, nothing, plain(), 4);
  const Strategy s = pipeline(2, 1, 1000);
  const StepInDetail step = m.evaluate_in_detail(s, {});
  const StepTimeline t = draw_step(step, s, {.stages = 32, .passes = 40});
  EXPECT_EQ(t.micro_batches_skipped, 990);  // 40 passes: two of each of 10 on two stages
  for (const StageTimeline& stage : t.stages) {
    int skips = 0;
    int64_t last = 0;
    for (const StepSlice& slice : stage.slices) {
      last = std::max(last, slice.micro_batch);
      if (slice.work != StepWork::kSkipped) continue;
      ++skips;
      EXPECT_EQ(slice.micro_batch, 5);
      EXPECT_EQ(slice.count, 990);
      EXPECT_NEAR(slice.compute.value, 990 * 6e-3, 1e-9);
      EXPECT_NEAR((slice.end - slice.start).value, 990 * 6e-3, 5e-3);
    }
    EXPECT_EQ(skips, 1);
    EXPECT_EQ(last, 999);
  }
  expect_sound(t, step.estimate, "1000 micro-batches");
}

TEST(StepTimeline, OfManyStagesTheFirstAndTheLastAreShown) {
  const TrainingModel m = model(attention_alone, nothing, plain(), 16);
  const Strategy s = pipeline(16, 1, 16);
  const StepTimeline t = draw_step(m.evaluate_in_detail(s, {}), s, {.stages = 4, .passes = 1000});
  std::vector<int> shown;
  for (const StageTimeline& stage : t.stages) shown.push_back(stage.stage);
  EXPECT_EQ(shown, (std::vector<int>{0, 1, 14, 15}));
  EXPECT_EQ(t.stages_skipped, 12);
}

TEST(StepTimeline, APipelineTooLongToPlaceIsRefused) {
  // 4 · 300 micro-batches to fill and drain it, twice on each of 300 stages: 720,000 passes.
  const TrainingModel m = model(attention_alone, nothing, plain(), 300);
  const Strategy s = pipeline(300, 1, 2000);
  const StepInDetail step = m.evaluate_in_detail(s, {});
  try {
    (void)draw_step(step, s, {});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInfeasible);
  }
}

TEST(StepTimeline, UnequalStagesEndWhereTheClosedFormDoes) {
  // 2, 3, 3, 2 layers of 1 + 2 ms: 8 · 9 ms and the others' 21 ms. As early as possible the second
  // stage starts at 2 ms; it waits for the first backward pass (3 + 3 + 2 ms there and 4 + 6 back,
  // less two forward passes of 3) and so on: less than the 21 ms.
  const TrainingModel m = model(attention_alone, nothing, plain(), 10);
  const Strategy s = pipeline(4, 1, 8);
  const StepInDetail step = m.evaluate_in_detail(s, {});
  const StepTimeline t = draw_step(step, s, {});
  EXPECT_NEAR(t.pipeline.value, 93e-3, 1e-12);
  EXPECT_LT(t.by_order.value, 93e-3);
  expect_sound(t, step.estimate, "unequal");
}

TEST(StepTimeline, TrafficOfDataRanksHidesBehindTheEnds) {
  // A backward pass takes 16 ms of the 20 that the sum of gradients takes.
  const TrainingModel m = model(attention_alone, [](const CollectiveCall& call) {
    return call.kind == CollectiveKind::kAllReduce ? 20e-3 : 0;
  });
  Strategy s = pipeline(1, 1, 16);
  s.gpus = 8;
  const StepTimeline t = draw_step(m.evaluate_in_detail(s, {}), s, {});
  std::vector<StepSlice> data;
  for (const StepSlice& slice : t.stages[0].slices)
    if (slice.track == StepTrack::kData) data.push_back(slice);
  ASSERT_EQ(data.size(), 2U);
  EXPECT_FALSE(data[0].exposed);
  EXPECT_NEAR(data[0].start.value, 32e-3, 1e-12);
  EXPECT_NEAR(data[0].end.value, 48e-3, 1e-12);
  EXPECT_TRUE(data[1].exposed);
  EXPECT_NEAR(data[1].start.value, 48e-3, 1e-12);
  EXPECT_NEAR(data[1].end.value, 52e-3, 1e-12);
}

}  // namespace
}  // namespace orrery
