// Multi-head latent attention (DeepSeek V2 to V3.2, Kimi K2, GLM-5) and the
// compressed attention of DeepSeek-V4.

#include <fmt/format.h>

#include <algorithm>

#include "orrery/workload/readers/huggingface/families.h"

namespace orrery::huggingface {
namespace {

/// DeepSeek's "lightning indexer" (V3.2): a few heads over one key a token.
std::optional<Indexer> token_indexer(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  if (!c.has("index_topk")) return std::nullopt;
  Indexer i;
  i.heads = c.size({"index_n_heads"});
  i.head_size = c.size({"index_head_dim"});
  i.selected = c.size({"index_topk"});
  if (c.has("indexer_types")) {
    const std::string type = c.text_at("indexer_types", layer);
    if (type != "full" && type != "shared")
      c.fail("indexer_types", fmt::format("an indexer of type '{}' is not supported", type));
    i.shares_choice = type == "shared";
  }
  i.query = reading.projection(layer, "self_attn.indexer.wq_b");
  i.key = reading.projection(layer, "self_attn.indexer.wk");
  // Published checkpoints keep this small projection in bf16 even where they do not list it.
  i.weights = {};
  return i;
}

LatentAttention read_latent(const Reading& reading, int64_t layer) {
  const Config& c = reading.text;
  LatentAttention a;
  a.heads = c.size({"num_attention_heads"});
  a.query_rank = c.count_or({"q_lora_rank"}, 0);
  a.latent_rank = c.size({"kv_lora_rank"});
  a.nope_size = c.size({"qk_nope_head_dim"});
  a.rope_size = c.size({"qk_rope_head_dim"});
  a.value_size = c.size({"v_head_dim"});
  const bool bias = c.flag_or({"attention_bias"}, false);
  a.query_down = reading.projection(layer, "self_attn.q_a_proj", bias);
  a.query_up =
      reading.projection(layer, a.query_rank > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj");
  a.latent_down = reading.projection(layer, "self_attn.kv_a_proj_with_mqa", bias);
  a.latent_up = reading.projection(layer, "self_attn.kv_b_proj");
  a.output = reading.projection(layer, "self_attn.o_proj", bias);
  a.indexer = token_indexer(reading, layer);
  if (a.indexer && a.query_rank == 0)
    c.fail("index_topk", "an indexer needs a compressed query ('q_lora_rank')");
  return a;
}

}  // namespace

TransformerDescription describe_latent(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  const int64_t layers = layer_count(reading);
  for (int64_t i = 0; i < layers; ++i) {
    Layer layer;
    layer.mixer = read_latent(reading, i);
    if (has_experts(reading, i)) {
      layer.feed_forward = read_experts(reading, i, "mlp");
    } else {
      DenseFeedForward f = read_dense(reading, i, "mlp", c.size({"intermediate_size"}), true,
                                      read_activation(c, "silu"));
      f.gate.bias = f.up.bias = f.down.bias = c.flag_or({"mlp_bias"}, false);
      layer.feed_forward = f;
    }
    d.layers.push_back(layer);
  }
  if (c.has("index_topk"))
    d.notes.emplace_back(
        "sparse attention: the indexer's scores are counted over all keys, attention over the "
        "chosen ones");
  return d;
}

// After vLLM's and the reference implementation of DeepSeek-V4: queries through a
// low rank; one shared key-value head; a window of single tokens beside entries
// pooled from 4 (overlapping, chosen by an indexer) or 128 tokens; grouped low-rank
// output; every layer has experts, of which the first few are found by token in a
// table; residual streams mixed by hyper-connections.
TransformerDescription describe_compressed(const Reading& reading) {
  const Config& c = reading.text;
  TransformerDescription d = describe_frame(reading);
  const int64_t layers = layer_count(reading);
  constexpr int64_t kMaxStreams = 64;
  d.streams = c.count_or({"hc_mult"}, 0);
  if (d.streams > kMaxStreams)
    c.fail("hc_mult", fmt::format("{} residual streams are more than {}", d.streams, kMaxStreams));
  const int64_t looked_up = c.count_or({"num_hash_layers"}, 0);
  const bool fp4_experts = c.text_or({"expert_dtype"}, "") == "fp4";
  for (int64_t i = 0; i < layers; ++i) {
    CompressedAttention a;
    a.heads = c.size({"num_attention_heads"});
    a.head_size = c.size({"head_dim"});
    a.rotary_size = c.size({"qk_rope_head_dim"});
    a.query_rank = c.size({"q_lora_rank"});
    a.window = c.size({"sliding_window"});
    a.ratio = c.number_at("compress_ratios", i);
    a.overlapping = a.ratio == 4;
    a.output_groups = c.size({"o_groups"});
    a.output_rank = c.size({"o_lora_rank"});
    if (a.heads % a.output_groups != 0)
      c.fail("o_groups",
             fmt::format("{} heads do not divide into {} output groups", a.heads, a.output_groups));
    if (a.rotary_size > a.head_size)
      c.fail("qk_rope_head_dim", fmt::format("{} rotated elements do not fit into heads of {}",
                                             a.rotary_size, a.head_size));
    a.query_down = reading.projection(i, "attn.wq_a");
    a.query_up = reading.projection(i, "attn.wq_b");
    a.key_value = reading.projection(i, "attn.wkv");
    a.output_down = reading.projection(i, "attn.wo_a");
    a.output_up = reading.projection(i, "attn.wo_b");
    if (a.overlapping) {
      Indexer indexer;
      indexer.heads = c.size({"index_n_heads"});
      indexer.head_size = c.size({"index_head_dim"});
      indexer.selected = c.size({"index_topk"});
      indexer.query = reading.projection(i, "attn.indexer.wq_b");
      a.indexer = indexer;
    }
    MixtureOfExperts m = read_experts(reading, i, "ffn");
    m.looked_up = i < looked_up;
    if (m.looked_up) m.score_correction = false;
    if (fp4_experts && m.up_format.storage != ElementType::kF4E2M1FN) {
      // MXFP4 experts in an otherwise fp8 checkpoint, multiplied as fp8.
      WeightFormat format;
      format.storage = ElementType::kF4E2M1FN;
      format.compute = ElementType::kF8E4M3FN;
      format.scale = ElementType::kF8E8M0FNU;
      format.block_in = 32;
      format.block_out = 1;
      format.dynamic_activation_scales = true;
      m.up_format = m.down_format = format;
    }
    d.layers.push_back({a, m, NormPlacement::kBefore});
  }
  d.notes.emplace_back(
      "pooled and single keys are attended to by two operations whose results are added");
  if (d.streams > 0)
    d.notes.emplace_back(
        "the Sinkhorn iterations of hyper-connections are not counted (a few values a token)");
  return d;
}

}  // namespace orrery::huggingface
