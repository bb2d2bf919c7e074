#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// What is computed again in the backward pass instead of being kept.
enum class Recompute : uint8_t {
  kNone,
  kSelective,  ///< Scores, softmax and dropout of attention (Korthikanti et al. 2022).
  kExperts,    ///< Feed-forward parts that have experts.
  kFull,       ///< Whole layers, from their inputs.
  kOperators,  ///< All but attention and every second product (torchtitan's "selective op").
  kModules,    ///< `Strategy::modules`.
};

/// Parts of a layer that can be computed again alone, as Megatron-Core's `recompute_modules`.
enum class Module : uint8_t {
  kCoreAttention,     ///< Attention between its projections.
  kNorms,             ///< What norms give, from what they take.
  kExpertActivation,  ///< What goes into experts' second product, from what the first gave.
  kLatentUp,          ///< Queries, keys and values, from their latent vectors.
  kFeedForward,       ///< Dense feed-forward parts.
  kExperts,           ///< Those with experts.
  kSharedExperts,     ///< Experts that all tokens go through.
};
inline constexpr std::array<std::string_view, 7> kModuleNames = {
    "core_attn", "layernorm", "moe_act", "mla_up_proj", "mlp", "moe", "shared_experts"};

/// How the loss is computed from the logits, which says how often they are held.
enum class LossKernel : uint8_t {
  kWide,       ///< From a copy in 32 bits (Megatron-Core's own).
  kOperators,  ///< By PyTorch's operators, one by one.
  kCompiled,   ///< By a compiler's kernel that writes their gradient beside them.
  kFused,      ///< By a library's kernel that writes their gradient in their place.
};

/// In which order a stage takes its micro-batches.
enum class PipelineSchedule : uint8_t {
  kOneForwardOneBackward,  ///< PipeDream-flush; interleaved where a stage has several chunks.
  kGpipe,                  ///< All forward, then all backward.
  kZeroBubble,             ///< ZB-H1: weight gradients fill the bubble (Qi et al. 2024).
};

/// Number formats of the linear layers; the rest is computed in 16 bits.
enum class TrainingPrecision : uint8_t { kBF16, kFP16, kFP8, kMXFP8, kNVFP4 };
/// Whether linear layers have fewer than 16 bits.
inline bool is_narrow(TrainingPrecision precision) {
  return precision != TrainingPrecision::kBF16 && precision != TrainingPrecision::kFP16;
}

/// How a model is spread over devices and run. Ranks are numbered tensor first, then context,
/// data, pipeline, as Megatron does, so that tensor groups lie within nodes.
struct Strategy {
  int gpus = 1;
  int tensor = 1;
  int pipeline = 1;
  int chunks = 1;  ///< Model chunks a stage (interleaving, "virtual pipeline").
  int context = 1;
  int expert = 1;           ///< Devices over which one layer's experts are spread.
  bool sequence = false;    ///< Norms and residuals are split along the sequence (with `tensor`).
  int64_t micro_batch = 1;  ///< Sequences.
  int64_t global_batch = 1;
  int64_t length = 2048;  ///< Tokens a sequence.
  int zero = 0;           ///< Sharded over data ranks: 1 optimiser, 2 gradients, 3 weights as well.
  Recompute recompute = Recompute::kNone;
  uint32_t modules = 0;  ///< A bit for each `Module` that is computed again.
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  TrainingPrecision precision = TrainingPrecision::kBF16;
  int plain_first = 0, plain_last = 0;  ///< Layers at either end that stay in 16 bits.
  int further_tokens = 0;               ///< Predicted beside the next one, a block each (MTP).

  bool fused_attention = true;  ///< One kernel, or products, softmax and dropout.
  bool fused_sinks = false;     ///< … also where softmax has a learnt sink (cuDNN 9.18).
  bool wide_scores = false;     ///< Scores of unfused attention, and logits, in 32 bits.
  bool wide_gradients = true;   ///< Gradients are kept, and added over ranks, in 32 bits.
  bool narrow_moments = false;  ///< Adam's two moments are kept in 16 bits.
  bool narrow_weights = false;  ///< Weights of linear layers in 8 bits are kept in these alone.
  LossKernel loss = LossKernel::kWide;
  bool fused_gradients = true;     ///< Products add to those, or write 16 bits that a loop adds.
  bool overlap_gradients = true;   ///< Data-parallel traffic runs behind the backward pass.
  bool overlap_parameters = true;  ///< Gathering of sharded weights behind the forward pass.
  /// PyTorch's own layers hold more: sequences that were gathered over tensor ranks, what every
  /// micro-batch sends between stages, and summed gradients beside those that are added up.
  bool torch_native = false;
  bool overlap_tensor = false;   ///< Tensor-parallel traffic in pieces behind its products.
  bool overlap_sums = false;     ///< … sums of its gradients behind those of the weights.
  bool overlap_pipeline = true;  ///< Sends between stages behind compute.
  bool overlap_experts = false;  ///< All-to-all of experts behind other micro-batches.
  bool once_a_node = true;       ///< Tokens travel once to a node, or once to each expert there.
  bool fused_router = false;     ///< Experts are chosen by fused kernels, or by operators.
  bool graphs = false;           ///< Layers are captured as CUDA graphs.
  bool eager = false;            ///< PyTorch's operators one by one, or loops that are fused.
  bool copied_shards = false;    ///< Gathered weights are copied into place (FSDP2).

  int data() const { return gpus / (tensor * pipeline * context); }
  /// Micro-batches of one data-parallel rank a step.
  int64_t micro_batches() const { return global_batch / (micro_batch * data()); }
  /// Ranks that keep the same dense weights, and the same experts.
  int dense_replicas() const { return data() * context; }
  int expert_replicas() const { return data() * context * tensor / expert; }
  bool operator==(const Strategy&) const = default;
};

/// Whether a part of a layer is computed again, its layer not being.
bool computes_again(const Strategy& strategy, Module module);
/// "none", "full", "layernorm,moe_act", …
std::string recompute_in_words(const Strategy& strategy);
/// Sets what is computed again from such words; `kUsage` for others.
void set_recompute(Strategy& strategy, const std::string& words);

/// The most experts that a layer of the model has; 0: it has none.
int64_t most_experts(const TransformerDescription& model);

/// Every reason why the strategy cannot run the model, in sentences that say what to change;
/// empty: it can. Memory is not looked at.
std::vector<std::string> faults(const Strategy& strategy, const TransformerDescription& model);

/// "tp 8, pp 16, dp 128, …": what differs from one device running plainly.
std::string in_words(const Strategy& strategy);

/// Layers by chunk of the pipeline: chunk c of stage s stands at c · pipeline + s. Even where
/// they divide; else embedding and head count as a layer each, so that the first and the last
/// chunk have one layer less (Llama 3 405B); else the middle chunks take what is over.
std::vector<int> layers_by_chunk(int layers, int stages, int chunks);

/// Parallel settings that a framework has of its own, by name.
struct Framework {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  void (*apply)(Strategy& strategy);
};
const std::vector<Framework>& frameworks();
/// `kUsage` with the nearest names where there is none of that name.
const Framework& framework(std::string_view name);

}  // namespace orrery
