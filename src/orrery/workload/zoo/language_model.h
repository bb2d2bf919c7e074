#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/workload.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {

/// A linear map. Its sizes follow from the part it belongs to.
struct Projection {
  bool bias = false;
  WeightFormat format;
  bool operator==(const Projection&) const = default;
};

enum class Activation : uint8_t {
  kGelu,
  kGeluWrittenOut,  ///< By its tanh form, an operation at a time (GPT-2's gelu_new).
  kRelu,
  kSquaredRelu,
  kSilu,
  kTanh
};

/// Normalisation of queries and keys before their product.
enum class QueryKeyNorm : uint8_t {
  kNone,
  kWithoutScale,     ///< A head at a time, nothing learned (Llama 4).
  kHead,             ///< A head at a time, one scale for all heads (Qwen3).
  kWholeProjection,  ///< All heads together (MiniMax M2).
};

/// A gate on the mixer's output, before its output projection.
enum class OutputGate : uint8_t {
  kNone,
  kHead,              ///< One gate a head (Step 3.5).
  kElement,           ///< Its own projection (Kimi K3).
  kElementFromQuery,  ///< From the second half of the query projection (Qwen3.5).
};

/// A cheap attention that picks what the real one looks at.
struct Indexer {
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t selected = 0;           ///< Tokens (or blocks) kept a query.
  int64_t block = 1;              ///< Tokens a block; 1 selects single tokens.
  bool shares_choice = false;     ///< No weights: takes the choice of a layer before (GLM-5.2).
  bool weighs_heads = true;       ///< Scores of the heads are weighed by a projection of x.
  bool query_from_latent = true;  ///< Queries come from MLA's compressed query.
  Projection query, key, weights;
  bool operator==(const Indexer&) const = default;
};

/// Softmax attention over cached keys and values.
struct SoftmaxAttention {
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_size = 0;
  int64_t value_head_size = 0;
  int64_t window = 0;         ///< Tokens a query sees at most, its own included; 0: all.
  bool fused = false;         ///< One weight for query, key and value.
  bool value_is_key = false;  ///< No value projection (Gemma 4's global layers).
  bool sinks = false;         ///< A learnt logit a head that takes no value.
  int64_t rotary_size = 0;    ///< Leading elements of a head that are rotated.
  QueryKeyNorm norm = QueryKeyNorm::kNone;
  bool normed_value = false;  ///< RMS without a scale (Gemma 4).
  OutputGate gate = OutputGate::kNone;
  Projection query, key, value, output, gate_projection;
  std::optional<Indexer> indexer;
  bool operator==(const SoftmaxAttention&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2): keys and values are up-projections
/// of one latent vector a token, which alone is cached. Decoding runs in the
/// absorbed form: the up-projections move to the query and to the output.
struct LatentAttention {
  int64_t heads = 0;
  int64_t query_rank = 0;  ///< 0: queries are projected directly.
  int64_t latent_rank = 0;
  int64_t nope_size = 0;
  int64_t rope_size = 0;  ///< Kept beside the latent, shared by all heads.
  int64_t value_size = 0;
  bool rotated = true;  ///< False: those elements carry no positions (Kimi K3).
  OutputGate gate = OutputGate::kNone;
  Projection query_down, query_up, latent_down, latent_up, output, gate_projection;
  std::optional<Indexer> indexer;
  bool operator==(const LatentAttention&) const = default;
};

/// DeepSeek-V4: one key-value head of `head_size` for all query heads, seen
/// through a window and, where `ratio` > 0, through entries that each pool
/// `ratio` tokens; grouped low-rank output projection; attention sinks.
struct CompressedAttention {
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t rotary_size = 0;
  int64_t query_rank = 0;
  int64_t window = 0;
  int64_t ratio = 0;         ///< 0: window alone.
  bool overlapping = false;  ///< Pools of twice `ratio` tokens that overlap by half.
  int64_t output_groups = 0;
  int64_t output_rank = 0;
  Projection query_down, query_up, key_value, output_down, output_up;
  std::optional<Indexer> indexer;  ///< Picks among the pooled entries.
  bool operator==(const CompressedAttention&) const = default;
};

/// Linear attention by the gated delta rule (Gated DeltaNet, Kimi Delta
/// Attention): a state of key_size × value_size a value head.
struct DeltaAttention {
  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t key_size = 0;
  int64_t value_size = 0;
  int64_t convolution = 0;     ///< Taps of the causal depthwise convolution.
  bool channel_decay = false;  ///< Decay a channel from a low-rank map (KDA), else a head.
  int64_t decay_rank = 0;      ///< Of that map.
  int64_t gate_rank = 0;       ///< Low rank of the output gate; 0: full.
  Projection query_key_value, gate, decay, output;
  bool operator==(const DeltaAttention&) const = default;
};

/// Mamba-2: a state-space scan with a state of head_size × state_size a head.
struct StateSpace {
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t state_size = 0;
  int64_t groups = 1;
  int64_t convolution = 4;
  int64_t chunk = 256;
  bool convolution_bias = true;
  Projection input, output;
  bool operator==(const StateSpace&) const = default;
};

/// One square matrix in place of a block (architecture search).
struct LinearBlock {
  Projection projection;
  bool operator==(const LinearBlock&) const = default;
};

using Mixer = std::variant<std::monostate, SoftmaxAttention, LatentAttention, CompressedAttention,
                           DeltaAttention, StateSpace, LinearBlock>;

struct DenseFeedForward {
  int64_t inner = 0;
  bool gated = true;
  Activation activation = Activation::kSilu;
  Projection gate, up, down;
  bool operator==(const DenseFeedForward&) const = default;
};

struct MixtureOfExperts {
  int64_t experts = 0;
  int64_t active = 0;  ///< Experts a token.
  int64_t inner = 0;
  bool gated = true;
  bool expert_bias = false;
  Activation activation = Activation::kSilu;
  Projection router;
  bool score_correction = false;  ///< A bias an expert that steers the choice (DeepSeek-V3).
  bool looked_up = false;         ///< The choice is read from a table by token (DeepSeek-V4).
  bool scaled_router = false;     ///< Gemma 4: a scale a channel before, one an expert after.
  WeightFormat up_format, down_format;
  int64_t latent = 0;  ///< Experts work on this width (latent MoE); 0: hidden size.
  bool latent_norm = false;
  Projection latent_down, latent_up;
  std::optional<DenseFeedForward> shared;  ///< Every token goes through it as well.
  bool shared_gate = false;                ///< Weighed by a sigmoid of a projection (Qwen2-MoE).
  std::optional<DenseFeedForward> beside;  ///< Gemma 4: with norms of its own.
  bool operator==(const MixtureOfExperts&) const = default;
};

using FeedForward = std::variant<std::monostate, DenseFeedForward, MixtureOfExperts, LinearBlock>;

enum class Norm : uint8_t { kRms, kLayer, kLayerWithoutBias };
enum class NormPlacement : uint8_t {
  kBefore,           ///< x + f(norm(x))
  kAfter,            ///< norm(x + f(x)), OPT-350m
  kBoth,             ///< x + norm(f(norm(x))), Gemma 2 and later
  kParallel,         ///< x + attention(norm1(x)) + ffn(norm2(x)), GPT-NeoX
  kParallelOneNorm,  ///< the same with one norm, Phi-2
};

struct Layer {
  Mixer mixer;
  FeedForward feed_forward;
  NormPlacement norms = NormPlacement::kBefore;
  bool scaled_output = false;  ///< The layer's result times one kept number (Gemma 4).
  bool operator==(const Layer&) const = default;
};

/// A decoder-only language model as its layers, free of any family's spelling.
struct TransformerDescription {
  std::string name;
  ElementType type = ElementType::kBF16;        ///< Of weights and activations.
  ElementType cache_type = ElementType::kNone;  ///< kNone: `type`.
  bool quantised = false;  ///< Some weights are; training leaves that out and notes it.
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t longest = 0;  ///< Positions the model was made for; 0: no limit stated.
  std::vector<Layer> layers;

  Norm norm = Norm::kRms;
  double epsilon = 1e-6;
  double rotary_base = 10000;
  bool final_norm = true;
  bool tied_embeddings = false;
  int64_t embedding_size = 0;     ///< Where it is not `hidden` (OPT-350m): projected in and out.
  int64_t learnt_positions = 0;   ///< Rows of a position table; 0: none.
  bool scaled_embedding = false;  ///< Multiplied by √hidden (Gemma).
  bool capped_logits = false;     ///< Through a scaled tanh (Gemma 2 and later).
  Projection head;                ///< Unused when tied.
  bool dropout = false;           ///< Activations are dropped in training (GPT-2's 0.1).

  int64_t streams = 0;             ///< Hyper-connections: residual streams (DeepSeek-V4); 0: one.
  int64_t residual_block = 0;      ///< Attention residuals every so many layers (Kimi K3); 0: none.
  std::vector<std::string> notes;  ///< For Workload::notes.
};

/// The language model that a zoo name or a Hugging Face `config.json` describes; `kUsage` for a
/// name that is none, `kInput` for a file that describes something else.
TransformerDescription load_language_model(const std::string& path_or_zoo_name);

/// What a language model leaves open:
///
///   logits=auto|last|all   which positions get logits; auto: last in prefill, else all
///   attention=causal|full  whether scores above the diagonal are skipped or, as in a
///                          graph without a fused kernel, computed and masked; causal
///   routing=balanced       experts are drawn evenly: n tokens that choose k of E
///                          experts meet E·(1 − (1 − k/E)^n) distinct ones
///
///   dropout=auto|yes|no    whether training drops activations; auto: as the model's own
///                          configuration says
///
/// and those of training.
std::vector<Choice> language_model_choices();

/// Phases: `forward` and `train` run `sequence` tokens; `prefill` gives the caches
/// as results too; `decode` runs one token a sequence against caches of `context`
/// tokens, its own slot included, which are donated and come back as results.
/// Sequence defaults to 2048 or the model's longest if that is less, context to
/// 1024. Wrong choices, phases and sizes throw `kUsage`; sizes in `description`
/// that do not fit together `kInternal`. `format` as in `Workload::format`.
Workload build_language_model(const TransformerDescription& description,
                              const BuildOptions& options, const std::string& format);

}  // namespace orrery
