#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/cluster/training/rank_work.h"

namespace orrery {

/// Bytes of an activation, of a dropout mask, of a 32-bit number.
inline constexpr double kHalf = 2, kMask = 1, kWide = 4;

/// As kernels of single operators name it.
std::string_view dtype_of(TrainingPrecision precision);

/// Puts together the passes of one layer. Sizes are those of one rank. Mixers are in mixers.cc,
/// feed-forward parts in feed_forward.cc.
class LayerBuilder {
 public:
  LayerBuilder(const TransformerDescription& model, const Strategy& strategy, int node,
               const TrainingConstants& constants, std::vector<std::string>& gaps);
  RankWork finish();
  void layer(const Layer& layer);
  void embedding();
  void head();
  /// What predicts one more token (DeepSeek-V3, arXiv:2412.19437, sec. 2.2): the vector so far and
  /// the next token's, each normed, are joined to one, which goes through `layers` and the head.
  void further_token(const std::vector<Layer>& layers);

 private:
  double tokens() const { return static_cast<double>(tokens_); }
  double own(int64_t width) const;
  RankGroup tensor_group() const { return {s_.tensor, 1}; }
  RankGroup context_group() const { return {s_.context, s_.tensor}; }
  RankGroup expert_group() const { return {s_.expert, 1}; }

  /// What `build` adds is computed again where the strategy says so of the part, and not within
  /// another that is: all but what it begins with is then held for one layer at a time.
  template <typename Build>
  void part(Module module, const Build& build);
  /// The next product is several of these widths where operators are recomputed one by one.
  void next_product_is(std::vector<int64_t> widths) { widths_ = std::move(widths); }
  /// Of a product's results every second one is kept, its kernel in that share not run again.
  void keep_every_second(const Kernel& product, int64_t m, int64_t n);

  static void add(Pass& pass, const Kernel& kernel, double count, double times);
  /// What `after` has and `before`, of which it grew, has not.
  static Pass difference(const Pass& after, const Pass& before);
  void forward(const Kernel& kernel, double count = 1, double times = 1);
  void backward(const Kernel& kernel, double count = 1, double times = 1);

  /// A loop over `elements` that reads and writes so many bytes for each.
  Kernel bytes_loop(double elements, double read, double written) const;
  Kernel elementwise(double elements, double tensors) const;

  Traffic* talk(Pass& pass, CollectiveKind kind, double bytes, RankGroup group, TrafficCause cause,
                double count = 1);

  double hidden_by_products() const { return s_.overlap_tensor ? c_.hidden_share : 0; }

  /// Before split products: all tokens' vectors on every tensor rank.
  void enter();
  /// Of the input of the product that is added next: its weight gradient needs no waiting.
  void sum_of_gradients(CollectiveKind kind, double bytes);
  /// After them: each rank's part of the sum.
  void leave();
  void leave_backward();
  void mark(Traffic* traffic) const;

  Kernel product(std::string_view dtype, int64_t m, int64_t n, int64_t k) const;

  /// y[m,n] = x[m,k]·w[n,k]ᵀ and its two gradients. In 8 bits, operands are quantised first, in
  /// both orders since a weight gradient sums over the other one; of the activations when they
  /// are made, where `quantised_before` says that the kernel which makes them does it.
  void linear(int64_t m, int64_t n, int64_t k, bool bias, bool narrow = true,
              bool quantised_before = true);
  /// Weight gradients are added to 32-bit sums: by the product, as a read of those and a wider
  /// write, most of it not hidden, or by a kernel of its own.
  void accumulate(double parameters);
  TrainingPrecision plain() const;

  /// Bytes of an element that a linear layer keeps of its input.
  double kept_input() const { return narrow_ ? 1 : kHalf; }
  /// To 8 or 4 bits in both orders; a scale for a whole tensor needs a look at all of it first.
  Kernel quantise(double elements) const;
  /// Transformer Engine casts where it computes activations only with one scale a tensor.
  bool casts_activations() const { return s_.precision == TrainingPrecision::kFP8; }

  /// `kept`: bytes of an element that what follows keeps of the result.
  void norm(double kept = kHalf);
  /// x + dropout(f(x) + bias); in the backward pass two gradients meet.
  void residual();

  // As PyTorch runs them one by one (eager_operators.cc).
  struct Moved {
    double read, written;
  };
  /// A loop for each, over as many elements.
  void loops(Pass& pass, double elements, std::initializer_list<Moved> each) const;
  void eager_norm_forward(double elements);
  void eager_norm_backward(double elements);
  void eager_rotary(double elements);
  /// Keys or values that become `elements`.
  void repeat_heads(double elements, double repeats);
  void eager_gate_forward(double elements);
  void eager_gate_backward(double elements);
  void eager_loss(double logits);
  /// Products of one input, in one or one by one.
  void linears(std::initializer_list<int64_t> widths, bool bias);

  void mix(const std::monostate& /*none*/) {}
  void mix(const SoftmaxAttention& a);
  void mix(const LatentAttention& a);
  /// A convolution, the scan and the norm of its gated result. As mamba_ssm's one function of all
  /// three does, the backward pass keeps their inputs alone.
  void mix(const StateSpace& m);
  /// Chunks of tokens: states that each adds, passed from one to the next, and products inside
  /// (Dao and Gu 2024, arXiv:2405.21060, sec. 6). Five kernels forward; backward four of them
  /// again, states in 32 bits, and ten more. Each moves its operands once; products run beside
  /// that at a part of the rate of large ones.
  void scan(const StateSpace& m, int64_t heads, int64_t groups);
  void mix(const LinearBlock& /*block*/) { linear(tokens_, model_.hidden, model_.hidden, false); }
  void mix(const CompressedAttention& /*mixer*/) { refuse("compressed attention (DeepSeek-V4)"); }
  void mix(const DeltaAttention& /*mixer*/) { refuse("linear attention by the delta rule"); }

  struct Heads {
    int64_t heads, groups, head, value_head, window;
    bool sinks;
  };
  /// softmax(q·kᵀ)·v. Of a sequence that ranks share, each sees on average half of all keys.
  void attend(const Heads& a);
  /// Queries, keys and values, which attention keeps.
  void keep_operands(const Heads& a);
  /// Keys and values go round while attention computes on those at hand.
  void exchange_context(int64_t width);
  void gate(int64_t width);
  /// A projection that every tensor rank keeps whole and runs on its own tokens.
  void whole_linear(int64_t n, int64_t k);

  void feed(const std::monostate& /*none*/) {}
  void feed(const LinearBlock& /*block*/);
  void feed(const DenseFeedForward& f);
  void feed(const MixtureOfExperts& m);
  void dense(const DenseFeedForward& f, int64_t rows);
  /// The product's result and the activation's are kept; experts' can be computed again.
  void activate(double elements, bool gated, bool of_experts);
  /// `bytes` of a rank's tokens, each to `active` experts. Between nodes a token goes once to each
  /// node that has one of its experts, and from there to its devices (DeepEP; HybridEP): of N
  /// nodes that is N·(1 − (1 − 1/N)^active) on average. Without `once_a_node`, `active` copies go
  /// over all ranks at once.
  void dispatch(Pass& pass, double bytes, double active);
  void router(const MixtureOfExperts& m, int64_t rows);
  /// Rows of all local experts, one product each, as Transformer Engine's grouped layers run them;
  /// these quantise their inputs themselves.
  void grouped(int64_t local, double rows, int64_t n, int64_t k);

  [[noreturn]] void refuse(std::string_view what) const;
  void note(const std::string& text);

  const TransformerDescription& model_;
  const Strategy& s_;
  int node_;
  const TrainingConstants& c_;
  std::vector<std::string>& gaps_;
  ElementType half_;
  bool narrow_;
  int64_t tokens_, own_tokens_;
  RankWork work_;
  double backward_flops_ = 0, weight_flops_ = 0;
  std::optional<size_t> sum_behind_;  ///< Traffic that goes behind the next weight gradient.
  bool inside_part_ = false;          ///< Of what is computed again.
  double gradient_bytes_ = 0;         ///< The most that gradients of a feed-forward part hold.
  // Where operators are computed again:
  std::vector<int64_t> widths_;
  size_t products_ = 0;
  double results_kept_ = 0;
  Pass not_again_;
};

template <typename Build>
void LayerBuilder::part(Module module, const Build& build) {
  if (inside_part_ || !computes_again(s_, module)) return build();
  const double kept = work_.kept_bytes;
  const Pass before = work_.forward;
  inside_part_ = true;
  build();
  inside_part_ = false;
  const Pass again = difference(work_.forward, before);
  for (const Launch& launch : again.launches)
    add(work_.again, launch.kernel, launch.count, launch.times);
  work_.again.traffic.insert(work_.again.traffic.end(), again.traffic.begin(), again.traffic.end());
  work_.working_bytes = std::max(work_.working_bytes, work_.kept_bytes - kept);
  work_.kept_bytes = kept;
}

}  // namespace orrery
