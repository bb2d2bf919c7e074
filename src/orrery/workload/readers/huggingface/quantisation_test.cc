#include "orrery/workload/readers/huggingface/quantisation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"

namespace orrery::huggingface {
namespace {

using ::testing::HasSubstr;

Quantisation quantisation(const std::string& text) {
  const Config config = Config::parse(std::make_shared<Source>(
      Source::from_memory("memory", fmt::format(R"({{"quantization_config": {}}})", text))));
  return Quantisation::read(config, config);
}

TEST(Wildcard, CoversAnyText) {
  EXPECT_TRUE(matches_wildcard("layers.3.self_attn*", "layers.3.self_attn.q_proj"));
  EXPECT_TRUE(matches_wildcard("*.mlp.*", "layers.3.mlp.up_proj"));
  EXPECT_FALSE(matches_wildcard("*.mlp", "layers.3.mlp.up_proj"));
  EXPECT_TRUE(matches_wildcard("**", ""));
  EXPECT_FALSE(matches_wildcard("", "a"));
}

TEST(Expression, ReadsWhatQuantisationListsUse) {
  EXPECT_EQ(matches_expression(R"(.*mlp\.(gate|up|gate_up|down)_proj.*)", "layers.0.mlp.up_proj"),
            true);
  EXPECT_EQ(
      matches_expression(R"(.*mlp\.(gate|up|gate_up|down)_proj.*)", "layers.0.mlp.experts.up_proj"),
      false);
  EXPECT_EQ(matches_expression(".*self_attn.*", "layers.0.self_attn.q_proj"), true);
  EXPECT_EQ(matches_expression(R"(layers\.\d+\.mlp$)", "layers.12.mlp"), true);
  EXPECT_EQ(matches_expression(R"(layers\.\d+\.mlp$)", "layers.12.mlp.up"), false);
  EXPECT_EQ(matches_expression("lm_head", "lm_head"), true);
  EXPECT_EQ(matches_expression("ab?c", "ac"), true);
  EXPECT_EQ(matches_expression("[ab]+", "a"), std::nullopt);
  EXPECT_EQ(matches_expression("(a|b", "a"), std::nullopt);
  EXPECT_EQ(matches_expression("a{3}", "aaa"), std::nullopt);
}

TEST(Quantisation, BlockwiseFp8) {
  const Quantisation q = quantisation(R"({"quant_method": "fp8", "weight_block_size": [128, 128],
    "modules_to_not_convert": ["gate", "model.layers.1.mlp"]})");
  const WeightFormat format = q.format("layers.0.self_attn.q_proj");
  EXPECT_EQ(format.storage, ElementType::kF8E4M3FN);
  EXPECT_EQ(format.compute, ElementType::kF8E4M3FN);
  EXPECT_EQ(format.block_in, 128);
  EXPECT_EQ(format.block_out, 128);
  EXPECT_EQ(q.format("layers.0.mlp.gate").storage, ElementType::kNone);
  EXPECT_EQ(q.format("layers.0.mlp.gate_proj").storage, ElementType::kF8E4M3FN);
  EXPECT_EQ(q.format("layers.1.mlp.up_proj").storage, ElementType::kNone);
  EXPECT_EQ(q.format("layers.10.mlp.up_proj").storage, ElementType::kF8E4M3FN);
  EXPECT_EQ(q.format("lm_head").storage, ElementType::kNone);
}

TEST(Quantisation, Mxfp4IsForExpertsAlone) {
  const Quantisation q = quantisation(R"({"quant_method": "mxfp4"})");
  EXPECT_EQ(q.format("layers.0.self_attn.q_proj").storage, ElementType::kNone);
  const WeightFormat format = q.format("layers.0.mlp.experts.up_proj");
  EXPECT_EQ(format.storage, ElementType::kF4E2M1FN);
  EXPECT_EQ(format.scale, ElementType::kF8E8M0FNU);
  EXPECT_EQ(format.block_in, 32);
  EXPECT_EQ(format.compute, ElementType::kNone);
}

TEST(Quantisation, GptqAndAwqKeepGroups) {
  const WeightFormat gptq = quantisation(R"({"quant_method": "gptq", "bits": 4, "group_size": 64})")
                                .format("layers.0.mlp.up_proj");
  EXPECT_EQ(gptq.storage, ElementType::kS4);
  EXPECT_EQ(gptq.block_in, 64);
  EXPECT_EQ(gptq.block_out, 1);
  EXPECT_TRUE(gptq.zero_points);
  const WeightFormat whole =
      quantisation(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})")
          .format("layers.0.mlp.up_proj");
  EXPECT_EQ(whole.storage, ElementType::kS8);
  EXPECT_EQ(whole.block_in, 0);
  EXPECT_FALSE(quantisation(R"({"quant_method": "awq", "bits": 4, "zero_point": false})")
                   .format("layers.0.mlp.up_proj")
                   .zero_points);
  EXPECT_THROW(quantisation(R"({"quant_method": "gptq", "bits": 3})"), Error);
}

TEST(Quantisation, ModelOptNamesLayers) {
  const Quantisation q =
      quantisation(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
    "kv_cache_quant_algo": "FP8", "quantized_layers": {
      "model.language_model.layers.0.linear_attn.out_proj": {"quant_algo": "FP8"},
      "backbone.layers.1.mixer.experts.0.down_proj": {"quant_algo": "NVFP4", "group_size": 16},
      "backbone.layers.1.mixer.experts.1.down_proj": {"quant_algo": "NVFP4", "group_size": 16},
      "layers.2.ffn.experts": {"quant_algo": "W4A16_NVFP4"}}})");
  EXPECT_EQ(q.format("layers.0.linear_attn.out_proj").storage, ElementType::kF8E4M3FN);
  EXPECT_EQ(q.format("layers.0.linear_attn.in_proj_qkv").storage, ElementType::kNone);
  const WeightFormat experts = q.format("layers.1.mixer.experts.down_proj");
  EXPECT_EQ(experts.storage, ElementType::kF4E2M1FN);
  EXPECT_EQ(experts.compute, ElementType::kF4E2M1FN);
  EXPECT_EQ(experts.scale, ElementType::kF8E4M3FN);
  EXPECT_EQ(experts.block_in, 16);
  EXPECT_EQ(q.format("layers.2.ffn.experts.up_proj").compute, ElementType::kNone);
  EXPECT_EQ(q.cache_type(), ElementType::kF8E4M3FN);
}

TEST(Quantisation, ModelOptExcludes) {
  const Quantisation q = quantisation(R"({"quant_algo": "NVFP4", "exclude_modules": [
    "model.layers.1.*", "model.layers.10.self_attn*", "*.mlp.shared_expert.*"]})");
  EXPECT_EQ(q.format("layers.1.mlp.up_proj").storage, ElementType::kNone);
  EXPECT_EQ(q.format("layers.10.mlp.up_proj").storage, ElementType::kF4E2M1FN);
  EXPECT_EQ(q.format("layers.10.self_attn.q_proj").storage, ElementType::kNone);
  EXPECT_EQ(q.format("layers.4.mlp.shared_expert.up_proj").storage, ElementType::kNone);
  EXPECT_EQ(q.format("lm_head").storage, ElementType::kNone);
}

TEST(Quantisation, CompressedTensors) {
  const Quantisation q =
      quantisation(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
    "input_activations": null, "targets": ["Linear"],
    "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": true}}},
    "ignore": ["lm_head", "re:.*self_attn.*"]})");
  EXPECT_EQ(q.format("layers.3.mlp.experts.up_proj").storage, ElementType::kS4);
  EXPECT_EQ(q.format("layers.3.mlp.experts.up_proj").block_in, 32);
  EXPECT_EQ(q.format("layers.3.self_attn.q_proj").storage, ElementType::kNone);
  const WeightFormat int8 =
      quantisation(R"({"quant_method": "compressed-tensors", "config_groups": {"g": {
    "input_activations": {"num_bits": 8, "type": "int", "dynamic": true}, "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})")
          .format("layers.0.mlp.up_proj");
  EXPECT_EQ(int8.compute, ElementType::kS8);
}

TEST(Quantisation, UnknownExpressionsAreNoted) {
  const Quantisation q =
      quantisation(R"({"quant_algo": "FP8", "ignore": ["re:layers\\.[0-3]\\..*"]})");
  EXPECT_THAT(q.notes(), ::testing::Contains(HasSubstr("was not understood")));
}

TEST(Quantisation, HostileListsEnd) {
  std::string patterns;
  for (int i = 0; i < 20000; ++i) patterns += fmt::format("{}\"*a*b*c*{}*\"", i == 0 ? "" : ",", i);
  const Quantisation q =
      quantisation(fmt::format(R"({{"quant_algo": "FP8", "ignore": [{}]}})", patterns));
  try {
    for (int i = 0; i < 1000000; ++i) q.format(fmt::format("layers.{}.mlp.up_proj", i));
    FAIL() << "nothing stopped it";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
  }
}

}  // namespace
}  // namespace orrery::huggingface
