// Feed-forward parts: dense, experts, and which mixer is which.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/language_model_parts.h"

namespace orrery::language_model {
namespace {

Tensor dense(const Pass& pass, const DenseFeedForward& f, const Tensor& x, std::string_view name) {
  Network& net = pass.net;
  const auto scope = net.scope(name);
  Tensor inner;
  if (f.gated)
    inner = net.multiply(
        activate(net, f.activation, net.linear(x, "gate_proj", f.inner, pass.linear(f.gate))),
        net.linear(x, "up_proj", f.inner, pass.linear(f.up)));
  else
    inner = activate(net, f.activation, net.linear(x, "up_proj", f.inner, pass.linear(f.up)));
  return net.linear(inner, "down_proj", x.dim(-1), pass.linear(f.down));
}

/// Distinct experts that `tokens` tokens meet when each draws `active` of
/// `experts` evenly: E·(1 − (1 − k/E)^n).
int64_t expected_experts(int64_t experts, int64_t active, int64_t tokens) {
  if (active >= experts) return experts;
  const double e = static_cast<double>(experts);
  const double missed =
      std::exp(static_cast<double>(tokens) * std::log1p(-static_cast<double>(active) / e));
  return std::clamp<int64_t>(std::llround(e * (1 - missed)), std::min(active, experts), experts);
}

/// `x` feeds the experts and the shared one, `routed` the router.
Tensor experts(const Pass& pass, const MixtureOfExperts& m, const Tensor& x, const Tensor& routed) {
  Network& net = pass.net;
  const auto scope = net.scope("mlp");
  const int64_t hidden = x.dim(-1);
  const int64_t tokens = x.elements() / hidden;
  const Tensor flat = net.reshape(x, {tokens, hidden});

  Tensor seen = net.reshape(routed, {tokens, hidden});
  if (m.scaled_router)
    seen = net.multiply(net.rms_norm(seen, "router.norm", pass.model.epsilon, false),
                        net.parameter("router.scale", {hidden}));
  LinearOptions router;  // never quantised, but in 32 bits perhaps
  router.bias = m.router.bias;
  router.format = m.router.format;
  if (m.router.format.storage == ElementType::kF32) seen = net.convert(seen, ElementType::kF32);
  const Tensor scores = net.linear(seen, "gate", m.experts, router);
  RoutingOptions options;
  options.k = m.active;
  options.scores = m.score_correction || m.looked_up ? RoutingOptions::Scores::kSigmoid
                                                     : RoutingOptions::Scores::kSoftmax;
  options.renormalise = true;
  if (m.score_correction)
    options.correction_bias =
        net.buffer("gate.e_score_correction_bias", {m.experts}, ElementType::kF32);
  Routing routing = net.route(scores, options);
  if (m.scaled_router) {
    const Tensor factors =
        net.embedding(net.parameter("router.per_expert_scale", {m.experts, 1}), routing.experts);
    routing.weights = net.multiply(routing.weights, net.reshape(factors, routing.weights.dims()));
  }
  if (m.looked_up)
    net.add_note(
        "experts that are looked up by token are counted as chosen by score, without their table");

  Tensor rows = flat;
  if (m.latent > 0)
    rows = net.linear(flat, "latent_down_proj", m.latent, pass.linear(m.latent_down));
  const int64_t size = rows.dim(-1);
  rows = net.dispatch(rows, routing);
  const int64_t active = expected_experts(m.experts, m.active, tokens);
  LinearOptions up, down;
  up.bias = down.bias = m.expert_bias;
  up.format = pass.format(m.up_format);
  down.format = pass.format(m.down_format);
  Tensor inner;
  if (m.gated) {
    const Tensors halves = net.split(net.grouped_linear(rows, "experts.gate_up_proj", m.experts,
                                                        2 * m.inner, routing, up, active),
                                     -1, {m.inner, m.inner});
    inner = net.multiply(activate(net, m.activation, halves[0]), halves[1]);
  } else {
    inner = activate(
        net, m.activation,
        net.grouped_linear(rows, "experts.up_proj", m.experts, m.inner, routing, up, active));
  }
  Tensor out = net.combine(
      net.grouped_linear(inner, "experts.down_proj", m.experts, size, routing, down, active),
      routing);
  if (m.latent > 0) {
    if (m.latent_norm) out = net.rms_norm(out, "latent_norm", pass.model.epsilon);
    out = net.linear(out, "latent_up_proj", hidden, pass.linear(m.latent_up));
  }
  if (m.shared) {
    Tensor shared = dense(pass, *m.shared, flat, "shared_experts");
    if (m.shared_gate)
      shared = net.multiply(shared, net.sigmoid(net.linear(flat, "shared_expert_gate", 1)));
    out = net.add(out, shared);
  }
  return net.reshape(out, x.dims());
}

}  // namespace

Tensor activate(Network& net, Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return net.gelu(x);
    case Activation::kGeluWrittenOut: {
      const auto as_one = net.module("gelu_new");
      return net.gelu(x);
    }
    case Activation::kRelu:
      return net.relu(x);
    case Activation::kSquaredRelu:
      return net.square(net.relu(x));
    case Activation::kSilu:
      return net.silu(x);
    case Activation::kTanh:
      return net.tanh(x);
  }
  throw_internal("an activation that is none");
}

Tensor feed_forward(const Pass& pass, const FeedForward& part, const Tensor& x,
                    const Tensor& residual) {
  Network& net = pass.net;
  if (const auto* f = std::get_if<DenseFeedForward>(&part)) return dense(pass, *f, x, "mlp");
  if (const auto* l = std::get_if<LinearBlock>(&part))
    return net.linear(x, "linear_mlp", pass.model.hidden, pass.linear(l->projection));
  const auto& m = std::get<MixtureOfExperts>(part);
  if (!m.beside) return experts(pass, m, x, x);
  // Gemma 4: a dense part and experts side by side, each with norms of its own.
  const Tensor first = norm(pass, dense(pass, *m.beside, x, "mlp"), "post_feedforward_layernorm_1");
  const Tensor input = norm(pass, residual, "pre_feedforward_layernorm_2");
  const Tensor second =
      norm(pass, experts(pass, m, input, residual), "post_feedforward_layernorm_2");
  return net.add(first, second);
}

int64_t rotary_size(const Mixer& mixer) {
  if (const auto* a = std::get_if<SoftmaxAttention>(&mixer)) return a->rotary_size;
  if (const auto* a = std::get_if<LatentAttention>(&mixer))
    return a->rotated ? a->rope_size / 2 * 2 : 0;
  if (const auto* a = std::get_if<CompressedAttention>(&mixer)) return a->rotary_size / 2 * 2;
  return 0;
}

Mixed mix(const Pass& pass, const Mixer& mixer, const Tensor& x, const Surroundings& around) {
  if (const auto* a = std::get_if<SoftmaxAttention>(&mixer))
    return softmax_attention(pass, *a, x, around);
  if (const auto* a = std::get_if<LatentAttention>(&mixer))
    return latent_attention(pass, *a, x, around);
  if (const auto* a = std::get_if<CompressedAttention>(&mixer))
    return compressed_attention(pass, *a, x, around);
  if (const auto* a = std::get_if<DeltaAttention>(&mixer)) return delta_attention(pass, *a, x);
  if (const auto* s = std::get_if<StateSpace>(&mixer)) return state_space(pass, *s, x);
  if (const auto* l = std::get_if<LinearBlock>(&mixer))
    return {pass.net.linear(x, "linear_attn", pass.model.hidden, pass.linear(l->projection)), {}};
  throw_internal("a layer without a mixer was asked to mix");
}

}  // namespace orrery::language_model
