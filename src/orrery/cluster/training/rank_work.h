#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/cluster/training/strategy.h"
#include "orrery/model/stack.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// Why ranks talk to each other.
enum class TrafficCause : uint8_t {
  kTensor,      ///< Halves of split products.
  kContext,     ///< Keys and values of other parts of the sequence.
  kExperts,     ///< Tokens to their experts and back.
  kPipeline,    ///< Activations and their gradients to the next stage.
  kGradients,   ///< Sums over data ranks.
  kParameters,  ///< Weights that other ranks keep.
};
std::string_view name(TrafficCause cause);

/// One collective of a pass, `count` times.
struct Traffic {
  CollectiveCall call;
  double count = 1;
  TrafficCause cause = TrafficCause::kTensor;
  double hidden_behind = 0;        ///< Share of it that can hide behind compute of the same pass.
  std::optional<Kernel> behind{};  ///< … of no more than this one of its kernels, where given.
};

/// What a rank runs once a micro-batch.
struct Pass {
  std::vector<Launch> launches;
  std::vector<Traffic> traffic;
};

/// One layer, or the embedding, or the head, on one rank, for one micro-batch.
struct RankWork {
  Pass forward;
  Pass backward;            ///< Gradients of inputs and weights.
  double weight_share = 0;  ///< Of the backward products' FLOPs: those of weight gradients.
  Pass again;               ///< What the backward pass computes once more.
  double dense_parameters = 0;
  double expert_parameters = 0;
  double narrow_parameters = 0;  ///< Of both, those of linear layers in 8 or 4 bits.
  double kept_bytes = 0;         ///< Activations that the backward pass wants.
  double working_bytes = 0;      ///< The most that is held beside them while it runs.
  double result_bytes = 0;       ///< Of the head: logits as they are written.
  double model_flops = 0;  ///< Of forward and backward, on all ranks that share the micro-batch.
};

/// How kernels of training relate to kernels that were measured alone.
struct TrainingConstants {
  double attention_backward = 0;       ///< Time of fused attention's gradient over its forward.
  double attention_backward_wide = 0;  ///< … for heads wider than 128.
  double accumulation = 0;   ///< Of what adding weight gradients in 32 bits moves: not hidden.
  double loss = 0;           ///< Cross-entropy over one reading of the logits, …
  double loss_backward = 0;  ///< … its gradient over one reading and one writing.
  double cast = 0;           ///< To 8 or 4 bits, over a loop that moves as much.
  double scan = 0;           ///< State-space scan over moving its operands once, …
  double scan_backward = 0;  ///< … its gradient over that, …
  double scan_products = 0;  ///< … and its products over one large product.
  double convolution = 0;    ///< Causal convolution over one reading and one writing, …
  double convolution_backward = 0;  ///< … its gradient over two and one.
  double gated_norm = 0;            ///< Norm of a gated result over two readings and a writing, …
  double gated_norm_backward = 0;   ///< … its gradient over three and two.
  double router = 0;                ///< Choice of experts over its operators one by one, …
  double router_backward = 0;       ///< … its gradient over theirs.
  double hidden_share = 0;          ///< Of such traffic, what runs behind compute.
  double hidden_experts = 0;        ///< … of tokens' travel to experts.
  double slowdown = 0;              ///< Of compute while traffic runs beside it.
  Seconds host;                     ///< To launch one kernel.
  Seconds gap;                      ///< Between kernels of one stream.
  Bytes bucket;                     ///< Gradients that are sent together.
  double card_spread = 0;           ///< Of ln(power) over cards of one kind at the same work.
  double structure_spread = 0;      ///< ln(true / predicted) that all kernels share …
  double structure_spread_experts = 0;  ///< … of models with experts.
  Bytes context;                        ///< What CUDA and the libraries hold of a device's memory.
};
/// data/training/constants.yaml, each with its source; what it has of a device's architecture by
/// name comes first.
TrainingConstants load_training_constants(const std::string& data_folder,
                                          const std::string& architecture);

/// The work of a layer under a strategy, from sizes alone. A kind of layer that is not modelled
/// in training is `kUsage`, by name. What is only approximated is added to `gaps`.
/// `node` is the number of devices that reach each other without the network.
RankWork layer_work(const Layer& layer, const TransformerDescription& model,
                    const Strategy& strategy, int node, const TrainingConstants& constants,
                    std::vector<std::string>& gaps);
/// Tokens to vectors, on the first stage.
RankWork embedding_work(const TransformerDescription& model, const Strategy& strategy);
/// The last norm, logits and loss, on the last stage.
RankWork head_work(const TransformerDescription& model, const Strategy& strategy,
                   const TrainingConstants& constants);
/// What a further predicted token costs on the last stage, in 16 bits: the model's last attention
/// and its last feed-forward part, and the head once more.
RankWork further_token_work(const TransformerDescription& model, const Strategy& strategy, int node,
                            const TrainingConstants& constants, std::vector<std::string>& gaps);
/// What runs once a step, as kernels of PyTorch (a compiler fuses some): gradients of the
/// parameters that a rank holds are zeroed, of those that it updates clipped by their norm, and
/// Adam steps, with 32-bit state, then a copy to 16 bits.
Pass optimizer_pass(double held, double updated, const Strategy& strategy);

}  // namespace orrery
