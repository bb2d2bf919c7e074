// Softmax attention in its forms: grouped-query, latent, compressed; with their caches.

#include <fmt/format.h>

#include <algorithm>

#include "orrery/workload/zoo/language_model_parts.h"

namespace orrery::language_model {
namespace {

/// Keys (or values) [b, s, h, d] as attention sees them. In decoding they join
/// `length` cached ones in place; in prefill the last `length` are left behind.
Tensor remember(const Pass& pass, const Tensor& fresh, std::string_view name, int64_t length,
                const Surroundings& around, std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  if (pass.decoding()) {
    Dims dims = fresh.dims();
    dims[1] = length;
    return net.update_cache(net.cache(name, dims, pass.cache_type()), fresh, around.position);
  }
  if (pass.gives_caches()) {
    Tensor kept = fresh;
    if (length < fresh.dim(1)) kept = net.slice(fresh, 1, fresh.dim(1) - length, fresh.dim(1));
    if (kept.element() != pass.cache_type()) kept = net.convert(kept, pass.cache_type());
    caches.push_back({std::string(name), kept});
  }
  return fresh;
}

/// Tokens that attention with this window has to keep.
int64_t kept_tokens(const Pass& pass, int64_t window) {
  const int64_t all = pass.decoding() ? pass.context : pass.tokens;
  return window > 0 ? std::min(window, all) : all;
}

/// Narrower heads (of an indexer) than the tables are for stay as they are.
Tensor rotated(const Pass& pass, const Tensor& x, const Surroundings& around) {
  if (!around.cosine.valid() || 2 * around.cosine.dim(-1) > x.dim(-1)) return x;
  return pass.net.rotary(x, around.cosine, around.sine);
}

Tensor output_gate(const Pass& pass, OutputGate gate, const Projection& projection, const Tensor& x,
                   const Tensor& mixed) {
  Network& net = pass.net;
  const int64_t heads = mixed.dim(2);
  if (gate == OutputGate::kHead) {
    const Tensor g = net.sigmoid(net.linear(x, "g_proj", heads, pass.linear(projection)));
    return net.multiply(mixed, net.reshape(g, {x.dim(0), x.dim(1), heads, 1}));
  }
  if (gate == OutputGate::kElement) {
    const Tensor g =
        net.sigmoid(net.linear(x, "g_proj", width({heads, mixed.dim(3)}), pass.linear(projection)));
    return net.multiply(mixed, net.reshape(g, mixed.dims()));
  }
  return mixed;
}

Tensor joined_heads(Network& net, const Tensor& x) {
  return net.reshape(x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)});
}

/// MiniMax M3: index queries and one index key a token from the hidden state; the
/// best blocks by the best score in each.
void choose_blocks(const Pass& pass, const Indexer& indexer, const Tensor& x,
                   const Surroundings& around, std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  const int64_t b = x.dim(0), s = x.dim(1);
  Tensor q = net.reshape(net.linear(x, "index_q_proj", width({indexer.heads, indexer.head_size}),
                                    pass.linear(indexer.query)),
                         {b, s, indexer.heads, indexer.head_size});
  Tensor k = net.reshape(net.linear(x, "index_k_proj", indexer.head_size, pass.linear(indexer.key)),
                         {b, s, 1, indexer.head_size});
  q = rotated(pass, net.rms_norm(q, "index_q_norm", pass.model.epsilon), around);
  k = rotated(pass, net.rms_norm(k, "index_k_norm", pass.model.epsilon), around);
  const Tensor keys = remember(pass, k, "index_cache", kept_tokens(pass, 0), around, caches);
  choose(pass, q, net.reshape(keys, {b, keys.dim(1), indexer.head_size}), {}, indexer.selected,
         indexer.block);
}

/// DeepSeek's indexer: queries from the compressed query, one key a token.
void choose_tokens(const Pass& pass, const Indexer& indexer, const Tensor& x,
                   const Tensor& compressed_query, const Surroundings& around,
                   std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  const int64_t b = x.dim(0), s = x.dim(1);
  const auto scope = net.scope("indexer");
  Tensor q =
      net.reshape(net.linear(compressed_query, "wq_b", width({indexer.heads, indexer.head_size}),
                             pass.linear(indexer.query)),
                  {b, s, indexer.heads, indexer.head_size});
  Tensor k =
      net.layer_norm(net.linear(x, "wk", indexer.head_size, pass.linear(indexer.key)), "k_norm");
  k = net.reshape(k, {b, s, 1, indexer.head_size});
  q = rotated(pass, q, around);
  k = rotated(pass, k, around);
  const Tensor weights = net.linear(x, "weights_proj", indexer.heads, pass.linear(indexer.weights));
  const Tensor keys = remember(pass, k, "index_cache", kept_tokens(pass, 0), around, caches);
  choose(pass, q, net.reshape(keys, {b, keys.dim(1), indexer.head_size}), weights, indexer.selected,
         1);
}

}  // namespace

void choose(const Pass& pass, const Tensor& queries, const Tensor& keys, const Tensor& weights,
            int64_t selected, int64_t block) {
  Network& net = pass.net;
  const int64_t b = queries.dim(0), s = queries.dim(1), t = keys.dim(1);
  if (t == 0) return;
  // One kernel in every engine: scores of all heads are weighed and summed on the
  // fly, so that only [b, s, t] is written.
  Network::RawOp scores{
      .code = Opcode::k_einsum,
      .operands = {queries, keys},
      .results = {{ElementType::kF32, {b, s, t}}},
      .strings = {{Attr::kConfig, weights.valid() ? "bshd,btd,bsh->bst" : "bshd,btd->bst"}}};
  if (weights.valid()) scores.operands.push_back(weights);
  Tensor ranked = net.emit(scores)[0];
  int64_t choices = t;
  if (block > 1 && t >= block) {
    choices = t / block;
    ranked = net.slice(ranked, 2, 0, choices * block);
    ranked = net.emit({.code = Opcode::k_reduce,
                       .operands = {net.reshape(ranked, {b, s, choices, block}),
                                    net.constant(0, ElementType::kF32)},
                       .results = {{ElementType::kF32, {b, s, choices}}},
                       .lists = {{Attr::kDimensions, {3}}},
                       .region = Network::RawOp::Region::kMaximum})[0];
  }
  const int64_t kept = std::min(selected, choices);
  if (kept == choices) return;  // everything is chosen
  net.emit({.code = Opcode::k_top_k,
            .operands = {ranked},
            .results = {{ElementType::kF32, {b, s, kept}}, {ElementType::kS32, {b, s, kept}}},
            .integers = {{Attr::kK, kept}}});
}

Tensor grouped_projection(const Pass& pass, const Tensor& x, std::string_view name, int64_t out,
                          const WeightFormat& described) {
  Network& net = pass.net;
  const WeightFormat format = pass.format(described);
  const int64_t groups = x.dim(2), in = x.dim(3);
  const Tensor weight =
      net.parameter(fmt::format("{}.weight", name), {groups, in, out}, format.storage);
  Tensor product;
  if (format.storage == ElementType::kNone) {
    product = net.dot_general(x, weight, {2}, {0}, {3}, {1});
  } else {
    Network::RawOp dot{.code = Opcode::k_dot_general,
                       .operands = {x, weight},
                       .results = {{x.element(), {groups, x.dim(0), x.dim(1), out}}},
                       .lists = {{Attr::kLhsBatching, {2}},
                                 {Attr::kRhsBatching, {0}},
                                 {Attr::kLhsContracting, {3}},
                                 {Attr::kRhsContracting, {1}}}};
    const ElementType compute = format.compute == ElementType::kNone ? x.element() : format.compute;
    dot.integers.emplace_back(Attr::kComputeType, static_cast<int64_t>(compute));
    if (format.scale != ElementType::kNone) {
      const auto blocks = [](int64_t size, int64_t block) {
        return block == 0 ? 1 : (size + block - 1) / block;
      };
      dot.operands.push_back(net.parameter(
          fmt::format("{}.weight_scale", name),
          {groups, blocks(in, format.block_in), blocks(out, format.block_out)}, format.scale));
    }
    product = net.emit(dot)[0];
  }
  return net.transpose(product, {1, 2, 0, 3});
}

Mixed softmax_attention(const Pass& pass, const SoftmaxAttention& a, const Tensor& x,
                        const Surroundings& around) {
  Network& net = pass.net;
  const auto scope = net.scope("self_attn");
  const int64_t b = x.dim(0), s = x.dim(1);
  const bool doubled = a.gate == OutputGate::kElementFromQuery;
  const int64_t q_width = width({a.heads, a.head_size, doubled ? 2 : 1});
  const int64_t k_width = width({a.key_value_heads, a.head_size});
  const int64_t v_width = width({a.key_value_heads, a.value_head_size});
  Tensor q, k, v;
  if (a.fused) {
    const Tensors parts =
        net.split(net.linear(x, "qkv_proj", q_width + k_width + v_width, pass.linear(a.query)), -1,
                  {q_width, k_width, v_width});
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = net.linear(x, "q_proj", q_width, pass.linear(a.query));
    k = net.linear(x, "k_proj", k_width, pass.linear(a.key));
    if (!a.value_is_key) v = net.linear(x, "v_proj", v_width, pass.linear(a.value));
  }
  if (a.norm == QueryKeyNorm::kWholeProjection) {
    q = net.rms_norm(q, "q_norm", pass.model.epsilon);
    k = net.rms_norm(k, "k_norm", pass.model.epsilon);
  }
  Tensor gate;
  if (doubled) {
    const Tensors halves =
        net.split(net.reshape(q, {b, s, a.heads, 2 * a.head_size}), -1, {a.head_size, a.head_size});
    q = halves[0], gate = halves[1];
  } else {
    q = net.reshape(q, {b, s, a.heads, a.head_size});
  }
  k = net.reshape(k, {b, s, a.key_value_heads, a.head_size});
  v = a.value_is_key ? k : net.reshape(v, {b, s, a.key_value_heads, a.value_head_size});
  if (a.norm == QueryKeyNorm::kHead || a.norm == QueryKeyNorm::kWithoutScale) {
    const bool scaled = a.norm == QueryKeyNorm::kHead;
    q = net.rms_norm(q, "q_norm", pass.model.epsilon, scaled);
    k = net.rms_norm(k, "k_norm", pass.model.epsilon, scaled);
  }
  if (a.normed_value) v = net.rms_norm(v, "v_norm", pass.model.epsilon, false);
  q = rotated(pass, q, around);
  k = rotated(pass, k, around);

  Mixed result;
  const int64_t length = kept_tokens(pass, a.window);
  const Tensor keys = remember(pass, k, "key_cache", length, around, result.caches);
  const Tensor values = remember(pass, v, "value_cache", length, around, result.caches);

  AttentionOptions options;
  options.causal = pass.causal && !pass.decoding();
  // A cache as short as the window needs no mask in decoding.
  if (pass.causal && !pass.decoding()) options.window = a.window;
  if (a.indexer) {
    // The choice has a loss of its own and is not part of this gradient.
    if (!pass.training()) choose_blocks(pass, *a.indexer, x, around, result.caches);
    if (pass.causal) options.window = width({a.indexer->selected, a.indexer->block});
  }
  if (a.sinks) options.sinks = net.parameter("sinks", {a.heads});
  Tensor mixed = net.attention(q, keys, values, options);
  if (doubled)
    mixed = net.multiply(mixed, net.sigmoid(gate));
  else
    mixed = output_gate(pass, a.gate, a.gate_projection, x, mixed);
  result.output =
      net.linear(joined_heads(net, mixed), "o_proj", pass.model.hidden, pass.linear(a.output));
  return result;
}

Mixed latent_attention(const Pass& pass, const LatentAttention& a, const Tensor& x,
                       const Surroundings& around) {
  Network& net = pass.net;
  const auto scope = net.scope("self_attn");
  const int64_t b = x.dim(0), s = x.dim(1);
  const int64_t query_size = a.nope_size + a.rope_size;
  Mixed result;

  Tensor compressed = x;
  if (a.query_rank > 0)
    compressed = net.rms_norm(net.linear(x, "q_a_proj", a.query_rank, pass.linear(a.query_down)),
                              "q_a_layernorm", pass.model.epsilon);
  const Tensor q = net.reshape(net.linear(compressed, a.query_rank > 0 ? "q_b_proj" : "q_proj",
                                          width({a.heads, query_size}), pass.linear(a.query_up)),
                               {b, s, a.heads, query_size});
  const Tensors q_parts = net.split(q, -1, {a.nope_size, a.rope_size});
  const Tensor q_rope = rotated(pass, q_parts[1], around);

  const Tensors down = net.split(
      net.linear(x, "kv_a_proj_with_mqa", a.latent_rank + a.rope_size, pass.linear(a.latent_down)),
      -1, {a.latent_rank, a.rope_size});
  const Tensor latent = net.rms_norm(down[0], "kv_a_layernorm", pass.model.epsilon);
  const Tensor k_rope = rotated(pass, net.reshape(down[1], {b, s, 1, a.rope_size}), around);

  AttentionOptions options;
  if (a.indexer) {
    if (!a.indexer->shares_choice && !pass.training())
      choose_tokens(pass, *a.indexer, x, compressed, around, result.caches);
    if (pass.causal) options.window = a.indexer->selected;
  }

  Tensor mixed;
  const Tensor entry =
      pass.training()
          ? Tensor()
          : net.concatenate({net.reshape(latent, {b, s, 1, a.latent_rank}), k_rope}, -1);
  if (pass.decoding()) {
    // Absorbed: queries go into the latent space, which is key and value at once.
    const Tensor cache = remember(pass, entry, "latent_cache", pass.context, around, result.caches);
    const Tensor q_latent =
        grouped_projection(pass, q_parts[0], "kv_b_proj.key", a.latent_rank, {});
    const Dims heads_first = {0, 2, 1, 3};
    const Tensor wide = net.concatenate({q_latent, q_rope}, -1);
    const Tensor keys = net.permuted_view(cache, heads_first);
    Network::RawOp attention{.code = Opcode::k_attention,
                             .operands = {net.permuted_view(wide, heads_first), keys, keys},
                             .results = {{x.element(), {b, a.heads, s, a.latent_rank}}},
                             .integers = {{Attr::kCausal, 0},
                                          {Attr::kWindow, options.window},
                                          {Attr::kHeads, a.heads},
                                          {Attr::kKeyValueHeads, 1}}};
    if (cache.element() != x.element())
      attention.integers.emplace_back(Attr::kComputeType, static_cast<int64_t>(x.element()));
    const Tensor in_latent = net.permuted_view(net.emit(attention)[0], heads_first);
    mixed = grouped_projection(pass, in_latent, "kv_b_proj.value", a.value_size, {});
    if (a.latent_up.format.storage != ElementType::kNone)
      net.add_note(
          "decoding keeps kv_b_proj in the model's own type, as engines do for its absorbed form");
  } else {
    if (pass.gives_caches())
      remember(pass, entry, "latent_cache", pass.tokens, around, result.caches);
    const Tensors up = net.split(
        net.reshape(net.linear(latent, "kv_b_proj", width({a.heads, a.nope_size + a.value_size}),
                               pass.linear(a.latent_up)),
                    {b, s, a.heads, a.nope_size + a.value_size}),
        -1, {a.nope_size, a.value_size});
    const Tensor keys =
        net.concatenate({up[0], net.broadcast(k_rope, {b, s, a.heads, a.rope_size})}, -1);
    const Tensor queries = net.concatenate({q_parts[0], q_rope}, -1);
    options.causal = pass.causal;
    mixed = net.attention(queries, keys, up[1], options);
  }
  mixed = output_gate(pass, a.gate, a.gate_projection, x, mixed);
  result.output =
      net.linear(joined_heads(net, mixed), "o_proj", pass.model.hidden, pass.linear(a.output));
  return result;
}

namespace {

/// Pools every `ratio` tokens into one entry of `size` by learnt weights: [b, e, size].
/// In decoding the last tokens wait in a state; the pool is formed at every step.
Tensor pool(const Pass& pass, const Tensor& x, std::string_view name, int64_t size, int64_t ratio,
            bool overlapping, const Surroundings& around, std::vector<NamedTensor>& caches) {
  Network& net = pass.net;
  const auto scope = net.scope(name);
  const int64_t b = x.dim(0);
  const int64_t copies = overlapping ? 2 : 1;
  const int64_t columns = width({copies, size});
  LinearOptions single;  // kept in single precision, as published
  single.format.storage = ElementType::kF32;
  Tensor content = net.linear(x, "wkv", columns, single);
  Tensor score = net.linear(x, "wgate", columns, single);
  const Tensor places =
      net.convert(net.parameter("ape", {ratio, columns}, ElementType::kF32), x.element());
  Tensor pooled;
  if (pass.decoding()) {
    const Dims waiting = {b, width({copies, ratio}), columns};
    const Tensor contents = net.update_cache(net.cache("kv_state", waiting, ElementType::kF32),
                                             content, around.position);
    const Tensor scores =
        net.update_cache(net.cache("score_state", waiting, ElementType::kF32),
                         net.add(score, net.slice(places, 0, 0, 1)), around.position);
    pooled = net.reduce_sum(net.multiply(net.softmax(scores, 1), contents), {1});
    pooled = net.reshape(net.convert(pooled, x.element()), {b, 1, columns});
  } else {
    const int64_t entries = x.dim(1) / ratio;
    if (entries * ratio < x.dim(1)) {
      content = net.slice(content, 1, 0, entries * ratio);
      score = net.slice(score, 1, 0, entries * ratio);
    }
    content = net.reshape(content, {b, entries, ratio, columns});
    score = net.add(net.reshape(score, {b, entries, ratio, columns}), places);
    pooled = net.reduce_sum(net.multiply(net.softmax(score, 2), content), {2});
    if (pass.gives_caches()) {
      // What waits to be pooled: zeros stand for the tail, whose length depends on the prompt.
      const Dims waiting = {b, width({copies, ratio}), columns};
      const Tensor empty = net.broadcast(net.constant(0, ElementType::kF32), waiting);
      caches.push_back({fmt::format("{}.kv_state", name), empty});
      caches.push_back({fmt::format("{}.score_state", name), empty});
    }
  }
  if (overlapping) {
    const Tensors halves = net.split(pooled, -1, {size, size});
    pooled = net.add(halves[0], halves[1]);
  }
  return net.rms_norm(pooled, "norm", pass.model.epsilon);
}

}  // namespace

Mixed compressed_attention(const Pass& pass, const CompressedAttention& a, const Tensor& x,
                           const Surroundings& around) {
  Network& net = pass.net;
  const auto scope = net.scope("attn");
  const int64_t b = x.dim(0), s = x.dim(1);
  Mixed result;
  const Tensor compressed = net.rms_norm(
      net.linear(x, "wq_a", a.query_rank, pass.linear(a.query_down)), "q_norm", pass.model.epsilon);
  Tensor q = net.reshape(
      net.linear(compressed, "wq_b", width({a.heads, a.head_size}), pass.linear(a.query_up)),
      {b, s, a.heads, a.head_size});
  q = rotated(pass, net.rms_norm(q, "q_head_norm", pass.model.epsilon, false), around);
  Tensor kv = net.rms_norm(net.linear(x, "wkv", a.head_size, pass.linear(a.key_value)), "kv_norm",
                           pass.model.epsilon);
  kv = rotated(pass, net.reshape(kv, {b, s, 1, a.head_size}), around);
  const Tensor near =
      remember(pass, kv, "window_cache", kept_tokens(pass, a.window), around, result.caches);

  AttentionOptions options;
  options.causal = pass.causal && !pass.decoding();
  if (options.causal) options.window = a.window;
  options.sinks = net.parameter("attn_sink", {a.heads}, ElementType::kF32);
  Tensor mixed = net.attention(q, near, near, options);

  const int64_t reach = pass.decoding() ? pass.context : s;
  const int64_t entries = a.ratio > 0 ? reach / a.ratio : 0;
  if (a.ratio > 0 && entries == 0)
    net.add_note(fmt::format(
        "{} tokens fill no pool of {}: the weights that pool them are left out", reach, a.ratio));
  if (entries > 0) {
    Tensor far = net.reshape(
        pool(pass, x, "compressor", a.head_size, a.ratio, a.overlapping, around, result.caches),
        {b, pass.decoding() ? 1 : entries, 1, a.head_size});
    far = remember(pass, far, "pooled_cache", entries, around, result.caches);
    AttentionOptions distant;
    if (a.indexer && !pass.training()) {
      const auto inner = net.scope("indexer");
      Tensor index_q = net.reshape(
          net.linear(compressed, "wq_b", width({a.indexer->heads, a.indexer->head_size}),
                     pass.linear(a.indexer->query)),
          {b, s, a.indexer->heads, a.indexer->head_size});
      index_q = rotated(pass, index_q, around);
      const Tensor weights =
          net.linear(x, "weights_proj", a.indexer->heads, pass.linear(a.indexer->weights));
      Tensor keys = pool(pass, x, "compressor", a.indexer->head_size, a.ratio, a.overlapping,
                         around, result.caches);
      keys = net.reshape(keys, {b, keys.dim(1), 1, a.indexer->head_size});
      keys = remember(pass, keys, "index_cache", entries, around, result.caches);
      choose(pass, index_q, net.reshape(keys, {b, entries, a.indexer->head_size}), weights,
             a.indexer->selected, 1);
    }
    if (a.indexer && pass.causal) distant.window = a.indexer->selected;
    Tensor pooled;
    if (options.causal && entries * a.ratio == s) {
      // The queries of one pool's length see the same entries: as heads of one
      // position they make the mask a plain triangle.
      const Tensor grouped = net.reshape(q, {b, entries, width({a.ratio, a.heads}), a.head_size});
      distant.causal = true;
      pooled = net.reshape(net.attention(grouped, far, far, distant), q.dims());
    } else {
      pooled = net.attention(q, far, far, distant);
    }
    mixed = net.add(mixed, pooled);
  }
  mixed = rotated(pass, mixed, around);
  const Tensor grouped =
      net.reshape(mixed, {b, s, a.output_groups, a.heads / a.output_groups * a.head_size});
  const Tensor low = grouped_projection(pass, grouped, "wo_a", a.output_rank, a.output_down.format);
  result.output =
      net.linear(joined_heads(net, low), "wo_b", pass.model.hidden, pass.linear(a.output_up));
  return result;
}

}  // namespace orrery::language_model
