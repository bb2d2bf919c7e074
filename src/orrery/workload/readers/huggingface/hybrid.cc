// Models that mix softmax attention with linear attention or state spaces:
// Qwen3-Next/3.5/3.6, Kimi Linear and K3, Nemotron-H and Nemotron 3.

#include <fmt/format.h>

#include "orrery/workload/readers/huggingface/families.h"

namespace orrery::huggingface {

TransformerDescription describe_gated_delta(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  const int64_t layers = layer_count(reading);
  const int64_t interval = c.size_or({"full_attention_interval"}, 4);
  for (int64_t i = 0; i < layers; ++i) {
    Layer layer;
    bool linear = (i + 1) % interval != 0;
    if (c.has("layer_types")) {
      const std::string type = c.text_at("layer_types", i);
      if (type != "linear_attention" && type != "full_attention")
        c.fail("layer_types",
               fmt::format("attention of type '{}' is not supported in '{}'", type, reading.type));
      linear = type == "linear_attention";
    }
    if (linear) {
      DeltaAttention a;
      a.key_heads = c.size({"linear_num_key_heads"});
      a.value_heads = c.size({"linear_num_value_heads"});
      a.key_size = c.size({"linear_key_head_dim"});
      a.value_size = c.size({"linear_value_head_dim"});
      a.convolution = c.size_or({"linear_conv_kernel_dim"}, 4);
      if (a.value_heads % a.key_heads != 0)
        c.fail("linear_num_value_heads",
               fmt::format("{} value heads cannot share {} key heads evenly", a.value_heads,
                           a.key_heads));
      // Qwen3-Next keeps query, key, value and gate in one matrix.
      const bool next = reading.type == "qwen3_next";
      a.query_key_value =
          reading.projection(i, next ? "linear_attn.in_proj_qkvz" : "linear_attn.in_proj_qkv");
      a.gate = reading.projection(i, next ? "linear_attn.in_proj_qkvz" : "linear_attn.in_proj_z");
      a.decay = reading.projection(i, next ? "linear_attn.in_proj_ba" : "linear_attn.in_proj_b");
      a.output = reading.projection(i, "linear_attn.out_proj");
      layer.mixer = a;
    } else {
      SoftmaxAttention a = read_attention(reading, i, "self_attn");
      a.norm = QueryKeyNorm::kHead;
      a.query.bias = a.key.bias = a.value.bias = a.output.bias =
          c.flag_or({"attention_bias"}, false);
      if (c.flag_or({"attn_output_gate"}, true)) a.gate = OutputGate::kElementFromQuery;
      layer.mixer = a;
    }
    if (has_experts(reading, i)) {
      MixtureOfExperts m = read_experts(reading, i, "mlp");
      m.shared_gate = m.shared.has_value();
      layer.feed_forward = m;
    } else {
      layer.feed_forward = read_dense(reading, i, "mlp", c.size({"intermediate_size"}), true,
                                      read_activation(c, "silu"));
    }
    d.layers.push_back(layer);
  }
  return d;
}

namespace {

/// Kimi Delta Attention: decay a channel through a low rank of one head's width.
DeltaAttention read_kimi_delta(const Reading& reading, const Config& linear, int64_t layer) {
  DeltaAttention a;
  a.key_heads = a.value_heads = linear.size({"num_heads"});
  a.key_size = a.value_size = linear.size({"head_dim"});
  a.convolution = linear.size_or({"short_conv_kernel_size"}, 4);
  a.channel_decay = true;
  a.decay_rank = a.key_size;
  a.gate_rank = linear.flag_or({"use_full_rank_gate"}, false) ? 0 : a.key_size;
  a.query_key_value = reading.projection(layer, "self_attn.q_proj");
  a.gate = reading.projection(layer, a.gate_rank == 0 ? "self_attn.g_proj" : "self_attn.g_a_proj");
  a.decay = reading.projection(layer, "self_attn.f_a_proj");
  a.output = reading.projection(layer, "self_attn.o_proj");
  return a;
}

}  // namespace

TransformerDescription describe_kimi_linear(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  const auto linear = c.object("linear_attn_config");
  if (!linear) c.fail("model_type", "'linear_attn_config' is missing");
  d.residual_block = c.count_or({"attn_res_block_size"}, 0);
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    Layer layer;
    // Layers are counted from 1 in these lists.
    if (linear->lists_layer("kda_layers", i + 1)) {
      layer.mixer = read_kimi_delta(reading, *linear, i);
    } else {
      LatentAttention a;
      a.heads = c.size({"num_attention_heads"});
      a.query_rank = c.count_or({"q_lora_rank"}, 0);
      a.latent_rank = c.size({"kv_lora_rank"});
      a.nope_size = c.size({"qk_nope_head_dim"});
      a.rope_size = c.size({"qk_rope_head_dim"});
      a.value_size = c.size({"v_head_dim"});
      a.rotated = !c.flag_or({"mla_use_nope"}, false);
      a.query_down = reading.projection(i, "self_attn.q_a_proj");
      a.query_up =
          reading.projection(i, a.query_rank > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj");
      a.latent_down = reading.projection(i, "self_attn.kv_a_proj_with_mqa");
      a.latent_up = reading.projection(i, "self_attn.kv_b_proj");
      a.output = reading.projection(i, "self_attn.o_proj");
      if (c.flag_or({"mla_use_output_gate"}, false)) {
        a.gate = OutputGate::kElement;
        a.gate_projection = reading.projection(i, "self_attn.g_proj");
      }
      layer.mixer = a;
    }
    if (has_experts(reading, i)) {
      MixtureOfExperts m = read_experts(reading, i, "block_sparse_moe");
      m.latent = c.count_or({"routed_expert_hidden_size"}, 0);
      m.latent_norm = m.latent > 0 && c.flag_or({"latent_moe_use_norm"}, false);
      m.score_correction = true;
      layer.feed_forward = m;
    } else {
      layer.feed_forward = read_dense(reading, i, "mlp", c.size({"intermediate_size"}), true,
                                      read_activation(c, "silu"));
    }
    d.layers.push_back(layer);
  }
  if (c.text_or({"hidden_act"}, "silu") == "situ")
    d.notes.emplace_back("the SiTU activation is counted as SiLU");
  return d;
}

TransformerDescription describe_nemotron_hybrid(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  // 'M' or "mamba", '*' or "attention", '-' or "mlp", 'E' or "moe"; one norm a block.
  const std::string pattern = c.text_or({"hybrid_override_pattern"}, "");
  int64_t layers = 0;
  if (!pattern.empty())
    layers = static_cast<int64_t>(pattern.size());
  else if (c.is_list("layers_block_type"))
    layers = static_cast<int64_t>(c.texts({"layers_block_type"}).size());
  else
    c.fail("model_type", "'hybrid_override_pattern' or 'layers_block_type' is missing");
  if (layers > kMaxLayers)
    c.fail("hybrid_override_pattern", fmt::format("more than {} layers", kMaxLayers));
  if (c.has("num_hidden_layers") && layer_count(reading) != layers)
    c.fail("num_hidden_layers",
           fmt::format("{} layers are stated, {} are described", layer_count(reading), layers));
  for (int64_t i = 0; i < layers; ++i) {
    std::string kind;
    if (pattern.empty()) {
      kind = c.text_at("layers_block_type", i);
    } else {
      const char letter = pattern[static_cast<size_t>(i)];
      kind = letter == 'M'   ? "mamba"
             : letter == '*' ? "attention"
             : letter == '-' ? "mlp"
             : letter == 'E' ? "moe"
                             : std::string(1, letter);
    }
    Layer layer;
    if (kind == "mamba") {
      StateSpace s;
      s.heads = c.size({"mamba_num_heads"});
      s.head_size = c.size({"mamba_head_dim"});
      s.state_size = c.size({"ssm_state_size"});
      s.groups = c.size_or({"n_groups", "mamba_n_groups"}, 1);
      s.convolution = c.size_or({"conv_kernel"}, 4);
      s.chunk = c.size_or({"chunk_size"}, 128);
      s.convolution_bias = c.flag_or({"use_conv_bias"}, true);
      if (s.heads % s.groups != 0)
        c.fail("n_groups", fmt::format("{} heads do not divide into {} groups", s.heads, s.groups));
      const bool bias = c.flag_or({"mamba_proj_bias", "use_bias"}, false);
      s.input = reading.projection(i, "mixer.in_proj", bias);
      s.output = reading.projection(i, "mixer.out_proj", bias);
      layer.mixer = s;
    } else if (kind == "attention") {
      SoftmaxAttention a = read_attention(reading, i, "mixer");
      a.query.bias = a.key.bias = a.value.bias = a.output.bias =
          c.flag_or({"attention_bias"}, false);
      a.rotary_size = 0;  // The state spaces know positions.
      a.window = c.count_or({"sliding_window"}, 0);
      layer.mixer = a;
    } else if (kind == "mlp") {
      DenseFeedForward f = read_dense(reading, i, "mixer", c.size({"intermediate_size"}), false,
                                      read_activation(c, "relu2"));
      f.up.bias = f.down.bias = c.flag_or({"mlp_bias"}, false);
      layer.feed_forward = f;
    } else if (kind == "moe") {
      MixtureOfExperts m = read_experts(reading, i, "mixer");
      if (m.experts == 0) c.fail("hybrid_override_pattern", "'n_routed_experts' is missing");
      m.gated = false;
      m.activation = read_activation(c, "relu2");
      if (m.shared) {
        m.shared->gated = false;
        m.shared->activation = m.activation;
      }
      m.score_correction = true;
      m.router.format = kWideRouter;
      m.latent = c.count_or({"moe_latent_size"}, 0);
      if (m.latent > 0) {
        m.latent_down =
            reading.projection(i, "mixer.fc1_latent_proj", c.flag_or({"mlp_bias"}, false));
        m.latent_up =
            reading.projection(i, "mixer.fc2_latent_proj", c.flag_or({"mlp_bias"}, false));
      }
      layer.feed_forward = m;
    } else {
      c.fail(pattern.empty() ? "layers_block_type" : "hybrid_override_pattern",
             fmt::format("a layer of kind '{}' is not supported", kind));
    }
    d.layers.push_back(layer);
  }
  return d;
}

}  // namespace orrery::huggingface
