// The families that are Llama with changes: grouped-query attention and a gated
// feed-forward or experts, told apart by a few flags.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/workload/readers/huggingface/families.h"

namespace orrery::huggingface {
namespace {

ElementType read_type(const Config& config, TransformerDescription& description) {
  std::string name = config.text_or({"torch_dtype", "dtype"}, "");
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "bfloat16") return ElementType::kBF16;
  if (name == "float16" || name == "half") return ElementType::kF16;
  if (name == "float32" || name == "float") return ElementType::kF32;
  if (name.empty() || name == "auto")
    description.notes.emplace_back(
        "the configuration does not name its element type; bf16 is assumed");
  else
    description.notes.push_back(fmt::format("element type '{}' is built as bf16", name));
  return ElementType::kBF16;
}

int64_t rotary_size(const Reading& reading, int64_t head_size) {
  const Config& c = reading.text;
  if (c.has("rotary_dim")) return std::min(head_size, c.count_or({"rotary_dim"}, 0) / 2 * 2);
  double part = c.real_or({"partial_rotary_factor", "rotary_pct"}, 1.0);
  if (const auto rope = c.object("rope_parameters"))
    part = rope->real_or({"partial_rotary_factor"}, part);
  part = std::clamp(part, 0.0, 1.0);
  return static_cast<int64_t>(static_cast<double>(head_size) * part) / 2 * 2;
}

}  // namespace

int64_t layer_count(const Reading& reading) {
  const int64_t layers =
      reading.text.size({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  if (layers > kMaxLayers)
    reading.text.fail(
        "num_hidden_layers",
        fmt::format("{} layers are more than the {} that can be meant", layers, kMaxLayers));
  return layers;
}

TransformerDescription describe_frame(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d;
  d.name = reading.type;
  const Config& typed = c.has("torch_dtype") || c.has("dtype") ? c : reading.whole;
  d.type = read_type(typed, d);
  d.cache_type = reading.quantisation.cache_type();
  d.vocabulary = c.size({"vocab_size", "padded_vocab_size"});
  d.hidden = c.size({"hidden_size", "n_embd", "d_model"});
  d.longest = c.count_or({"max_position_embeddings", "n_positions", "seq_length"}, 0);
  d.epsilon = c.real_or(
      {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps"},
      1e-6);
  d.tied_embeddings = reading.tied(false);
  d.head.format = reading.quantisation.format("lm_head");
  const int64_t predicted = c.count_or(
      {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "mtp_num_layers"},
      0);
  if (predicted > 0)
    d.notes.push_back(fmt::format(
        "multi-token prediction ({} module{}) is not built: it runs only in speculative decoding",
        predicted, predicted == 1 ? "" : "s"));
  return d;
}

Activation read_activation(const Config& config, std::string_view otherwise) {
  const std::string name = config.text_or(
      {"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"}, otherwise);
  if (name == "silu" || name == "swish" || name == "swigluoai" || name == "swiglu" ||
      name == "situ")
    return Activation::kSilu;
  if (name == "gelu_new" || name == "gelu_fast") return Activation::kGeluWrittenOut;
  if (name.find("gelu") != std::string::npos) return Activation::kGelu;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2" || name == "relu_squared") return Activation::kSquaredRelu;
  if (name == "tanh") return Activation::kTanh;
  config.fail("hidden_act", fmt::format("activation '{}' is not supported", name));
}

SoftmaxAttention read_attention(const Reading& reading, int64_t layer, std::string_view module) {
  const Config& c = reading.text;
  SoftmaxAttention a;
  a.heads = c.size({"num_attention_heads", "n_head"});
  a.key_value_heads =
      c.size_or({"num_key_value_heads", "num_attention_groups", "multi_query_group_num"}, a.heads);
  const int64_t hidden = c.size({"hidden_size", "n_embd"});
  if (!c.has("head_dim") && !c.has("kv_channels") && !c.has("attention_head_dim") &&
      hidden % a.heads != 0)
    c.fail("num_attention_heads",
           fmt::format("hidden size {} does not divide into {} heads, and no 'head_dim' is given",
                       hidden, a.heads));
  a.head_size = c.size_or({"head_dim", "attention_head_dim", "kv_channels"},
                          std::max<int64_t>(1, hidden / a.heads));
  a.value_head_size = a.head_size;
  if (a.heads % a.key_value_heads != 0)
    c.fail("num_key_value_heads",
           fmt::format("{} attention heads cannot share {} key-value heads evenly", a.heads,
                       a.key_value_heads));
  a.rotary_size = rotary_size(reading, a.head_size);
  const std::string base(module);
  a.query = reading.projection(layer, base + ".q_proj");
  a.key = reading.projection(layer, base + ".k_proj");
  a.value = reading.projection(layer, base + ".v_proj");
  a.output = reading.projection(layer, base + ".o_proj");
  return a;
}

DenseFeedForward read_dense(const Reading& reading, int64_t layer, std::string_view module,
                            int64_t inner, bool gated, Activation activation) {
  DenseFeedForward f;
  f.inner = inner;
  f.gated = gated;
  f.activation = activation;
  const std::string base(module);
  f.gate = reading.projection(layer, base + ".gate_proj");
  f.up = reading.projection(layer, base + ".up_proj");
  f.down = reading.projection(layer, base + ".down_proj");
  return f;
}

namespace {

int64_t expert_count(const Config& c) {
  return c.count_or({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0);
}

}  // namespace

bool has_experts(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  if (expert_count(c) == 0) return false;
  if (c.has("mlp_layer_types")) return c.text_at("mlp_layer_types", layer) == "sparse";
  if (c.is_list("moe_layer_freq")) return c.number_at("moe_layer_freq", layer) != 0;
  if (c.is_list("moe_layers_enum")) return c.lists_layer("moe_layers_enum", layer);
  if (c.lists_layer("mlp_only_layers", layer)) return false;
  if (layer < c.count_or({"first_k_dense_replace"}, 0)) return false;
  if (c.has("interleave_moe_layer_step"))
    return (layer + 1) % c.size({"interleave_moe_layer_step"}) == 0;
  if (c.has("decoder_sparse_step")) return (layer + 1) % c.size({"decoder_sparse_step"}) == 0;
  return layer % c.size_or({"moe_layer_freq"}, 1) == 0;
}

MixtureOfExperts read_experts(const Reading& reading, int64_t layer, std::string_view module) {
  const Config& c = reading.text;
  MixtureOfExperts m;
  m.experts = expert_count(c);
  m.active = c.size({"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts",
                     "experts_per_token"});
  if (m.active > m.experts)
    c.fail("num_experts_per_tok",
           fmt::format("{} of {} experts cannot be chosen", m.active, m.experts));
  m.inner = c.size({"moe_intermediate_size", "expert_intermediate_size", "intermediate_size"});
  m.activation = read_activation(c, "silu");
  const std::string base(module);
  // A router is a bare parameter in most checkpoints and is never quantised.
  m.up_format = reading.projection(layer, base + ".experts.up_proj").format;
  m.down_format = reading.projection(layer, base + ".experts.down_proj").format;
  m.score_correction = c.text_or({"topk_method"}, "") == "noaux_tc" ||
                       c.flag_or({"use_routing_bias"}, false) ||
                       c.flag_or({"use_moe_router_bias"}, false);
  int64_t shared =
      c.count_or({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                  "share_expert_dim", "shared_intermediate_size"},
                 0);
  const int64_t shared_experts = c.count_or({"n_shared_experts", "num_shared_experts"}, 0);
  if (shared == 0) shared = shared_experts * m.inner;
  if (shared > kMaxSize) c.fail("n_shared_experts", "the shared experts are wider than 2^31");
  if (shared > 0) {
    const std::string name =
        c.has("shared_expert_intermediate_size") ? ".shared_expert" : ".shared_experts";
    m.shared = read_dense(reading, layer, base + name, shared, m.gated, m.activation);
  }
  return m;
}

std::optional<int64_t> window_by_type(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  if (!c.has("layer_types")) return std::nullopt;
  const std::string type = c.text_at("layer_types", layer);
  if (type == "full_attention" || type == "attention") return 0;
  if (type == "sliding_attention") return c.size({"sliding_window"});
  if (type == "chunked_attention") return c.size({"attention_chunk_size"});
  c.fail("layer_types",
         fmt::format("attention of type '{}' is not supported in '{}'", type, reading.type));
}

namespace {

/// Sliding windows where `layer_types` does not list them.
int64_t window_by_family(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  if (type == "mistral" || type == "mixtral" || type == "phi3")
    return c.count_or({"sliding_window"}, 0);
  if (type.starts_with("qwen")) {
    if (!c.flag_or({"use_sliding_window"}, false)) return 0;
    return layer >= c.count_or({"max_window_layers"}, 0) ? c.count_or({"sliding_window"}, 0) : 0;
  }
  if (type == "gemma2") return layer % 2 == 0 ? c.size_or({"sliding_window"}, 4096) : 0;
  if (type == "gemma3" || type == "gemma4") {
    const int64_t pattern = c.size_or({"sliding_window_pattern"}, 6);
    return (layer + 1) % pattern != 0
               ? c.size_or({"sliding_window"}, type == "gemma3" ? 4096 : 1024)
               : 0;
  }
  if (type == "llama4") {
    // Every fourth layer has no positions and sees everything; the others see chunks.
    const bool local = c.is_list("no_rope_layers")
                           ? c.number_at("no_rope_layers", layer) != 0
                           : (layer + 1) % c.size_or({"no_rope_layer_interval"}, 4) != 0;
    return local ? c.count_or({"attention_chunk_size"}, 8192) : 0;
  }
  if (type == "mimo_v2_flash") {
    return c.has("hybrid_layer_pattern") && c.number_at("hybrid_layer_pattern", layer) == 1
               ? c.size({"sliding_window", "sliding_window_size"})
               : 0;
  }
  return 0;
}

/// Where the family's checkpoints keep experts.
std::string expert_module(const std::string& type) {
  if (type == "mixtral" || type.starts_with("minimax")) return "block_sparse_moe";
  if (type == "llama4") return "feed_forward";
  if (type.starts_with("step")) return "moe";
  return "mlp";
}

void set_biases(const Reading& reading, SoftmaxAttention& a) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  const bool stated = c.flag_or({"attention_bias", "qkv_bias", "add_qkv_bias"}, false);
  const bool inputs = stated || ((type == "qwen2" || type == "qwen2_moe") && !c.has("qkv_bias"));
  a.query.bias = a.key.bias = a.value.bias = inputs;
  // Llama and gpt-oss put one on the output as well; the others do not.
  a.output.bias = stated && (type == "llama" || type == "gpt_oss" || type == "qwen3" ||
                             type == "qwen3_moe" || type.starts_with("gemma"));
}

QueryKeyNorm query_key_norm(const Reading& reading, int64_t window) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  if (type.starts_with("qwen3") || type == "gemma3" || type == "gemma4" || type.starts_with("step"))
    return QueryKeyNorm::kHead;
  if (type == "llama4") {
    return c.flag_or({"use_qk_norm"}, true) && window > 0 ? QueryKeyNorm::kWithoutScale
                                                          : QueryKeyNorm::kNone;
  }
  if (!c.flag_or({"use_qk_norm"}, false)) return QueryKeyNorm::kNone;
  return c.text_or({"qk_norm_type"}, "per_head") == "per_layer" ? QueryKeyNorm::kWholeProjection
                                                                : QueryKeyNorm::kHead;
}

/// MiniMax M3: blocks of keys chosen by a small attention of their own.
std::optional<Indexer> block_indexer(const Reading& reading, int64_t layer) {
  const auto sparse = reading.text.object("sparse_attention_config");
  if (!sparse || !sparse->flag_or({"use_sparse_attention"}, true)) return std::nullopt;
  if (sparse->has("sparse_attention_freq") &&
      sparse->number_at("sparse_attention_freq", layer) == 0)
    return std::nullopt;
  Indexer i;
  i.heads = sparse->size({"sparse_num_index_heads"});
  i.head_size = sparse->size({"sparse_index_dim"});
  i.block = sparse->size({"sparse_block_size"});
  i.selected = sparse->size({"sparse_topk_blocks"}) + sparse->count_or({"sparse_init_block"}, 0);
  i.weighs_heads = false;
  i.query_from_latent = false;
  i.query = reading.projection(layer, "self_attn.index_q_proj");
  i.key = reading.projection(layer, "self_attn.index_k_proj");
  return i;
}

SoftmaxAttention decoder_attention(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  SoftmaxAttention a = read_attention(reading, layer, "self_attn");
  a.window = window_by_type(reading, layer).value_or(window_by_family(reading, layer));
  set_biases(reading, a);
  a.norm = query_key_norm(reading, a.window);
  if (type == "llama4" && a.window == 0) a.rotary_size = 0;
  if (type == "gpt_oss") a.sinks = true;
  if (type == "phi3" || type == "chatglm") {
    a.fused = true;
    a.query.format = reading.projection(layer, "self_attn.qkv_proj").format;
  }
  if (type == "minimax_m3") a.indexer = block_indexer(reading, layer);
  if (type == "mimo_v2_flash") {
    const bool local = a.window > 0;
    if (local) {
      a.heads = c.size_or({"swa_num_attention_heads"}, a.heads);
      a.key_value_heads = c.size_or({"swa_num_key_value_heads"}, a.key_value_heads);
      a.head_size = c.size_or({"swa_head_dim"}, a.head_size);
    }
    a.value_head_size = local ? c.size_or({"swa_v_head_dim", "v_head_dim"}, a.head_size)
                              : c.size_or({"v_head_dim"}, a.head_size);
    a.sinks =
        c.flag_or({local ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias"}, false);
    a.rotary_size = rotary_size(reading, a.head_size);
  }
  if (type.starts_with("step")) {
    if (const auto other = c.object("attention_other_setting"); other && a.window > 0) {
      a.heads = other->size_or({"num_attention_heads"}, a.heads);
      a.key_value_heads =
          other->size_or({"num_attention_groups", "num_key_value_heads"}, a.key_value_heads);
    }
    if (c.flag_or({"use_head_wise_attn_gate"}, false)) {
      a.gate = OutputGate::kHead;
      a.gate_projection = reading.projection(layer, "self_attn.g_proj");
    }
  }
  if (type == "gemma4") {
    a.normed_value = true;
    if (a.window == 0) {
      a.head_size = a.value_head_size = c.size_or({"global_head_dim"}, a.head_size);
      a.key_value_heads = c.size_or({"num_global_key_value_heads"}, a.key_value_heads);
      a.value_is_key = c.flag_or({"attention_k_eq_v"}, false);
      a.rotary_size = a.head_size;
    }
    const int64_t borrowing = c.count_or({"num_kv_shared_layers"}, 0);
    if (borrowing > 0)
      c.fail("num_kv_shared_layers",
             "layers that share keys and values ('num_kv_shared_layers') are not supported");
  }
  if (a.heads % a.key_value_heads != 0)
    c.fail("num_key_value_heads",
           fmt::format("{} attention heads cannot share {} key-value heads evenly", a.heads,
                       a.key_value_heads));
  return a;
}

FeedForward decoder_feed_forward(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  const Activation activation =
      read_activation(c, type.starts_with("gemma") ? "gelu_pytorch_tanh" : "silu");
  if (type == "gemma4" ? !c.flag_or({"enable_moe_block"}, false) : !has_experts(reading, layer)) {
    const int64_t inner =
        type == "llama4" && c.has("intermediate_size_mlp")
            ? c.size({"intermediate_size_mlp"})
            : c.size({"dense_intermediate_size", "intermediate_size", "ffn_hidden_size"});
    DenseFeedForward f = read_dense(reading, layer, "mlp", inner, true, activation);
    f.gate.bias = f.up.bias = f.down.bias = c.flag_or({"mlp_bias"}, false);
    return f;
  }
  const std::string module = expert_module(type);
  MixtureOfExperts m = read_experts(reading, layer, type == "gemma4" ? "" : module);
  if (type == "gemma4") {
    m.activation = activation;
    m.up_format = reading.projection(layer, "experts.up_proj").format;
    m.down_format = reading.projection(layer, "experts.down_proj").format;
    m.beside = read_dense(reading, layer, "mlp", c.size({"intermediate_size"}), true, activation);
    m.scaled_router = true;
  }
  if (type == "qwen2_moe") m.shared_gate = m.shared.has_value();
  if (type == "gpt_oss") m.expert_bias = m.router.bias = true;
  if (type == "glm4_moe") {
    m.score_correction = true;
    m.router.format = kWideRouter;
  }
  if (type == "llama4")
    m.shared = read_dense(reading, layer, "feed_forward.shared_expert",
                          c.size({"intermediate_size"}), true, activation);
  if (type.starts_with("minimax")) {
    m.router.format = kWideRouter;
    // These checkpoints call the matrices w1 (gate), w3 (up) and w2 (down).
    m.up_format = reading.projection(layer, module + ".experts.w1").format;
    m.down_format = reading.projection(layer, module + ".experts.w2").format;
  }
  if (type.starts_with("step") && m.shared) {
    m.shared = read_dense(reading, layer, "share_expert", m.shared->inner, true, activation);
  }
  return m;
}

void refuse_unsupported(const Reading& reading) {
  const Config& c = reading.text;
  if (reading.type != "gemma4") return;
  if (c.count_or({"hidden_size_per_layer_input"}, 0) > 0)
    c.fail("hidden_size_per_layer_input",
           "per-layer input embeddings ('hidden_size_per_layer_input') are not supported");
}

}  // namespace

TransformerDescription describe_decoder(const Reading& reading) {
  const Config& c = reading.text;
  const std::string& type = reading.type;
  refuse_unsupported(reading);
  TransformerDescription d = describe_frame(reading);
  if (type.starts_with("gemma")) {
    d.tied_embeddings = reading.tied(true);
    d.scaled_embedding = true;
    d.capped_logits = c.has("final_logit_softcapping");
  }
  const bool sandwich = type == "gemma2" || type == "gemma3" || type == "gemma4" || type == "glm4";
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    Layer layer;
    layer.norms = sandwich ? NormPlacement::kBoth : NormPlacement::kBefore;
    layer.scaled_output = type == "gemma4";
    layer.mixer = decoder_attention(reading, i);
    layer.feed_forward = decoder_feed_forward(reading, i);
    d.layers.push_back(layer);
  }
  if (type == "llama4")
    d.notes.emplace_back("chunked attention is counted as a sliding window as long as the chunk");
  if (type == "step3p7" && !c.has("attention_other_setting"))
    d.notes.emplace_back(
        "the configuration states neither gates a head nor other head counts for sliding layers, "
        "as Step-3.5-Flash has them; none are built");
  if (type == "minimax_m3")
    d.notes.emplace_back(
        "the choice of key blocks is counted; attention is over the chosen blocks alone");
  return d;
}

TransformerDescription describe_nemotron_search(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  const int64_t layers = layer_count(reading);
  const std::vector<Config> blocks = c.objects("block_configs");
  if (static_cast<int64_t>(blocks.size()) != layers)
    c.fail("block_configs",
           fmt::format("'block_configs' has {} entries for {} layers", blocks.size(), layers));
  for (int64_t i = 0; i < layers; ++i) {
    const Config& block = blocks[static_cast<size_t>(i)];
    Layer layer;
    const auto attention = block.object("attention");
    if (!attention) block.fail("attention", fmt::format("'attention' of block {} is missing", i));
    if (attention->flag_or({"replace_with_linear"}, false)) {
      layer.mixer = LinearBlock{reading.projection(i, "self_attn.linear_attn")};
    } else if (!attention->flag_or({"no_op"}, false)) {
      SoftmaxAttention a = read_attention(reading, i, "self_attn");
      const int64_t group = attention->size({"n_heads_in_group"});
      if (a.heads % group != 0)
        attention->fail("n_heads_in_group",
                        fmt::format("{} heads do not divide into groups of {}", a.heads, group));
      a.key_value_heads = a.heads / group;
      a.window = attention->count_or({"window_length"}, 0);
      layer.mixer = a;
    }
    const auto ffn = block.object("ffn");
    if (!ffn) block.fail("ffn", fmt::format("'ffn' of block {} is missing", i));
    if (ffn->flag_or({"replace_with_linear"}, false)) {
      layer.feed_forward = LinearBlock{reading.projection(i, "mlp.linear_mlp")};
    } else if (!ffn->flag_or({"no_op"}, false)) {
      int64_t inner = ffn->count_or({"intermediate_size"}, 0);
      if (inner == 0) {
        // DeciLM: two thirds of the multiple, rounded up to a multiple of 256.
        const double wanted = 2 * ffn->real_or({"ffn_mult"}, 0) * static_cast<double>(d.hidden) / 3;
        if (!(wanted >= 1 && wanted < static_cast<double>(kMaxSize)))
          ffn->fail("ffn_mult", fmt::format("'ffn_mult' of block {} must be positive", i));
        inner = (static_cast<int64_t>(wanted) + 255) / 256 * 256;
      }
      layer.feed_forward = read_dense(reading, i, "mlp", inner, true, read_activation(c, "silu"));
    }
    d.layers.push_back(layer);
  }
  return d;
}

}  // namespace orrery::huggingface
