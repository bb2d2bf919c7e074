#include "orrery/cluster/training/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "orrery/base/error.h"
#include "orrery/cluster/training/gpt_for_test.h"

namespace orrery {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TransformerDescription gpt() { return gpt_for_test(24, 1024, 16, 51200); }

TransformerDescription with_experts(int64_t experts) {
  TransformerDescription model = gpt();
  MixtureOfExperts moe;
  moe.experts = experts;
  moe.active = 2;
  moe.inner = 1024;
  for (Layer& layer : model.layers) layer.feed_forward = moe;
  return model;
}

/// 64 devices: tp 4, pp 2, cp 2, so dp 4; 16 sequences a rank.
Strategy sound() {
  Strategy s;
  s.gpus = 64;
  s.tensor = 4;
  s.pipeline = 2;
  s.context = 2;
  s.micro_batch = 2;
  s.global_batch = 64;
  s.sequence = true;
  return s;
}

TEST(Strategy, CountsWhatFollowsFromItsSizes) {
  const Strategy s = sound();
  EXPECT_EQ(s.data(), 4);           // 64 / (4 · 2 · 2)
  EXPECT_EQ(s.micro_batches(), 8);  // 64 / (2 · 4)
  EXPECT_EQ(s.dense_replicas(), 8);
  Strategy moe = s;
  moe.expert = 8;
  EXPECT_EQ(moe.expert_replicas(), 4);  // 4 · 2 · 4 / 8
}

TEST(Strategy, ASoundOneHasNoFaults) {
  EXPECT_THAT(faults(sound(), gpt()), IsEmpty());
  Strategy moe = sound();
  moe.expert = 8;
  EXPECT_THAT(faults(moe, with_experts(64)), IsEmpty());
}

struct Fault {
  const char* name;
  void (*change)(Strategy& strategy);
  const char* says;
};

class StrategyFault : public testing::TestWithParam<Fault> {};

TEST_P(StrategyFault, IsNamed) {
  Strategy s = sound();
  GetParam().change(s);
  EXPECT_THAT(faults(s, gpt()), Contains(HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    , StrategyFault,
    testing::Values(
        Fault{"Gpus", [](Strategy& s) { s.gpus = 24; },
              "24 GPUs do not divide by tp 4 × pp 2 × cp 2 = 16"},
        Fault{"MoreRanksThanAnIntegerHolds",
              [](Strategy& s) { s.tensor = s.pipeline = s.context = 1 << 20; }, "64 GPUs do not"},
        Fault{"Batch", [](Strategy& s) { s.global_batch = 60; },
              "a global batch of 60 sequences does not divide by micro-batch 2 × dp 4 = 8"},
        Fault{"Tokens", [](Strategy& s) { s.length = 1 << 24, s.micro_batch = 1 << 10; },
              "a micro-batch of 1024 × 16777216 tokens is more than 268435456 on a rank"},
        Fault{"Heads", [](Strategy& s) { s.tensor = s.gpus = 32, s.pipeline = s.context = 1; },
              "16 attention heads do not divide by --tp 32"},
        Fault{"Context", [](Strategy& s) { s.length = 2050; },
              "2050 tokens do not divide by 2 × cp 2"},
        Fault{"SequenceAlone", [](Strategy& s) { s.tensor = 1; },
              "sequence parallelism needs --tp above 1"},
        Fault{"SequenceLength", [](Strategy& s) { s.length = 2052; },
              "1026 tokens of a rank do not divide by tp 4"},
        Fault{"Chunks", [](Strategy& s) { s.chunks = 14; }, "24 layers do not fill pp 2 × 14"},
        Fault{"ChunksAlone", [](Strategy& s) { s.pipeline = 1, s.chunks = 2; },
              "several chunks a stage (--vpp) need --pp above 1"},
        Fault{"Interleaving", [](Strategy& s) { s.chunks = 2, s.global_batch = 24; },
              "interleaving (--vpp 2) needs micro-batches (3) that divide by pp 2"},
        Fault{"ZeroBubble",
              [](Strategy& s) { s.chunks = 2, s.schedule = PipelineSchedule::kZeroBubble; },
              "the zero-bubble schedule takes one chunk a stage"},
        Fault{"Experts", [](Strategy& s) { s.expert = 2; }, "--ep needs a model with experts"},
        Fault{"Zero", [](Strategy& s) { s.zero = 3; }, "ZeRO-3 with a pipeline"}),
    [](const auto& fault) { return fault.param.name; });

TEST(Strategy, ExpertsMustDivideAndFitTheRanksOfAStage) {
  Strategy s = sound();  // 32 ranks a stage
  s.expert = 6;
  EXPECT_THAT(
      faults(s, with_experts(64)),
      ElementsAre(HasSubstr("64 experts do not divide by --ep 6"),
                  HasSubstr("dp 4 × cp 2 × tp 4 ranks of a stage do not divide by --ep 6")));
  s.expert = 64;
  EXPECT_THAT(faults(s, with_experts(64)), ElementsAre(HasSubstr("ranks of a stage")));
}

TEST(Strategy, LayersInSixteenBitsAreNoMoreThanThereAre) {
  const TransformerDescription model = gpt_for_test(4, 256, 8, 1024);
  Strategy s;
  s.plain_first = 1;
  s.plain_last = 3;
  EXPECT_THAT(faults(s, model), IsEmpty());
  s.plain_last = 4;
  EXPECT_THAT(faults(s, model), ElementsAre(HasSubstr("1 and 4 layers in 16 bits")));
  s.plain_last = 3;
  s.further_tokens = 2;
  s.precision = TrainingPrecision::kMXFP8;
  EXPECT_THAT(in_words(s), HasSubstr("4 layers in 16 bits, tokens predicted 3"));
  s.precision = TrainingPrecision::kBF16;
  EXPECT_THAT(in_words(s), Not(HasSubstr("16 bits")));
}

TEST(Strategy, StateSpaceHeadsAndGroupsDivideByTensorRanks) {
  TransformerDescription model = gpt_for_test(4, 256, 8, 1024);
  StateSpace scan;
  scan.heads = 12;
  scan.groups = 2;
  model.layers.front().mixer = scan;
  Strategy s;
  s.tensor = s.gpus = 4;
  EXPECT_THAT(faults(s, model), IsEmpty());
  s.tensor = s.gpus = 8;
  EXPECT_THAT(faults(s, model),
              ElementsAre(HasSubstr("12 state-space heads in 2 groups do not divide by --tp 8")));
}

TEST(Strategy, EveryFaultIsNamedAtOnce) {
  Strategy s = sound();
  s.global_batch = 60;
  s.expert = 2;
  EXPECT_EQ(faults(s, gpt()).size(), 2U);
}

TEST(LayersByChunk, EvenWhereTheyDivide) {
  const std::vector<int> layers = layers_by_chunk(96, 8, 3);
  EXPECT_EQ(layers.size(), 24U);
  EXPECT_THAT(layers, Each(4));
}

TEST(LayersByChunk, EmbeddingAndHeadCountAsALayerEach) {
  // Llama 3 405B: 126 layers in 16 · 8 = 128 places, of which the first and last stay empty.
  const std::vector<int> layers = layers_by_chunk(126, 16, 8);
  ASSERT_EQ(layers.size(), 128U);
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers.back(), 0);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 126);
  EXPECT_THAT(std::vector<int>(layers.begin() + 1, layers.end() - 1), Each(1));
  // Its released layout, 16 stages of one chunk: 7, then 8 each, then 7.
  const std::vector<int> stages = layers_by_chunk(126, 16, 1);
  EXPECT_EQ(stages.front(), 7);
  EXPECT_EQ(stages.back(), 7);
  EXPECT_THAT(std::vector<int>(stages.begin() + 1, stages.end() - 1), Each(8));
}

TEST(LayersByChunk, ElseTheMiddleTakesWhatIsOver) {
  EXPECT_THAT(layers_by_chunk(9, 4, 1), ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(layers_by_chunk(61, 4, 1), ElementsAre(15, 16, 15, 15));
  EXPECT_THAT(layers_by_chunk(3, 1, 1), ElementsAre(3));
}

TEST(Strategy, InWordsSaysWhatDiffersFromOneDevice) {
  Strategy s = sound();
  s.chunks = 3;
  s.zero = 1;
  s.recompute = Recompute::kSelective;
  EXPECT_EQ(in_words(s),
            "tp 4, pp 2, vpp 3, cp 2, dp 4, sequence parallel, zero 1, micro-batch 2, "
            "selective recompute");
  EXPECT_EQ(in_words(Strategy()), "micro-batch 1");

  Strategy experts;
  experts.gpus = experts.expert = 8;
  experts.once_a_node = false;
  EXPECT_EQ(in_words(experts), "dp 8, ep 8, micro-batch 1, all-to-all dispatch");
}

TEST(Frameworks, SetWhatTheirDefaultsAre) {
  Strategy megatron;
  framework("megatron-core").apply(megatron);
  EXPECT_EQ(megatron.zero, 1);
  EXPECT_TRUE(megatron.fused_attention && megatron.overlap_gradients && megatron.wide_gradients);
  EXPECT_FALSE(megatron.overlap_experts);
  EXPECT_TRUE(megatron.fused_gradients && megatron.overlap_sums);

  Strategy old;
  old.zero = 1;
  framework("megatron-2021").apply(old);
  EXPECT_EQ(old.zero, 0);
  EXPECT_FALSE(old.fused_attention || old.overlap_gradients || old.overlap_pipeline);
  EXPECT_FALSE(old.fused_gradients || old.overlap_sums);
  framework("megatron-2022").apply(old);
  EXPECT_TRUE(old.overlap_sums);
  EXPECT_FALSE(old.fused_gradients || old.overlap_tensor);

  Strategy fsdp;
  framework("fsdp").apply(fsdp);
  EXPECT_EQ(fsdp.zero, 3);
  EXPECT_FALSE(fsdp.wide_gradients || fsdp.fused_gradients);
  EXPECT_TRUE(fsdp.eager && fsdp.copied_shards);
  EXPECT_FALSE(megatron.eager || megatron.copied_shards);
  Strategy sharded;
  framework("megatron-fsdp").apply(sharded);
  EXPECT_EQ(sharded.zero, 3);
  EXPECT_FALSE(sharded.eager || sharded.copied_shards || sharded.wide_gradients);
}

TEST(Frameworks, HaveASourceAndAnUnknownOneIsRefusedWithTheNearest) {
  for (const Framework& f : frameworks()) EXPECT_FALSE(f.source.empty() || f.summary.empty());
  try {
    framework("megatron-cor");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("unknown framework 'megatron-cor'"), HasSubstr("megatron-core")));
  }
}

}  // namespace
}  // namespace orrery
