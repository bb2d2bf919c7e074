// The language models of the zoo.

#include <utility>

#include "orrery/workload/zoo/language_model.h"

namespace orrery {
namespace {

ZooModel entry(TransformerDescription description, std::string name, std::string title,
               std::string family, int64_t parameters, std::string source) {
  description.name = name;
  const auto shared = std::make_shared<const TransformerDescription>(std::move(description));
  return {.name = std::move(name),
          .title = std::move(title),
          .family = std::move(family),
          .choices = language_model_choices(),
          .phases = {"forward", "prefill", "decode", "train"},
          .published_parameters = parameters,
          .source = std::move(source),
          .build =
              [shared](const BuildOptions& options) {
                return build_language_model(*shared, options, "zoo");
              },
          .language_model = shared};
}

SoftmaxAttention grouped_query(int64_t heads, int64_t key_value_heads, int64_t head_size) {
  SoftmaxAttention a;
  a.heads = heads;
  a.key_value_heads = key_value_heads;
  a.head_size = a.value_head_size = a.rotary_size = head_size;
  return a;
}

// --- GPT-2 --------------------------------------------------------------------

TransformerDescription gpt2(int64_t layers, int64_t hidden, int64_t heads) {
  TransformerDescription d;
  d.vocabulary = 50257;
  d.hidden = hidden;
  d.longest = d.learnt_positions = 1024;
  d.norm = Norm::kLayer;
  d.epsilon = 1e-5;
  d.tied_embeddings = true;
  d.dropout = true;
  SoftmaxAttention a = grouped_query(heads, heads, hidden / heads);
  a.rotary_size = 0;
  a.fused = true;
  a.query.bias = a.output.bias = true;
  DenseFeedForward f;
  f.inner = 4 * hidden;
  f.gated = false;
  f.activation = Activation::kGeluWrittenOut;
  f.up.bias = f.down.bias = true;
  d.layers.assign(static_cast<size_t>(layers), {a, f, NormPlacement::kBefore});
  return d;
}

/// GPT-3's sizes in GPT-2's architecture: no sparse attention.
TransformerDescription gpt3(int64_t layers, int64_t hidden, int64_t heads) {
  TransformerDescription d = gpt2(layers, hidden, heads);
  d.longest = d.learnt_positions = 2048;
  return d;
}

/// As Megatron trains them: words filled up to a multiple of 1,024.
TransformerDescription megatron(int64_t layers, int64_t hidden, int64_t heads) {
  TransformerDescription d = gpt3(layers, hidden, heads);
  d.vocabulary = 51200;
  return d;
}

TransformerDescription opt(int64_t layers, int64_t hidden, int64_t heads) {
  TransformerDescription d = gpt2(layers, hidden, heads);
  d.vocabulary = 50272;
  d.longest = 2048;
  d.learnt_positions = 2050;  // counted from 2
  SoftmaxAttention a = grouped_query(heads, heads, hidden / heads);
  a.rotary_size = 0;
  a.query.bias = a.key.bias = a.value.bias = a.output.bias = true;
  for (Layer& layer : d.layers) {
    layer.mixer = a;
    std::get<DenseFeedForward>(layer.feed_forward).activation = Activation::kRelu;
  }
  return d;
}

// --- Llama and Mixtral -----------------------------------------------------------

struct LlamaSizes {
  int64_t layers, hidden, heads, key_value_heads, inner, vocabulary, longest;
  double rotary_base;
};

TransformerDescription llama(const LlamaSizes& sizes) {
  TransformerDescription d;
  d.vocabulary = sizes.vocabulary;
  d.hidden = sizes.hidden;
  d.longest = sizes.longest;
  d.rotary_base = sizes.rotary_base;
  d.epsilon = 1e-5;
  DenseFeedForward f;
  f.inner = sizes.inner;
  d.layers.assign(static_cast<size_t>(sizes.layers),
                  {grouped_query(sizes.heads, sizes.key_value_heads, sizes.hidden / sizes.heads), f,
                   NormPlacement::kBefore});
  return d;
}

TransformerDescription mixtral() {
  TransformerDescription d = llama({32, 4096, 32, 8, 14336, 32000, 32768, 1e6});
  MixtureOfExperts m;
  m.experts = 8;
  m.active = 2;
  m.inner = 14336;
  for (Layer& layer : d.layers) layer.feed_forward = m;
  return d;
}

// --- DeepSeek-V3 ------------------------------------------------------------------

TransformerDescription deepseek_v3() {
  TransformerDescription d;
  d.vocabulary = 129280;
  d.hidden = 7168;
  d.longest = 163840;
  d.quantised = true;
  // Published in fp8, a scale for every 128×128 block.
  Projection fp8;
  fp8.format.storage = fp8.format.compute = ElementType::kF8E4M3FN;
  fp8.format.scale = ElementType::kF32;
  fp8.format.block_in = fp8.format.block_out = 128;
  fp8.format.dynamic_activation_scales = true;

  LatentAttention a;
  a.heads = 128;
  a.query_rank = 1536;
  a.latent_rank = 512;
  a.nope_size = 128;
  a.rope_size = 64;
  a.value_size = 128;
  a.query_down = a.query_up = a.latent_down = a.latent_up = a.output = fp8;

  const auto dense = [&](int64_t inner) {
    DenseFeedForward f;
    f.inner = inner;
    f.gate = f.up = f.down = fp8;
    return f;
  };
  MixtureOfExperts m;
  m.experts = 256;
  m.active = 8;
  m.inner = 2048;
  m.score_correction = true;
  m.up_format = m.down_format = fp8.format;
  m.shared = dense(2048);

  constexpr int kLayers = 61, kDenseLayers = 3;
  for (int i = 0; i < kLayers; ++i) {
    if (i < kDenseLayers)
      d.layers.push_back({a, dense(18432), NormPlacement::kBefore});
    else
      d.layers.push_back({a, m, NormPlacement::kBefore});
  }
  d.notes.emplace_back(
      "multi-token prediction (1 module) is not built: it runs only in speculative decoding");
  return d;
}

constexpr const char* kGpt2Source =
    "huggingface.co/openai-community/gpt2 (safetensors); Radford et al. 2019";
constexpr const char* kGpt3Source = "arXiv:2005.14165, table 2.1; its parameters are rounded there";
constexpr const char* kMegatronSource = "Korthikanti et al. 2022 (arXiv:2205.05198), table 3";
constexpr const char* kLlama2Source =
    "huggingface.co/meta-llama/Llama-2-7b-hf (safetensors); arXiv:2307.09288";
constexpr const char* kLlama3Source =
    "huggingface.co/meta-llama/Llama-3.1-8B (safetensors); arXiv:2407.21783";

const ZooRegistration registration({
    entry(gpt2(12, 768, 12), "gpt2", "GPT-2 small, bf16", "gpt2", 124'439'808, kGpt2Source),
    entry(gpt2(24, 1024, 16), "gpt2-medium", "GPT-2 medium, bf16", "gpt2", 354'823'168,
          kGpt2Source),
    entry(gpt2(36, 1280, 20), "gpt2-large", "GPT-2 large, bf16", "gpt2", 774'030'080, kGpt2Source),
    entry(gpt2(48, 1600, 25), "gpt2-xl", "GPT-2 XL, bf16", "gpt2", 1'557'611'200, kGpt2Source),
    entry(gpt3(24, 3072, 24), "gpt3-xl", "GPT-3 XL with its 24 heads of 128 in full width, bf16",
          "gpt3", 0, kGpt3Source),
    entry(gpt3(32, 2560, 32), "gpt3-2.7b", "GPT-3 2.7B, bf16", "gpt3", 0, kGpt3Source),
    entry(gpt3(96, 12288, 96), "gpt3-175b", "GPT-3 175B, bf16", "gpt3", 0, kGpt3Source),
    entry(megatron(48, 6144, 64), "megatron-22b", "Megatron's GPT of 22 billion parameters, bf16",
          "megatron", 0, kMegatronSource),
    entry(megatron(96, 12288, 96), "megatron-175b",
          "Megatron's GPT of 175 billion parameters, bf16", "megatron", 0, kMegatronSource),
    entry(megatron(105, 20480, 128), "megatron-530b",
          "Megatron's GPT of 530 billion parameters, bf16", "megatron", 0, kMegatronSource),
    entry(megatron(128, 25600, 160), "megatron-1t", "Megatron's GPT of a trillion parameters, bf16",
          "megatron", 0, kMegatronSource),
    entry(opt(24, 2048, 32), "opt-1.3b", "OPT 1.3B, bf16", "opt", 1'315'758'080,
          "huggingface.co/facebook/opt-1.3b (num_parameters()); arXiv:2205.01068"),
    entry(llama({32, 4096, 32, 32, 11008, 32000, 4096, 1e4}), "llama2-7b", "Llama-2 7B, bf16",
          "llama2", 6'738'415'616, kLlama2Source),
    entry(llama({40, 5120, 40, 40, 13824, 32000, 4096, 1e4}), "llama2-13b", "Llama-2 13B, bf16",
          "llama2", 13'015'864'320, kLlama2Source),
    entry(llama({80, 8192, 64, 8, 28672, 32000, 4096, 1e4}), "llama2-70b", "Llama-2 70B, bf16",
          "llama2", 68'976'648'192, kLlama2Source),
    entry(llama({32, 4096, 32, 8, 14336, 128256, 131072, 5e5}), "llama3-8b", "Llama-3.1 8B, bf16",
          "llama3", 8'030'261'248, kLlama3Source),
    entry(llama({80, 8192, 64, 8, 28672, 128256, 131072, 5e5}), "llama3-70b", "Llama-3.1 70B, bf16",
          "llama3", 70'553'706'496, kLlama3Source),
    entry(llama({126, 16384, 128, 8, 53248, 128256, 131072, 5e5}), "llama3-405b",
          "Llama-3.1 405B, bf16", "llama3", 405'853'388'800, kLlama3Source),
    entry(mixtral(), "mixtral-8x7b", "Mixtral 8x7B v0.1, bf16", "mixtral", 46'702'792'704,
          "huggingface.co/mistralai/Mixtral-8x7B-v0.1 (safetensors); arXiv:2401.04088"),
    entry(deepseek_v3(), "deepseek-v3", "DeepSeek-V3 without its multi-token prediction, fp8",
          "deepseek", 671'026'404'352,
          "huggingface.co/deepseek-ai/DeepSeek-V3: 671B without the 14B of multi-token prediction; "
          "arXiv:2412.19437"),
});

}  // namespace
}  // namespace orrery
