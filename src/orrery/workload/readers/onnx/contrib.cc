// Operators of com.microsoft, ONNX Runtime's own domain, that exported and
// optimised models hold most often.
// Their definitions: onnxruntime, docs/ContribOperators.md.
#include <algorithm>
#include <array>

#include "orrery/workload/readers/onnx/attention.h"
#include "orrery/workload/readers/onnx/contraction.h"
#include "orrery/workload/readers/onnx/normalization.h"

namespace orrery::onnx {
namespace {

void gelu_with_bias(NodeContext& c) {
  ValueId x = c.operand(0);
  if (c.has_input(1)) x = c.elementwise(Opcode::k_add, {x, c.operand(1)});
  c.set(0, c.elementwise(Opcode::k_gelu, {x}));
}

/// x·sigmoid(alpha·x), alpha about 1.702: a silu but for the constant.
void quick_gelu(NodeContext& c) { c.set(0, c.elementwise(Opcode::k_silu, {c.operand(0)})); }

// --- normalisation ----------------------------------------------------------

Dims last_axis(NodeContext& c) {
  c.expect_rank(0, 1);
  return {static_cast<int64_t>(c.rank(0)) - 1};
}

/// The sum of input, skip and bias, normalised; `scale` and `beta` by position.
void skip_normalization(NodeContext& c, Opcode code, std::optional<size_t> beta, size_t bias) {
  c.expect_inputs(3);
  const double epsilon = c.real("epsilon", 1e-5);
  ValueId sum = c.elementwise(Opcode::k_add, {c.operand(0), c.operand(1)});
  if (c.has_input(bias)) sum = c.elementwise(Opcode::k_add, {sum, c.operand(bias)});
  std::vector<ValueId> operands = {sum, c.operand(2)};
  if (beta && c.has_input(*beta)) operands.push_back(c.operand(*beta));
  const size_t statistics = c.has_output(2) ? 3 : (c.has_output(1) ? 2 : 1);
  const auto results = normalize(c, code, operands, last_axis(c), epsilon, statistics);
  for (size_t i = 0; i < results.size(); ++i) c.set(i, results[i]);
  c.set(3, sum);
}

void skip_layer_normalization(NodeContext& c) { skip_normalization(c, Opcode::k_layer_norm, 3, 4); }
void skip_simplified_layer_normalization(NodeContext& c) {
  skip_normalization(c, Opcode::k_rms_norm, std::nullopt, 3);
}

void simplified_layer_normalization(NodeContext& c) {
  c.expect_inputs(2);
  const ValueId x = c.operand(0), scale = c.operand(1);
  c.set(0, normalize(c, Opcode::k_rms_norm, {{x, scale}}, last_axis(c), c.real("epsilon", 1e-5),
                     1)[0]);
}

void group_norm(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 3);
  const bool last = c.integer("channels_last", 1) != 0;
  const ValueId x = c.operand(0), scale = c.operand(1), bias = c.operand(2);
  Dims axes;
  for (size_t i = 1; i < c.rank(0); ++i) axes.push_back(static_cast<int64_t>(i));
  ValueId y = c.emit(Opcode::k_group_norm, {x, scale, bias}, c.element(0), c.dims(0),
                     [&](WorkloadBuilder& b) {
                       b.set_ints(Attr::kDimensions, axes);
                       b.set_int(Attr::kFeatureGroups, c.required_integer("groups"));
                       b.set_int(Attr::kInputFeature, last ? static_cast<int64_t>(axes.size()) : 1);
                       b.set_real(Attr::kEpsilon, c.real("epsilon", 1e-5));
                     });
  if (c.integer("activation", 0) == 1) y = c.elementwise(Opcode::k_silu, {y});
  c.set(0, y);
}

ValueId look_up(NodeContext& c, ValueId table, ValueId ids) {
  Dims dims = c.dims_of(ids);
  if (c.dims_of(table).size() != 2) c.fail("an embedding table is a matrix");
  const int64_t width = c.dims_of(table)[1];
  const auto rank = static_cast<int64_t>(dims.size());
  dims.push_back(width);
  return c.emit(Opcode::k_gather, {table, ids}, c.element_of(table), dims, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kSliceSizes, {1, width});
    b.set_ints(Attr::kOffsetDims, {rank});
    b.set_ints(Attr::kCollapsedSliceDims, {0});
    b.set_ints(Attr::kStartIndexMap, {0});
    b.set_int(Attr::kIndexVectorDim, rank);
  });
}

/// Word, position and segment embeddings summed and normalised.
void embed_layer_normalization(NodeContext& c) {
  c.expect_inputs(1);
  if (c.rank(0) != 2) c.fail("[batch, sequence] ids are expected");
  const int64_t batch = c.dims(0)[0], sequence = c.dims(0)[1];
  ValueId sum = look_up(c, c.operand(2), c.operand(0));
  const ValueId positions =
      c.has_input(8) ? c.operand(8) : c.iota(ElementType::kS64, {sequence}, 0);
  sum = c.elementwise(Opcode::k_add, {sum, look_up(c, c.operand(3), positions)});
  if (c.has_input(4) && c.has_input(1))
    sum = c.elementwise(Opcode::k_add, {sum, look_up(c, c.operand(4), c.operand(1))});
  const ValueId scale = c.operand(5), bias = c.operand(6);
  c.set(0, normalize(c, Opcode::k_layer_norm, {{sum, scale, bias}}, {2}, c.real("epsilon", 1e-12),
                     1)[0]);
  // Tokens an example has, from its mask.
  if (c.has_output(1))
    c.set(1, c.has_input(7) ? c.reduce(Opcode::k_add, c.operand(7), {1}, false)
                            : c.splat(ElementType::kS32, {batch}, 0));
  c.set(2, sum);
}

// --- attention --------------------------------------------------------------

/// Projections and attention in one node.
void packed_attention(NodeContext& c) {
  c.expect_inputs(2);
  if (c.rank(0) != 3 || c.rank(1) != 2)
    c.fail("[batch, sequence, hidden] and a matrix are expected");
  AttentionShape shape;
  shape.heads = shape.key_value_heads = c.required_integer("num_heads");
  shape.causal = c.integer("unidirectional", 0) != 0;
  const int64_t width = c.dims(1)[1];
  const Dims sizes =
      c.integer_list("qkv_hidden_sizes").value_or(Dims{width / 3, width / 3, width / 3});
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[1] < 0 || sizes[2] < 0 ||
      c.add(c.add(sizes[0], sizes[1]), sizes[2]) != width)
    c.fail("the weights do not divide into queries, keys and values");
  ValueId all = matmul(c, c.operand(0), c.operand(1), c.element(0));
  if (c.has_input(2)) all = c.elementwise(Opcode::k_add, {all, c.operand(2)});
  const Dims dims = c.dims_of(all);
  int64_t before = 0;
  const auto part = [&](int64_t size) {
    const ValueId piece =
        c.slice(all, {0, 0, before}, {dims[0], dims[1], before + size}, {1, 1, 1});
    before += size;
    return split_heads(c, piece, shape.heads);
  };
  const ValueId q = part(sizes[0]);
  ValueId k = part(sizes[1]), v = part(sizes[2]);
  if (c.has_input(4)) {
    // [2, batch, heads, past, width]: keys, then values.
    const Dims past = c.dims(4);
    if (past.size() != 5 || past[0] != 2)
      c.fail("a past of [2, batch, heads, past, width] is expected");
    const auto half = [&](int64_t which) {
      Dims start(5), limit = past;
      start[0] = which;
      limit[0] = which + 1;
      return c.reshape(c.slice(c.operand(4), start, limit, Dims(5, 1)),
                       {past.begin() + 1, past.end()});
    };
    k = extend_cache(c, half(0), k);
    v = extend_cache(c, half(1), v);
  }
  std::vector<ValueId> operands = {q, k, v};
  for (size_t mask : {size_t{3}, size_t{5}})
    if (c.has_input(mask)) operands.push_back(c.operand(mask));
  c.set(0, attend(c, operands, shape, true));
  if (!c.has_output(1)) return;
  const auto stacked = [&](ValueId x) {
    Dims d = c.dims_of(x);
    d.insert(d.begin(), 1);
    return c.reshape(x, d);
  };
  c.set(1, c.concatenate(std::array{stacked(k), stacked(v)}, 0));
}

void multi_head_attention(NodeContext& c) {
  c.expect_inputs(1);
  AttentionShape shape;
  shape.heads = shape.key_value_heads = c.required_integer("num_heads");
  shape.causal = c.integer("unidirectional", 0) != 0;
  if (shape.heads <= 0) c.fail("'num_heads' must be positive");
  ValueId q, k, v;
  if (c.rank(0) == 5) {
    // Packed as [batch, sequence, heads, 3, width].
    const Dims d = c.dims(0);
    if (d[2] != shape.heads || d[3] != 3) c.fail("packed queries, keys and values do not fit");
    const ValueId all = c.operand(0);
    const auto part = [&](int64_t which) {
      const ValueId piece =
          c.slice(all, {0, 0, 0, which, 0}, {d[0], d[1], d[2], which + 1, d[4]}, Dims(5, 1));
      return split_heads(c, c.reshape(piece, {d[0], d[1], c.multiply(d[2], d[4])}), shape.heads);
    };
    q = part(0);
    k = part(1);
    v = part(2);
  } else {
    c.expect_inputs(3);
    ValueId projected[3] = {c.operand(0), c.operand(1), c.operand(2)};
    if (c.has_input(3)) {
      // One bias for all three, in their order.
      const ValueId bias = c.operand(3);
      int64_t before = 0;
      for (ValueId& x : projected) {
        if (c.dims_of(x).size() != 3) c.fail("a bias needs packed heads");
        const int64_t size = c.dims_of(x)[2];
        if (c.rank(3) != 1 || c.dims(3)[0] < before + size) c.fail("the bias does not fit");
        x = c.elementwise(Opcode::k_add, {x, c.slice(bias, {before}, {before + size}, {1})});
        before += size;
      }
    }
    q = split_heads(c, projected[0], shape.heads);
    k = c.rank(1) == 4 ? projected[1] : split_heads(c, projected[1], shape.heads);
    v = c.rank(2) == 4 ? projected[2] : split_heads(c, projected[2], shape.heads);
  }
  if (c.has_input(6)) k = extend_cache(c, c.operand(6), k);
  if (c.has_input(7)) v = extend_cache(c, c.operand(7), v);
  std::vector<ValueId> operands = {q, k, v};
  for (size_t mask : {size_t{4}, size_t{5}})
    if (c.has_input(mask)) operands.push_back(c.operand(mask));
  c.set(0, attend(c, operands, shape, true));
  c.set(1, k);
  c.set(2, v);
}

void group_query_attention(NodeContext& c) {
  c.expect_inputs(1);
  if (c.rank(0) != 3) c.fail("[batch, sequence, hidden] queries are expected");
  AttentionShape shape;
  shape.heads = c.required_integer("num_heads");
  shape.key_value_heads = c.required_integer("kv_num_heads");
  shape.causal = true;
  shape.window = std::max<int64_t>(0, c.integer("local_window_size", -1));
  if (shape.heads <= 0 || shape.key_value_heads <= 0)
    c.fail("the numbers of heads must be positive");
  ValueId q = c.operand(0), k, v;
  const Dims d = c.dims(0);
  if (c.has_input(1)) {
    k = c.operand(1);
    v = c.operand(2);
  } else {
    const int64_t heads = c.add(shape.heads, c.multiply(2, shape.key_value_heads));
    if (d[2] % heads != 0) c.fail("packed queries, keys and values do not fit");
    const int64_t width = d[2] / heads;
    int64_t before = 0;
    const ValueId all = q;
    const auto part = [&](int64_t count) {
      const int64_t size = count * width;
      const ValueId piece = c.slice(all, {0, 0, before}, {d[0], d[1], before + size}, {1, 1, 1});
      before += size;
      return piece;
    };
    q = part(shape.heads);
    k = part(shape.key_value_heads);
    v = part(shape.key_value_heads);
  }
  if (c.integer("do_rotary", 0) != 0 && c.has_input(7) && c.has_input(8)) {
    const ValueId cosines = c.operand(7), sines = c.operand(8);
    q = rotate(c, q, cosines, sines, {});
    k = rotate(c, k, cosines, sines, {});
  }
  q = split_heads(c, q, shape.heads);
  k = split_heads(c, k, shape.key_value_heads);
  v = split_heads(c, v, shape.key_value_heads);
  if (c.has_input(3) && c.has_input(4)) {
    // The cache grows, or is a buffer of full length written in place: what the
    // file declares for its output tells which.
    const ValueId past_k = c.operand(3), past_v = c.operand(4);
    const Dims past = c.dims_of(past_k);
    const auto declared = c.declared_dims(1);
    if (declared && past.size() == 4 && *declared == past && past[2] >= d[1]) {
      const auto write = [&](ValueId cache, ValueId now) {
        return c.emit(Opcode::k_dynamic_update_slice, {{cache, now}}, c.builder().value_type(cache),
                      [](WorkloadBuilder& b) { b.set_int(Attr::kInPlace, 1); });
      };
      k = write(past_k, k);
      v = write(past_v, v);
    } else {
      k = extend_cache(c, past_k, k);
      v = extend_cache(c, past_v, v);
    }
  }
  c.set(0, attend(c, {{q, k, v}}, shape, true));
  c.set(1, k);
  c.set(2, v);
}

void rotary_embedding(NodeContext& c) {
  c.expect_inputs(4);
  // A single position is an offset; the tables are then read in order.
  const ValueId positions = c.rank(1) == 2 ? c.operand(1) : ValueId{};
  const ValueId x = c.operand(0), cosines = c.operand(2), sines = c.operand(3);
  c.set(0, rotate(c, x, cosines, sines, positions));
}

// --- products ---------------------------------------------------------------

/// A·Wᵀ with W [N, K] stored in a few bits, scaled block by block.
void matmul_n_bits(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 1);
  const int64_t depth = c.required_integer("K"), outputs = c.required_integer("N");
  const int64_t bits = c.integer("bits", 4), block = c.required_integer("block_size");
  ElementType stored = ElementType::kU4;
  if (bits == 2)
    stored = ElementType::kU2;
  else if (bits == 8)
    stored = ElementType::kU8;
  else if (bits != 4)
    c.fail(fmt::format("weights of {} bits", bits));
  if (depth <= 0 || outputs <= 0 || block <= 0 || c.dims(0).back() != depth)
    c.fail("K, N and the input do not fit together");
  const ElementType element = c.element(0);
  const ValueId x = c.operand(0);
  const ValueId weights =
      c.emit(Opcode::k_bitcast_convert, {c.operand(1)}, stored, {outputs, depth});
  std::vector<ValueId> operands = {x, weights, c.operand(2)};
  if (c.has_input(3)) operands.push_back(c.operand(3));
  Dims dims = c.dims(0);
  dims.back() = outputs;
  const auto last = static_cast<int64_t>(c.rank(0)) - 1;
  ValueId y =
      c.emit(Opcode::k_scaled_dot, operands, c.type(element, dims), [&](WorkloadBuilder& b) {
        b.set_ints(Attr::kLhsBatching, Dims{});
        b.set_ints(Attr::kRhsBatching, Dims{});
        b.set_ints(Attr::kLhsContracting, {last});
        b.set_ints(Attr::kRhsContracting, {1});
        b.set_int(Attr::kComputeType, static_cast<int64_t>(element));
      });
  if (c.has_input(5)) y = c.elementwise(Opcode::k_add, {y, c.operand(5)});
  c.set(0, y);
}

/// MatMul with the last two dimensions of either side swapped.
void fused_matmul(NodeContext& c) {
  c.expect_inputs(2);
  const auto oriented = [&](size_t i, std::string_view flag) {
    const ValueId x = c.operand(i);
    if (c.integer(flag, 0) == 0 || c.rank(i) < 2) return x;
    // As a layout: the product reads it where it lies.
    Dims dims = c.dims(i), order;
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    for (size_t d = dims.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
    std::swap(order[0], order[1]);
    return bitcast(c, x, dims, order);
  };
  const ValueId a = oriented(0, "transA"), b = oriented(1, "transB");
  ValueId y = matmul(c, a, b, c.element(0));
  if (const double alpha = c.real("alpha", 1); alpha != 1)
    y = c.elementwise(Opcode::k_multiply, {y, c.number(c.element(0), alpha)});
  c.set(0, y);
}

/// Rows of a table stored in a few bits, scaled as they are read.
void gather_block_quantized(NodeContext& c) {
  c.expect_inputs(3);
  if (c.rank(0) != 2 || c.integer("gather_axis", 0) != 0)
    c.fail("rows of a matrix are expected (gather_axis 0)");
  const ValueId rows = look_up(c, c.operand(0), c.operand(1));
  // Bytes may hold several numbers each.
  const int64_t bits = c.integer("bits", 4);
  Dims dims = c.dims_of(rows);
  if (c.element(0) == ElementType::kU8 && bits > 0 && bits < 8)
    dims.back() = c.multiply(dims.back(), 8 / bits);
  const ValueId scales = look_up(c, c.operand(2), c.operand(1));
  c.set(0, c.emit(Opcode::k_uniform_dequantize, {rows, scales}, c.element(2), dims));
}

constexpr OperatorRule kRules[] = {
    {"Attention", packed_attention},
    {"BiasGelu", gelu_with_bias},
    {"EmbedLayerNormalization", embed_layer_normalization},
    {"FastGelu", gelu_with_bias},
    {"FusedMatMul", fused_matmul},
    {"GatherBlockQuantized", gather_block_quantized},
    {"Gelu", gelu_with_bias},
    {"GroupNorm", group_norm},
    {"GroupQueryAttention", group_query_attention},
    {"MatMulNBits", matmul_n_bits},
    {"MultiHeadAttention", multi_head_attention},
    {"QuickGelu", quick_gelu},
    {"RotaryEmbedding", rotary_embedding},
    {"SimplifiedLayerNormalization", simplified_layer_normalization},
    {"SkipLayerNormalization", skip_layer_normalization},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization},
};

}  // namespace

std::span<const OperatorRule> contrib_rules() { return kRules; }

}  // namespace orrery::onnx
