#include "orrery/cluster/training/rank_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/cluster/training/gpt_for_test.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Sizes named as in Korthikanti et al. 2022 (arXiv:2205.05198), table 1.
constexpr double s = 2048, b = 2, h = 1024, a = 16, t = 8;

TransformerDescription gpt() { return gpt_for_test(4, 1024, 16, 51200); }

Strategy tensor_parallel(bool sequence, Recompute recompute = Recompute::kNone) {
  Strategy strategy;
  strategy.gpus = strategy.tensor = 8;
  strategy.micro_batch = strategy.global_batch = 2;
  strategy.length = 2048;
  strategy.sequence = sequence;
  strategy.recompute = recompute;
  strategy.precision = TrainingPrecision::kFP16;
  strategy.fused_attention = false;
  return strategy;
}

RankWork work(const Strategy& strategy, const TransformerDescription& model = gpt(),
              const TrainingConstants& constants = {}) {
  std::vector<std::string> gaps;
  RankWork found = layer_work(model.layers.front(), model, strategy, 8, constants, gaps);
  EXPECT_THAT(gaps, IsEmpty());
  return found;
}

std::vector<std::pair<CollectiveKind, double>> calls(const Pass& pass) {
  std::vector<std::pair<CollectiveKind, double>> found;
  for (const Traffic& traffic : pass.traffic)
    found.emplace_back(traffic.call.kind, traffic.call.bytes.value * traffic.count);
  return found;
}

double products(const Pass& pass) {
  double flops = 0;
  for (const Launch& launch : pass.launches)
    if (launch.kernel.family == KernelFamily::kGemm)
      flops += launch.kernel.cost.matrix_flops * launch.count * launch.times;
  return flops;
}

TEST(RankWork, ParametersOfALayerAreSplitButForNormsAndOutputBiases) {
  // 12·h²/t of matrices, 3h/t and 4h/t of biases that are split, 2h that are not, 2·2h of norms.
  for (const bool sequence : {false, true})
    EXPECT_DOUBLE_EQ(work(tensor_parallel(sequence)).dense_parameters,
                     12 * h * h / t + 7 * h / t + 6 * h);
}

TEST(RankWork, KeepsWhatKorthikantiCounts) {
  // Eq. 4: s·b·h·(34/t) + 5·a·s²·b/t with tensor and sequence parallelism.
  EXPECT_DOUBLE_EQ(work(tensor_parallel(true)).kept_bytes,
                   34 * s * b * h / t + 5 * a * s * s * b / t);
  // Eq. 2: s·b·h·(10 + 24/t) + 5·a·s²·b/t with tensor parallelism alone.
  EXPECT_DOUBLE_EQ(work(tensor_parallel(false)).kept_bytes,
                   s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t);
}

TEST(RankWork, RecomputationKeepsLess) {
  EXPECT_DOUBLE_EQ(work(tensor_parallel(true, Recompute::kSelective)).kept_bytes,
                   34 * s * b * h / t);  // eq. 6
  EXPECT_DOUBLE_EQ(work(tensor_parallel(true, Recompute::kFull)).kept_bytes, 2 * s * b * h / t);
  EXPECT_DOUBLE_EQ(work(tensor_parallel(false, Recompute::kFull)).kept_bytes, 2 * s * b * h);
}

TEST(RankWork, RecomputationComputesAgain) {
  EXPECT_THAT(work(tensor_parallel(true)).again.launches, IsEmpty());
  // Scores and their product with values: 2 · 2·b·s²·h/t, whole, as unfused kernels compute them.
  const RankWork selective = work(tensor_parallel(true, Recompute::kSelective));
  EXPECT_DOUBLE_EQ(products(selective.again), 4 * b * s * s * h / t);
  EXPECT_THAT(selective.again.traffic, IsEmpty());
  const RankWork full = work(tensor_parallel(true, Recompute::kFull));
  EXPECT_DOUBLE_EQ(products(full.again), products(full.forward));
  EXPECT_EQ(full.again.launches.size(), full.forward.launches.size());
  EXPECT_EQ(full.again.traffic.size(), full.forward.traffic.size());
}

TEST(RankWork, FlopsAreThreeTimesTheForwardPassAndHalfOfTheScores) {
  // Appendix A: 72·b·s·h²·(1 + s/(6h)) a layer, of whose scores a causal mask needs half.
  const double expected = 72 * b * s * h * h * (1 + s / (6 * h) / 2);
  EXPECT_DOUBLE_EQ(work(tensor_parallel(true)).model_flops, expected);
  EXPECT_DOUBLE_EQ(work(tensor_parallel(false, Recompute::kFull)).model_flops, expected);
  // What the kernels compute: 24·b·s·h²/t of linear layers and 4·b·s²·h/t of scores; backward
  // twice.
  const RankWork one = work(tensor_parallel(true));
  const double forward = (24 * b * s * h * h + 4 * b * s * s * h) / t;
  EXPECT_DOUBLE_EQ(products(one.forward), forward);
  EXPECT_DOUBLE_EQ(products(one.backward), 2 * forward);
  EXPECT_DOUBLE_EQ(one.weight_share, 0.5);
}

TEST(RankWork, TensorTrafficWithSequenceParallelism) {
  const double bytes = s * b * h * 2;
  const std::pair gather(CollectiveKind::kAllGather, bytes);
  const std::pair scatter(CollectiveKind::kReduceScatter, bytes);
  const RankWork one = work(tensor_parallel(true));
  EXPECT_THAT(calls(one.forward), ElementsAre(gather, scatter, gather, scatter));
  // Of each block: scattered input gradients, the input once more for weight gradients, gathered
  // output gradients.
  EXPECT_THAT(calls(one.backward), ElementsAre(scatter, gather, gather, scatter, gather, gather));
}

TEST(RankWork, TensorTrafficWithout) {
  const std::pair reduce(CollectiveKind::kAllReduce, s * b * h * 2);
  const RankWork one = work(tensor_parallel(false));
  EXPECT_THAT(calls(one.forward), ElementsAre(reduce, reduce));
  EXPECT_THAT(calls(one.backward), ElementsAre(reduce, reduce));
  Strategy alone = tensor_parallel(false);
  alone.gpus = alone.tensor = 1;
  EXPECT_THAT(work(alone).forward.traffic, IsEmpty());
}

// Of queries, keys and values, and of the first product of the feed-forward part.
TEST(RankWork, SumsOfGradientsHideBehindTheWeightGradientTheyDoNotNeed) {
  for (const bool sequence : {false, true}) {
    Strategy strategy = tensor_parallel(sequence);
    EXPECT_FALSE(work(strategy).backward.traffic.front().behind);
    strategy.overlap_sums = true;
    const RankWork one = work(strategy);
    for (const Traffic& traffic : one.forward.traffic) EXPECT_EQ(traffic.hidden_behind, 0);
    std::vector<double> behind;  // operations
    for (const Traffic& traffic : one.backward.traffic)
      if (traffic.behind) {
        EXPECT_NE(traffic.call.kind, CollectiveKind::kAllGather);
        EXPECT_EQ(traffic.hidden_behind, 1);
        behind.push_back(traffic.behind->cost.matrix_flops);
      }
    EXPECT_THAT(behind, ElementsAre(2 * b * s * h * 3 * h / t, 2 * b * s * h * 4 * h / t));
  }
}

TEST(RankWork, FusedAttentionKeepsNoScores) {
  Strategy fused = tensor_parallel(true);
  fused.fused_attention = true;
  TrainingConstants constants;
  constants.attention_backward = 2.5;
  const RankWork one = work(fused, gpt(), constants);
  // Instead of the scores one 32-bit number a query and head.
  EXPECT_DOUBLE_EQ(one.kept_bytes, 34 * s * b * h / t + 4 * a * s * b / t);
  double attention = 0;
  for (const Launch& launch : one.backward.launches)
    if (launch.kernel.family == KernelFamily::kAttention) attention += launch.times;
  EXPECT_DOUBLE_EQ(attention, 2.5);
}

TEST(RankWork, SingleModulesAreComputedAgain) {
  const double kept = 34 * s * b * h / t + 4 * a * s * b / t;
  const auto with = [](const std::string& modules) {
    Strategy strategy = tensor_parallel(true);
    strategy.fused_attention = true;
    set_recompute(strategy, modules);
    return work(strategy);
  };
  // Of each of two norms the result.
  const RankWork norms = with("layernorm");
  EXPECT_DOUBLE_EQ(norms.kept_bytes, kept - 4 * s * b * h / t);
  // One of them, beside gradients of 4h and h numbers.
  EXPECT_DOUBLE_EQ(norms.working_bytes, (2 + 8 + 2) * s * b * h / t);
  EXPECT_EQ(products(norms.again), 0);
  // Two tensors of 4h; what goes in and its gathering stay.
  const RankWork feed = with("mlp");
  EXPECT_DOUBLE_EQ(feed.kept_bytes, kept - 16 * s * b * h / t);
  EXPECT_DOUBLE_EQ(products(feed.again), 16 * b * s * h * h / t);
  EXPECT_EQ(calls(feed.again).size(), 2U);
  EXPECT_DOUBLE_EQ(with("layernorm,mlp").kept_bytes, kept - 20 * s * b * h / t);
  // A fused kernel has no scores to keep, but runs again where that is asked for.
  const RankWork attention = with("core_attn");
  EXPECT_DOUBLE_EQ(attention.kept_bytes, kept);
  ASSERT_EQ(attention.again.launches.size(), 1U);
  EXPECT_EQ(attention.again.launches[0].kernel.family, KernelFamily::kAttention);
  // Neither experts nor latent vectors here.
  const RankWork others = with("moe_act,mla_up_proj,moe,shared_experts");
  EXPECT_DOUBLE_EQ(others.kept_bytes, kept);
  EXPECT_THAT(others.again.launches, IsEmpty());
}

TEST(RankWork, EverySecondProductIsKeptWhereOperatorsAreComputedAgain) {
  Strategy strategy = tensor_parallel(true, Recompute::kOperators);
  strategy.fused_attention = true;
  const RankWork one = work(strategy);
  // The input; queries, values and the feed-forward part's first product, the first, third and
  // fifth; attention's result and its sums; two sums over tensor ranks.
  EXPECT_DOUBLE_EQ(one.kept_bytes, (2 + 2 + 2 + 8 + 2 + 2 * 2) * s * b * h / t + 4 * a * s * b / t);
  EXPECT_NEAR(products(one.again), (24 - 2 - 2 - 8) * b * s * h * h / t, 1);
  for (const Launch& launch : one.again.launches)
    EXPECT_NE(launch.kernel.family, KernelFamily::kAttention);
  for (const auto& [kind, bytes] : calls(one.again)) EXPECT_EQ(kind, CollectiveKind::kAllGather);
}

TEST(RankWork, LayersInEightBitsKeepTheirInputsInThem) {
  Strategy strategy = tensor_parallel(true);
  strategy.fused_attention = true;
  strategy.precision = TrainingPrecision::kFP8;
  // Two norms' results (2) and what goes into the second product (4) in one byte instead of two;
  // attention's result in both.
  EXPECT_DOUBLE_EQ(work(strategy).kept_bytes, (34 - 2 - 4 + 1) * s * b * h / t + 4 * a * s * b / t);
  EXPECT_DOUBLE_EQ(work(strategy).narrow_parameters, 12 * h * h / t);
}

TEST(RankWork, PyTorchKeepsSequencesItGathered) {
  Strategy strategy = tensor_parallel(true);
  const double kept = work(strategy).kept_bytes;
  strategy.torch_native = true;
  EXPECT_DOUBLE_EQ(work(strategy).kept_bytes, kept + 2 * 2 * s * b * h);
}

TEST(RankWork, LogitsAreHeldAsTheLossIsComputed) {
  Strategy strategy = tensor_parallel(true);
  const double logits = s * b * 51200 / t;
  const auto held = [&](LossKernel loss) {
    strategy.loss = loss;
    return head_work(gpt(), strategy, {}).working_bytes / logits;
  };
  EXPECT_DOUBLE_EQ(held(LossKernel::kWide), 2 + 4);
  EXPECT_DOUBLE_EQ(held(LossKernel::kOperators), 2 + 4 * 4);
  EXPECT_DOUBLE_EQ(held(LossKernel::kCompiled), 2 + 2);
  EXPECT_DOUBLE_EQ(held(LossKernel::kFused), 2);
  strategy.gpus = strategy.tensor = 1;
  strategy.sequence = false;
  EXPECT_DOUBLE_EQ(held(LossKernel::kOperators) / t, 2 + 3 * 4);
}

TEST(RankWork, ContextParallelRanksHoldAPartOfTheSequence) {
  Strategy split = tensor_parallel(true);
  split.fused_attention = true;
  const RankWork whole = work(split);
  split.context = 4;
  split.gpus = 32;
  const RankWork part = work(split);
  EXPECT_DOUBLE_EQ(part.kept_bytes, whole.kept_bytes / 4);
  EXPECT_DOUBLE_EQ(part.model_flops, whole.model_flops / 4);
  // Keys and values of all four parts: 2 · s·b·h/t of two bytes, over ranks 8 apart.
  std::vector<CollectiveCall> context;
  for (const Traffic& traffic : part.forward.traffic)
    if (traffic.cause == TrafficCause::kContext) context.push_back(traffic.call);
  ASSERT_EQ(context.size(), 1U);
  EXPECT_DOUBLE_EQ(context[0].bytes.value, 2 * s * b * h / t * 2);
  EXPECT_EQ(context[0].group, (RankGroup{4, 8}));
}

TransformerDescription mixture() {
  TransformerDescription model = gpt();
  model.dropout = false;
  MixtureOfExperts moe;
  moe.experts = 64;
  moe.active = 8;
  moe.inner = 512;
  moe.gated = true;
  for (Layer& layer : model.layers) layer.feed_forward = moe;
  return model;
}

TEST(RankWork, TokensGoOnceToEachNodeOfTheirExperts) {
  Strategy strategy;
  strategy.gpus = 32;
  strategy.expert = 32;
  strategy.global_batch = 32;
  strategy.length = 2048;
  const double bytes = 2048 * h * 2;
  // 4 nodes of 8, 8 experts a token: 4·(1 − 0.75⁸) nodes met.
  const std::pair between(CollectiveKind::kAllToAll, bytes * 3.59954833984375);
  const std::pair within(CollectiveKind::kAllToAll, bytes * 8);
  const RankWork one = work(strategy, mixture());
  EXPECT_THAT(calls(one.forward), ElementsAre(between, within, between, within));
  EXPECT_EQ(one.forward.traffic[0].call.group, (RankGroup{4, 8}));
  EXPECT_EQ(one.forward.traffic[1].call.group, (RankGroup{8, 1}));
  EXPECT_EQ(calls(one.backward), calls(one.forward));

  strategy.once_a_node = false;  // all eight copies, over all ranks
  EXPECT_THAT(calls(work(strategy, mixture()).forward), ElementsAre(within, within));
  EXPECT_EQ(work(strategy, mixture()).forward.traffic[0].call.group, (RankGroup{32, 1}));

  strategy.once_a_node = true;
  strategy.expert = 8;
  EXPECT_THAT(calls(work(strategy, mixture()).forward), ElementsAre(within, within));
}

TEST(RankWork, ARouterRunsAsAFewKernelsOrOperatorByOperator) {
  Strategy strategy;
  TrainingConstants constants;
  constants.router = 5;
  constants.router_backward = 7;
  struct Found {
    double loops = 0, choices = 0;
  };
  // Over the scores of 2,048 tokens and 64 experts, four bytes read and four written.
  const auto of = [](const Pass& pass, double times) {
    Found found;
    for (const Launch& launch : pass.launches) {
      if (launch.times != times) continue;
      if (launch.kernel.cost.bytes_read == 2048 * 64 * 4 &&
          launch.kernel.cost.bytes_written == 2048 * 64 * 4)
        found.loops += launch.count;
      if (launch.kernel.code == Opcode::k_sort || launch.kernel.code == Opcode::k_top_k)
        found.choices += launch.count;
    }
    return found;
  };
  const RankWork plain = work(strategy, mixture(), constants);
  EXPECT_EQ(of(plain.forward, 5).loops, 17);
  EXPECT_EQ(of(plain.forward, 5).choices, 2);
  EXPECT_EQ(of(plain.backward, 7).loops, 9);
  strategy.fused_router = true;
  const RankWork fused = work(strategy, mixture(), constants);
  EXPECT_EQ(of(fused.forward, 1).loops, 6);
  EXPECT_EQ(of(fused.forward, 1).choices, 0);
  EXPECT_EQ(of(fused.backward, 1).loops, 3);
}

TEST(RankWork, ExpertsKeepWhatGoesIntoTheirProducts) {
  Strategy strategy;
  strategy.gpus = strategy.expert = strategy.global_batch = 8;
  const double rows = 2048 * 8;
  const auto kept = [&](const std::string& recompute) {
    set_recompute(strategy, recompute);
    return work(strategy, mixture()).kept_bytes;
  };
  const double all = kept("none");
  // Of 512 numbers a row what goes into the second product; all of a row, with what goes in, the
  // first one's two results, and the router's scores twice in 32 bits.
  EXPECT_DOUBLE_EQ(all - kept("moe_act"), rows * 512 * 2);
  EXPECT_DOUBLE_EQ(all - kept("moe"), rows * (h + 3 * 512) * 2 + 2048 * 64 * 2 * 4);
  EXPECT_DOUBLE_EQ(kept("moe,moe_act"), kept("experts"));
  EXPECT_DOUBLE_EQ(kept("mlp"), all);
}

TEST(RankWork, ExpertsAreSpreadOverTheirRanks) {
  Strategy strategy;
  strategy.global_batch = strategy.gpus = strategy.expert = 32;
  const RankWork one = work(strategy, mixture());
  EXPECT_DOUBLE_EQ(one.expert_parameters, 64.0 / 32 * 3 * 512 * h);
  // Attention 4·h² with 3h + h biases, the router 64·h, two norms of 2h.
  EXPECT_DOUBLE_EQ(one.dense_parameters, 4 * h * h + 4 * h + 64 * h + 4 * h);
  // 8 active experts of three h × 512 matrices, the router, attention with half its scores.
  const double linear = 8 * 3 * 512 * h + 64 * h + 4 * h * h;
  EXPECT_DOUBLE_EQ(one.model_flops, 3 * 2 * s * linear + 6 * s * s * h);
}

/// Bytes that a pass's loops move.
double moved_by_loops(const Pass& pass) {
  double bytes = 0;
  for (const Launch& launch : pass.launches)
    if (launch.kernel.family == KernelFamily::kElementwise)
      bytes += (launch.kernel.cost.bytes_read + launch.kernel.cost.bytes_written) * launch.count;
  return bytes;
}

TEST(RankWork, OperatorsOneByOneMoveWhatEachReadsAndWrites) {
  TransformerDescription llama = gpt();
  llama.norm = Norm::kRms;
  llama.dropout = false;
  auto& attention = std::get<SoftmaxAttention>(llama.layers.front().mixer);
  attention.key_value_heads = 4;  // 256 of 1,024 columns
  attention.rotary_size = attention.head_size;
  attention.query.bias = attention.output.bias = false;
  auto& feed_forward = std::get<DenseFeedForward>(llama.layers.front().feed_forward);
  feed_forward.gated = true;
  feed_forward.up.bias = feed_forward.down.bias = false;
  Strategy strategy;
  strategy.wide_gradients = false;
  const RankWork fused = work(strategy, llama);
  strategy.eager = true;
  std::vector<std::string> gaps;
  const RankWork one = layer_work(llama.layers.front(), llama, strategy, 8, {}, gaps);
  EXPECT_THAT(gaps, ElementsAre(HasSubstr("is not in the memory")));
  const double x = s * h, keys = x / 4, inner = 4 * x;
  // Two norms of 6 + 8 + 4 + 8 + 8 + 6, positions of 6 + 8 + 6, keys and values to four times as
  // many, an activation of 4 and a product of 6, two residuals of 6.
  EXPECT_DOUBLE_EQ(moved_by_loops(one.forward),
                   2 * 40 * x + 20 * (x + keys) + 2 * (2 * keys + 2 * x) + 10 * inner + 12 * x);
  // Norms of 6 + 8 + 12 + 4 + 8 + 12 + 4 + 24 + 12 + 6, the same positions and sums, three
  // gradients of 6, residuals as before, three inputs of gradients that meet, and attention's
  // result with its gradient.
  EXPECT_DOUBLE_EQ(moved_by_loops(one.backward), 2 * 96 * x + 20 * (x + keys) +
                                                     2 * (2 * keys + 2 * x) + 18 * inner + 12 * x +
                                                     3 * 6 * x + 4 * x);
  EXPECT_EQ(products(one.forward), products(fused.forward));
  EXPECT_EQ(one.dense_parameters, fused.dense_parameters);
  EXPECT_EQ(one.model_flops, fused.model_flops);
}

TEST(RankWork, ScansMoveTheirOperandsOnceAndMultiplyBeside) {
  // Such sizes that inputs, B, C, states and scores within chunks have q numbers each, gates g.
  TransformerDescription model = gpt();
  StateSpace scan;
  scan.heads = 4;
  scan.head_size = 64;
  scan.state_size = 128;
  scan.groups = 2;
  scan.chunk = 128;
  model.layers.front().mixer = scan;
  Strategy strategy;
  strategy.length = 1024;
  const double q = 1024.0 * 4 * 64, g = 1024.0 * 4;
  TrainingConstants constants;
  constants.scan = 5;
  constants.scan_backward = 7;
  constants.scan_products = 11;
  std::vector<std::string> gaps;
  const RankWork found = layer_work(model.layers.front(), model, strategy, 8, constants, gaps);
  EXPECT_THAT(gaps, ElementsAre(HasSubstr("measured on an H200")));
  const auto moved = [](const Pass& pass, double times) {
    double bytes = 0;
    for (const Launch& launch : pass.launches)
      if (launch.times == times)
        bytes += (launch.kernel.cost.bytes_read + launch.kernel.cost.bytes_written) * launch.count;
    return bytes;
  };
  const auto multiplied = [](const Pass& pass) {
    double flops = 0;
    for (const Launch& launch : pass.launches)
      if (launch.times == 11) flops += launch.kernel.cost.matrix_flops * launch.count;
    return flops;
  };
  // Decays 10g; states added 8q + 8g, passed on 6q; C·B 8q; outputs 12q + 8g.
  EXPECT_DOUBLE_EQ(moved(found.forward, 5), 34 * q + 26 * g);
  // Again 10g + 8q + 8q + 8g + 8q; of states 8q + 4g, passed on 12q; of inputs 14q + 12g; of B and
  // C 2·(10q + 12g), of their products 8q + 8g, by them 2·12q; of decays 8q + 12g and 20g.
  EXPECT_DOUBLE_EQ(moved(found.backward, 7), 118 * q + 98 * g);
  // A state of 128 twice and five times, half a chunk of 128, C·B of 2 · 128 for every 4 · 64.
  EXPECT_DOUBLE_EQ(multiplied(found.forward), 2 * q * (2 * 128 + 64 + 128));
  EXPECT_DOUBLE_EQ(multiplied(found.backward), 2 * q * (5 * 128 + 3 * 64 + 3 * 128));
}

TEST(RankWork, AFurtherTokenTakesABlockAndTheHeadOnceMoreInSixteenBits) {
  Strategy strategy;
  std::vector<std::string> gaps;
  const auto further = [&] { return further_token_work(mixture(), strategy, 8, {}, gaps); };
  const RankWork layer = work(strategy, mixture());
  const double joined = 2 * h * h;
  EXPECT_DOUBLE_EQ(further().model_flops, 6 * s * joined + layer.model_flops +
                                              head_work(mixture(), strategy, {}).model_flops);
  EXPECT_DOUBLE_EQ(further().dense_parameters, joined + 2 * 2 * h + layer.dense_parameters);
  EXPECT_DOUBLE_EQ(further().expert_parameters, layer.expert_parameters);
  const Pass plain = further().forward;
  strategy.precision = TrainingPrecision::kMXFP8;
  EXPECT_EQ(further().forward.launches.size(), plain.launches.size());
}

TEST(RankWork, ExpertsQuantiseBothOfTheirInputs) {
  Strategy strategy;
  const auto loops = [&](TrainingPrecision precision) {
    strategy.precision = precision;
    double bytes = 0;
    for (const Launch& launch : work(strategy, mixture()).forward.launches)
      if (launch.kernel.family == KernelFamily::kElementwise)
        bytes += (launch.kernel.cost.bytes_read + launch.kernel.cost.bytes_written) * launch.count;
    return bytes;
  };
  const double plain = loops(TrainingPrecision::kBF16);
  // Rows of h and of 512 of 8 experts, and h of attention's output: 2 bytes read, two of 1 written.
  const double rows = s * 8 * (h + 512) + s * h;
  EXPECT_DOUBLE_EQ(loops(TrainingPrecision::kMXFP8) - plain, rows * 4);
  EXPECT_DOUBLE_EQ(loops(TrainingPrecision::kFP8) - plain, rows * 6);
  // 4 bits are read twice too, after norms as well: attention's input is h more.
  EXPECT_DOUBLE_EQ(loops(TrainingPrecision::kNVFP4) - plain, (rows + s * h) * (4 + 1.125));
}

TEST(RankWork, ExpertsAreQuantisedOneByOne) {
  Strategy strategy;
  strategy.precision = TrainingPrecision::kMXFP8;
  double count = 0;
  // An expert's 256 rows of 512, two bytes each, to one byte in both orders.
  for (const Launch& launch : work(strategy, mixture()).forward.launches)
    if (launch.kernel.cost.bytes_read == 256 * 512 * 2 &&
        launch.kernel.cost.bytes_written == 256 * 512 * 2)
      count += launch.count;
  EXPECT_EQ(count, 64);
}

TEST(RankWork, HeadAndEmbeddingShareTheirTableUnlessAPipelineParts) {
  Strategy strategy;
  const double table = 51200 * h;
  EXPECT_DOUBLE_EQ(embedding_work(gpt(), strategy).dense_parameters, table);
  EXPECT_DOUBLE_EQ(head_work(gpt(), strategy, {}).dense_parameters, 2 * h);
  strategy.gpus = strategy.pipeline = 2;
  EXPECT_DOUBLE_EQ(head_work(gpt(), strategy, {}).dense_parameters, table + 2 * h);
  // 3 · 2·s·h·V
  EXPECT_DOUBLE_EQ(head_work(gpt(), strategy, {}).model_flops, 6 * s * h * 51200);
}

double bytes_of(const Pass& pass) {
  double sum = 0;
  for (const Launch& launch : pass.launches)
    sum += launch.count * (launch.kernel.cost.bytes_read + launch.kernel.cost.bytes_written);
  return sum;
}

TEST(RankWork, OptimizerMovesFortySixBytesAParameterAndZeroesFour) {
  const auto bytes = [](const Strategy& s) { return bytes_of(optimizer_pass(8e6, 1e6, s)); };
  Strategy s;
  // Gradients read for their norm, clipped, and read for the step; weight and two moments read and
  // written; the weight read again and 16 bits written. All gradients held are zeroed.
  const double updated = 1e6 * (4 + 2 * 4 + 4 + 3 * 2 * 4 + 4 + 2);
  EXPECT_DOUBLE_EQ(bytes(s), updated + 8e6 * 4);
  s.precision = TrainingPrecision::kFP16;  // scaled, and looked at for infinities
  EXPECT_DOUBLE_EQ(bytes(s), updated + 1e6 * 2 * 4 + 8e6 * 4);
  s.precision = TrainingPrecision::kBF16;
  s.zero = 2;  // a rank's own alone are kept
  EXPECT_DOUBLE_EQ(bytes(s), updated + 1e6 * 4);
  s.zero = 3;  // gradients are freed
  EXPECT_DOUBLE_EQ(bytes(s), updated);
  s.wide_gradients = false;
  EXPECT_DOUBLE_EQ(bytes(s), updated - 1e6 * 4 * 2);
}

TEST(RankWork, GradientsAreAddedUpByProductsOrByLoops) {
  Strategy strategy;
  TrainingConstants constants;
  constants.accumulation = 0.5;
  const auto moved = [&] { return bytes_of(work(strategy, gpt(), constants).backward); };
  const double fused = moved();
  strategy.fused_gradients = false;
  const double loops = moved();
  strategy.wide_gradients = false;
  const double none = moved();
  // Of 12·h² parameters: half of six more bytes, or 16 bits read and 32 read and written.
  EXPECT_DOUBLE_EQ(fused - none, 12 * h * h * 0.5 * 6);
  EXPECT_DOUBLE_EQ(loops - none, 12 * h * h * (2 + 4 + 4));
}

TEST(RankWork, ALayerThatIsNotModelledIsRefusedByName) {
  TransformerDescription model = gpt();
  model.layers.front().mixer = DeltaAttention();
  try {
    work(tensor_parallel(false), model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("gpt has layers of linear attention by the delta rule"));
  }
}

TEST(TrainingConstants, AreReadFromTheDataFolder) {
  const auto load = [](const char* architecture) {
    return load_training_constants(ORRERY_SOURCE_DIR "/data", architecture);
  };
  const TrainingConstants constants = load("hopper");
  EXPECT_GT(constants.attention_backward, 2.5);  // its FLOPs over those of the forward pass
  EXPECT_LT(constants.attention_backward, 3.5);
  EXPECT_DOUBLE_EQ(constants.gap.value, 0.75e-6);
  EXPECT_DOUBLE_EQ(constants.bucket.value, 160e6);
  EXPECT_DOUBLE_EQ(constants.context.value, 3e9);
  // Of an architecture that has some of its own, the others are those of all.
  const TrainingConstants blackwell = load("blackwell");
  EXPECT_GT(blackwell.attention_backward, 3);
  EXPECT_GT(blackwell.attention_backward_wide, blackwell.attention_backward);
  EXPECT_EQ(blackwell.loss, constants.loss);
}

TEST(TrainingConstants, AMissingFileIsNamed) {
  EXPECT_THROW(load_training_constants("/nonexistent", "hopper"), Error);
}

}  // namespace
}  // namespace orrery
