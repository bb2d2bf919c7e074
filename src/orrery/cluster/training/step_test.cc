#include "orrery/cluster/training/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "orrery/cluster/training/model_for_test.h"

namespace orrery {
namespace {

using namespace training_for_test;

using testing::Contains;
using testing::Pair;

double sum_of_parts(const StepEstimate& e) {
  return (e.forward + e.backward + e.again + e.exposed_communication() + e.bubble + e.optimizer +
          e.gaps)
      .value;
}

TEST(TrainingStep, OneForwardOneBackwardTakesItsClosedForm) {
  const TrainingModel m = model(attention_alone, nothing);
  // Two layers a stage: f = 2 ms, b = 4 ms; m·(f + b) + (p − 1)·(f + b)/v.
  const StepEstimate plain_pipeline = m.evaluate(pipeline(4, 1, 8));
  EXPECT_NEAR(plain_pipeline.step.value.value, 8 * 6e-3 + 3 * 6e-3, 1e-12);
  EXPECT_NEAR(plain_pipeline.bubble.value, 18e-3, 1e-12);
  EXPECT_NEAR(plain_pipeline.forward.value, 16e-3, 1e-12);
  EXPECT_NEAR(plain_pipeline.backward.value, 32e-3, 1e-12);
  EXPECT_NEAR(m.evaluate(pipeline(4, 2, 8)).step.value.value, 8 * 6e-3 + 3 * 6e-3 / 2, 1e-12);
  EXPECT_NEAR(m.evaluate(pipeline(1, 1, 8)).step.value.value, 8 * 24e-3, 1e-12);
}

TEST(TrainingStep, SchedulesDiffer) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(4, 1, 8);
  s.schedule = PipelineSchedule::kGpipe;
  EXPECT_NEAR(m.evaluate(s).bubble.value, 18e-3, 1e-12);
  // Half of the backward pass is weight gradients: f + b − 2w = 2 + 4 − 2·2 ms, three times.
  s.schedule = PipelineSchedule::kZeroBubble;
  EXPECT_NEAR(m.evaluate(s).bubble.value, 6e-3, 1e-12);
}

TEST(TrainingStep, UnequalStagesWaitForTheSlowest) {
  // 10 layers over 4 stages: 2, 3, 3, 2. 8 · 9 ms, and the other stages' 6 + 9 + 6.
  const TrainingModel m = model(attention_alone, nothing, plain(), 10);
  EXPECT_NEAR(m.evaluate(pipeline(4, 1, 8)).step.value.value, 8 * 9e-3 + 21e-3, 1e-12);
}

TEST(TrainingStep, FullRecomputationRunsTheForwardPassAgain) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 4);
  s.recompute = Recompute::kFull;
  const StepEstimate e = m.evaluate(s);
  EXPECT_NEAR(e.again.value, 4 * 8e-3, 1e-12);
  EXPECT_NEAR(e.step.value.value, 4 * (8 + 16 + 8) * 1e-3, 1e-12);
}

TEST(TrainingStep, LayersInSixteenBitsAreThoseAtTheEnds) {
  // Every kernel takes 10 us; in 8 bits there are more of them, which quantise.
  const TrainingModel m = model(ten_microseconds, nothing);
  const auto forward = [&](TrainingPrecision precision, int first, int last) {
    Strategy s = pipeline(1, 1, 1);
    s.precision = precision;
    s.plain_first = first;
    s.plain_last = last;
    return m.evaluate(s).forward.value;
  };
  const double plain = forward(TrainingPrecision::kBF16, 0, 0);
  const double narrow = forward(TrainingPrecision::kMXFP8, 0, 0);
  EXPECT_GT(narrow, plain);
  EXPECT_NEAR(forward(TrainingPrecision::kMXFP8, 3, 5), plain, 1e-12);
  EXPECT_NEAR(forward(TrainingPrecision::kMXFP8, 1, 3), (plain + narrow) / 2, 1e-12);
}

TEST(TrainingMemory, BlocksOfFurtherTokensKeepActivations) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 1);
  const double none = m.memory(s).activations.value;
  s.further_tokens = 1;
  const double one = m.memory(s).activations.value;
  s.further_tokens = 2;
  EXPECT_GT(one, none);
  EXPECT_NEAR(m.memory(s).activations.value - one, one - none, 1);
}

TEST(TrainingStep, FurtherTokensAddABlockEachToTheLastStage) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(4, 1, 8);
  s.further_tokens = 2;
  // The last stage has four layers' attention instead of two: 8 · 12 ms, and the others' 3 · 6 ms.
  EXPECT_NEAR(m.evaluate(s).step.value.value, 8 * 12e-3 + 18e-3, 1e-12);
  // 10 layers are 3, 3, 3 and 1 with a block: 8 · 9 ms, and the other stages' 9 + 9 + 6.
  s.further_tokens = 1;
  const TrainingModel ten = model(attention_alone, nothing, plain(), 10);
  EXPECT_NEAR(ten.evaluate(s).step.value.value, 8 * 9e-3 + 24e-3, 1e-12);
  // 9 are 3, 3, 3 and the block alone.
  const TrainingModel nine = model(attention_alone, nothing, plain(), 9);
  EXPECT_NEAR(nine.evaluate(s).step.value.value, 8 * 9e-3 + 21e-3, 1e-12);
}

TEST(TrainingStep, PartsAddUpToTheStep) {
  TrainingConstants constants = plain();
  constants.loss = constants.loss_backward = constants.accumulation = 1;
  constants.hidden_share = 0.5;
  constants.slowdown = 0.1;
  constants.gap = Seconds(1e-6);
  constants.host = Seconds(5e-6);
  constants.bucket = Bytes(1e6);
  const TrainingModel m = model(
      ten_microseconds, [](const CollectiveCall&) { return 3e-6; }, constants);
  Strategy s = pipeline(2, 2, 16);
  s.tensor = 4;
  s.sequence = s.overlap_tensor = true;
  s.gpus = 16;
  s.zero = 1;
  s.recompute = Recompute::kFull;
  for (const int zero : {0, 1, 2})
    for (const int chunks : {1, 2}) {
      s.zero = zero;
      s.chunks = chunks;
      const StepEstimate e = m.evaluate(s);
      EXPECT_NEAR(sum_of_parts(e), e.step.value.value, 1e-12);
      EXPECT_LT(e.step.low, e.step.value);
      EXPECT_GT(e.step.high, e.step.value);
      for (size_t i = 0; i < kTrafficCauseCount; ++i) EXPECT_LE(e.exposed[i], e.traffic[i]);
      EXPECT_GT(e.exposed[static_cast<size_t>(TrafficCause::kTensor)].value, 0);
      EXPECT_GT(e.exposed[static_cast<size_t>(TrafficCause::kGradients)].value, 0);
      EXPECT_GT(e.optimizer.value, 0);
      EXPECT_GT(e.energy.value, 0);
    }
}

TEST(TrainingStep, GradientsHideBehindTheLastBackwardPassButForABucket) {
  TrainingConstants constants = plain();
  // 8 layers of 12·256² + 7·256 + 6·256, the table of 1,024 · 256, the last norm's 2 · 256.
  const double parameters = 8 * (12.0 * 256 * 256 + 13 * 256) + 1024 * 256 + 512;
  constants.bucket = Bytes(parameters * 4 / 10);
  const auto time = [](const CollectiveCall& call) {
    return call.kind == CollectiveKind::kAllReduce ? 20e-3 : 0;
  };
  const TrainingModel m = model(attention_alone, time, constants);
  Strategy s = pipeline(1, 1, 8);
  s.gpus = 8;
  const auto gradients = static_cast<size_t>(TrafficCause::kGradients);
  // A backward pass takes 16 ms of the 20; a tenth, 2 ms, would be shown at least.
  EXPECT_NEAR(m.evaluate(s).exposed[gradients].value, 4e-3, 1e-12);
  EXPECT_NEAR(m.evaluate(s).traffic[gradients].value, 20e-3, 1e-12);
  // The 16 ms that hide slow the pass by a tenth of that.
  constants.slowdown = 0.1;
  EXPECT_NEAR(model(attention_alone, time, constants).evaluate(s).exposed[gradients].value, 5.6e-3,
              1e-12);
  s.overlap_gradients = false;
  EXPECT_NEAR(m.evaluate(s).exposed[gradients].value, 20e-3, 1e-12);
  EXPECT_NEAR(m.evaluate(s).parameters, parameters, 1e-3);
}

TEST(TrainingStep, SendsStandInTheWayOnlyWhileAPipelineFillsIfInterleaved) {
  const auto time = [](const CollectiveCall& call) {
    return call.kind == CollectiveKind::kSendReceive ? 1e-6 : 0;
  };
  const TrainingModel m = model(attention_alone, time);
  const auto cause = static_cast<size_t>(TrafficCause::kPipeline);
  // 2·m sends and 2·(p − 1) of a filling pipeline.
  EXPECT_NEAR(m.evaluate(pipeline(4, 1, 8)).exposed[cause].value, 22e-6, 1e-12);
  EXPECT_NEAR(m.evaluate(pipeline(4, 2, 8)).exposed[cause].value, 6e-6, 1e-12);
  EXPECT_NEAR(m.evaluate(pipeline(4, 2, 8)).traffic[cause].value, 38e-6, 1e-12);
}

TEST(TrainingStep, ASumHidesBehindOneWeightGradientAtMost) {
  // Products of 10 us, sums of 4 or of 30: two of each in each of eight layers, and one with the
  // head.
  const auto exposed = [](double sum, bool overlap) {
    const TrainingModel m =
        model([](const Kernel& k) { return k.cost.matrix_flops > 0 ? 1e-5 : 0; },
              [sum](const CollectiveCall& call) {
                return call.kind == CollectiveKind::kAllReduce && call.bytes.value > 1e5 ? sum : 0;
              });
    Strategy s = pipeline(1, 1, 1);
    s.gpus = s.tensor = 2;
    s.overlap_sums = overlap;
    return m.evaluate(s).exposed[static_cast<size_t>(TrafficCause::kTensor)].value;
  };
  const double sums = 2 * 8 + 1;
  EXPECT_NEAR(exposed(4e-6, false) - exposed(4e-6, true), sums * 4e-6, 1e-12);
  EXPECT_NEAR(exposed(30e-6, false) - exposed(30e-6, true), sums * 10e-6, 1e-12);
}

TEST(TrainingStep, LongRestsDoNotLetARankComputeFaster) {
  AskedToSettle asked;
  const TrainingModel m = model(attention_alone, nothing, plain(), 8, &asked);
  // Four stages wait for three micro-batches, of two layers that take 3 ms each: 18 ms, of which
  // 18 / (18 + 45) are too far from the work to count.
  const StepEstimate e = m.evaluate(pipeline(4, 1, 16));
  EXPECT_NEAR(e.bubble.value, 18e-3, 1e-9);
  EXPECT_NEAR(asked.rest.value, 18e-3 * 18 / 63, 1e-9);
  EXPECT_NEAR(asked.idle.value, 18e-3 * 45 / 63, 1e-9);
}

TEST(TrainingStep, TheSlowestOfManyCardsIsFurtherFromTheUsualOne) {
  TrainingConstants constants = plain();
  constants.card_spread = 0.03;
  AskedToSettle asked;
  const TrainingModel m = model(attention_alone, nothing, constants, 8, &asked);
  // Quantiles of the normal distribution at (n - 3/8) / (n + 1/4). Expected of the largest of two
  // is 0.564, of eight 1.424.
  for (const auto& [stages, deviations] :
       {std::pair(1, 0.0), {2, 0.5894557979}, {8, 1.4342001597}}) {
    (void)m.evaluate(pipeline(stages, 1, 16));
    EXPECT_NEAR(std::log(asked.draw), 0.03 * deviations, 1e-9) << stages;
  }
}

TEST(TrainingStep, AHostThatIsLateCostsTimeUnlessGraphsRun) {
  TrainingConstants constants = plain();
  constants.host = Seconds(20e-6);
  const TrainingModel m = model(ten_microseconds, nothing, constants);
  Strategy s = pipeline(1, 1, 1);
  const StepEstimate late = m.evaluate(s);
  // Each kernel takes 10 µs, gradients of attention twice that; the host 20 for each.
  EXPECT_GT(late.gaps.value, 0.9 * late.forward.value);
  s.graphs = true;
  EXPECT_DOUBLE_EQ(m.evaluate(s).gaps.value, 0);
}

TEST(TrainingStep, WhatIsGatheredIsCopiedApart) {
  // A picosecond a byte: loops alone.
  const TrainingModel m = model(
      [](const Kernel& k) {
        return k.family == KernelFamily::kElementwise
                   ? 1e-12 * (k.cost.bytes_read + k.cost.bytes_written)
                   : 0;
      },
      nothing);
  Strategy s = pipeline(1, 1, 8);
  s.gpus = 8;
  s.zero = 3;
  const StepEstimate without = m.evaluate(s);
  s.copied_shards = true;
  const StepEstimate with = m.evaluate(s);
  // Two bytes read and two written in either pass; of gradients two and four.
  EXPECT_NEAR((with.forward - without.forward).value, 4e-12 * with.parameters, 1e-15);
  EXPECT_NEAR((with.backward - without.backward).value, 10e-12 * with.parameters, 1e-15);
  s.gpus = 1;  // nothing is gathered
  const Seconds alone = m.evaluate(s).forward;
  s.copied_shards = false;
  EXPECT_EQ(m.evaluate(s).forward, alone);
}

TEST(TrainingMemory, ZeroSharesTwelveBytesAParameter) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 8);
  s.gpus = 8;
  const double p = m.evaluate(s).parameters;
  const auto expect = [&](int zero, double weights, double gradients, double optimizer) {
    s.zero = zero;
    const RankMemory memory = m.memory(s);
    EXPECT_NEAR(memory.weights.value, weights * p, 1) << zero;
    EXPECT_NEAR(memory.gradients.value, gradients * p, 1) << zero;
    EXPECT_NEAR(memory.optimizer.value, optimizer * p, 1) << zero;
  };
  expect(0, 2, 4, 12);
  expect(1, 2, 4, 12.0 / 8);
  expect(2, 2, 4.0 / 8, 12.0 / 8);
  expect(3, 2.0 / 8, 4.0 / 8, 12.0 / 8);
  s.wide_gradients = false;
  expect(1, 2, 2, 12.0 / 8);
  s.narrow_moments = true;
  expect(1, 2, 2, 8.0 / 8);
  // PyTorch sums gradients into shards beside those it adds up.
  s.torch_native = true;
  expect(1, 2, 2 + 4.0 / 8, 8.0 / 8);
}

TEST(TrainingMemory, WeightsInEightBitsAlone) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 8);
  s.precision = TrainingPrecision::kFP8;
  const double whole = m.memory(s).weights.value;
  s.narrow_weights = true;
  // Eight layers of 12·h² parameters.
  EXPECT_NEAR(whole - m.memory(s).weights.value, 8 * 12 * 256 * 256, 1);
  s.precision = TrainingPrecision::kBF16;
  EXPECT_NEAR(m.memory(s).weights.value, whole, 1);
}

TEST(TrainingMemory, ShardedWeightsAreGatheredALayerAhead) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 8);
  s.gpus = 8;
  s.zero = 3;
  s.loss = LossKernel::kFused;
  s.fused_attention = true;
  // Embedding and the last norm, the head being the embedding; then two layers in 16 bits and the
  // gradients of one in 32, which is more than the logits and one layer; and gradients of 4h and h
  // numbers a token.
  const double h = 256, root = 1024 * h + 2 * h, layer = 12 * h * h + 13 * h;
  EXPECT_NEAR(m.memory(s).working.value, 2 * root + layer * (2 * 2 + 4) + 256 * 5 * h * 2, 1);
}

TEST(TrainingMemory, PyTorchHoldsWhatEveryMicroBatchSentBetweenStages) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(4, 1, 16);
  const std::vector<RankMemory> plain = m.memory_by_stage(s);
  s.torch_native = true;
  const std::vector<RankMemory> more = m.memory_by_stage(s);
  // What comes in, the gradient of what goes out, and what went out; of the last stage logits,
  // which at the end of the step are held once more.
  const double sequence = 256 * 256 * 2, logits = 256 * 1024 * 2;
  EXPECT_NEAR((more[0].working - plain[0].working).value, 2 * 16 * sequence, 1);
  EXPECT_NEAR((more[1].working - plain[1].working).value, 3 * 16 * sequence, 1);
  EXPECT_NEAR(more[3].working.value, 16 * sequence + 2 * 16 * logits, 1);
}

TEST(TrainingMemory, FirstStageHoldsAMicroBatchForEachStage) {
  const TrainingModel m = model(attention_alone, nothing);
  std::vector<std::string> none;
  Strategy s = pipeline(4, 1, 16);
  s.length = 4096;
  const double kept =
      layer_work(m.description().layers.front(), m.description(), s, 8, plain(), none).kept_bytes;
  const auto in_flight = [&] { return m.memory(s).activations.value / (2 * kept); };
  EXPECT_NEAR(in_flight(), 4, 1e-9);
  // Korthikanti et al. 2022, sec. 4.2.3: p·(1 + (p − 1)/(p·v)) = 4 + 3/2.
  s.chunks = 2;
  EXPECT_NEAR(in_flight(), 5.5, 1e-9);
  // Of stage r chunks 2·(p − r − 1) + (v − 1)·p + 1: 11, 9, 7 and 5 halves.
  const std::vector<RankMemory> stages = m.memory_by_stage(s);
  for (size_t r = 0; r < 4; ++r)
    EXPECT_NEAR(stages[r].activations.value / (2 * kept), 5.5 - static_cast<double>(r), 1e-9);
  s.chunks = 1;
  s.schedule = PipelineSchedule::kGpipe;
  EXPECT_NEAR(in_flight(), 16, 1e-9);
  s.schedule = PipelineSchedule::kOneForwardOneBackward;
  s.global_batch = 2;
  EXPECT_NEAR(in_flight(), 2, 1e-9);
}

TEST(TrainingMemory, IsThatOfTheEstimate) {
  const TrainingModel m = model(attention_alone, nothing);
  const Strategy s = pipeline(4, 2, 8);
  EXPECT_EQ(m.memory(s).total(), m.evaluate(s).memory.total());
}

TEST(TrainingStep, FlopsDoNotDependOnTheStrategy) {
  const TrainingModel m = model(attention_alone, nothing);
  Strategy s = pipeline(1, 1, 16);
  const double flops = m.evaluate(s).model_flops;
  // 16 sequences of 256: 8 layers of 72·s·h²·(1 + s/(12h)), and 6·s·h·V of logits.
  EXPECT_DOUBLE_EQ(flops, 16.0 * 256 * (8 * 72.0 * 256 * 256 * (1 + 1.0 / 12) + 6.0 * 256 * 1024));
  s = pipeline(2, 2, 16);
  s.tensor = 2;
  s.context = 2;
  s.gpus = 16;
  s.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(m.evaluate(s).model_flops, flops);
}

TEST(TrainingStep, GapsAndProvenanceNameWhatItRestsOn) {
  const TrainingModel m = model(attention_alone, nothing);
  EXPECT_THAT(m.gaps(pipeline(1, 1, 1)),
              testing::IsSupersetOf({"a kernel's gap", "a collective's gap"}));
  EXPECT_THAT(m.provenance(), Contains(Pair("kernel model", "fake")));
  EXPECT_THAT(m.provenance(), Contains(Pair("training constants", "data/training/constants.yaml")));
}

}  // namespace
}  // namespace orrery
