#include "orrery/workload/zoo/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/zoo/arguments_for_test.h"

namespace orrery {
namespace {

using ::testing::HasSubstr;

BuildOptions options(std::string phase, int64_t batch, int64_t tokens,
                     std::map<std::string, std::string> choices = {}) {
  BuildOptions o;
  o.phase = std::move(phase);
  o.batch = batch;
  (o.phase == "decode" ? o.context : o.sequence) = tokens;
  o.choices = std::move(choices);
  return o;
}

double matrix_flops(const Workload& w) { return total_cost(w, w.entry()).flops(Unit::kMatrix); }

std::string usage_error(const std::string& model, const BuildOptions& o) {
  try {
    build_zoo_model(model, o);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// Every member states the published count; the zoo's own listing is the table.
TEST(LanguageModelZoo, ParametersAreThePublishedOnes) {
  int members = 0;
  for (const ZooModel& model : zoo_models()) {
    if (model.choices.empty() || model.choices.front().name != "logits") continue;
    ++members;
    for (const char* phase : {"prefill", "decode"}) {
      const Workload w = model.build(options(phase, 1, 64));
      if (model.published_parameters == 0) continue;  // GPT-3's and Megatron's are rounded
      EXPECT_EQ(arguments_of(w).parameters, model.published_parameters)
          << model.name << ' ' << phase;
    }
  }
  EXPECT_EQ(members, 20);
}

// --- Llama-2-7B: H = 4096, I = 11008, V = 32000, L = 32 ------------------------

constexpr double kHidden = 4096, kInner = 11008, kVocabulary = 32000, kLayers = 32;
/// Weights of a layer that every token is multiplied with.
constexpr double kLayerWeights = 4 * kHidden * kHidden + 3 * kHidden * kInner;

TEST(Llama2, PrefillFlopsFollowTheFormula) {
  const double s = 512;
  const double projections = 2 * s * (kLayers * kLayerWeights + kHidden * kVocabulary);
  const Workload full = build_zoo_model(
      "llama2-7b", options("prefill", 1, 512, {{"logits", "all"}, {"attention", "full"}}));
  EXPECT_DOUBLE_EQ(matrix_flops(full), projections + kLayers * 4 * s * s * kHidden);
  // Causal: s·(s+1)/2 of the s² scores.
  const Workload causal =
      build_zoo_model("llama2-7b", options("prefill", 1, 512, {{"logits", "all"}}));
  EXPECT_DOUBLE_EQ(matrix_flops(causal), projections + kLayers * 4 * s * (s + 1) / 2 * kHidden);
  // Engines want the last token's logits alone.
  const Workload last = build_zoo_model("llama2-7b", options("prefill", 1, 512));
  EXPECT_DOUBLE_EQ(matrix_flops(causal) - matrix_flops(last), 2 * (s - 1) * kHidden * kVocabulary);
}

TEST(Llama2, DecodeFlopsAreTwiceTheWeightsAToken) {
  const double batch = 32, context = 1024;
  const Workload w = build_zoo_model("llama2-7b", options("decode", 32, 1024));
  const double weights = kLayers * kLayerWeights + kHidden * kVocabulary;
  EXPECT_DOUBLE_EQ(matrix_flops(w), 2 * batch * weights + kLayers * 4 * batch * context * kHidden);
}

TEST(Llama2, TrainingCostsThreeForwardPasses) {
  const double s = 512;
  const Workload w = build_zoo_model("llama2-7b", options("train", 1, 512));
  const double projections = 2 * s * (kLayers * kLayerWeights + kHidden * kVocabulary);
  const double scores = kLayers * 4 * s * (s + 1) / 2 * kHidden;
  // Weight and input gradients repeat each product once; a fused attention gradient
  // has five products for the forward pass's two.
  EXPECT_NEAR(matrix_flops(w), 3 * projections + 3.5 * scores, 0.01 * 3 * projections);
  EXPECT_EQ(arguments_of(w).parameters, 6'738'415'616);
}

TEST(Llama2, DecodeCachesAreDonatedAndComeBack) {
  const Workload w = build_zoo_model("llama2-7b", options("decode", 32, 1024));
  const Function& entry = w.function(w.entry());
  int caches = 0;
  for (const ArgumentInfo& a : entry.arguments) {
    if (a.role != Role::kCache) continue;
    ++caches;
    EXPECT_TRUE(a.donated);
    ASSERT_GE(a.aliased_output, 0);
    ASSERT_LT(a.aliased_output, static_cast<int32_t>(entry.result_types.size()));
  }
  EXPECT_EQ(caches, 64);
  // XLA's alias_bytes of llama2_7b_b32_c1024_decode in h200/jax_models.csv.
  EXPECT_EQ(arguments_of(w).cache_bytes, 17'179'869'184);
}

TEST(Llama2, PrefillGivesTheCachesThatDecodeTakes) {
  const Workload w = build_zoo_model("llama2-7b", options("prefill", 2, 128));
  const Function& entry = w.function(w.entry());
  ASSERT_EQ(entry.result_types.size(), 65u);
  EXPECT_EQ(w.string(entry.results[1].name), "layers.0.key_cache");
  EXPECT_EQ(w.type(entry.result_types[1]).dims, (std::vector<int64_t>{2, 128, 32, 128}));
  EXPECT_EQ(w.type(entry.result_types[0]).dims, (std::vector<int64_t>{2, 1, 32000}));
}

TEST(Llama2, AgreesWithTheExportedModule) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/stablehlo/llama2_7b_b1_s512_prefill.mlir");
  const Workload exported = load_workload(path, {});
  const Workload ours = build_zoo_model(
      "llama2-7b", options("prefill", 1, 512, {{"logits", "all"}, {"attention", "full"}}));
  // The export's arguments: every parameter, then the tokens [1, 512].
  std::map<std::string, int> types;
  int64_t bytes = 0;
  const Function& entry = exported.function(exported.entry());
  const uint32_t first = exported.region(entry.body).first_argument;
  for (uint32_t i = 0; i + 1 < entry.arguments.size(); ++i) {
    const Type& type = exported.type(ValueId{first + i});
    std::string text;
    for (const int64_t dim : type.dims) text += std::to_string(dim) + "x";
    ++types[text + std::string(mlir_name(type.element))];
    bytes += type.bytes;
  }
  const Arguments found = arguments_of(ours);
  EXPECT_EQ(found.parameter_types, types);
  EXPECT_EQ(found.parameter_bytes, bytes);
  EXPECT_EQ(bytes, 13'476'831'232);
  EXPECT_NEAR(matrix_flops(ours) / matrix_flops(exported), 1, 1e-9);
  const double all = total_cost(ours, ours.entry()).flops();
  EXPECT_NEAR(all / total_cost(exported, exported.entry()).flops(), 1, 0.01);
}

// --- other shapes ----------------------------------------------------------------

TEST(Mixtral, ReadsTheExpertsThatTokensMeet) {
  // 2 of 8 experts a token: 1 token meets 2, 4 tokens 8·(1 − 0.75⁴) = 5.47, many all 8.
  const auto active = [](int64_t batch) {
    const Workload w = build_zoo_model("mixtral-8x7b", options("decode", batch, 16));
    int64_t found = 0;
    for (uint32_t i = 0; i < w.ops().size(); ++i)
      if (w.ops()[i].code == Opcode::k_grouped_dot)
        found = w.view(OpId{i}).integer(Attr::kActiveGroups, 0);
    return found;
  };
  EXPECT_EQ(active(1), 2);
  EXPECT_EQ(active(4), 5);
  EXPECT_EQ(active(64), 8);
}

TEST(Mixtral, ATokenCostsItsActiveParameters) {
  // arXiv:2401.04088: "each token … only uses 13B active parameters".
  const Workload w = build_zoo_model("mixtral-8x7b", options("decode", 1, 1));
  const Arguments found = arguments_of(w);
  const int64_t active = found.parameters - found.expert_parameters * 6 / 8;
  EXPECT_EQ(active, 12'879'925'248);
  const double multiplied = static_cast<double>(active - found.table_parameters - 65 * 4096);
  EXPECT_NEAR(matrix_flops(w), 2 * multiplied + 32 * 4 * 4096, 1e-6 * multiplied);
}

TEST(DeepSeekV3, DecodesInTheLatentSpace) {
  const int64_t batch = 4, context = 4096;
  const Workload w = build_zoo_model("deepseek-v3", options("decode", batch, context));
  // One vector of 512 + 64 a token and layer, in bf16.
  EXPECT_EQ(arguments_of(w).cache_bytes, batch * context * 61 * (512 + 64) * 2);
  int64_t attentions = 0;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    if (w.ops()[i].code != Opcode::k_attention) continue;
    ++attentions;
    const OpView op = w.view(OpId{i});
    EXPECT_EQ(op.operand_type(0).dims, (std::vector<int64_t>{batch, 128, 1, 576}));
    EXPECT_EQ(op.operand_type(1).dims, (std::vector<int64_t>{batch, 1, context, 576}));
    EXPECT_EQ(op.result_type(0).dims, (std::vector<int64_t>{batch, 128, 1, 512}));
  }
  EXPECT_EQ(attentions, 2);  // one for each kind of layer
}

TEST(DeepSeekV3, ActivatesThirtySevenBillion) {
  // arXiv:2412.19437: 671B in all, 37B for each token.
  const Workload w = build_zoo_model("deepseek-v3", options("prefill", 1, 16));
  const Arguments found = arguments_of(w);
  const double active = static_cast<double>(found.parameters - found.expert_parameters * 248 / 256);
  EXPECT_NEAR(active, 37e9, 0.02 * 37e9);
}

TEST(Gpt2, RefusesMoreThanItsPositions) {
  EXPECT_THAT(usage_error("gpt2", options("prefill", 1, 1025)), HasSubstr("1024 positions"));
  EXPECT_THAT(usage_error("gpt2", options("decode", 1, 2000)), HasSubstr("2000"));
  EXPECT_EQ(arguments_of(build_zoo_model("gpt2", options("train", 2, 1024))).parameters,
            124'439'808);
}

TEST(LanguageModel, DefaultsAreWithinTheModel) {
  const Workload gpt2 = build_zoo_model("gpt2", options("forward", 1, 0));
  EXPECT_EQ(gpt2.type(gpt2.function(gpt2.entry()).result_types[0]).dims,
            (std::vector<int64_t>{1, 1024, 50257}));
  const Workload llama = build_zoo_model("llama2-7b", options("forward", 1, 0));
  EXPECT_EQ(llama.type(llama.function(llama.entry()).result_types[0]).dims,
            (std::vector<int64_t>{1, 2048, 32000}));
  // 32 layers × 2 × 1024 tokens × 4096 × 2 bytes.
  EXPECT_EQ(arguments_of(build_zoo_model("llama2-7b", options("decode", 1, 0))).cache_bytes,
            536'870'912);
}

TEST(LanguageModel, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(usage_error("llama2-7b", options("prefill", 1, 8, {{"logit", "all"}})),
              HasSubstr("logits"));
  EXPECT_THAT(usage_error("llama2-7b", options("prefill", 1, 8, {{"logits", "some"}})),
              HasSubstr("last"));
  EXPECT_THAT(usage_error("llama2-7b", options("prefill", 1, 8, {{"routing", "skewed"}})),
              HasSubstr("balanced"));
  EXPECT_THAT(usage_error("llama2-7b", options("infer", 1, 8)), HasSubstr("prefill"));
  BuildOptions two = options("decode", 1, 8);
  two.sequence = 2;
  EXPECT_THAT(usage_error("llama2-7b", two), HasSubstr("one new token"));
  EXPECT_THAT(usage_error("llama2-7b", options("train", 1, 8, {{"logits", "last"}})),
              HasSubstr("logits=all"));
}

TEST(LanguageModel, ANarrowTypeQuantisesTheWeights) {
  BuildOptions o = options("decode", 1, 16);
  o.dtype = "fp8";
  const Arguments found = arguments_of(build_zoo_model("llama2-7b", o));
  EXPECT_EQ(found.parameters, 6'738'415'616);
  // A byte a weight but for the two tables and the norms, and a scale an output.
  EXPECT_NEAR(static_cast<double>(found.parameter_bytes), 6.74e9 + 0.26e9, 0.01 * 7e9);
}

}  // namespace
}  // namespace orrery
