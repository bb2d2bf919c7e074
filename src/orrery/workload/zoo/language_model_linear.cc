// Linear attention and state spaces: a causal depthwise convolution, a recurrence
// with a matrix-valued state a head, a gated norm.

#include <fmt/format.h>

#include "orrery/workload/zoo/language_model_parts.h"

namespace orrery::language_model {
namespace {

/// Chunk of the parallel form in flash-linear-attention's gated delta kernels.
constexpr int64_t kDeltaChunk = 64;

/// Each channel of x [b, s, c] with its `taps` latest values.
Tensor causal_convolution(const Pass& pass, const Tensor& x, int64_t taps, bool bias,
                          std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  const int64_t b = x.dim(0), s = x.dim(1), channels = x.dim(2);
  ConvolutionOptions options;
  options.groups = channels;
  options.bias = bias;
  options.order = ChannelOrder::kLast;
  options.padding_low = {taps - 1};
  options.padding_high = {0};
  Tensor input = x;
  if (pass.decoding() && taps > 1) {
    const Tensor before = net.cache("conv_state", {b, taps - 1, channels});
    input = net.concatenate({before, x}, 1);
    net.set_cache(before, net.slice(input, 1, 1, taps));
    options.padding_low = {0};
  } else if (pass.gives_caches() && taps > 1) {
    caches.push_back({"conv_state", s >= taps - 1 ? net.slice(x, 1, s - (taps - 1), s)
                                                  : net.pad(x, {0, taps - 1 - s, 0}, {0, 0, 0})});
  }
  return net.silu(net.convolution(input, "conv1d", channels, {taps}, options));
}

/// The recurrence, with its state carried where the phase asks for it.
Tensor recur(const Pass& pass, const Tensor& queries, const Tensor& keys, const Tensor& values,
             const Tensors& gates, int64_t chunk, std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  const Dims dims = {values.dim(0), values.dim(2), queries.dim(3), values.dim(3)};
  if (pass.decoding()) {
    const Tensor state = net.cache("recurrent_state", dims, ElementType::kF32);
    const LinearAttention result = net.linear_attention(queries, keys, values, gates, 0, state);
    net.set_cache(state, result.state);
    return result.output;
  }
  if (!pass.gives_caches()) return net.linear_attention(queries, keys, values, gates, chunk).output;
  const Tensor empty = net.broadcast(net.constant(0, ElementType::kF32), dims);
  const LinearAttention result = net.linear_attention(queries, keys, values, gates, chunk, empty);
  caches.push_back({"recurrent_state", result.state});
  return result.output;
}

}  // namespace

Mixed delta_attention(const Pass& pass, const DeltaAttention& a, const Tensor& x) {
  Network& net = pass.net;
  const auto scope = net.scope("linear_attn");
  const int64_t b = x.dim(0), s = x.dim(1);
  const int64_t key_width = width({a.key_heads, a.key_size});
  const int64_t value_width = width({a.value_heads, a.value_size});
  Mixed result;
  const Tensor mixed = causal_convolution(
      pass,
      net.linear(x, "in_proj_qkv", 2 * key_width + value_width, pass.linear(a.query_key_value)),
      a.convolution, false, result.caches);
  const Tensors parts = net.split(mixed, -1, {key_width, key_width, value_width});
  // Queries and keys are brought to length one.
  const Tensor q = net.rms_norm(net.reshape(parts[0], {b, s, a.key_heads, a.key_size}), "q_norm",
                                pass.model.epsilon, false);
  const Tensor k = net.rms_norm(net.reshape(parts[1], {b, s, a.key_heads, a.key_size}), "k_norm",
                                pass.model.epsilon, false);
  const Tensor v = net.reshape(parts[2], {b, s, a.value_heads, a.value_size});

  const Tensor beta = net.sigmoid(net.linear(x, "in_proj_b", a.value_heads, pass.linear(a.decay)));
  Tensor decay;
  Dims rates = {a.value_heads};
  if (a.channel_decay) {
    const Tensor low = net.linear(x, "f_a_proj", a.decay_rank, pass.linear(a.decay));
    decay = net.linear(low, "f_b_proj", key_width, pass.linear(a.decay));
    rates = {a.key_size};
  } else {
    decay = net.linear(x, "in_proj_a", a.value_heads, pass.linear(a.decay));
  }
  // −exp(A)·softplus(a + bias), in single precision.
  decay = net.softplus(net.add(net.convert(decay, ElementType::kF32),
                               net.parameter("dt_bias", {decay.dim(-1)}, ElementType::kF32)));
  const Tensor rate = net.exponential(net.parameter("A_log", rates, ElementType::kF32));
  if (a.channel_decay) decay = net.reshape(decay, {b, s, a.key_heads, a.key_size});
  decay = net.negate(net.multiply(decay, rate));

  Tensor out = recur(pass, q, k, v, {decay, beta}, kDeltaChunk, result.caches);
  Tensor gate;
  if (a.gate_rank > 0)
    gate = net.linear(net.linear(x, "g_a_proj", a.gate_rank, pass.linear(a.gate)), "g_b_proj",
                      value_width, pass.linear(a.gate));
  else
    gate = net.linear(x, "in_proj_z", value_width, pass.linear(a.gate));
  out = net.multiply(net.rms_norm(out, "norm", pass.model.epsilon),
                     net.silu(net.reshape(gate, {b, s, a.value_heads, a.value_size})));
  result.output = net.linear(net.reshape(out, {b, s, value_width}), "out_proj", pass.model.hidden,
                             pass.linear(a.output));
  return result;
}

Mixed state_space(const Pass& pass, const StateSpace& m, const Tensor& x) {
  Network& net = pass.net;
  const auto scope = net.scope("mixer");
  const int64_t b = x.dim(0), s = x.dim(1);
  const int64_t inner = width({m.heads, m.head_size});
  const int64_t shared = width({m.groups, m.state_size});
  const int64_t mixed_width = inner + 2 * shared;
  Mixed result;
  const Tensors parts =
      net.split(net.linear(x, "in_proj", inner + mixed_width + m.heads, pass.linear(m.input)), -1,
                {inner, mixed_width, m.heads});
  const Tensors mixed = net.split(
      causal_convolution(pass, parts[1], m.convolution, m.convolution_bias, result.caches), -1,
      {inner, shared, shared});
  const Tensor values = net.reshape(mixed[0], {b, s, m.heads, m.head_size});
  const Tensor keys = net.reshape(mixed[1], {b, s, m.groups, m.state_size});
  const Tensor queries = net.reshape(mixed[2], {b, s, m.groups, m.state_size});
  const Tensor step = net.softplus(net.add(net.convert(parts[2], ElementType::kF32),
                                           net.parameter("dt_bias", {m.heads}, ElementType::kF32)));
  const Tensor rate = net.exponential(net.parameter("A_log", {m.heads}, ElementType::kF32));
  const Tensor decay = net.negate(net.multiply(step, rate));
  Tensor out = recur(pass, queries, keys, values, {decay, step}, m.chunk, result.caches);
  // The skip through D, then RMS of the gated output.
  const Tensor skip = net.convert(net.parameter("D", {m.heads}, ElementType::kF32), x.element());
  out = net.add(out, net.multiply(values, net.reshape(skip, {m.heads, 1})));
  out = net.multiply(net.reshape(out, {b, s, inner}), net.silu(parts[0]));
  out = net.rms_norm(out, "norm", pass.model.epsilon);
  result.output = net.linear(out, "out_proj", pass.model.hidden, pass.linear(m.output));
  return result;
}

}  // namespace orrery::language_model
