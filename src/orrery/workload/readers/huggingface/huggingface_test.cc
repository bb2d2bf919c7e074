#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/huggingface/families.h"
#include "orrery/workload/zoo/arguments_for_test.h"

namespace orrery {
namespace {

using ::testing::HasSubstr;

ReadOptions reading(std::string phase, int64_t batch = 1, int64_t tokens = 0) {
  ReadOptions o;
  o.build.phase = std::move(phase);
  o.build.batch = batch;
  (o.build.phase == "decode" ? o.build.context : o.build.sequence) = tokens;
  return o;
}

Workload build(const std::string& text, const std::string& phase, int64_t batch = 1,
               int64_t tokens = 0) {
  return read_workload(Source::from_memory("config.json", text), reading(phase, batch, tokens));
}

/// A small Llama to change one line of.
std::string small(const std::string& change = "", const std::string& type = "llama") {
  return fmt::format(
      R"({{"model_type": "{}", "torch_dtype": "bfloat16", "vocab_size": 256, "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 128{}{}}})",
      type, change.empty() ? "" : ",\n  ", change);
}

std::string input_error(const std::string& text) {
  try {
    build(text, "prefill");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// --- Switch Transformers ---

/// Two layers and two, the second of each with four experts of which each takes 64 tokens.
std::string small_switch(const std::string& sparse = "1") {
  return R"({"model_type": "switch_transformers", "torch_dtype": "float32", "vocab_size": 32,
  "d_model": 8, "d_kv": 4, "d_ff": 16, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 2,
  "num_sparse_encoder_layers": )" +
         sparse + R"(, "num_sparse_decoder_layers": 1, "num_experts": 4, "expert_capacity": 64})";
}

TEST(HuggingFace, SwitchTransformersHaveExpertsInEveryOtherLayer) {
  const Workload w = build(small_switch(), "forward", 1, 512);
  // Embedding 32·8; attention 4·8·8 + 8, its bias 32·2; dense 2·8·16 + 8, sparse four times
  // that and a router of 8·4; encoder 528 + 1328 + 8 + 64, decoder 264 more a layer.
  EXPECT_EQ(arguments_of(w).parameters, 256 + 1928 + 2456);
  int64_t products = 0;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    if (w.ops()[i].code != Opcode::k_grouped_dot) continue;
    ++products;
    EXPECT_EQ(w.view(OpId{i}).result_type(0).dims[0], 256);  // 4·64 of 512 tokens
  }
  EXPECT_EQ(products, 4);
}

TEST(HuggingFace, MoreLayersWithExpertsThanThereAreAreRefused) {
  EXPECT_THAT(input_error(small_switch("3")), HasSubstr("of 2 layers, 3 cannot have experts"));
}

// --- every description there is ---------------------------------------------------

/// Descriptions that are refused, with what the message names.
const std::map<std::string, std::string> kRefused = {};

TEST(HuggingFace, BuildsEveryDescription) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "model_configs");
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename();
    if (name.ends_with("_config.json") && !name.ends_with("_hf_quant_config.json"))
      files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 86u);
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).filename();
    for (const char* phase : {"prefill", "decode", "train"}) {
      SCOPED_TRACE(name + " " + phase);
      const auto refused = kRefused.find(name);
      try {
        const Workload w = load_workload(file, reading(phase, 2, 256));
        EXPECT_TRUE(refused == kRefused.end());
        EXPECT_GT(total_cost(w, w.entry()).flops(Unit::kMatrix), 0);
        EXPECT_EQ(total_cost(w, w.entry()).unknown_trip_counts, 0);
        if (std::string_view(phase) == "decode") {
          EXPECT_GT(arguments_of(w).cache_bytes, 0);
        }
      } catch (const Error& e) {
        ASSERT_TRUE(refused != kRefused.end()) << e.what();
        EXPECT_EQ(e.kind(), ErrorKind::kInput);
        EXPECT_THAT(e.what(), HasSubstr(refused->second));
      }
    }
  }
}

/// A published count. `exact`: from the headers of the checkpoint's safetensors
/// files (huggingface.co/api/models), language model alone, without prediction
/// modules and the router's correction biases; else as a model card rounds it.
struct Published {
  const char* file;
  double parameters;
  bool exact;
  const char* source;
  int64_t active_of = 0;  ///< Active experts a token, for `active`.
  int64_t experts = 0;
  double active = 0;  ///< As published; without the input table where `without_table`.
  bool without_table = false;
};

const Published kPublished[] = {
    {"meta-llama--Meta-Llama-3.1-8B", 8'030'261'248, true, "safetensors"},
    {"meta-llama--Meta-Llama-3.1-70B", 70'553'706'496, true, "safetensors"},
    {"meta-llama--Meta-Llama-3.1-405B", 405'853'388'800, true, "safetensors, 8 key-value heads"},
    {"Qwen--Qwen3-0.6B", 596'049'920, true, "safetensors, tied head counted once"},
    {"Qwen--Qwen3-8B", 8'190'735'360, true, "safetensors"},
    {"Qwen--Qwen3-32B", 32'762'123'264, true, "safetensors"},
    {"Qwen--Qwen3-32B-FP8", 32'762'123'264, true, "as Qwen3-32B"},
    {"Qwen--Qwen3-235B-A22B", 235'093'634'560, true, "safetensors; 22B active", 8, 128, 22e9},
    {"nvidia--Qwen3-235B-A22B-NVFP4", 235'093'634'560, true, "as Qwen3-235B-A22B"},
    {"Qwen--Qwen3-30B-A3B", 30'532'122'624, true, "safetensors; 3.3B active", 8, 128, 3.3e9},
    {"Qwen--Qwen3-Coder-480B-A35B-Instruct", 480e9, false, "model card; 35B active", 8, 160, 35e9},
    {"mistralai--Mixtral-8x7B-v0.1", 46'702'792'704, true, "safetensors; 12.9B active", 2, 8,
     12.9e9},
    {"mistralai--Mixtral-8x22B-v0.1", 140.6e9, false, "model card: 141B; 39B active", 2, 8, 39e9},
    // arXiv:2412.19437: 671B and 37B; 685B on the hub with 14B of multi-token prediction.
    {"deepseek-ai--DeepSeek-V3", 671'026'404'352, true, "safetensors without prediction", 8, 256,
     37e9},
    {"nvidia--DeepSeek-V3.1-NVFP4", 671'026'404'352, true, "as DeepSeek-V3"},
    {"deepseek-ai--DeepSeek-V4-Flash", 284e9, false, "model card: 284B, 13B active", 6, 256, 13e9,
     true},
    // The report's 1.04T (arXiv:2507.20534) counts a prediction module that is not published.
    {"moonshotai--Kimi-K2-Instruct", 1'026'408'209'408, true, "safetensors; 32B active", 8, 384,
     32e9, true},
    {"moonshotai--Kimi-K2.5", 1'026'408'209'408, true, "as Kimi-K2"},
    {"moonshotai--Kimi-K3", 2.78e12, false, "arXiv:2607.24653: 2.78T, 104B active", 16, 896, 104e9},
    {"openai--gpt-oss-20b", 20'914'757'184, true, "safetensors; arXiv:2508.10925: 3.61B active", 4,
     32, 3.61e9, true},
    {"openai--gpt-oss-120b", 116'829'156'672, true, "safetensors; arXiv:2508.10925: 5.13B active",
     4, 128, 5.13e9, true},
    {"Qwen--Qwen3.5-122B-A10B", 122'111'526'912, true, "safetensors; 10B active", 8, 256, 9.77e9},
    {"Qwen--Qwen3.5-35B-A3B", 34'660'610'688, true, "safetensors; 3.45B active", 8, 256, 3.45e9},
    {"Qwen--Qwen3.5-27B", 27e9, false, "model card: 27B"},
    {"Qwen--Qwen3.5-397B-A17B", 397e9, false, "model card: 397B, 17B active", 10, 512, 17e9},
    {"google--gemma-4-26B-A4B", 25'233'141'760, true, "safetensors; 3.8B active", 8, 128, 3.82e9},
    {"nvidia--Gemma-4-31B-IT-NVFP4", 30.7e9, false, "model card: 30.7B"},
    {"zai-org--GLM-5", 744e9, false, "model card: 744B, 40B active", 8, 256, 40e9},
    {"MiniMaxAI--MiniMax-M2.5", 230e9, false, "model card: 230B, 10B active", 8, 256, 10e9, true},
    {"XiaomiMiMo--MiMo-V2-Flash", 309e9, false, "model card: 309B, 15B active", 8, 256, 15e9, true},
    {"nvidia--Llama-3_3-Nemotron-Super-49B-v1", 49.9e9, false, "safetensors: 49.9B"},
    {"nvidia--Nemotron-H-56B-Base-8K", 56e9, false, "arXiv:2504.03624: 56B"},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6e9, false,
     "arXiv:2512.20848: 31.6B, 3.2B active", 6, 128, 3.2e9, true},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 120.6e9, false,
     "model card: 120.6B, 12.7B active", 22, 512, 12.7e9},
    {"nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 550e9, false, "model card: 550B, 55B active",
     22, 512, 55e9},
};

TEST(HuggingFace, ParametersAreThePublishedOnes) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "model_configs");
  for (const Published& model : kPublished) {
    SCOPED_TRACE(std::string(model.file) + ": " + model.source);
    const Workload w = load_workload(fmt::format("{}/{}_config.json", folder, model.file),
                                     reading("prefill", 1, 64));
    const Arguments found = arguments_of(w);
    const auto parameters = static_cast<double>(found.parameters);
    if (model.exact)
      EXPECT_EQ(parameters, model.parameters);
    else
      EXPECT_NEAR(parameters, model.parameters, 0.01 * model.parameters);
    if (model.active == 0) continue;
    double active = parameters - static_cast<double>(found.expert_parameters) *
                                     (1 - static_cast<double>(model.active_of) /
                                              static_cast<double>(model.experts));
    if (model.without_table) active -= static_cast<double>(found.table_parameters);
    // Cards round to a digit or two and differ in whether tables count.
    EXPECT_NEAR(active, model.active, 0.05 * model.active);
  }
}

/// Bytes of weights with their scales, as the checkpoint's tensors add up to.
TEST(HuggingFace, QuantisedBytesAreThoseOfTheCheckpoint) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "model_configs");
  const auto bytes = [&](const char* file) {
    return arguments_of(load_workload(fmt::format("{}/{}_config.json", folder, file),
                                      reading("prefill", 1, 64)))
        .parameter_bytes;
  };
  // moonshotai/Kimi-K2-Instruct: 1,029,173,256,720 bytes of tensors, of which 60·384
  // correction biases in fp32 and 61·64 rotary frequencies in fp32 are not weights.
  EXPECT_NEAR(static_cast<double>(bytes("moonshotai--Kimi-K2-Instruct")), 1'029'173'256'720.0, 5e5);
  // moonshotai/Kimi-K2-Thinking, whose int4 experts K2.5 shares: 594,205,904,896.
  EXPECT_NEAR(static_cast<double>(bytes("moonshotai--Kimi-K2.5")), 594'205'904'896.0, 1e6);
  // nvidia/Llama-3.1-70B-Instruct-FP8: a byte a weight but for both tables in bf16.
  EXPECT_NEAR(static_cast<double>(bytes("nvidia--Llama-3.1-70B-Instruct-FP8")), 72.66e9, 0.01e9);
}

TEST(HuggingFace, ReadsTheQuantisationBesideTheFile) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "model_configs/nvidia--Llama-3.1-70B-Instruct-FP8_config.json");
  const Workload w = load_workload(file, reading("decode", 1, 16));
  int quantised = 0;
  for (const auto& [type, count] : arguments_of(w).parameter_types)
    if (type.ends_with("f8E4M3FN")) quantised += count;
  EXPECT_EQ(quantised, 80 * 7);
  // "kv_cache_quant_algo": "FP8": 80 layers × 2 × 16 tokens × 8 heads × 128.
  EXPECT_EQ(arguments_of(w).cache_bytes, 80 * 2 * 16 * 8 * 128);
}

TEST(HuggingFace, SomeRoutersHave32Bits) {
  const auto wide = [](const std::string& type) {
    int count = 0;
    for (const auto& [name, n] :
         arguments_of(
             build(small(R"("num_local_experts": 8, "num_experts": 8, "n_routed_experts": 8,
  "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 0)",
                         type),
                   "prefill", 1, 16))
             .parameter_types)
      if (name.ends_with("f32")) count += n;
    return count;
  };
  // Of two layers; the others' are as wide as the rest.
  EXPECT_EQ(wide("minimax_m2"), 2);
  EXPECT_EQ(wide("glm4_moe"), 2);
  EXPECT_EQ(wide("qwen3_moe"), 0);
}

TEST(HuggingFace, SaysWhatItLeftOut) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "model_configs/Qwen--Qwen3-VL-2B-Instruct_config.json");
  const Workload w = load_workload(file, reading("prefill", 1, 16));
  EXPECT_THAT(w.notes(), ::testing::Contains(HasSubstr("vision encoder")));
}

// --- families without a file in the shared data -----------------------------------

int64_t parameters(const std::string& text) {
  return arguments_of(build(text, "prefill", 1, 16)).parameters;
}

TEST(HuggingFaceFamilies, Gpt2) {
  // openai-community/gpt2: 124,439,808.
  const std::string text =
      R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12,
    "n_positions": 1024, "activation_function": "gelu_new"})";
  EXPECT_EQ(parameters(text), 124'439'808);
  for (const char* phase : {"decode", "train"}) EXPECT_NO_THROW(build(text, phase, 1, 16)) << phase;
}

TEST(HuggingFaceFamilies, Opt) {
  // facebook/opt-1.3b: 1,315,758,080.
  const std::string text =
      R"({"model_type": "opt", "torch_dtype": "float16", "vocab_size": 50272, "hidden_size": 2048,
    "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192, "max_position_embeddings": 2048,
    "word_embed_proj_dim": 2048, "do_layer_norm_before": true, "activation_function": "relu"})";
  EXPECT_EQ(parameters(text), 1'315'758'080);
  for (const char* phase : {"decode", "train"}) EXPECT_NO_THROW(build(text, phase, 1, 16)) << phase;
}

TEST(HuggingFaceFamilies, OptWithASmallerTable) {
  // facebook/opt-350m: 331,196,416; norms after the blocks, tokens of 512.
  const std::string text =
      R"({"model_type": "opt", "torch_dtype": "float16", "vocab_size": 50272, "hidden_size": 1024,
    "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096, "max_position_embeddings": 2048,
    "word_embed_proj_dim": 512, "do_layer_norm_before": false, "activation_function": "relu"})";
  EXPECT_EQ(parameters(text), 331'196'416);
  EXPECT_NO_THROW(build(text, "train", 1, 16));
}

TEST(HuggingFaceFamilies, GptNeoX) {
  // EleutherAI/pythia-1.4b: 1,414,647,808.
  const std::string text =
      R"({"model_type": "gpt_neox", "torch_dtype": "float16", "vocab_size": 50304,
    "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192,
    "max_position_embeddings": 2048, "rotary_pct": 0.25, "use_parallel_residual": true, "hidden_act": "gelu",
    "tie_word_embeddings": false})";
  EXPECT_EQ(parameters(text), 1'414'647'808);
  for (const char* phase : {"decode", "train"}) EXPECT_NO_THROW(build(text, phase, 1, 16)) << phase;
}

TEST(HuggingFaceFamilies, Phi2) {
  // microsoft/phi-2: 2,779,683,840.
  const std::string text =
      R"({"model_type": "phi", "torch_dtype": "float16", "vocab_size": 51200, "hidden_size": 2560,
    "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10240, "max_position_embeddings": 2048,
    "partial_rotary_factor": 0.4, "hidden_act": "gelu_new", "tie_word_embeddings": false})";
  EXPECT_EQ(parameters(text), 2'779'683'840);
  for (const char* phase : {"decode", "train"}) EXPECT_NO_THROW(build(text, phase, 1, 16)) << phase;
}

TEST(HuggingFaceFamilies, Phi3) {
  // microsoft/Phi-3-mini-4k-instruct: 3,821,079,552.
  const std::string text = R"({"model_type": "phi3", "torch_dtype": "bfloat16", "vocab_size": 32064,
    "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "intermediate_size": 8192, "max_position_embeddings": 4096, "sliding_window": 2047,
    "tie_word_embeddings": false})";
  EXPECT_EQ(parameters(text), 3'821'079'552);
}

TEST(HuggingFaceFamilies, Mistral) {
  // mistralai/Mistral-7B-v0.1: 7,241,732,096; caches no more than its window.
  const std::string text =
      R"({"model_type": "mistral", "torch_dtype": "bfloat16", "vocab_size": 32000,
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "sliding_window": 4096})";
  EXPECT_EQ(parameters(text), 7'241'732'096);
  EXPECT_EQ(arguments_of(build(text, "decode", 1, 8192)).cache_bytes,
            32LL * 2 * 4096 * 8 * 128 * 2);
}

TEST(HuggingFaceFamilies, Qwen2) {
  // Qwen/Qwen2.5-7B: 7,615,616,512, with biases on queries, keys and values.
  EXPECT_EQ(parameters(R"({"model_type": "qwen2", "torch_dtype": "bfloat16", "vocab_size": 152064,
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "max_position_embeddings": 131072, "tie_word_embeddings": false,
    "use_sliding_window": false, "sliding_window": 131072})"),
            7'615'616'512);
}

TEST(HuggingFaceFamilies, Qwen2Moe) {
  // Qwen/Qwen1.5-MoE-A2.7B: 14,315,784,192.
  EXPECT_EQ(
      parameters(R"({"model_type": "qwen2_moe", "torch_dtype": "bfloat16", "vocab_size": 151936,
    "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
    "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
    "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1, "tie_word_embeddings": false})"),
      14'315'784'192);
}

TEST(HuggingFaceFamilies, Gemma) {
  // google/gemma-2-2b: 2,614,341,888; google/gemma-7b: 8,537,680,896.
  EXPECT_EQ(parameters(R"({"model_type": "gemma2", "torch_dtype": "float32", "vocab_size": 256000,
    "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 256, "intermediate_size": 9216, "sliding_window": 4096, "final_logit_softcapping": 30.0})"),
            2'614'341'888);
  EXPECT_EQ(parameters(R"({"model_type": "gemma", "torch_dtype": "bfloat16", "vocab_size": 256000,
    "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
    "head_dim": 256, "intermediate_size": 24576, "hidden_act": "gelu"})"),
            8'537'680'896);
}

TEST(HuggingFaceFamilies, Gemma3) {
  // google/gemma-3-4b: 3,880,263,168 in its language model.
  const std::string text =
      R"({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {"model_type": "gemma3_text", "torch_dtype": "bfloat16", "vocab_size": 262208,
    "hidden_size": 2560, "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 256, "intermediate_size": 10240, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152}})";
  EXPECT_EQ(parameters(text), 3'880'263'168);
  EXPECT_NO_THROW(build(text, "train", 1, 16));
}

TEST(HuggingFaceFamilies, DeepSeekV2Lite) {
  // deepseek-ai/DeepSeek-V2-Lite: 15,706,484,224; queries are not compressed.
  const std::string text =
      R"({"model_type": "deepseek_v2", "torch_dtype": "bfloat16", "vocab_size": 102400,
    "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
    "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1, "kv_lora_rank": 512,
    "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "tie_word_embeddings": false})";
  EXPECT_EQ(parameters(text), 15'706'484'224);
}

TEST(HuggingFaceFamilies, Glm) {
  // zai-org/GLM-4.5-Air: 106B, 12B active (model card); zai-org/GLM-4-9B-0414: 9,400,279,040.
  EXPECT_EQ(parameters(R"({"model_type": "glm4", "torch_dtype": "bfloat16", "vocab_size": 151552,
    "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
    "head_dim": 128, "intermediate_size": 13696, "attention_bias": true, "partial_rotary_factor": 0.5,
    "tie_word_embeddings": false})"),
            9'400'279'040);
  EXPECT_NEAR(
      static_cast<double>(parameters(R"({"model_type": "glm4_moe", "torch_dtype": "bfloat16",
    "vocab_size": 151552, "hidden_size": 4096, "num_hidden_layers": 46, "num_attention_heads": 96,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
    "attention_bias": true, "use_qk_norm": false, "num_nextn_predict_layers": 1, "tie_word_embeddings": false})")),
      106e9, 1.06e9);
}

TEST(HuggingFaceFamilies, EncodersAreHandedOn) {
  // google-bert/bert-base-uncased with its pooler: 109,482,240.
  EXPECT_NEAR(
      static_cast<double>(parameters(R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
    "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"})")),
      109'482'240, 0.01 * 109'482'240);
  // google/vit-base-patch16-224 as a classifier of 1000: 86,567,656.
  std::string labels;
  for (int i = 0; i < 1000; ++i) labels += fmt::format(R"({}"{}": "x")", i == 0 ? "" : ", ", i);
  const Workload vit =
      build(fmt::format(R"({{"model_type": "vit", "architectures": ["ViTForImageClassification"],
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "image_size": 224, "patch_size": 16, "num_channels": 3, "id2label": {{{}}}}})",
                        labels),
            "forward");
  EXPECT_EQ(arguments_of(vit).parameters, 86'567'656);
}

TEST(HuggingFaceFamilies, SlidingLayersKeepTheirWindow) {
  const std::string text = small(
      R"("layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8)", "qwen3");
  // 8 and 64 tokens, 2 heads of 16, keys and values, bf16.
  EXPECT_EQ(arguments_of(build(text, "decode", 1, 64)).cache_bytes, (8 + 64) * 2 * 16 * 2 * 2);
}

TEST(HuggingFaceFamilies, LinearLayersCarryStates) {
  const std::string text = small(R"("full_attention_interval": 2, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4)",
                                 "qwen3_5");
  // A state of 4 × 8 × 16 in fp32, 3 × (16 + 16 + 64) of the convolution in bf16; a cache of 32
  // tokens.
  const int64_t expected = 4 * 8 * 16 * 4 + 3 * 96 * 2 + 32 * 2 * 16 * 2 * 2;
  EXPECT_EQ(arguments_of(build(text, "decode", 1, 32)).cache_bytes, expected);
  EXPECT_EQ(arguments_of(build(text, "decode", 1, 32)).parameters,
            arguments_of(build(text, "train", 1, 32)).parameters);
}

// --- malformed ---------------------------------------------------------------------

TEST(HuggingFaceErrors, NameTheFieldAndThePlace) {
  EXPECT_THAT(
      input_error(R"({"model_type": "llama",
 "num_hidden_layers": "abc", "vocab_size": 8, "hidden_size": 8})"),
      HasSubstr("config.json:2:2: 'num_hidden_layers' must be a positive integer, found \"abc\""));
  EXPECT_THAT(input_error(R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8})"),
              HasSubstr("'num_hidden_layers' is missing"));
  EXPECT_THAT(input_error(small(R"("head_dim": -4)")),
              HasSubstr("'head_dim' must be a positive integer, found -4"));
  EXPECT_THAT(input_error(small(R"("head_dim": 99999999999999)")), HasSubstr("at most 2^31"));
  EXPECT_THAT(input_error(small(R"("attention_bias": "yes")")),
              HasSubstr("must be true or false, found \"yes\""));
  EXPECT_THAT(input_error(small(R"("hidden_act": "swoosh")")),
              HasSubstr("activation 'swoosh' is not supported"));
}

TEST(HuggingFaceErrors, SyntaxHasLineAndColumn) {
  EXPECT_THAT(input_error("{\"model_type\": \"llama\",\n  \"hidden_size\": 12,,\n}"),
              HasSubstr("config.json:2:21: not JSON"));
  EXPECT_THAT(input_error("{\"model_type\""), HasSubstr("config.json:1:"));
  std::string deep = R"({"model_type": )";
  for (int i = 0; i < 1000; ++i) deep += '[';
  EXPECT_THAT(input_error(deep), HasSubstr("nested deeper than 64 levels"));
}

TEST(HuggingFaceErrors, RefuseByName) {
  EXPECT_THAT(input_error(small("", "rwkv")),
              HasSubstr("model type 'rwkv' is not supported; there is: bert"));
  EXPECT_THAT(input_error(small(R"("quantization_config": {"quant_method": "hqq"})")),
              HasSubstr("quantisation method 'hqq' is not supported"));
  EXPECT_THAT(input_error(small(R"("num_key_value_heads": 3)")),
              HasSubstr("cannot share 3 key-value heads"));
  EXPECT_THAT(input_error(small(R"("layer_types": ["full_attention"])")),
              HasSubstr("has 1 entries, layer 1 needs one"));
  EXPECT_THAT(input_error(small(R"("layer_types": ["full_attention", "hyena"])", "qwen3")),
              HasSubstr("'hyena'"));
  EXPECT_THAT(input_error(small(R"("hidden_size_per_layer_input": 256)", "gemma4")),
              HasSubstr("'hidden_size_per_layer_input'"));
  EXPECT_THAT(input_error(small(R"("num_local_experts": 4, "num_experts_per_tok": 9)", "mixtral")),
              HasSubstr("9 of 4 experts"));
  EXPECT_THAT(input_error(R"({"architectures": ["Unheard"]})"),
              HasSubstr("'model_type' is missing"));
}

TEST(HuggingFaceErrors, PythonsNumbersAreRead) {
  EXPECT_NO_THROW(
      build(small(R"("a": Infinity, "b": -Infinity, "c": NaN, "d": "NaN Infinity")"), "prefill"));
}

TEST(HuggingFaceErrors, TooLargeIsRefused) {
  EXPECT_THAT(input_error(small(R"("num_hidden_layers": 2001)")), HasSubstr("2001 layers"));
  EXPECT_ANY_THROW(build(small(R"("head_dim": 2147483648, "num_attention_heads": 2147483648,
    "num_key_value_heads": 1)"),
                         "prefill"));
}

}  // namespace
}  // namespace orrery
