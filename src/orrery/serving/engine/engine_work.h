#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/model/stack.h"
#include "orrery/serving/engine/layout.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// A collective and how often.
struct EngineTraffic {
  CollectiveCall call;
  double count = 1;
};

/// What a launch is for, as profilers of serving engines tell operators apart.
enum class EngineOperator : uint8_t {
  kNorm,  ///< Of a layer, with the sum of its residual.
  kQueryKeyValue,
  kQueryKeyNorm,
  kRotation,
  kCacheWrite,
  kAttention,
  kAttentionOutput,
  kUp,
  kActivation,
  kDown,
  kRouter,
  kExperts,
  kEmbedding,
  kFinalNorm,
  kHead,
  kSampler,
  kOther,
};
inline constexpr size_t kEngineOperatorCount = static_cast<size_t>(EngineOperator::kOther) + 1;
/// "norms", "query, key and value projection" …
std::string_view name(EngineOperator what);

/// What one rank launches for a part of a step.
struct EnginePass {
  std::vector<Launch> launches;
  std::vector<EngineOperator> operators;  ///< Of each launch.
  std::vector<EngineTraffic> traffic;

  void append(const EnginePass& other);
};

/// How an engine runs a model, where engines differ.
struct EngineHabits {
  bool gathers_experts = true;  ///< Data-parallel ranks gather all tokens for the experts and
                                ///< scatter the sums; false: tokens travel to their experts only.
  /// Tokens up to which a step is replayed as a graph: block-scaled products of more are timed with
  /// their host's part (model/vllm).
  int64_t captured = 512;
  bool fuses_norms = false;  ///< In those, the kernel that sums over tensor ranks normalises too.
};

/// What requests ask of a model.
struct ModelUse {
  double routing_skew = 0;   ///< Tokens of expert i as (i+1)^-skew.
  int64_t adapter_rank = 0;  ///< Of LoRA adapters; 0: there are none.
};

/// One rank's share of a model in one pipeline stage (the mean over stages), by parts of a step
/// that depend on different things:
///
///   tokens(T)        everything that runs once for the step's T tokens: norms, projections,
///                    rotation, writing of the cache, dense feed-forward parts;
///   experts(G)       experts for the G tokens of all ranks that share them;
///   exchange(G)      what data-parallel ranks send each other for them;
///   prefill(n, q, c) attention of q new tokens of each of n sequences after c;
///   decode(n, c)     attention of one new token of each of n sequences over c tokens each;
///   embedding(T)     their vectors from the table;
///   head(n)          logits and choice of n next tokens;
///   adapters(T, a)   of T tokens that ask for a different adapters (LoRA), beside tokens(T): for
///                    every linear layer y = x·Wᵀ of attention and dense feed-forward parts a
///                    launch x·Aᵀ and one that adds its product with Bᵀ to y, each grouped by
///                    adapter (Punica, Chen et al., MLSys 2024, as in vLLM's lora_shrink and
///                    lora_expand). A is split over ranks where W's rows are, B where W's columns
///                    are (vLLM without fully_sharded_loras).
///
/// Launches are those of vLLM (model/vllm/vllm_launches.h), from sizes alone, in microseconds.
class EngineWork {
 public:
  EngineWork(const TransformerDescription& model, const ServingLayout& layout,
             const ServingPrecision& precision, const EngineHabits& habits,
             const ModelUse& use = {});
  ~EngineWork();
  EngineWork(EngineWork&&) noexcept;
  EngineWork& operator=(EngineWork&&) noexcept;

  EnginePass tokens(int64_t tokens) const;
  EnginePass experts(int64_t group_tokens) const;
  EnginePass exchange(int64_t group_tokens) const;
  EnginePass embedding(int64_t tokens) const;
  EnginePass prefill(int64_t sequences, int64_t queries, int64_t context) const;
  /// Of layers that look at a window, or of the others. `queries` of each sequence: more than one
  /// where guesses are verified.
  EnginePass decode(bool windowed, int64_t sequences, int64_t context, int64_t queries = 1) const;
  EnginePass head(int64_t rows) const;
  EnginePass adapters(int64_t tokens, int64_t adapters) const;

  /// Whether some layers look at a window, and the window of most of those; 0: none does.
  int64_t window() const;
  bool has_experts() const;
  const std::vector<std::string>& gaps() const;

  // What one rank of the fullest stage keeps:
  double weight_bytes() const;
  double cache_bytes_per_token() const;           ///< Of layers that look at all tokens, …
  double windowed_cache_bytes_per_token() const;  ///< … of those that look at a window.
  double state_bytes_per_sequence() const;        ///< Of linear attention.
  double adapter_bytes() const;                   ///< Of one adapter.
  double parameters() const;                      ///< Of the model, on all ranks.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
