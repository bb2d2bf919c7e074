#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/cluster/training/layer_builder.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {

void LayerBuilder::feed(const LinearBlock& /*block*/) {
  enter();
  linear(tokens_, model_.hidden, model_.hidden, false);
  leave();
}

void LayerBuilder::feed(const DenseFeedForward& f) {
  enter();
  dense(f, tokens_);
  leave();
}

void LayerBuilder::dense(const DenseFeedForward& f, int64_t rows) {
  const int64_t inner = f.inner / s_.tensor;
  if (f.gated) next_product_is({inner, inner});
  linear(rows, (f.gated ? 2 : 1) * inner, model_.hidden, f.up.bias);
  activate(static_cast<double>(rows) * static_cast<double>(inner), f.gated, false);
  linear(rows, model_.hidden, inner, false, true, casts_activations());
  if (f.down.bias) work_.dense_parameters += static_cast<double>(model_.hidden);
}

void LayerBuilder::activate(double elements, bool gated, bool of_experts) {
  const double in = gated ? 2 : 1;
  backward(bytes_loop(elements, (in + 1) * kHalf, in * kHalf));
  work_.kept_bytes += elements * in * kHalf;
  // All activations are still held when the backward pass gets here, with the gradients of the
  // layer's result and of the first product's.
  gradient_bytes_ = std::max(gradient_bytes_, elements * in * kHalf + own(model_.hidden) * kHalf);
  const auto run = [&] {
    forward(bytes_loop(elements, in * kHalf, kHalf));
    work_.kept_bytes += elements * kept_input();
  };
  if (of_experts)
    part(Module::kExpertActivation, run);
  else
    run();
}

void LayerBuilder::feed(const MixtureOfExperts& m) {
  const int64_t width = m.latent > 0 ? m.latent : model_.hidden;
  // Each token is on one rank; without sequences split, tensor ranks share them out.
  const double mine = std::max(1.0, tokens() / s_.tensor);
  const double rows = mine * static_cast<double>(m.active);
  router(m, static_cast<int64_t>(mine));
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
  grouped(local, rows, (m.gated ? 2 : 1) * m.inner, width);
  activate(rows * static_cast<double>(m.inner), m.gated, true);
  grouped(local, rows, width, m.inner);
  // What goes into experts. What comes out is not: tokens are weighed by their router's scores
  // before the second product (Megatron-Core since 0.12; arXiv:2603.07685, sec. 4).
  work_.kept_bytes += moved * kept_input();
  if (m.shared) {
    part(Module::kSharedExperts, [&] {
      enter();
      dense(*m.shared, tokens_);
      leave();
    });
    forward(elementwise(own(model_.hidden), 3));
  }
  if (m.beside) dense(*m.beside, tokens_);
}

void LayerBuilder::dispatch(Pass& pass, double bytes, double active) {
  const auto send = [&](double sent, RankGroup group) {
    if (Traffic* t = talk(pass, CollectiveKind::kAllToAll, sent, group, TrafficCause::kExperts))
      t->hidden_behind = s_.overlap_experts ? c_.hidden_experts : 0;
  };
  if (s_.expert <= node_ || !s_.once_a_node) return send(bytes * active, expert_group());
  const int nodes = (s_.expert + node_ - 1) / node_;
  const double met = nodes * (1 - std::pow(1 - 1.0 / nodes, active));
  send(bytes * met, {nodes, node_});
  send(bytes * active, {node_, 1});
}

void LayerBuilder::router(const MixtureOfExperts& m, int64_t rows) {
  // Numbers of 16 bits whatever its format: Megatron-Core's adds them up in 32.
  linear(rows, m.experts, model_.hidden, m.router.bias, false);
  const double scores = static_cast<double>(rows) * static_cast<double>(m.experts);
  // Softmax or sigmoid, choice, maps and counts of the chosen, and the same for a loss of balance:
  // in 32 bits, by a few kernels or operator by operator (tools/calibrate/router.py counts as
  // here).
  const Kernel loop = bytes_loop(scores, kWide, kWide);
  if (s_.fused_router) {
    forward(loop, 6);
    backward(loop, 3);
  } else {
    forward(loop, 17, c_.router);
    forward(
        operator_kernel("topk", "fp32",
                        fmt::format(R"({{"shape":[{},{}],"k":{}}})", rows, m.experts, m.active)),
        2, c_.router);
    backward(loop, 9, c_.router_backward);
  }
  work_.kept_bytes += scores * 2 * kWide;
}

void LayerBuilder::grouped(int64_t local, double rows, int64_t n, int64_t k) {
  const auto count = static_cast<double>(local);
  const auto m = std::max<int64_t>(1, static_cast<int64_t>(rows / count));
  const std::string_view dtype = narrow_ ? dtype_of(s_.precision) : dtype_of(plain());
  forward(product(dtype, m, n, k), count);
  backward(product(dtype, m, k, n), count);
  backward(product(dtype, n, k, m), count);
  accumulate(static_cast<double>(local * n) * static_cast<double>(k));
  if (narrow_) {
    work_.narrow_parameters += static_cast<double>(local * n) * static_cast<double>(k);
    // Expert by expert, as their products.
    forward(quantise(rows / count * static_cast<double>(k)), count, c_.cast);
    backward(quantise(rows / count * static_cast<double>(n)), count, c_.cast);
  }
  const double flops = 2 * rows * static_cast<double>(n) * static_cast<double>(k);
  work_.expert_parameters += static_cast<double>(local * n) * static_cast<double>(k);
  work_.model_flops += 3 * flops * s_.tensor;
  backward_flops_ += 2 * flops;
  weight_flops_ += flops;
}

}  // namespace orrery
