#pragma once

#include <string>
#include <variant>
#include <vector>

#include "orrery/workload/readers/huggingface/config.h"
#include "orrery/workload/readers/huggingface/quantisation.h"
#include "orrery/workload/zoo/language_model.h"
#include "orrery/workload/zoo/transformers.h"

namespace orrery::huggingface {

/// What a configuration describes, in the builders' own terms.
using Model = std::variant<TransformerDescription, BertDescription, VitDescription, T5Description>;

/// Reads a whole `config.json`. A model type that is not known, or a part of one
/// that cannot be built, is refused (`kInput`) by its name.
Model describe(const Config& config);

/// The `model_type`s there are, sorted.
std::vector<std::string> model_types();

/// A description being read: the part that describes the language model, with
/// what surrounds it.
struct Reading {
  const Config& whole;  ///< The file.
  const Config& text;   ///< `text_config` where there is one, else the file.
  const Quantisation& quantisation;
  std::string type;  ///< model_type of `text`, "_text" left out.

  /// The module "layers.LAYER.PATH" as the quantisation keeps it.
  Projection projection(int64_t layer, std::string_view path, bool bias = false) const;
  /// `tie_word_embeddings` of either part.
  bool tied(bool otherwise) const;
};

// Parts that families share (decoder.cc).

/// Name, sizes, element types, head and notes; layers are left empty.
TransformerDescription describe_frame(const Reading& reading);
int64_t layer_count(const Reading& reading);
Activation read_activation(const Config& config, std::string_view otherwise);
/// Grouped-query attention from the usual fields; without window, biases and norms.
SoftmaxAttention read_attention(const Reading& reading, int64_t layer, std::string_view module);
DenseFeedForward read_dense(const Reading& reading, int64_t layer, std::string_view module,
                            int64_t inner, bool gated, Activation activation);
/// Whether layer `layer` has experts, by whichever field says so.
bool has_experts(const Reading& reading, int64_t layer);
/// Routers of some families are kept, and multiply, in 32 bits, whatever the rest does: GLM-4 and
/// MiniMax (Linear of torch.float32 in vLLM and TensorRT-LLM), Nemotron-H (force_fp32_compute).
inline constexpr WeightFormat kWideRouter = {.storage = ElementType::kF32,
                                             .compute = ElementType::kF32};
/// Routed and shared experts from the usual fields; `module` holds router and experts.
MixtureOfExperts read_experts(const Reading& reading, int64_t layer, std::string_view module);
/// The window of layer `layer` by `layer_types`; nothing where that is absent.
std::optional<int64_t> window_by_type(const Reading& reading, int64_t layer);

// Families, one function each.
TransformerDescription describe_decoder(const Reading& reading);          // decoder.cc
TransformerDescription describe_latent(const Reading& reading);           // latent.cc
TransformerDescription describe_compressed(const Reading& reading);       // latent.cc
TransformerDescription describe_kimi_linear(const Reading& reading);      // hybrid.cc
TransformerDescription describe_gated_delta(const Reading& reading);      // hybrid.cc
TransformerDescription describe_nemotron_hybrid(const Reading& reading);  // hybrid.cc
TransformerDescription describe_nemotron_search(const Reading& reading);  // decoder.cc
TransformerDescription describe_gpt2(const Reading& reading);             // classic.cc
TransformerDescription describe_gpt_neox(const Reading& reading);         // classic.cc
TransformerDescription describe_opt(const Reading& reading);              // classic.cc
TransformerDescription describe_phi(const Reading& reading);              // classic.cc
BertDescription describe_bert(const Reading& reading);                    // encoder.cc
VitDescription describe_vit(const Reading& reading);                      // encoder.cc
T5Description describe_t5(const Reading& reading);                        // encoder.cc

}  // namespace orrery::huggingface
