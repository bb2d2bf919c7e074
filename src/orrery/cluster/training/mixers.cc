#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/cluster/training/layer_builder.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {

namespace kernels = torch_kernels;

void LayerBuilder::mix(const SoftmaxAttention& a) {
  const int64_t heads = a.heads / s_.tensor;
  const int64_t groups = std::max<int64_t>(1, a.key_value_heads / s_.tensor);
  const int64_t width = heads * a.head_size;
  const int64_t key_width = groups * a.head_size, value_width = groups * a.value_head_size;
  linears({width, key_width, value_width}, a.query.bias || a.key.bias || a.value.bias);
  if (a.norm != QueryKeyNorm::kNone)
    for (const int64_t rows : {heads, groups}) {
      forward(elementwise(tokens() * static_cast<double>(rows * a.head_size), 2));
      backward(bytes_loop(tokens() * static_cast<double>(rows * a.head_size), 2 * kHalf, kHalf));
      work_.kept_bytes += tokens() * static_cast<double>(rows * a.head_size) * kHalf;
    }
  if (a.rotary_size > 0) {
    const double rotated = tokens() * static_cast<double>(width + key_width);
    if (s_.eager) {
      eager_rotary(rotated);
    } else {
      forward(elementwise(rotated, 2));
      backward(elementwise(rotated, 2));
    }
  }
  if (s_.eager && groups < heads)
    repeat_heads(tokens() * static_cast<double>(heads * (a.head_size + a.value_head_size)),
                 static_cast<double>(heads) / static_cast<double>(groups));
  exchange_context(key_width + value_width);
  const Heads shape = {.heads = heads,
                       .groups = groups,
                       .head = a.head_size,
                       .value_head = a.value_head_size,
                       .window = a.window,
                       .sinks = a.sinks};
  keep_operands(shape);
  attend(shape);
  if (a.indexer) gaps_.emplace_back("the indexer of sparse attention is left out in training");
  if (a.gate != OutputGate::kNone) gate(width);
  linear(tokens_, model_.hidden, heads * a.value_head_size, false, true, false);
  if (a.output.bias) work_.dense_parameters += static_cast<double>(model_.hidden);
}

void LayerBuilder::mix(const LatentAttention& a) {
  const int64_t heads = a.heads / s_.tensor;
  const int64_t head = a.nope_size + a.rope_size;
  const Heads shape = {.heads = heads,
                       .groups = heads,
                       .head = head,
                       .value_head = a.value_size,
                       .window = 0,
                       .sinks = false};
  // Down-projections are kept whole by every tensor rank, which runs its own tokens.
  if (a.query_rank > 0) {
    whole_linear(a.query_rank, model_.hidden);
    forward(elementwise(own(a.query_rank), 2));
    backward(bytes_loop(own(a.query_rank), 2 * kHalf, kHalf));
    work_.kept_bytes += own(a.query_rank) * 2 * kHalf;
  }
  whole_linear(a.latent_rank + a.rope_size, model_.hidden);
  forward(elementwise(own(a.latent_rank), 2));
  backward(bytes_loop(own(a.latent_rank), 2 * kHalf, kHalf));
  work_.kept_bytes += own(a.latent_rank) * 2 * kHalf;
  part(Module::kLatentUp, [&] {
    linear(tokens_, heads * head, a.query_rank > 0 ? a.query_rank : model_.hidden, false);
    linear(tokens_, heads * (a.nope_size + a.value_size), a.latent_rank, false);
    if (a.rotated) {
      const double rotated = tokens() * static_cast<double>(heads * head);
      // Keys of all heads are put together from their two parts.
      for (int i = 0; i < 2; ++i) {
        forward(elementwise(rotated, 2));
        backward(elementwise(rotated, 2));
      }
    }
    keep_operands(shape);
  });
  exchange_context(heads * (head + a.value_size));
  attend(shape);
  if (a.indexer) gaps_.emplace_back("the indexer of sparse attention is left out in training");
  if (a.gate != OutputGate::kNone) gate(heads * a.value_size);
  linear(tokens_, model_.hidden, heads * a.value_size, false, true, false);
}

void LayerBuilder::mix(const StateSpace& m) {
  const int64_t heads = std::max<int64_t>(1, m.heads / s_.tensor);
  const int64_t groups = std::max<int64_t>(1, m.groups / s_.tensor);
  const int64_t inner = heads * m.head_size;
  const int64_t shared = 2 * groups * m.state_size;
  linear(tokens_, 2 * inner + shared + heads, model_.hidden, m.input.bias);
  const double convolved = tokens() * static_cast<double>(inner + shared);
  const double gated = tokens() * static_cast<double>(inner);
  forward(elementwise(convolved, 2), 1, c_.convolution);
  // The convolution's result is not kept.
  backward(elementwise(convolved, 2), 1, c_.convolution);
  backward(elementwise(convolved, 3), 1, c_.convolution_backward);
  scan(m, heads, groups);
  forward(elementwise(gated, 3), 1, c_.gated_norm);
  backward(bytes_loop(gated, 3 * kHalf, 2 * kHalf), 1, c_.gated_norm_backward);
  work_.kept_bytes += (convolved + 2 * gated + tokens() * static_cast<double>(heads)) * kHalf +
                      gated * kept_input();
  work_.dense_parameters += static_cast<double>((m.convolution + 1) * (inner + shared) + 3 * heads);
  linear(tokens_, model_.hidden, inner, m.output.bias, true, false);
}

void LayerBuilder::scan(const StateSpace& m, int64_t heads, int64_t groups) {
  const int64_t chunk = std::min(m.chunk, tokens_);
  const double size = static_cast<double>(m.state_size), length = static_cast<double>(chunk);
  const double gates = tokens() * static_cast<double>(heads);
  const double x = gates * static_cast<double>(m.head_size);
  const double b = tokens() * static_cast<double>(groups) * size;
  const double states = x * size / length;
  const double scores = tokens() * static_cast<double>(groups) * length;
  const auto run = [&](Pass& pass, double times, std::initializer_list<Moved> kernels) {
    for (const Moved& k : kernels)
      add(pass,
          kernels::loop(Opcode::k_add, KernelFamily::kElementwise, half_,
                        static_cast<int64_t>(k.written / kHalf), k.read, k.written, 0),
          1, times);
  };
  const Moved sums{gates * kHalf, 2 * gates * kWide};
  const Moved adds{(x + b) * kHalf + 2 * gates * kWide, states * kWide};
  const Moved products{2 * b * kHalf, scores * kWide};
  run(work_.forward, c_.scan,
      {sums,
       adds,
       {states * kWide, states * kHalf},
       products,
       {(x + b + states) * kHalf + (2 * gates + scores) * kWide, x * kHalf}});
  const Moved of_shared{(x + b + states) * kHalf + 2 * gates * kWide, (b + gates) * kWide};
  const Moved by_scores{b * kHalf + (scores + b) * kWide, b * kHalf};
  run(work_.backward, c_.scan_backward,
      {sums,
       products,
       adds,
       {states * kWide, states * kWide},
       // Gradients of states, passed on from the last chunk, with the states once more in 16 bits.
       {(x + b) * kHalf + gates * kWide, states * kWide},
       {2 * states * kWide, 2 * states * kHalf},
       // Of inputs; of B and C through the states; of their products.
       {(2 * x + b + states) * kHalf + (2 * gates + scores) * kWide, x * kHalf + gates * kWide},
       of_shared,
       of_shared,
       {2 * x * kHalf + 2 * gates * kWide, scores * kWide},
       by_scores,
       by_scores,
       // Of decays, in the chunk and by their sums.
       {2 * x * kHalf + (2 * gates + scores) * kWide, gates * kWide},
       {3 * gates * kWide + gates * kHalf, gates * kWide + gates * kHalf}});
  // As one product over x of as many operations; within a chunk, half of them come to nothing.
  const double inside = length * b / x;
  const auto multiply = [&](Pass& pass, double width) {
    add(pass, kernels::product(half_, 1, tokens_, static_cast<int64_t>(width), heads * m.head_size),
        1, c_.scan_products);
  };
  multiply(work_.forward, 2 * size + length / 2 + inside);
  multiply(work_.backward, 5 * size + 3 * (length / 2 + inside));
  work_.model_flops += 6 * x * (2 * size + length + inside) * s_.tensor;
  note("state-space scans are timed by kernels written for it, measured on an H200");
}

void LayerBuilder::keep_operands(const Heads& a) {
  const double qkv = static_cast<double>(a.heads * a.head + a.groups * (a.head + a.value_head));
  work_.kept_bytes += tokens() * qkv * kHalf;
}

void LayerBuilder::attend(const Heads& a) {
  const double width = static_cast<double>(a.heads * a.value_head);
  // Its result, which the projection that follows keeps in its own format as well.
  work_.kept_bytes += tokens() * width * (narrow_ ? kHalf + kept_input() : kHalf);
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
    // Asked for by name it runs again, though there is nothing but a sum a row that it kept.
    if (s_.recompute == Recompute::kModules && computes_again(s_, Module::kCoreAttention))
      add(work_.again, kernel, 1, 1);
    const double sums = tokens() * static_cast<double>(a.heads) * kWide;
    if (s_.recompute == Recompute::kOperators) {
      add(not_again_, kernel, 1, 1);
      results_kept_ += tokens() * width * kHalf + sums;
    }
    backward(kernel, 1, a.head > 128 ? c_.attention_backward_wide : c_.attention_backward);
    backward(bytes_loop(tokens() * width, 2 * kHalf, 0));
    work_.kept_bytes += sums;
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
  add(inner, wide ? bytes_loop(scores, 2 * kWide, kWide) : bytes_loop(scores, kHalf, kHalf), 1, 1);
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
  if (computes_again(s_, Module::kCoreAttention)) {
    for (const Launch& launch : inner.launches)
      add(work_.again, launch.kernel, launch.count, launch.times);
  } else {
    work_.kept_bytes += scores * (model_.dropout ? 2 * kHalf + kMask : kHalf);
  }
  work_.working_bytes = std::max(work_.working_bytes, scores * (2 * kHalf + kMask));
}

void LayerBuilder::exchange_context(int64_t width) {
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

void LayerBuilder::gate(int64_t width) {
  linear(tokens_, width, model_.hidden, false);
  forward(elementwise(tokens() * static_cast<double>(width), 3));
  backward(elementwise(tokens() * static_cast<double>(width), 5));
  work_.kept_bytes += tokens() * static_cast<double>(width) * kHalf;
}

void LayerBuilder::whole_linear(int64_t n, int64_t k) {
  const double flops = work_.model_flops;
  linear(own_tokens_, n, k, false);
  const double added = work_.model_flops - flops;
  if (!s_.sequence) work_.model_flops -= added * (1 - 1.0 / s_.tensor);
}

}  // namespace orrery
