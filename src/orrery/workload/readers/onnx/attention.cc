// Attention and what belongs to it: rotary embeddings, linear attention and its
// short convolutions.
#include "orrery/workload/readers/onnx/attention.h"

#include <array>

#include "orrery/workload/readers/onnx/contraction.h"

namespace orrery::onnx {
namespace {

// Memory order batch, sequence, head, width for dimensions batch, head, sequence, width.
const Dims kSequenceMajor = {3, 1, 2, 0};

void attention(NodeContext& c) {
  c.expect_inputs(3);
  const bool packed = c.rank(0) == 3;
  if (c.rank(0) != c.rank(1) || c.rank(1) != c.rank(2) || c.rank(0) < 3 || c.rank(0) > 4)
    c.fail("Q, K and V must all have three or all four dimensions");
  AttentionShape shape;
  shape.heads = packed ? c.required_integer("q_num_heads") : c.dims(0)[1];
  shape.key_value_heads = packed ? c.required_integer("kv_num_heads") : c.dims(1)[1];
  shape.causal = c.integer("is_causal", 0) != 0;
  const auto unpack = [&](size_t i, int64_t heads) {
    return packed ? split_heads(c, c.operand(i), heads) : c.operand(i);
  };
  const ValueId q = unpack(0, shape.heads);
  ValueId k = unpack(1, shape.key_value_heads), v = unpack(2, shape.key_value_heads);
  if (c.has_input(4)) k = extend_cache(c, c.operand(4), k);
  if (c.has_input(5)) v = extend_cache(c, c.operand(5), v);
  std::vector<ValueId> operands = {q, k, v};
  if (c.has_input(3)) operands.push_back(c.operand(3));
  c.set(0, attend(c, operands, shape, packed));
  c.set(1, k);
  c.set(2, v);
  if (c.has_output(3)) {
    // Asking for the scores undoes the fusion: they are computed and written.
    const Dims qd = c.dims_of(q), kd = c.dims_of(k);
    c.set(3, c.emit(Opcode::k_dot_general, {q, k}, c.element(0), {qd[0], qd[1], qd[2], kd[2]},
                    [](WorkloadBuilder& b) {
                      b.set_ints(Attr::kLhsBatching, {0, 1});
                      b.set_ints(Attr::kRhsBatching, {0, 1});
                      b.set_ints(Attr::kLhsContracting, {3});
                      b.set_ints(Attr::kRhsContracting, {3});
                    }));
  }
}

void rotary_embedding(NodeContext& c) {
  c.expect_inputs(3);
  const ValueId positions = c.has_input(3) ? c.operand(3) : ValueId{};
  const ValueId x = c.operand(0), cosines = c.operand(1), sines = c.operand(2);
  c.set(0, rotate(c, x, cosines, sines, positions));
}

void linear_attention(NodeContext& c) {
  c.expect_inputs(3);
  if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) c.fail("[B, T, H·D] inputs are expected");
  const int64_t heads = c.required_integer("q_num_heads"),
                states = c.required_integer("kv_num_heads");
  const Dims q = c.dims(0), k = c.dims(1), v = c.dims(2);
  if (heads <= 0 || states <= 0 || heads % states != 0 || q[2] % heads != 0 || v[2] % states != 0)
    c.fail("the heads do not divide the inputs");
  const int64_t key_width = q[2] / heads, value_width = v[2] / states;
  const auto unpack = [&](size_t i, int64_t width) {
    const Dims dims = c.dims(i);
    if (width <= 0 || dims[2] % width != 0) c.fail("the heads do not divide the inputs");
    return c.reshape(c.operand(i), {dims[0], dims[1], dims[2] / width, width});
  };
  std::vector<ValueId> operands = {unpack(0, key_width), unpack(1, key_width),
                                   unpack(2, value_width)};
  for (size_t i = 3; i < c.input_count(); ++i)
    if (c.has_input(i)) operands.push_back(c.operand(i));
  const ElementType state = c.has_input(3) ? c.element(3) : c.element(0);
  const std::array types = {c.type(c.element(0), {q[0], q[1], heads, value_width}),
                            c.type(state, {q[0], states, key_width, value_width})};
  const auto results =
      c.emit_many(Opcode::k_linear_attention, operands, types, [&](WorkloadBuilder& b) {
        b.set_int(Attr::kHeads, heads);
        b.set_int(Attr::kKeyValueHeads, states);
        if (const int64_t chunk = c.integer("chunk_size", 0); chunk > 0)
          b.set_int(Attr::kWindow, chunk);
      });
  c.set(0, c.reshape(results[0], {q[0], q[1], c.multiply(heads, value_width)}));
  c.set(1, results[1]);
}

/// A depthwise convolution that only looks back, its last inputs kept as state.
void causal_conv_with_state(NodeContext& c) {
  c.expect_inputs(2);
  if (c.rank(0) != 3 || c.rank(1) < 2)
    c.fail("[batch, channels, length] and a kernel are expected");
  const Dims x = c.dims(0);
  const int64_t taps = c.dims(1).back();
  if (c.dims(1)[0] != x[1] || c.product(c.dims(1)) != c.multiply(x[1], taps) || taps <= 0)
    c.fail("the kernel does not fit the channels");
  ValueId input = c.operand(0);
  const ElementType element = c.element(0);
  int64_t low = taps - 1;
  if (c.has_input(3)) {
    input = c.concatenate(std::array{c.operand(3), input}, 2);
    low = taps - 1 - (c.dims_of(input)[2] - x[2]);
  }
  const Window window{{taps}, {1}, {1}, {low}, {0}, {x[2]}};
  const ValueId kernel = c.reshape(c.operand(1), {x[1], 1, taps});
  ValueId y = convolve(c, input, kernel, window, x[1], element);
  if (c.has_input(2)) y = add_channel_bias(c, y, c.operand(2));
  if (const auto activation = c.string("activation", "none");
      activation == "silu" || activation == "swish")
    y = c.elementwise(Opcode::k_silu, {y});
  c.set(0, y);
  if (!c.has_output(1)) return;
  const Dims all = c.dims_of(input);
  if (all[2] >= taps - 1) {
    c.set(1, c.slice(input, {0, 0, all[2] - (taps - 1)}, all, {1, 1, 1}));
  } else {
    const ValueId zero = c.number(element, 0);
    c.set(1, c.emit(Opcode::k_pad, {input, zero}, element, {all[0], all[1], taps - 1},
                    [&](WorkloadBuilder& b) {
                      b.set_ints(Attr::kPaddingLow, {0, 0, taps - 1 - all[2]});
                      b.set_ints(Attr::kPaddingHigh, {0, 0, 0});
                      b.set_ints(Attr::kPaddingInterior, {0, 0, 0});
                    }));
  }
}

constexpr OperatorRule kRules[] = {
    {"Attention", attention},
    {"CausalConvWithState", causal_conv_with_state},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary_embedding},
};

}  // namespace

ValueId split_heads(NodeContext& c, ValueId value, int64_t heads) {
  const Dims dims = c.dims_of(value);
  if (dims.size() != 3 || heads <= 0 || dims[2] % heads != 0)
    c.fail(fmt::format("[{}] does not divide into {} heads", fmt::join(dims, "x"), heads));
  return bitcast(c, value, {dims[0], heads, dims[1], dims[2] / heads}, kSequenceMajor);
}

ValueId attend(NodeContext& c, std::span<const ValueId> operands, const AttentionShape& shape,
               bool merged) {
  const Dims q = c.dims_of(operands[0]), k = c.dims_of(operands[1]), v = c.dims_of(operands[2]);
  const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] &&
                    k[0] == v[0] && q[3] == k[3] && k[1] == v[1] && k[2] == v[2] && k[1] > 0 &&
                    q[1] % k[1] == 0;
  if (!fits)
    c.fail(fmt::format("queries [{}], keys [{}] and values [{}] do not fit together",
                       fmt::join(q, "x"), fmt::join(k, "x"), fmt::join(v, "x")));
  const ElementType element = c.element_of(operands[0]);
  const Dims dims = {q[0], q[1], q[2], v[3]};
  const TypeId type = c.type(element, dims, merged ? kSequenceMajor : Dims{});
  const ValueId y = c.emit(Opcode::k_attention, operands, type, [&](WorkloadBuilder& b) {
    b.set_int(Attr::kHeads, shape.heads);
    b.set_int(Attr::kKeyValueHeads, shape.key_value_heads);
    if (shape.causal) b.set_int(Attr::kCausal, 1);
    if (shape.window > 0) b.set_int(Attr::kWindow, shape.window);
  });
  return merged ? bitcast(c, y, {dims[0], dims[2], c.multiply(dims[1], dims[3])}) : y;
}

ValueId extend_cache(NodeContext& c, ValueId past, ValueId now) {
  if (c.dims_of(past).size() != 4) c.fail("a cache of four dimensions is expected");
  // An empty cache, as in a prefill, adds nothing.
  if (c.dims_of(past)[2] == 0) return now;
  return c.concatenate(std::array{past, now}, 2);
}

ValueId rotate(NodeContext& c, ValueId value, ValueId cosines, ValueId sines, ValueId positions) {
  const ElementType element = c.element_of(value);
  const Dims dims = c.dims_of(value);
  if (positions.valid() && c.dims_of(cosines).size() == 2) {
    const int64_t width = c.dims_of(cosines)[1];
    const auto look_up = [&](ValueId table) {
      Dims found = c.dims_of(positions);
      found.push_back(width);
      return c.emit(Opcode::k_gather, {table, positions}, element, found, [&](WorkloadBuilder& b) {
        b.set_ints(Attr::kSliceSizes, {1, width});
      });
    };
    cosines = look_up(cosines);
    sines = look_up(sines);
  }
  // x·cos + rotated(x)·sin: the halves change places inside the kernel. Tables
  // hold half a head and are read once for all heads.
  const ValueId kept = c.emit(Opcode::k_multiply, {value, cosines}, element, dims);
  const ValueId turned = c.emit(Opcode::k_multiply, {value, sines}, element, dims);
  return c.emit(Opcode::k_add, {kept, turned}, element, dims);
}

std::span<const OperatorRule> attention_rules() { return kRules; }

}  // namespace orrery::onnx
