#include "orrery/serving/engine/step_profile.h"

#include <gtest/gtest.h>

#include <array>

namespace orrery {
namespace {

constexpr double kMicro = 1e-6;

Source text(const std::string& table) { return Source::from_memory("table.csv", table); }

constexpr const char* kDense =
    "layer,tokens,time_us\n"
    "layernorm,1,1\nqkv_proj,1,10\nqkv_proj,3,30\nrotary_emb,1,2\no_proj,1,5\n"
    "gate_up_proj,1,20\nact_fn,1,3\ndown_proj,1,10\nembedding,1,7\nfinal_layernorm,1,4\n";
constexpr const char* kAttention =
    "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
    "16,0,0,0,10\n16,1024,0,0,40\n16,16384,0,0,500\n32,0,0,0,12\n32,1024,0,0,44\n"
    "0,0,1,1000,10\n0,0,1,2000,20\n0,0,2,1000,16\n0,0,2,2000,32\n"
    "16,0,1,1000,30\n16,0,2,1000,50\n32,0,1,1000,36\n32,0,2,1000,60\n";
constexpr const char* kPerSequence =
    "layer,sequences,time_us\nlm_head,1,100\nlm_head,3,120\nsampler,1,5\n";

/// LLMServingSim's tables say nothing of a model or a layout.
void read(const std::string& table, StepTables& tables, const char* model = "llama3-8b") {
  const ServingLayout layout;
  read_step_table(text(table), {load_language_model(model), layout}, tables);
}

StepTables tables() {
  StepTables t;
  for (const char* table : {kDense, kAttention, kPerSequence}) read(table, t);
  return t;
}

/// Llama-3.1 8B: 32 layers, 8 heads of keys and values.
StepProfile profile(int compute_units, const ServingLayout& layout = {}) {
  return {tables(), load_language_model("llama3-8b"), layout, 0, compute_units};
}

StepShape next_tokens(int64_t sequences, int64_t context, int64_t longest) {
  StepShape shape;
  shape.decodes = sequences;
  shape.decode_context = context;
  shape.longest_decode = longest;
  return shape;
}

// A layer: 2 · 1 + 10 + 2 + 5 + 20 + 3 + 10 = 52 µs; beside layers 7 + 4.
TEST(StepProfile, AddsUpLayers) {
  const StepProfile p = profile(0);
  EXPECT_DOUBLE_EQ(p.tokens(1), (32 * 52 + 11) * kMicro);
  EXPECT_DOUBLE_EQ(p.tokens(2), (32 * 62 + 11) * kMicro);
  EXPECT_DOUBLE_EQ(p.head(2), 115 * kMicro);
  EXPECT_DOUBLE_EQ(profile(0, {.pipeline = 4}).tokens(1), (8 * 52 + 11) * kMicro);
  EXPECT_EQ(p.sizes().size(), 2U);
}

TEST(StepProfile, TakesChunksTogetherOrOneByOne) {
  const StepProfile p = profile(0);
  StepShape shape;
  const std::array<PrefillChunk, 1> one{{{24, 512, false}}};
  shape.prefills = one;
  EXPECT_DOUBLE_EQ(p.prompts(shape), 32 * ((10 + 40 + 12 + 44) / 4.0) * kMicro);
  // 10 + 10 one by one; 32 tokens after nothing take 12, and have more work than these.
  const std::array<PrefillChunk, 2> two{{{16, 0, false}, {16, 0, true}}};
  shape.prefills = two;
  EXPECT_DOUBLE_EQ(p.prompts(shape), 32 * 12 * kMicro);
  // 10 + 40; together 32 tokens with the work 16 · 8 + 16 · (1024 + 8): as after 504.
  const std::array<PrefillChunk, 2> apart{{{16, 0, false}, {16, 1024, true}}};
  shape.prefills = apart;
  EXPECT_DOUBLE_EQ(p.prompts(shape), 32 * (12 + 32 * 504 / 1024.0) * kMicro);
}

TEST(StepProfile, TakesNextTokensAtTheirMeanLength) {
  const StepProfile p = profile(0);
  EXPECT_DOUBLE_EQ(p.next(next_tokens(2, 3000, 1500)), 32 * 24 * kMicro);
  // The longest alone: 10 + 10 · 2 of 3000 tokens.
  EXPECT_DOUBLE_EQ(p.next(next_tokens(2, 3100, 3000)), 32 * 30 * kMicro);
  EXPECT_EQ(p.next({}), 0);
}

TEST(StepProfile, TakesWhatNextTokensAddToAChunk) {
  const StepProfile p = profile(0);
  const std::array<PrefillChunk, 1> chunk{{{24, 0, false}}};
  StepShape shape = next_tokens(2, 2000, 1000);
  shape.prefills = chunk;
  EXPECT_DOUBLE_EQ(p.next(shape), 32 * (55 - 11) * kMicro);
  EXPECT_DOUBLE_EQ(p.prompts(shape), 32 * 11 * kMicro);
}

// 16 units: two sequences of 8 heads fill them, and end together but for the longest, whose other
// 500 tokens take 490 / 16384 µs each.
TEST(StepProfile, WaitsForTheLongest) {
  const double alone = (500 - 10) / 16384.0;
  // 16 blocks in eight places: in one of two cases it begins half way, with 500 of its 1,500 tokens
  // left when the others end.
  EXPECT_DOUBLE_EQ(profile(4).next(next_tokens(2, 2000, 1500)), 32 * (16 + 250 * alone) * kMicro);
  // In four places, one after the other: it has two mean lengths behind it.
  EXPECT_DOUBLE_EQ(profile(2).next(next_tokens(2, 2000, 1500)), 32 * 16 * kMicro);
  // In 16 and more all run at once.
  for (const int units : {8, 16, 32})
    EXPECT_DOUBLE_EQ(profile(units).next(next_tokens(2, 2000, 1500)), 32 * 16 * kMicro) << units;
}

// Mixtral: 32 layers of 8 experts, 2 a token. One token meets 2; three 8 · (1 − (3/4)³) = 4.625.
TEST(StepProfile, CountsExpertsThatHaveTokens) {
  StepTables t = tables();
  read("tokens,activated_experts,time_us\n1,2,10\n1,4,20\n3,2,12\n3,8,72\n", t);
  const TransformerDescription model = load_language_model("mixtral-8x7b");
  const StepProfile whole(t, model, {}, 0, 0);
  EXPECT_DOUBLE_EQ(whole.experts(1), 32 * 10 * kMicro);
  EXPECT_NEAR(whole.experts(3), 32 * (12 + 2.625 * 10) * kMicro, 1e-12);
  // Half of them, with half of the tokens.
  const StepProfile half(t, model, {.attention_data = 2, .expert = 2}, 0, 0);
  EXPECT_NEAR(half.experts(3), 32 * ((10 + 0.3125 * 5) * 0.75 + (12 + 0.3125 * 10) * 0.25) * kMicro,
              1e-12);
}

TEST(StepProfile, LeavesWhatNoTableHasToAKernelModel) {
  StepTables t = tables();
  t.operators.erase(EngineOperator::kActivation);
  const StepProfile p(t, load_language_model("mixtral-8x7b"), {}, 0, 0);
  for (const auto what : {EngineOperator::kNorm, EngineOperator::kAttention,
                          EngineOperator::kCacheWrite, EngineOperator::kHead})
    EXPECT_TRUE(p.has(what)) << name(what);
  for (const auto what : {EngineOperator::kActivation, EngineOperator::kExperts,
                          EngineOperator::kRouter, EngineOperator::kOther})
    EXPECT_FALSE(p.has(what)) << name(what);
  // 2 · 1 + 10 + 2 + 5 of attention; there is no dense part.
  EXPECT_DOUBLE_EQ(p.tokens(1), (32 * 19 + 11) * kMicro);
  EXPECT_EQ(p.experts(4), 0);
  const StepProfile nothing({}, load_language_model("llama3-8b"), {}, 0, 108);
  EXPECT_TRUE(nothing.sizes().empty());
  EXPECT_EQ(nothing.tokens(1) + nothing.head(1) + nothing.next(next_tokens(2, 3000, 1500)), 0);
}

TEST(StepProfile, LeavesOutTheEndsWhereTheEngineDoes) {
  const StepProfile p(tables(), load_language_model("llama3-8b"), {}, 0, 0, false);
  EXPECT_DOUBLE_EQ(p.tokens(1), 32 * 52 * kMicro);
  EXPECT_EQ(p.head(1), 0);
}

}  // namespace
}  // namespace orrery
