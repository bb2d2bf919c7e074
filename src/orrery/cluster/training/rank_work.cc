#include "orrery/cluster/training/rank_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;

/// Bytes of an activation, of a dropout mask, of a 32-bit number.
constexpr double kHalf = 2, kMask = 1, kWide = 4;

std::string_view dtype_of(TrainingPrecision precision) {
  switch (precision) {
    case TrainingPrecision::kFP16:
      return "fp16";
    case TrainingPrecision::kFP8:
    case TrainingPrecision::kMXFP8:
      return "fp8";
    case TrainingPrecision::kNVFP4:
      return "fp4";
    case TrainingPrecision::kBF16:
      break;
  }
  return "bf16";
}

/// Puts together the passes of one layer. Sizes are those of one rank.
class LayerBuilder {
 public:
  LayerBuilder(const TransformerDescription& model, const Strategy& strategy, int node,
               const TrainingConstants& constants, std::vector<std::string>& gaps)
      : model_(model),
        s_(strategy),
        node_(node),
        c_(constants),
        gaps_(gaps),
        half_(strategy.precision == TrainingPrecision::kFP16 ? ElementType::kF16
                                                             : ElementType::kBF16),
        narrow_(strategy.precision != TrainingPrecision::kBF16 &&
                strategy.precision != TrainingPrecision::kFP16),
        tokens_(strategy.micro_batch * strategy.length / strategy.context),
        own_tokens_(strategy.sequence ? tokens_ / strategy.tensor : tokens_) {}

  RankWork finish() {
    const bool full = s_.recompute == Recompute::kFull;
    if (full) {
      work_.again = work_.forward;
      // Layers begin with what was kept: their input, split over tensor ranks where sequences are.
      work_.working_bytes += work_.kept_bytes;
      work_.kept_bytes = own(model_.hidden) * kHalf;
    }
    work_.weight_share = backward_flops_ > 0 ? weight_flops_ / backward_flops_ : 0;
    return std::move(work_);
  }

  void layer(const Layer& layer) {
    const bool parallel =
        layer.norms == NormPlacement::kParallel || layer.norms == NormPlacement::kParallelOneNorm;
    if (!std::holds_alternative<std::monostate>(layer.mixer)) {
      norm();
      if (layer.norms == NormPlacement::kBoth) norm();
      enter();
      std::visit([&](const auto& mixer) { mix(mixer); }, layer.mixer);
      leave();
      if (!parallel) residual();
    }
    if (!std::holds_alternative<std::monostate>(layer.feed_forward)) {
      if (layer.norms != NormPlacement::kParallelOneNorm) norm();
      if (layer.norms == NormPlacement::kBoth) norm();
      const double kept = work_.kept_bytes;
      const Pass before = s_.recompute == Recompute::kExperts ? work_.forward : Pass();
      std::visit([&](const auto& part) { feed(part); }, layer.feed_forward);
      if (s_.recompute == Recompute::kExperts &&
          std::holds_alternative<MixtureOfExperts>(layer.feed_forward)) {
        work_.again = difference(work_.forward, before);
        work_.working_bytes = std::max(work_.working_bytes, work_.kept_bytes - kept);
        work_.kept_bytes = kept;
      }
      residual();
    }
  }

  void embedding() {
    const int64_t rows = model_.vocabulary / s_.tensor;
    forward(kernels::lookup(half_, tokens_, model_.hidden, rows, false));
    backward(kernels::lookup(half_, tokens_, model_.hidden, rows, true));
    if (model_.learnt_positions > 0) {
      forward(elementwise(own(model_.hidden), 3));
      work_.dense_parameters += static_cast<double>(model_.learnt_positions * model_.hidden);
    }
    if (model_.dropout) {
      forward(bytes_loop(own(model_.hidden), kHalf, kHalf + kMask));
      backward(bytes_loop(own(model_.hidden), kHalf + kMask, kHalf));
      work_.kept_bytes += own(model_.hidden) * kMask;
    }
    // Every tensor rank looks up its own words; the sum makes them whole.
    if (s_.tensor > 1)
      (void)talk(work_.forward,
                 s_.sequence ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
                 tokens() * static_cast<double>(model_.hidden) * kHalf, tensor_group(),
                 TrafficCause::kTensor);
    work_.dense_parameters += static_cast<double>(rows * model_.hidden);
  }

  void head() {
    norm();
    enter();
    const int64_t words = (model_.vocabulary + s_.tensor - 1) / s_.tensor;
    linear(tokens_, words, model_.hidden, false, false);
    if (model_.tied_embeddings && s_.pipeline == 1)
      work_.dense_parameters -= static_cast<double>(words * model_.hidden);
    const double logits = tokens() * static_cast<double>(words);
    const double width = s_.wide_scores ? kWide : kHalf;  // of logits as they are written
    forward(bytes_loop(logits, width, width - kHalf), 1, c_.loss);
    backward(bytes_loop(logits, width, width), 1, c_.loss_backward);
    work_.kept_bytes += own(model_.hidden) * kHalf;
    work_.working_bytes += logits * (kHalf + kWide);
    if (s_.tensor > 1) {
      (void)talk(work_.forward, CollectiveKind::kAllReduce, tokens() * kWide, tensor_group(),
                 TrafficCause::kTensor, 3);
      leave_backward();
    }
  }

 private:
  double tokens() const { return static_cast<double>(tokens_); }
  double own(int64_t width) const {
    return static_cast<double>(own_tokens_) * static_cast<double>(width);
  }
  RankGroup tensor_group() const { return {s_.tensor, 1}; }
  RankGroup context_group() const { return {s_.context, s_.tensor}; }
  RankGroup expert_group() const { return {s_.expert, 1}; }

  static void add(Pass& pass, const Kernel& kernel, double count, double times) {
    for (Launch& like : pass.launches)
      if (like.times == times && like.kernel == kernel) {
        like.count += count;
        return;
      }
    Launch launch;
    launch.kernel = kernel;
    launch.count = count;
    launch.times = times;
    pass.launches.push_back(launch);
  }
  /// What `after` has and `before`, of which it grew, has not.
  static Pass difference(const Pass& after, const Pass& before) {
    Pass rest = after;
    for (size_t i = 0; i < before.launches.size(); ++i)
      rest.launches[i].count -= before.launches[i].count;
    std::erase_if(rest.launches, [](const Launch& launch) { return launch.count <= 0; });
    rest.traffic.erase(rest.traffic.begin(),
                       rest.traffic.begin() + static_cast<ptrdiff_t>(before.traffic.size()));
    return rest;
  }
  void forward(const Kernel& kernel, double count = 1, double times = 1) {
    add(work_.forward, kernel, count, times);
  }
  void backward(const Kernel& kernel, double count = 1, double times = 1) {
    add(work_.backward, kernel, count, times);
  }

  /// A loop over `elements` that reads and writes so many bytes for each.
  Kernel bytes_loop(double elements, double read, double written) const {
    return kernels::loop(Opcode::k_add, KernelFamily::kElementwise, half_,
                         std::max<int64_t>(1, static_cast<int64_t>(elements)), elements * read,
                         elements * written, 0);
  }
  Kernel elementwise(double elements, double tensors) const {
    return bytes_loop(elements, (tensors - 1) * kHalf, kHalf);
  }

  Traffic* talk(Pass& pass, CollectiveKind kind, double bytes, RankGroup group, TrafficCause cause,
                double count = 1) {
    if (group.size <= 1) return nullptr;
    pass.traffic.push_back({{kind, Bytes(bytes), group, half_}, count, cause, 0});
    return &pass.traffic.back();
  }

  double hidden_by_products() const { return s_.overlap_tensor ? c_.hidden_share : 0; }

  /// Before split products: all tokens' vectors on every tensor rank.
  void enter() {
    if (s_.tensor == 1) return;
    const double bytes = tokens() * static_cast<double>(model_.hidden) * kHalf;
    if (!s_.sequence) {
      // The gradient of a copy is a sum.
      (void)talk(work_.backward, CollectiveKind::kAllReduce, bytes, tensor_group(),
                 TrafficCause::kTensor);
      return;
    }
    mark(talk(work_.forward, CollectiveKind::kAllGather, bytes, tensor_group(),
              TrafficCause::kTensor));
    mark(talk(work_.backward, CollectiveKind::kReduceScatter, bytes, tensor_group(),
              TrafficCause::kTensor));
    // Gathered again for weight gradients, while those of inputs are computed.
    if (Traffic* t = talk(work_.backward, CollectiveKind::kAllGather, bytes, tensor_group(),
                          TrafficCause::kTensor))
      t->hidden_behind = 1;
  }
  /// After them: each rank's part of the sum.
  void leave() {
    if (s_.tensor == 1) return;
    const double bytes = tokens() * static_cast<double>(model_.hidden) * kHalf;
    mark(talk(work_.forward,
              s_.sequence ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, bytes,
              tensor_group(), TrafficCause::kTensor));
    leave_backward();
  }
  void leave_backward() {
    if (!s_.sequence || s_.tensor == 1) return;
    mark(talk(work_.backward, CollectiveKind::kAllGather,
              tokens() * static_cast<double>(model_.hidden) * kHalf, tensor_group(),
              TrafficCause::kTensor));
  }
  void mark(Traffic* traffic) const {
    if (traffic != nullptr) traffic->hidden_behind = hidden_by_products();
  }

  Kernel product(std::string_view dtype, int64_t m, int64_t n, int64_t k) const {
    return operator_kernel("gemm", dtype, fmt::format(R"({{"m":{},"n":{},"k":{}}})", m, n, k));
  }

  /// y[m,n] = x[m,k]·w[n,k]ᵀ and its two gradients. In 8 bits, operands are quantised first, in
  /// both orders since a weight gradient sums over the other one; of the activations when they
  /// are made, where `quantised_before` says that the kernel which makes them does it.
  void linear(int64_t m, int64_t n, int64_t k, bool bias, bool narrow = true,
              bool quantised_before = true) {
    const bool low = narrow && narrow_;
    const std::string_view dtype = low ? dtype_of(s_.precision) : dtype_of(plain());
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    forward(product(dtype, m, n, k));
    backward(product(dtype, m, k, n));
    backward(product(dtype, n, k, m));
    accumulate(static_cast<double>(n) * static_cast<double>(k));
    if (low) {
      const double x = static_cast<double>(m) * static_cast<double>(k);
      const double y = static_cast<double>(m) * static_cast<double>(n);
      if (!quantised_before) forward(quantise(x));
      backward(quantise(y));
    }
    if (bias) {
      backward(kernels::reduction(half_, n, m, n));
      work_.dense_parameters += static_cast<double>(n);
    }
    work_.dense_parameters += static_cast<double>(n) * static_cast<double>(k);
    backward_flops_ += 2 * flops;
    weight_flops_ += flops;
    work_.model_flops += 3 * flops * s_.tensor;
  }
  /// Weight gradients are added to 32-bit sums: a read of those and a wider write, most of it
  /// not hidden by the product.
  void accumulate(double parameters) {
    if (s_.wide_gradients) backward(bytes_loop(parameters * c_.accumulation, kWide, kWide - kHalf));
  }
  TrainingPrecision plain() const {
    return half_ == ElementType::kF16 ? TrainingPrecision::kFP16 : TrainingPrecision::kBF16;
  }

  /// To 8 bits in both orders; a scale for a whole tensor needs a look at all of it first.
  /// Bytes of an element that a linear layer keeps of its input.
  double kept_input() const { return narrow_ ? 1 : kHalf; }

  Kernel quantise(double elements) const {
    return bytes_loop(elements, (s_.precision == TrainingPrecision::kFP8 ? 2 : 1) * kHalf, 2);
  }

  void norm() {
    forward(elementwise(own(model_.hidden), 2));
    // Gradients of the input, then of the scale: both read the input and what comes back.
    backward(bytes_loop(own(model_.hidden), 2 * kHalf, kHalf));
    backward(bytes_loop(own(model_.hidden), 2 * kHalf, 0));
    work_.kept_bytes +=
        own(model_.hidden) * 2 * kHalf;  // its input, and its result for what follows
    work_.dense_parameters +=
        static_cast<double>(model_.hidden) * (model_.norm == Norm::kLayer ? 2 : 1);
  }

  /// x + dropout(f(x) + bias); in the backward pass two gradients meet.
  void residual() {
    const double n = own(model_.hidden);
    if (model_.dropout) {
      forward(bytes_loop(n, 2 * kHalf, kHalf + kMask));
      backward(bytes_loop(n, kHalf + kMask, kHalf));
      work_.kept_bytes += n * kMask;
    } else {
      forward(elementwise(n, 3));
    }
    backward(elementwise(n, 3));
  }

  // --- mixers ---------------------------------------------------------------------------------

  void mix(const std::monostate& /*none*/) {}

  void mix(const SoftmaxAttention& a) {
    const int64_t heads = a.heads / s_.tensor;
    const int64_t groups = std::max<int64_t>(1, a.key_value_heads / s_.tensor);
    const int64_t width = heads * a.head_size;
    const int64_t key_width = groups * a.head_size, value_width = groups * a.value_head_size;
    linear(tokens_, width + key_width + value_width, model_.hidden,
           a.query.bias || a.key.bias || a.value.bias);
    if (a.norm != QueryKeyNorm::kNone)
      for (const int64_t rows : {heads, groups}) {
        forward(elementwise(tokens() * static_cast<double>(rows * a.head_size), 2));
        backward(bytes_loop(tokens() * static_cast<double>(rows * a.head_size), 2 * kHalf, kHalf));
        work_.kept_bytes += tokens() * static_cast<double>(rows * a.head_size) * kHalf;
      }
    if (a.rotary_size > 0) {
      const double rotated = tokens() * static_cast<double>(width + key_width);
      forward(elementwise(rotated, 2));
      backward(elementwise(rotated, 2));
    }
    exchange_context(key_width + value_width);
    attend({.heads = heads,
            .groups = groups,
            .head = a.head_size,
            .value_head = a.value_head_size,
            .window = a.window,
            .sinks = a.sinks});
    if (a.indexer) gaps_.emplace_back("the indexer of sparse attention is left out in training");
    if (a.gate != OutputGate::kNone) gate(width);
    linear(tokens_, model_.hidden, heads * a.value_head_size, false, true, false);
    if (a.output.bias) work_.dense_parameters += static_cast<double>(model_.hidden);
  }

  void mix(const LatentAttention& a) {
    const int64_t heads = a.heads / s_.tensor;
    const int64_t head = a.nope_size + a.rope_size;
    // Down-projections are kept whole by every tensor rank, which runs its own tokens.
    if (a.query_rank > 0) {
      whole_linear(a.query_rank, model_.hidden);
      forward(elementwise(own(a.query_rank), 2));
      backward(bytes_loop(own(a.query_rank), 2 * kHalf, kHalf));
      linear(tokens_, heads * head, a.query_rank, false);
      work_.kept_bytes += own(a.query_rank) * 2 * kHalf;
    } else {
      linear(tokens_, heads * head, model_.hidden, false);
    }
    whole_linear(a.latent_rank + a.rope_size, model_.hidden);
    forward(elementwise(own(a.latent_rank), 2));
    backward(bytes_loop(own(a.latent_rank), 2 * kHalf, kHalf));
    linear(tokens_, heads * (a.nope_size + a.value_size), a.latent_rank, false);
    work_.kept_bytes += own(a.latent_rank) * 2 * kHalf;
    if (a.rotated) {
      const double rotated = tokens() * static_cast<double>(heads * head);
      // Keys of all heads are put together from their two parts.
      for (int i = 0; i < 2; ++i) {
        forward(elementwise(rotated, 2));
        backward(elementwise(rotated, 2));
      }
    }
    exchange_context(heads * (head + a.value_size));
    attend({.heads = heads,
            .groups = heads,
            .head = head,
            .value_head = a.value_size,
            .window = 0,
            .sinks = false});
    if (a.indexer) gaps_.emplace_back("the indexer of sparse attention is left out in training");
    if (a.gate != OutputGate::kNone) gate(heads * a.value_size);
    linear(tokens_, model_.hidden, heads * a.value_size, false, true, false);
  }

  /// Chunks of tokens: products inside a chunk, states from one to the next (Dao and Gu 2024).
  void mix(const StateSpace& m) {
    const int64_t heads = std::max<int64_t>(1, m.heads / s_.tensor);
    const int64_t groups = std::max<int64_t>(1, m.groups / s_.tensor);
    const int64_t inner = heads * m.head_size;
    const int64_t shared = 2 * groups * m.state_size;
    linear(tokens_, 2 * inner + shared + heads, model_.hidden, m.input.bias);
    const double convolved = tokens() * static_cast<double>(inner + shared);
    forward(elementwise(convolved, 2));
    backward(elementwise(convolved, 4));
    const int64_t chunk = std::min(m.chunk, tokens_);
    const int64_t chunks = tokens_ / std::max<int64_t>(1, chunk);
    const auto batched = [&](int64_t batch, int64_t rows, int64_t columns, int64_t depth) {
      const Kernel kernel = kernels::product(half_, batch * chunks, rows, columns, depth);
      forward(kernel);
      backward(kernel, 2);
      work_.model_flops += 6.0 * static_cast<double>(batch * chunks * rows) *
                           static_cast<double>(columns * depth) * s_.tensor;
    };
    batched(groups, chunk, chunk, m.state_size);
    batched(heads, chunk, m.head_size, chunk);
    batched(heads, m.head_size, m.state_size, chunk);
    batched(heads, chunk, m.head_size, m.state_size);
    const double gated = tokens() * static_cast<double>(inner);
    forward(elementwise(gated, 4));
    backward(elementwise(gated, 7));
    work_.kept_bytes += (convolved + 4 * gated) * kHalf;
    work_.dense_parameters +=
        static_cast<double>((m.convolution + 1) * (inner + shared) + 3 * heads);
    linear(tokens_, model_.hidden, inner, m.output.bias, true, false);
    note("state-space scans are timed as their products");
  }

  void mix(const LinearBlock& /*block*/) { linear(tokens_, model_.hidden, model_.hidden, false); }
  void mix(const CompressedAttention& /*mixer*/) { refuse("compressed attention (DeepSeek-V4)"); }
  void mix(const DeltaAttention& /*mixer*/) { refuse("linear attention by the delta rule"); }

  [[noreturn]] void refuse(std::string_view what) const {
    throw_usage(
        fmt::format("{} has layers of {}, whose training is not modelled", model_.name, what));
  }
  void note(const std::string& text) {
    if (std::ranges::find(gaps_, text) == gaps_.end()) gaps_.push_back(text);
  }

  struct Heads {
    int64_t heads, groups, head, value_head, window;
    bool sinks;
  };

  /// softmax(q·kᵀ)·v. Of a sequence that ranks share, each sees on average half of all keys.
  void attend(const Heads& a) {
    const double width = static_cast<double>(a.heads * a.value_head);
    const double qkv = static_cast<double>(a.heads * a.head + a.groups * (a.head + a.value_head));
    work_.kept_bytes += tokens() * (qkv + width) * kHalf;
    const int64_t queries = s_.length / s_.context;
    const double seen = a.window > 0 && a.window < s_.length ? static_cast<double>(a.window)
                                                             : static_cast<double>(s_.length) / 2;
    work_.model_flops += 3 * 2 * tokens() * seen * static_cast<double>(a.heads) *
                         static_cast<double>(a.head + a.value_head) * s_.tensor;
    if (s_.fused_attention && !(a.sinks && !s_.fused_sinks)) {
      const bool split = s_.context > 1;
      const Kernel kernel = operator_kernel(
          "sdpa", half_ == ElementType::kF16 ? "fp16" : "bf16",
          fmt::format(
              R"({{"b":{},"h":{},"kv":{},"s":{},"t":{},"d":{},"dv":{},"causal":{},"window":{}}})",
              s_.micro_batch, a.heads, a.groups, queries, split ? s_.length / 2 : s_.length, a.head,
              a.value_head, split ? "false" : "true", a.window < s_.length ? a.window : 0));
      forward(kernel);
      backward(kernel, 1, a.head > 128 ? c_.attention_backward_wide : c_.attention_backward);
      backward(bytes_loop(tokens() * width, 2 * kHalf, 0));
      work_.kept_bytes += tokens() * static_cast<double>(a.heads) * kWide;
      return;
    }
    const int64_t batch = s_.micro_batch * a.heads;
    const double scores =
        static_cast<double>(batch) * static_cast<double>(queries) * static_cast<double>(s_.length);
    Pass inner;
    add(inner, kernels::product(half_, batch, queries, s_.length, a.head), 1, 1);
    // Scale, mask and softmax in one; in 32 bits, as a compiler does it, a pass for the largest
    // and one for the rest, of what the product wrote wider.
    const bool wide = s_.wide_scores;
    add(inner, wide ? bytes_loop(scores, 2 * kWide, kWide) : bytes_loop(scores, kHalf, kHalf), 1,
        1);
    if (model_.dropout) add(inner, bytes_loop(scores, kHalf, kHalf + kMask), 1, 1);
    add(inner, kernels::product(half_, batch, queries, a.value_head, s_.length), 1, 1);
    for (const Launch& launch : inner.launches) forward(launch.kernel, launch.count, launch.times);
    forward(elementwise(tokens() * width, 2));  // heads side by side again
    backward(elementwise(tokens() * width, 2));
    backward(kernels::product(half_, batch, queries, s_.length, a.value_head));
    backward(kernels::product(half_, batch, s_.length, a.value_head, queries));
    if (model_.dropout) backward(bytes_loop(scores, kHalf + kMask, kHalf));
    backward(wide ? bytes_loop(scores, 2 * (kHalf + kWide), kWide)
                  : bytes_loop(scores, 2 * kHalf, kHalf));
    backward(kernels::product(half_, batch, queries, a.head, s_.length));
    backward(kernels::product(half_, batch, s_.length, a.head, queries));
    if (s_.recompute == Recompute::kSelective) {
      work_.again = inner;
    } else {
      work_.kept_bytes += scores * (model_.dropout ? 2 * kHalf + kMask : kHalf);
    }
    work_.working_bytes = std::max(work_.working_bytes, scores * (2 * kHalf + kMask));
  }

  /// Keys and values go round while attention computes on those at hand.
  void exchange_context(int64_t width) {
    if (s_.context == 1) return;
    const double bytes = tokens() * static_cast<double>(width) * kHalf;
    // All-gather counts the whole result; a ring moves the same.
    if (Traffic* t = talk(work_.forward, CollectiveKind::kAllGather, bytes * s_.context,
                          context_group(), TrafficCause::kContext))
      t->hidden_behind = c_.hidden_share;
    if (Traffic* t = talk(work_.backward, CollectiveKind::kAllGather, bytes * s_.context,
                          context_group(), TrafficCause::kContext))
      t->hidden_behind = c_.hidden_share;
    if (Traffic* t = talk(work_.backward, CollectiveKind::kReduceScatter, bytes * s_.context,
                          context_group(), TrafficCause::kContext))
      t->hidden_behind = c_.hidden_share;
  }

  void gate(int64_t width) {
    linear(tokens_, width, model_.hidden, false);
    forward(elementwise(tokens() * static_cast<double>(width), 3));
    backward(elementwise(tokens() * static_cast<double>(width), 5));
    work_.kept_bytes += tokens() * static_cast<double>(width) * kHalf;
  }

  /// A projection that every tensor rank keeps whole and runs on its own tokens.
  void whole_linear(int64_t n, int64_t k) {
    const double flops = work_.model_flops;
    linear(own_tokens_, n, k, false);
    const double added = work_.model_flops - flops;
    if (!s_.sequence) work_.model_flops -= added * (1 - 1.0 / s_.tensor);
  }

  // --- feed-forward ---------------------------------------------------------------------------

  void feed(const std::monostate& /*none*/) {}
  void feed(const LinearBlock& /*block*/) {
    enter();
    linear(tokens_, model_.hidden, model_.hidden, false);
    leave();
  }

  void feed(const DenseFeedForward& f) {
    enter();
    dense(f, tokens_);
    leave();
  }

  void dense(const DenseFeedForward& f, int64_t rows) {
    const int64_t inner = f.inner / s_.tensor;
    linear(rows, (f.gated ? 2 : 1) * inner, model_.hidden, f.up.bias);
    activate(static_cast<double>(rows) * static_cast<double>(inner), f.gated);
    linear(rows, model_.hidden, inner, false);
    if (f.down.bias) work_.dense_parameters += static_cast<double>(model_.hidden);
  }

  /// The product's result and the activation's are kept.
  void activate(double elements, bool gated) {
    const double in = gated ? 2 : 1;
    forward(bytes_loop(elements, in * kHalf, kHalf));
    backward(bytes_loop(elements, (in + 1) * kHalf, in * kHalf));
    work_.kept_bytes += elements * (in * kHalf + kept_input());
  }

  void feed(const MixtureOfExperts& m) {
    const int64_t width = m.latent > 0 ? m.latent : model_.hidden;
    // Each token is on one rank; without sequences split, tensor ranks share them out.
    const double mine = tokens() / s_.tensor;
    const double rows = mine * static_cast<double>(m.active);
    router(m);
    if (m.latent > 0) {
      linear(static_cast<int64_t>(mine), m.latent, model_.hidden, false);
      linear(static_cast<int64_t>(mine), model_.hidden, m.latent, false);
    }
    const double moved = rows * static_cast<double>(width);
    // To their experts: sent and sorted; and back, weighed and summed.
    for (int i = 0; i < 2; ++i) {
      forward(elementwise(moved, 2));
      backward(elementwise(moved, 2));
      for (Pass* pass : {&work_.forward, &work_.backward})
        dispatch(*pass, mine * static_cast<double>(width) * kHalf, static_cast<double>(m.active));
    }
    const int64_t local = std::max<int64_t>(1, m.experts / s_.expert);
    grouped(local, rows, (m.gated ? 2 : 1) * m.inner, width, false);
    activate(rows * static_cast<double>(m.inner), m.gated);
    grouped(local, rows, width, m.inner, true);
    work_.kept_bytes += moved * (kHalf + kept_input());
    if (m.shared) {
      enter();
      dense(*m.shared, tokens_);
      leave();
      forward(elementwise(own(model_.hidden), 3));
    }
    if (m.beside) dense(*m.beside, tokens_);
  }

  /// `bytes` of a rank's tokens, each to `active` experts. Between nodes a token goes once to each
  /// node that has one of its experts, and from there to its devices (DeepEP; HybridEP): of N
  /// nodes that is N·(1 − (1 − 1/N)^active) on average.
  void dispatch(Pass& pass, double bytes, double active) {
    const auto send = [&](double sent, RankGroup group) {
      if (Traffic* t = talk(pass, CollectiveKind::kAllToAll, sent, group, TrafficCause::kExperts))
        t->hidden_behind = s_.overlap_experts ? c_.hidden_experts : 0;
    };
    if (s_.expert <= node_) return send(bytes * active, expert_group());
    const int nodes = (s_.expert + node_ - 1) / node_;
    const double met = nodes * (1 - std::pow(1 - 1.0 / nodes, active));
    send(bytes * met, {nodes, node_});
    send(bytes * active, {node_, 1});
  }

  void router(const MixtureOfExperts& m) {
    const auto rows = static_cast<int64_t>(tokens() / s_.tensor);
    linear(rows, m.experts, model_.hidden, m.router.bias, false);
    const double scores = static_cast<double>(rows) * static_cast<double>(m.experts);
    // Softmax or sigmoid, choice, counts, indices: several small kernels in 32 bits.
    for (int i = 0; i < 6; ++i) {
      forward(bytes_loop(scores, kWide, kWide));
      if (i < 3) backward(bytes_loop(scores, kWide, kWide));
    }
    work_.kept_bytes += scores * 2 * kWide;
  }

  /// Rows of all local experts, one product each, as Transformer Engine's grouped layers run them.
  void grouped(int64_t local, double rows, int64_t n, int64_t k, bool quantised_before) {
    const auto count = static_cast<double>(local);
    const auto m = std::max<int64_t>(1, static_cast<int64_t>(rows / count));
    const std::string_view dtype = narrow_ ? dtype_of(s_.precision) : dtype_of(plain());
    forward(product(dtype, m, n, k), count);
    backward(product(dtype, m, k, n), count);
    backward(product(dtype, n, k, m), count);
    accumulate(static_cast<double>(local * n) * static_cast<double>(k));
    if (narrow_) {
      if (!quantised_before) forward(quantise(rows * static_cast<double>(k)));
      backward(quantise(rows * static_cast<double>(n)));
    }
    const double flops = 2 * rows * static_cast<double>(n) * static_cast<double>(k);
    work_.expert_parameters += static_cast<double>(local * n) * static_cast<double>(k);
    work_.model_flops += 3 * flops * s_.tensor;
    backward_flops_ += 2 * flops;
    weight_flops_ += flops;
  }

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
};

}  // namespace

std::string_view name(TrafficCause cause) {
  switch (cause) {
    case TrafficCause::kTensor:
      return "tensor";
    case TrafficCause::kContext:
      return "context";
    case TrafficCause::kExperts:
      return "experts";
    case TrafficCause::kPipeline:
      return "pipeline";
    case TrafficCause::kGradients:
      return "gradients";
    case TrafficCause::kParameters:
      return "parameters";
  }
  return "";
}

RankWork layer_work(const Layer& layer, const TransformerDescription& model,
                    const Strategy& strategy, int node, const TrainingConstants& constants,
                    std::vector<std::string>& gaps) {
  LayerBuilder builder(model, strategy, node, constants, gaps);
  builder.layer(layer);
  return builder.finish();
}

RankWork embedding_work(const TransformerDescription& model, const Strategy& strategy) {
  std::vector<std::string> none;
  const TrainingConstants unused;
  Strategy kept = strategy;
  kept.recompute = Recompute::kNone;
  LayerBuilder builder(model, kept, 1, unused, none);
  builder.embedding();
  return builder.finish();
}

RankWork head_work(const TransformerDescription& model, const Strategy& strategy,
                   const TrainingConstants& constants) {
  std::vector<std::string> none;
  Strategy kept = strategy;
  kept.recompute = Recompute::kNone;
  LayerBuilder builder(model, kept, 1, constants, none);
  builder.head();
  return builder.finish();
}

Pass optimizer_pass(double parameters, bool wide_gradients) {
  // Weights, two moments: read and written in 32 bits; the 16-bit copy written; gradients read
  // twice, for their norm and for the step.
  const double gradient = wide_gradients ? kWide : kHalf;
  Pass pass;
  const auto elements = std::max<int64_t>(1, static_cast<int64_t>(parameters));
  const auto loop = [&](double read, double written) {
    Launch launch;
    launch.kernel =
        torch_kernels::loop(Opcode::k_add, KernelFamily::kElementwise, ElementType::kF32, elements,
                            parameters * read, parameters * written, 0);
    pass.launches.push_back(launch);
  };
  loop(gradient, 0);
  loop(3 * kWide + gradient, 3 * kWide + kHalf);
  return pass;
}

}  // namespace orrery
