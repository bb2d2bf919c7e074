#include "orrery/serving/engine/engine_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "orrery/workload/zoo/language_model.h"

namespace orrery {
namespace {

EngineWork work_of(const std::string& model, const ServingLayout& layout = {},
                   const ServingPrecision& precision = {}) {
  return {load_language_model(model), layout, precision, EngineHabits{}};
}

double matrix_flops(const EnginePass& pass) {
  double sum = 0;
  for (const Launch& launch : pass.launches) sum += launch.kernel.cost.matrix_flops * launch.count;
  return sum;
}

// Llama 3.1 8B: 32 layers of 4096·(4096 + 2·1024) + 4096² + 3·4096·14336 weights, a vocabulary of
// 128,256 twice: 8.03 billion, its 8 key-value heads of 128 in 16 bits.
TEST(EngineWork, CountsWhatARankKeeps) {
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3.0 * 4096 * 14336;
  const double words = 128256.0 * 4096;
  const EngineWork whole = work_of("llama3-8b");
  EXPECT_DOUBLE_EQ(whole.parameters(), 32 * layer + 2 * words);
  EXPECT_DOUBLE_EQ(whole.weight_bytes(), 2 * (32 * layer + 2 * words));
  EXPECT_DOUBLE_EQ(whole.cache_bytes_per_token(), 32 * 8 * 128 * 2 * 2);
  EXPECT_EQ(whole.windowed_cache_bytes_per_token(), 0);
  EXPECT_EQ(whole.state_bytes_per_sequence(), 0);

  const EngineWork eighth = work_of("llama3-8b", {.tensor = 8});
  EXPECT_DOUBLE_EQ(eighth.parameters(), whole.parameters());
  EXPECT_DOUBLE_EQ(eighth.weight_bytes(), whole.weight_bytes() / 8);
  EXPECT_DOUBLE_EQ(eighth.cache_bytes_per_token(), whole.cache_bytes_per_token() / 8);
  // More ranks than key-value heads: each head is kept twice.
  EXPECT_DOUBLE_EQ(work_of("llama3-8b", {.tensor = 16}).cache_bytes_per_token(),
                   whole.cache_bytes_per_token() / 8);

  const EngineWork stages = work_of("llama3-8b", {.pipeline = 2});
  EXPECT_DOUBLE_EQ(stages.cache_bytes_per_token(), whole.cache_bytes_per_token() / 2);
  EXPECT_DOUBLE_EQ(stages.weight_bytes(), 2 * (16 * layer + 2 * words));

  // Linear layers in 8 bits, embedding and head as they were; keys and values in 8.
  const EngineWork narrow = work_of("llama3-8b", {}, {.linear = "fp8", .cache = "fp8"});
  EXPECT_DOUBLE_EQ(narrow.weight_bytes(), 32 * layer + 2 * (2 * words));
  EXPECT_DOUBLE_EQ(narrow.cache_bytes_per_token(), whole.cache_bytes_per_token() / 2);
}

TEST(EngineWork, KeepsThePaceOfSixteenBitsWithManyRowsOfFour) {
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3.0 * 4096 * 14336;
  const EngineWork wide = work_of("llama3-8b");
  const auto same = [](const EnginePass& a, const EnginePass& b) {
    return std::ranges::equal(a.launches, b.launches, [](const Launch& x, const Launch& y) {
      return x.kernel == y.kernel && x.count == y.count;
    });
  };
  for (const auto& [format, bytes] :
       {std::pair("int4_weight", 0.5 + 2.0 / 128), std::pair("fp4_weight", 0.5 + 1.0 / 32)}) {
    SCOPED_TRACE(format);
    const EngineWork four = work_of("llama3-8b", {}, {.linear = format});
    EXPECT_TRUE(same(four.tokens(4096), wide.tokens(4096)));
    EXPECT_FALSE(same(four.tokens(16), wide.tokens(16)));
    // The weights are read once for 64 rows as for one; half the time of 256 rows for 128.
    EXPECT_DOUBLE_EQ(matrix_flops(four.tokens(64)), 2 * 32 * layer);
    EXPECT_DOUBLE_EQ(matrix_flops(four.tokens(128)), 2 * 128 * 32 * layer);
    EXPECT_DOUBLE_EQ(four.weight_bytes(), bytes * 32 * layer + 2 * 2 * 128256.0 * 4096);
  }
}

TEST(EngineWork, MultipliesEveryWeightOnceAToken) {
  const double layer = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3.0 * 4096 * 14336;
  for (const int64_t tokens : {1, 100, 4096}) {
    const double t = static_cast<double>(tokens);
    EXPECT_DOUBLE_EQ(matrix_flops(work_of("llama3-8b").tokens(tokens)), 2 * t * 32 * layer);
    EXPECT_DOUBLE_EQ(matrix_flops(work_of("llama3-8b", {.tensor = 4}).tokens(tokens)),
                     2 * t * 32 * layer / 4);
  }
  EXPECT_DOUBLE_EQ(matrix_flops(work_of("llama3-8b").head(7)), 2 * 7 * 128256.0 * 4096);
}

TEST(EngineWork, SumsOverTensorRanksTwiceALayer) {
  const EnginePass pass = work_of("llama3-8b", {.tensor = 4}).tokens(10);
  ASSERT_EQ(pass.traffic.size(), 1U);
  EXPECT_EQ(pass.traffic[0].call.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(pass.traffic[0].call.bytes.value, 10 * 4096 * 2);
  EXPECT_EQ(pass.traffic[0].call.group.size, 4);
  EXPECT_EQ(pass.traffic[0].count, 2 * 32);
  EXPECT_TRUE(work_of("llama3-8b").tokens(10).traffic.empty());
}

// Attention of one token over c others in 32 heads of 128: 2 products of 2·128·c each.
TEST(EngineWork, LooksAtWhatIsCached) {
  const EngineWork work = work_of("llama3-8b");
  EXPECT_DOUBLE_EQ(matrix_flops(work.decode(false, 3, 1000)), 32 * 3.0 * 32 * 2 * 2 * 128 * 1000);
  EXPECT_TRUE(work.decode(true, 3, 1000).launches.empty());
  EXPECT_EQ(work.window(), 0);
}

// Of four data-parallel ranks with the experts of all of them, tokens are gathered before and the
// sums scattered after, or travel to their experts.
TEST(EngineWork, TakesTokensToTheirExperts) {
  const TransformerDescription model = load_language_model("mixtral-8x7b");
  const ServingLayout layout = {.attention_data = 4, .expert = 4};
  const EngineWork gathered(model, layout, {}, {.gathers_experts = true});
  EXPECT_TRUE(gathered.experts(40).traffic.empty());
  const EnginePass pass = gathered.exchange(40);
  ASSERT_EQ(pass.traffic.size(), 2U);
  EXPECT_EQ(pass.traffic[0].call.kind, CollectiveKind::kAllGather);
  // Two experts of four bytes and as many of weight beside each.
  EXPECT_EQ(pass.traffic[0].call.bytes.value, 40 * (4096 * 2 + 2 * (4 + 4)));
  EXPECT_EQ(pass.traffic[1].call.bytes.value, 40 * 4096 * 2);
  EXPECT_EQ(pass.traffic[1].call.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(pass.traffic[1].count, 32);
  const EngineWork sent(model, layout, {}, {.gathers_experts = false});
  ASSERT_EQ(sent.exchange(40).traffic.size(), 1U);
  EXPECT_EQ(sent.exchange(40).traffic[0].call.kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(sent.exchange(40).traffic[0].call.bytes.value, 10 * 2 * 4096 * 2);
  EXPECT_EQ(sent.exchange(40).traffic[0].count, 2 * 32);
  // 8 experts of 3·4096·14336 over 4 ranks.
  const double experts = 32 * 2 * 3.0 * 4096 * 14336;
  const double rest =
      32 * (4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 8 * 4096) + 2 * 32000.0 * 4096;
  EXPECT_DOUBLE_EQ(gathered.weight_bytes(), 2 * (experts + rest));
}

// Two norms in each of 80 layers: kernels of their own but behind sums over tensor ranks in steps
// that are captured.
TEST(EngineWork, NormalisesInTheKernelThatSums) {
  const TransformerDescription model = load_language_model("llama3-70b");
  const EngineHabits fuses = {.captured = 256, .fuses_norms = true};
  const auto norms = [&](int tensor, const EngineHabits& habits, int64_t tokens) {
    const EngineWork work(model, {.tensor = tensor}, {}, habits);
    double count = 0;
    for (const Launch& launch : work.tokens(tokens).launches)
      if (launch.kernel.code == Opcode::k_rms_norm) count += launch.count;
    return count;
  };
  EXPECT_EQ(norms(8, fuses, 256), 0);
  EXPECT_EQ(norms(8, fuses, 257), 160);
  EXPECT_EQ(norms(1, fuses, 1), 160);
  EXPECT_EQ(norms(8, {}, 1), 160);
}

// Mixtral has a router of 8 · 4,096 in each of 32 layers; in 32 bits it multiplies in them too.
TEST(EngineWork, MultipliesWideRoutersInTheirFormat) {
  TransformerDescription model = load_language_model("mixtral-8x7b");
  const double narrow = EngineWork(model, {}, {}, EngineHabits{}).weight_bytes();
  for (Layer& layer : model.layers)
    std::get<MixtureOfExperts>(layer.feed_forward).router.format = {.storage = ElementType::kF32,
                                                                    .compute = ElementType::kF32};
  const EngineWork wide(model, {}, {}, EngineHabits{});
  EXPECT_DOUBLE_EQ(wide.weight_bytes() - narrow, 32.0 * 8 * 4096 * 2);
  double routed = 0;
  for (const Launch& launch : wide.tokens(100).launches)
    if (launch.kernel.cost.matrix_type == ElementType::kF32)
      routed += launch.kernel.cost.matrix_flops * launch.count;
  EXPECT_DOUBLE_EQ(routed, 32.0 * 2 * 100 * 8 * 4096);
}

// An adapter of rank r adds r·(k + n) weights to a product with n·k; queries, keys and values have
// one each, as do gate and up. Of Llama 3.1 8B: 41.9 million at rank 16, which is what PEFT counts
// for all its linear layers.
TEST(EngineWork, AddsAdaptersToLinearLayers) {
  const TransformerDescription model = load_language_model("llama3-8b");
  const EngineWork whole(model, {}, {}, {}, {.adapter_rank = 16});
  const double sizes = (3 * 4096 + 6144) + (4096 + 4096) + (2 * 4096 + 28672) + (14336 + 4096);
  EXPECT_DOUBLE_EQ(sizes * 16 * 32, 41943040);
  EXPECT_DOUBLE_EQ(whole.adapter_bytes(), 2 * 41943040.0);
  // Of two ranks each has all of A before split columns, and all of B after split rows.
  const double half = (3 * 4096 + 3072) + (2048 + 4096) + (2 * 4096 + 14336) + (7168 + 4096);
  EXPECT_DOUBLE_EQ(EngineWork(model, {.tensor = 2}, {}, {}, {.adapter_rank = 16}).adapter_bytes(),
                   half * 16 * 32 * 2);
  EXPECT_EQ(work_of("llama3-8b").adapter_bytes(), 0);
  EXPECT_TRUE(work_of("llama3-8b").adapters(8, 2).launches.empty());

  // Two launches for each of four products; every token meets one adapter's weights.
  for (const int64_t adapters : {1, 4}) {
    const EnginePass pass = whole.adapters(100, adapters);
    double launches = 0, weights = 0;
    for (const Launch& launch : pass.launches) {
      launches += launch.count;
      weights += launch.count * launch.kernel.cost.bytes_read;
    }
    EXPECT_EQ(launches, 32 * 4 * 2);
    EXPECT_DOUBLE_EQ(matrix_flops(pass), 2 * 100 * 41943040.0);
    // Beside the weights, 100 rows: 4096 (three times) or 14336 wide, and of rank 16.
    const double rows = 32 * 100 * 2.0 * (3 * 4096 + 14336 + 4 * 16);
    EXPECT_DOUBLE_EQ(weights, static_cast<double>(adapters) * 2 * 41943040.0 + rows);
    EXPECT_TRUE(pass.traffic.empty());
  }
  // The model's own layers are as they were.
  EXPECT_DOUBLE_EQ(matrix_flops(whole.tokens(100)), matrix_flops(work_of("llama3-8b").tokens(100)));
}

TEST(ServingLayout, SaysWhatIsWrong) {
  const TransformerDescription model = load_language_model("mixtral-8x7b");
  EXPECT_TRUE(faults({.tensor = 8}, model).empty());
  EXPECT_TRUE(faults({.tensor = 4, .attention_data = 2, .expert = 8}, model).empty());
  EXPECT_EQ(faults({.tensor = 0}, model).size(), 1U);
  EXPECT_EQ(faults({.tensor = 64, .expert_tensor = 1, .expert = 16}, model).size(), 3U);
  EXPECT_EQ(faults({.pipeline = 33}, model).size(), 1U);
}

}  // namespace
}  // namespace orrery
