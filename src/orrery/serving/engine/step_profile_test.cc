#include "orrery/serving/engine/step_profile.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "orrery/base/error.h"

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

StepTables tables() {
  StepTables t;
  read_dense_times(text(kDense), t);
  read_attention_times(text(kAttention), t);
  read_per_sequence_times(text(kPerSequence), t);
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
  EXPECT_DOUBLE_EQ(profile(16).next(next_tokens(2, 2000, 1500)), 32 * (16 + 500 * alone) * kMicro);
  // Four turns: it has two mean lengths behind it.
  EXPECT_DOUBLE_EQ(profile(4).next(next_tokens(2, 2000, 1500)), 32 * 16 * kMicro);
  // 32 units are not filled: sequences are split.
  EXPECT_DOUBLE_EQ(profile(32).next(next_tokens(2, 2000, 1500)), 32 * 16 * kMicro);
}

// Mixtral: 32 layers of 8 experts, 2 a token. One token meets 2; three 8 · (1 − (3/4)³) = 4.625.
TEST(StepProfile, CountsExpertsThatHaveTokens) {
  StepTables t = tables();
  read_expert_times(text("tokens,activated_experts,time_us\n1,2,10\n1,4,20\n3,2,12\n3,8,72\n"), t);
  const TransformerDescription model = load_language_model("mixtral-8x7b");
  const StepProfile whole(t, model, {}, 0, 0);
  EXPECT_DOUBLE_EQ(whole.experts(1), 32 * 10 * kMicro);
  EXPECT_NEAR(whole.experts(3), 32 * (12 + 2.625 * 10) * kMicro, 1e-12);
  // Half of them, with half of the tokens.
  const StepProfile half(t, model, {.attention_data = 2, .expert = 2}, 0, 0);
  EXPECT_NEAR(half.experts(3), 32 * ((10 + 0.3125 * 5) * 0.75 + (12 + 0.3125 * 10) * 0.25) * kMicro,
              1e-12);
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "nothing";
}

TEST(StepProfile, SaysWhereATableIsWrong) {
  StepTables t;
  EXPECT_EQ(refusal([&] { read_dense_times(text("layer,tokens,time_us\nqkv_prj,1,2\n"), t); }),
            "table.csv:2:1: no layer 'qkv_prj' is known; did you mean 'qkv_proj'?; there is "
            "gate_up_proj, act_fn, down_proj, layernorm, qkv_proj, qk_norm, rotary_emb, o_proj, "
            "embedding, final_layernorm");
  EXPECT_EQ(refusal([&] { read_dense_times(text("layer,tokens,time_us\no_proj,1.5,2\n"), t); }),
            "table.csv:2:8: 'tokens' must be a whole number between 0 and 1099511627776, not "
            "'1.5'");
  EXPECT_EQ(refusal([&] { read_dense_times(text("layer,tokens,time_us\no_proj,1,nan\n"), t); }),
            "table.csv:2:10: 'time_us' must be microseconds between 0 and 1000000000000, not "
            "'nan'");
  EXPECT_EQ(
      refusal([&] { read_dense_times(text("layer,tokens,time_us\no_proj,1,2\no_proj,1,3\n"), t); }),
      "table.csv:3:1: an earlier line has these sizes already");
  const std::string header = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  EXPECT_EQ(refusal([&] { read_attention_times(text(header + "0,16,0,0,1\n"), t); }),
            "table.csv:2:1: neither a prompt's chunk nor a sequence's next token");
  EXPECT_EQ(refusal([&] { read_attention_times(text(header + "16,0,0,0,1\n"), t); }),
            "table.csv: no row of next tokens (prefill_chunk 0) alone");
}

TEST(StepProfile, SaysWhichLayerIsMissing) {
  EXPECT_EQ(refusal([] { StepProfile(tables(), load_language_model("mixtral-8x7b"), {}, 0, 0); }),
            "table.csv: no table of experts beside it");
  StepTables t = tables();
  t.dense.erase("act_fn");
  EXPECT_EQ(refusal([&] { StepProfile(t, load_language_model("llama3-8b"), {}, 0, 0); }),
            "table.csv: no row of 'act_fn', which llama3-8b has");
}

}  // namespace
}  // namespace orrery
