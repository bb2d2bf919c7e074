// Earlier decoders: layer norms with biases, plain feed-forwards, biases everywhere.

#include <fmt/format.h>

#include "orrery/workload/readers/huggingface/families.h"

namespace orrery::huggingface {
namespace {

void set_biases(SoftmaxAttention& a, bool bias) {
  a.query.bias = a.key.bias = a.value.bias = a.output.bias = bias;
}

DenseFeedForward plain(const Reading& reading, int64_t layer, std::string_view up,
                       std::string_view down, int64_t inner, Activation activation, bool bias) {
  DenseFeedForward f;
  f.inner = inner;
  f.gated = false;
  f.activation = activation;
  f.up = reading.projection(layer, up, bias);
  f.down = reading.projection(layer, down, bias);
  return f;
}

}  // namespace

TransformerDescription describe_gpt2(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  d.norm = Norm::kLayer;
  d.tied_embeddings = reading.tied(true);
  d.learnt_positions = c.size({"n_positions", "max_position_embeddings"});
  constexpr double kDropout = 0.1;  // transformers' default of GPT2Config
  d.dropout = c.real_or({"resid_pdrop"}, kDropout) > 0;
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    SoftmaxAttention a = read_attention(reading, i, "attn");
    a.fused = true;
    a.rotary_size = 0;
    a.query = reading.projection(i, "attn.c_attn");
    a.output = reading.projection(i, "attn.c_proj");
    set_biases(a, true);
    d.layers.push_back(
        {a,
         plain(reading, i, "mlp.c_fc", "mlp.c_proj", c.size_or({"n_inner"}, 4 * d.hidden),
               read_activation(c, "gelu_new"), true),
         NormPlacement::kBefore});
  }
  return d;
}

TransformerDescription describe_gpt_neox(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  d.norm = Norm::kLayer;
  const bool bias = c.flag_or({"attention_bias"}, true);
  const bool parallel = c.flag_or({"use_parallel_residual"}, true);
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    SoftmaxAttention a = read_attention(reading, i, "attention");
    a.fused = true;
    a.query = reading.projection(i, "attention.query_key_value");
    a.output = reading.projection(i, "attention.dense");
    set_biases(a, bias);
    d.layers.push_back({a,
                        plain(reading, i, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                              c.size({"intermediate_size"}), read_activation(c, "gelu"), true),
                        parallel ? NormPlacement::kParallel : NormPlacement::kBefore});
  }
  return d;
}

TransformerDescription describe_opt(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  d.norm = Norm::kLayer;
  d.tied_embeddings = reading.tied(true);
  // OPT's table has two rows more than there are positions.
  d.learnt_positions = c.size({"max_position_embeddings"}) + 2;
  const bool before = c.flag_or({"do_layer_norm_before"}, true);
  d.final_norm = before && !c.flag_or({"_remove_final_layer_norm"}, false);
  d.embedding_size = c.size_or({"word_embed_proj_dim"}, d.hidden);
  if (d.embedding_size == d.hidden) d.embedding_size = 0;
  const bool bias = c.flag_or({"enable_bias"}, true);
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    SoftmaxAttention a = read_attention(reading, i, "self_attn");
    a.rotary_size = 0;
    a.output = reading.projection(i, "self_attn.out_proj");
    set_biases(a, bias);
    d.layers.push_back(
        {a, plain(reading, i, "fc1", "fc2", c.size({"ffn_dim"}), read_activation(c, "relu"), bias),
         before ? NormPlacement::kBefore : NormPlacement::kAfter});
  }
  return d;
}

TransformerDescription describe_phi(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  d.norm = Norm::kLayer;
  d.head.bias = true;
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    SoftmaxAttention a = read_attention(reading, i, "self_attn");
    a.output = reading.projection(i, "self_attn.dense");
    if (!c.has("partial_rotary_factor")) a.rotary_size = a.head_size / 4 * 2;
    if (c.flag_or({"qk_layernorm"}, false))
      c.fail("qk_layernorm",
             "layer norms of queries and keys ('qk_layernorm') are not supported in 'phi'");
    set_biases(a, true);
    d.layers.push_back(
        {a,
         plain(reading, i, "mlp.fc1", "mlp.fc2", c.size_or({"intermediate_size"}, 4 * d.hidden),
               read_activation(c, "gelu_new"), true),
         NormPlacement::kParallelOneNorm});
  }
  return d;
}

}  // namespace orrery::huggingface
