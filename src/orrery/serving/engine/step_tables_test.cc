#include "orrery/serving/engine/step_tables.h"

#include <gtest/gtest.h>

#include <functional>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/serving/engine/step_profile.h"

namespace orrery {
namespace {

constexpr double kMicro = 1e-6;

StepTables read(const std::string& table, const char* model, const ServingLayout& layout = {}) {
  StepTables tables;
  read_step_table(Source::from_memory("t.csv", table), {load_language_model(model), layout},
                  tables);
  return tables;
}

/// Llama-2 7B: 32 layers, 32 heads, 4096 wide, 11008 inside.
const std::string kLayers =
    "time_stats.emb.median,time_stats.input_layernorm.median,time_stats.add.median,"
    "time_stats.post_attention_layernorm.median,time_stats.attn_pre_proj.min,"
    "time_stats.attn_pre_proj.max,time_stats.attn_pre_proj.median,n_head,n_kv_head,n_embd,"
    "n_expanded_embd,vocab_size,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n";
const std::string kSizes = "32,32,4096,11008,32768,True,";

// Two norms of 5 and 7 us and the sums of two residuals of 2 us: 2 · (6 + 2) us a layer.
TEST(StepTables, TakesVidursLayers) {
  const StepTables t = read(kLayers + "0.004,0.005,0.002,0.007,0.05,0.07,0.06," + kSizes +
                                "16,1\n0.008,0.005,0.002,0.007,0.05,0.07,0.06," + kSizes +
                                "32,1\n9,9,9,9,9,9,9," + kSizes + "16,2\n",
                            "llama2-7b");
  EXPECT_DOUBLE_EQ(t.operators.at(EngineOperator::kNorm).at(16), 8);
  EXPECT_DOUBLE_EQ(t.operators.at(EngineOperator::kQueryKeyValue).at(16), 60);
  EXPECT_DOUBLE_EQ(t.operators.at(EngineOperator::kEmbedding).at(24), 6);
  EXPECT_EQ(t.operators.size(), 3U);
  const StepProfile p(t, load_language_model("llama2-7b"), {}, 0, 108);
  EXPECT_NEAR(p.tokens(16), (32 * (2 * 8 + 60) + 4) * kMicro, 1e-12);
  EXPECT_FALSE(p.has(EngineOperator::kUp));
  EXPECT_FALSE(p.has(EngineOperator::kAttention));
}

TEST(StepTables, AveragesRepeats) {
  const std::string row = "0.004,0.005,0.002,0.007,0.01,0.07,", end = kSizes + "16,1\n";
  EXPECT_DOUBLE_EQ(read(kLayers + row + "0.05," + end + row + "0.06," + end, "llama2-7b")
                       .operators.at(EngineOperator::kQueryKeyValue)
                       .at(16),
                   55);
}

const std::string kAttention =
    "time_stats.attn_kv_cache_save.median,time_stats.attn_prefill.median,"
    "time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,num_tensor_parallel_workers,"
    "batch_size,prefill_chunk_size,kv_cache_size,is_prefill\n";

// A prompt's chunk of 64 after 128 with the writing of its keys: 10 + 30 us; two next tokens over
// 31 cached ones and themselves: 1 + 11 us.
TEST(StepTables, TakesFrontiersAttention) {
  const StepTables t = read(kAttention +
                                "0.01,0.03,0.0,4096,32,32,1,1,64,128,True\n"
                                "0.001,0.0,0.011,4096,32,32,1,2,0,31,False\n",
                            "llama2-7b");
  EXPECT_DOUBLE_EQ(t.prompts.at(64, 128), 40);
  EXPECT_DOUBLE_EQ(t.next.at(2, 32), 12);
  EXPECT_TRUE(t.attention_writes);
  EXPECT_TRUE(t.mixed.empty());
}

const std::string kExperts =
    "time_stats.moe_gating.median,time_stats.moe_shuffling.median,"
    "time_stats.moe_grouped_gemm.median,num_tokens,num_experts,expert_parallel_size,router_topk,"
    "hidden_dim,expert_hidden_dim,use_gated,num_tensor_parallel_workers\n";

// Mixtral, 32 layers: 20 + 100 us of experts and 5 of routing for 8 tokens, of each of two ranks.
TEST(StepTables, TakesFrontiersExperts) {
  const ServingLayout two = {.tensor = 2};
  const StepTables t = read(kExperts +
                                "0.005,0.02,0.1,8,8,1,2,4096,14336,True,2\n"
                                "0.005,0.02,0.2,8,8,1,2,4096,14336,True,1\n",
                            "mixtral-8x7b", two);
  const StepProfile p(t, load_language_model("mixtral-8x7b"), two, 0, 108);
  EXPECT_NEAR(p.experts(8), 32 * 120 * kMicro, 1e-12);
  EXPECT_NEAR(p.tokens(8), 32 * 5 * kMicro, 1e-12);
  EXPECT_TRUE(p.has(EngineOperator::kRouter));
}

std::string refusal(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind);
    return e.what();
  }
  return "nothing";
}
std::string refusal(const std::string& table, const char* model = "llama2-7b",
                    const ServingLayout& layout = {}, ErrorKind kind = ErrorKind::kInput) {
  return refusal(kind, [&] { read(table, model, layout); });
}

TEST(StepTables, SaysWhereATableIsNotOfTheModel) {
  const std::string row = "0.004,0.005,0.002,0.007,0.05,0.07,0.06,";
  EXPECT_EQ(refusal(kLayers + row + kSizes + "16,1\n", "llama2-13b"),
            "t.csv:2:46: 'n_embd' is 4096, of llama2-13b it is 5120");
  EXPECT_EQ(refusal(kLayers + row + "32,32,4096,11008,32768,False,16,1\n"),
            "t.csv:2:63: 'use_gated_mlp' is False, of llama2-7b it is True");
  EXPECT_EQ(refusal(kLayers + row + kSizes + "16,2\n", "llama2-7b", {}, ErrorKind::kInfeasible),
            "t.csv:1:288: no row has num_tensor_parallel_workers 1, as the layout asks; there is "
            "num_tensor_parallel_workers 2");
  EXPECT_EQ(refusal(kExperts + "0,0,0,8,8,1,2,4096,14336,True,1\n"),
            "t.csv: llama2-7b has no experts");
}

TEST(StepTables, SaysWhereATableContradictsItself) {
  const std::string row = "0.004,0.005,0.002,0.007,0.01,0.07,", end = kSizes + "16,1\n";
  EXPECT_EQ(refusal(kLayers + row + "0.02," + end + row + "0.06," + end),
            "t.csv:3:35: line 2 has these sizes with 0.02 ms, this one with 0.06");
  EXPECT_EQ(refusal(kLayers + row + "0.08," + end),
            "t.csv:2:35: the median 0.08 is above the most, 0.07");
  EXPECT_EQ(refusal(kAttention + "0.01,0.03,0.0,4096,32,32,1,1,64,128,False\n"),
            "t.csv:2:30: 'prefill_chunk_size' is 64 where 'is_prefill' is False");
  EXPECT_EQ(refusal(kAttention + "0.01,0.03,0.0,4096,32,32,1,1,64,128,yes\n"),
            "t.csv:2:37: expected True or False as 'is_prefill', found 'yes'");
  EXPECT_EQ(refusal("time_stats.all_reduce.median,size,num_workers,devices_per_node,collective\n"
                    "0.01,1024,2,2,send_recv\n"),
            "t.csv:2:15: 'collective' is 'send_recv' in a table of all_reduce");
}

TEST(StepTables, SaysWhichColumnItDoesNotKnow) {
  EXPECT_EQ(refusal("n_embd,time_stats.mlp_up_prj.median\n1,2\n"),
            "t.csv:1:8: no operator 'mlp_up_prj' is known; did you mean 'mlp_up_proj'?");
  EXPECT_EQ(refusal("time_stats.emb.median,time_stats.attn_decode.median\n1,2\n"),
            "t.csv:1:23: times of 'emb' and of 'attn_decode' in one table");
  EXPECT_EQ(refusal("a,b\n1,2\n"),
            "t.csv:1:1: no table of step times is known by these columns: a, b; one has "
            "'time_stats.OPERATOR.median' (VIDUR, Frontier), 'layer', 'prefill_chunk' or "
            "'activated_experts' (LLMServingSim)");
  EXPECT_EQ(refusal("layer,tokens,time_us\nqkv_prj,1,2\n"),
            "t.csv:2:1: no layer 'qkv_prj' is known; did you mean 'qkv_proj'?; there is "
            "gate_up_proj, act_fn, down_proj, layernorm, qkv_proj, qk_norm, rotary_emb, o_proj, "
            "embedding, final_layernorm");
}

TEST(StepTables, SaysWhereAFieldIsWrong) {
  EXPECT_EQ(refusal("layer,tokens,time_us\no_proj,1.5,2\n"),
            "t.csv:2:8: 'tokens' must be a whole number between 0 and 1099511627776, not '1.5'");
  EXPECT_EQ(refusal("layer,tokens,time_us\no_proj,1,nan\n"),
            "t.csv:2:10: 'time_us' must be microseconds between 0 and 1000000000000, not 'nan'");
  EXPECT_EQ(refusal("layer,tokens,time_us\no_proj,1,2\no_proj,1,3\n"),
            "t.csv:3:1: an earlier line has these sizes already");
  const std::string header = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  EXPECT_EQ(refusal(header + "0,16,0,0,1\n"),
            "t.csv:2:1: neither a prompt's chunk nor a sequence's next token");
  EXPECT_EQ(refusal(header + "16,0,0,0,1\n"),
            "t.csv: no row of next tokens (prefill_chunk 0) alone");
}

TEST(StepTables, TakesAnOperatorFromOneTableOnly) {
  const ServingLayout layout;
  const TransformerDescription model = load_language_model("llama2-7b");
  StepTables tables;
  const Source one = Source::from_memory("a.csv", "layer,tokens,time_us\no_proj,1,2\n");
  const Source two = Source::from_memory("b.csv", "layer,tokens,time_us\no_proj,1,2\n");
  read_step_table(one, {model, layout}, tables);
  EXPECT_EQ(refusal(ErrorKind::kInput,
                    [&] {
                      read_step_table(two, {model, layout}, tables);
                    }),
            "b.csv: another table has times of output projection of attention already");
}

TEST(StepTables, ReadsRealTables) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "serving");
  const TransformerDescription model = load_language_model("llama2-7b");
  const ServingLayout one, two = {.tensor = 2};
  const StepTables frontier =
      read_step_tables({folder + "/frontier/a800/meta-llama/Llama-2-7b-hf"}, {model, one});
  EXPECT_EQ(frontier.operators.size(), 8U);
  EXPECT_FALSE(frontier.prompts.empty());
  // Two rows of 4096 tokens, 3.298 and 3.08 ms.
  EXPECT_NEAR(frontier.operators.at(EngineOperator::kUp).at(4096), 3189, 1e-6);
  const StepTables vidur = read_step_tables({folder + "/vidur/h100/Llama-2-7b-hf/mlp.csv",
                                             folder + "/vidur/network/h100_dgx_all_reduce.csv"},
                                            {model, two});
  EXPECT_EQ(vidur.collectives.size(), 3U);
  EXPECT_TRUE(vidur.prompts.empty());
  EXPECT_EQ(
      refusal(ErrorKind::kInput,
              [&] {
                read_step_tables({folder + "/vidur/a100/Llama-2-70b-hf/mlp.csv"}, {model, one});
              })
          .substr(folder.size()),
      "/vidur/a100/Llama-2-70b-hf/mlp.csv:2:612: 'n_embd' is 8192, of llama2-7b it is 4096");
}

}  // namespace
}  // namespace orrery
