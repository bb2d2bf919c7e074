#include "orrery/workload/readers/huggingface/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

namespace orrery::huggingface {
namespace {

using Describe = std::function<Model(const Reading&)>;

const std::map<std::string, Describe, std::less<>>& families() {
  static const std::map<std::string, Describe, std::less<>> table = [] {
    std::map<std::string, Describe, std::less<>> t;
    for (const char* type :
         {"llama",         "mistral",   "mixtral",  "llama4",       "qwen2",      "qwen2_moe",
          "qwen3",         "qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "gemma",      "gemma2",
          "gemma3",        "gemma4",    "phi3",     "gpt_oss",      "minimax_m2", "minimax_m3",
          "minimax_m3_vl", "glm",       "glm4",     "glm4_moe",     "chatglm",    "mimo",
          "mimo_v2_flash", "step3p5",   "step3p7"})
      t[type] = describe_decoder;
    for (const char* type :
         {"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"})
      t[type] = describe_latent;
    t["deepseek_v4"] = t["deepseek_ref"] = describe_compressed;
    t["kimi_linear"] = describe_kimi_linear;
    for (const char* type : {"qwen3_next", "qwen3_5", "qwen3_5_moe"})
      t[type] = describe_gated_delta;
    t["nemotron_h"] = describe_nemotron_hybrid;
    t["nemotron-nas"] = describe_nemotron_search;
    t["gpt2"] = describe_gpt2;
    t["gpt_neox"] = describe_gpt_neox;
    t["opt"] = describe_opt;
    t["phi"] = describe_phi;
    for (const char* type : {"bert", "roberta", "xlm-roberta"}) t[type] = describe_bert;
    t["vit"] = describe_vit;
    for (const char* type : {"t5", "mt5", "umt5", "switch_transformers"}) t[type] = describe_t5;
    return t;
  }();
  return table;
}

/// Types of whole models that hold their language part in `text_config` under
/// another name, for files that leave the inner `model_type` out.
std::string unwrapped(std::string type) {
  static const std::map<std::string, std::string, std::less<>> kInner = {
      {"kimi_k25", "kimi_k2"},
      {"kimi_k3", "kimi_linear"},
      {"minimax_m3_vl", "minimax_m3"},
      {"mistral3", "mistral"},
      {"llava", "llama"}};
  if (type.ends_with("_text")) type.resize(type.size() - 5);
  const auto found = kInner.find(type);
  return found == kInner.end() ? type : found->second;
}

/// By the class where `model_type` is missing: "LlamaForCausalLM" is "llama".
std::string type_of_architecture(const Config& config) {
  static const std::map<std::string, std::string, std::less<>> kTypes = {
      {"LlamaForCausalLM", "llama"},
      {"MistralForCausalLM", "mistral"},
      {"MixtralForCausalLM", "mixtral"},
      {"Qwen2ForCausalLM", "qwen2"},
      {"Qwen3ForCausalLM", "qwen3"},
      {"Qwen3MoeForCausalLM", "qwen3_moe"},
      {"GPT2LMHeadModel", "gpt2"},
      {"GPTNeoXForCausalLM", "gpt_neox"},
      {"OPTForCausalLM", "opt"},
      {"PhiForCausalLM", "phi"},
      {"Phi3ForCausalLM", "phi3"},
      {"GemmaForCausalLM", "gemma"},
      {"GptOssForCausalLM", "gpt_oss"},
      {"DeepseekV2ForCausalLM", "deepseek_v2"},
      {"DeepseekV3ForCausalLM", "deepseek_v3"},
      {"BertForMaskedLM", "bert"},
      {"BertModel", "bert"},
      {"RobertaForMaskedLM", "roberta"},
      {"T5ForConditionalGeneration", "t5"},
      {"SwitchTransformersForConditionalGeneration", "switch_transformers"},
      {"ViTForImageClassification", "vit"}};
  for (const std::string& architecture : config.texts({"architectures"})) {
    const auto found = kTypes.find(architecture);
    if (found != kTypes.end()) return found->second;
  }
  return {};
}

}  // namespace

std::vector<std::string> model_types() {
  std::vector<std::string> types;
  for (const auto& [type, describe] : families()) types.push_back(type);
  return types;
}

Model describe(const Config& config) {
  std::optional<Config> inner = config.object("text_config");
  if (!inner) inner = config.object("llm_config");
  const Config& text = inner ? *inner : config;
  std::string type = unwrapped(text.text_or({"model_type"}, ""));
  if (!families().contains(type) && inner) type = unwrapped(config.text_or({"model_type"}, ""));
  if (type.empty()) type = type_of_architecture(text);
  if (type.empty()) type = type_of_architecture(config);
  const auto family = families().find(type);
  if (family == families().end()) {
    if (type.empty())
      config.fail("architectures",
                  "'model_type' is missing, and 'architectures' does not tell it either");
    config.fail("model_type", fmt::format("model type '{}' is not supported; there is: {}", type,
                                          fmt::join(model_types(), ", ")));
  }
  const Quantisation quantisation = Quantisation::read(config, text);
  Model model = family->second(Reading{config, text, quantisation, type});
  if (auto* description = std::get_if<TransformerDescription>(&model)) {
    description->quantised = quantisation.any();
    for (const std::string& note : quantisation.notes()) description->notes.push_back(note);
    for (const char* tower : {"vision_config", "audio_config"}) {
      if (!inner || !config.has(tower)) continue;
      description->notes.push_back(
          fmt::format("'{}': the {} encoder is not built, only the language model", tower,
                      std::string_view(tower).substr(0, std::string_view(tower).find('_'))));
    }
  } else if (quantisation.any()) {
    config.fail("quantization_config",
                fmt::format("quantised models of type '{}' are not supported", type));
  }
  return model;
}

Projection Reading::projection(int64_t layer, std::string_view path, bool bias) const {
  return {bias, quantisation.format(fmt::format("layers.{}.{}", layer, path))};
}

bool Reading::tied(bool otherwise) const {
  return text.flag_or({"tie_word_embeddings"}, whole.flag_or({"tie_word_embeddings"}, otherwise));
}

}  // namespace orrery::huggingface
