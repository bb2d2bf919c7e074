// Softmax and the normalisations.
#include "orrery/workload/readers/onnx/normalization.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Dims axes_from(int64_t axis, size_t rank) {
  Dims axes(rank - at(axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

Dims softmax_axes(NodeContext& c) {
  c.expect_rank(0, 1);
  // Before operator set 13 everything from the axis on is one row.
  if (c.version() < 13) return axes_from(c.axis(c.integer("axis", 1), c.rank(0)), c.rank(0));
  return {c.axis(c.integer("axis", -1), c.rank(0))};
}

ValueId softmax_of(NodeContext& c) {
  const Dims axes = softmax_axes(c);
  return c.emit(Opcode::k_softmax, {c.operand(0)}, c.element(0), c.dims(0),
                [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, axes); });
}

void softmax(NodeContext& c) { c.set(0, softmax_of(c)); }
void log_softmax(NodeContext& c) { c.set(0, c.elementwise(Opcode::k_log, {softmax_of(c)})); }

void layer_normalization(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 1);
  const Dims axes = axes_from(c.axis(c.integer("axis", -1), c.rank(0)), c.rank(0));
  std::vector<ValueId> operands = {c.operand(0), c.operand(1)};
  if (c.has_input(2)) operands.push_back(c.operand(2));
  const auto results = normalize(c, Opcode::k_layer_norm, operands, axes, c.real("epsilon", 1e-5),
                                 c.has_output(2) ? 3 : (c.has_output(1) ? 2 : 1));
  for (size_t i = 0; i < results.size(); ++i) c.set(i, results[i]);
}

void rms_normalization(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 1);
  const Dims axes = axes_from(c.axis(c.integer("axis", -1), c.rank(0)), c.rank(0));
  const ValueId x = c.operand(0), scale = c.operand(1);
  const auto results = normalize(c, Opcode::k_rms_norm, {{x, scale}}, axes, c.real("epsilon", 1e-5),
                                 c.has_output(1) ? 2 : 1);
  for (size_t i = 0; i < results.size(); ++i) c.set(i, results[i]);
}

void group_normalization(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 2);
  const int64_t groups = c.required_integer("num_groups");
  if (groups <= 0 || c.dims(0)[1] % groups != 0) c.fail("the groups do not divide the channels");
  const ValueId x = c.operand(0), scale = c.operand(1), bias = c.operand(2);
  c.set(0, c.emit(Opcode::k_group_norm, {x, scale, bias}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) {
                    b.set_ints(Attr::kDimensions, axes_from(1, c.rank(0)));
                    b.set_int(Attr::kFeatureGroups, groups);
                    b.set_real(Attr::kEpsilon, c.real("epsilon", 1e-5));
                  }));
}

/// A group a channel.
void instance_normalization(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 3);
  const ValueId x = c.operand(0), scale = c.operand(1), bias = c.operand(2);
  c.set(0, c.emit(Opcode::k_group_norm, {x, scale, bias}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) {
                    b.set_ints(Attr::kDimensions, axes_from(2, c.rank(0)));
                    b.set_int(Attr::kFeatureGroups, c.dims(0)[1]);
                    b.set_real(Attr::kEpsilon, c.real("epsilon", 1e-5));
                  }));
}

void batch_normalization(NodeContext& c) {
  c.expect_inputs(5);
  c.expect_rank(0, 2);
  const double epsilon = c.real("epsilon", 1e-5);
  const auto attributes = [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kDimensions, {1});
    b.set_real(Attr::kEpsilon, epsilon);
  };
  const ValueId x = c.operand(0), scale = c.operand(1), bias = c.operand(2);
  const ValueId mean = c.operand(3), variance = c.operand(4);
  // Until operator set 6 a flag said so, until 13 the number of outputs.
  const bool training = c.version() >= 14  ? c.integer("training_mode", 0) != 0
                        : c.version() >= 7 ? c.output_count() > 1
                                           : c.integer("is_test", 0) == 0 && c.output_count() > 1;
  if (!training) {
    c.set(0, c.emit(Opcode::k_batch_norm_inference, {x, scale, bias, mean, variance}, c.element(0),
                    c.dims(0), attributes));
    return;
  }
  const TypeId statistics = c.type(c.element(3), c.dims(3));
  const std::array types = {c.type(c.element(0), c.dims(0)), statistics, statistics};
  const auto results =
      c.emit_many(Opcode::k_batch_norm_training, {{x, scale, bias}}, types, attributes);
  // running = running·momentum + batch·(1 − momentum)
  const double momentum = c.real("momentum", 0.9);
  const auto blend = [&](ValueId running, ValueId batch) {
    const ValueId kept =
        c.elementwise(Opcode::k_multiply, {running, c.number(c.element(3), momentum)});
    const ValueId added =
        c.elementwise(Opcode::k_multiply, {batch, c.number(c.element(3), 1 - momentum)});
    return c.elementwise(Opcode::k_add, {kept, added});
  };
  c.set(0, results[0]);
  if (c.has_output(1)) c.set(1, blend(mean, results[1]));
  if (c.has_output(2)) c.set(2, blend(variance, results[2]));
  // Saved statistics, before operator set 14.
  c.set(3, results[1]);
  c.set(4, results[2]);
}

void mean_variance_normalization(NodeContext& c) {
  Dims axes = c.integer_list("axes").value_or(Dims{0, 2, 3});
  axes = c.axes(axes, c.rank(0));
  const ValueId x = c.operand(0);
  c.set(0, normalize(c, Opcode::k_layer_norm, {{x}}, axes, 1e-9, 1)[0]);
}

void lp_normalization(NodeContext& c) {
  c.expect_rank(0, 1);
  const int64_t axis = c.axis(c.integer("axis", -1), c.rank(0));
  const int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) c.fail("'p' must be 1 or 2");
  const ValueId x = c.operand(0);
  const ValueId powered = c.elementwise(p == 1 ? Opcode::k_abs : Opcode::k_square, {x});
  ValueId norm = c.reduce(Opcode::k_add, powered, {axis}, true);
  if (p == 2) norm = c.elementwise(Opcode::k_sqrt, {norm});
  c.set(0, c.elementwise(Opcode::k_divide, {x, norm}));
}

/// x / (bias + alpha/size·Σ x²)^beta over neighbouring channels.
void local_response_normalization(NodeContext& c) {
  c.expect_rank(0, 2);
  const int64_t size = c.required_integer("size");
  if (size <= 0 || size > (1 << 20)) c.fail(fmt::format("a size of {}", size));
  const ElementType element = c.element(0);
  const size_t rank = c.rank(0);
  const ValueId x = c.operand(0);
  const ValueId squares = c.elementwise(Opcode::k_square, {x}), zero = c.number(element, 0);
  const auto spread = [&](int64_t value, int64_t otherwise) {
    Dims dims(rank, otherwise);
    dims[1] = value;
    return dims;
  };
  const ValueId sum =
      c.emit(Opcode::k_reduce_window, {squares, zero}, element, c.dims(0), [&](WorkloadBuilder& b) {
        b.set_ints(Attr::kWindowSize, spread(size, 1));
        b.set_ints(Attr::kWindowStrides, Dims(rank, 1));
        b.set_ints(Attr::kBaseDilation, Dims(rank, 1));
        b.set_ints(Attr::kWindowDilation, Dims(rank, 1));
        b.set_ints(Attr::kPaddingLow, spread((size - 1) / 2, 0));
        b.set_ints(Attr::kPaddingHigh, spread(size / 2, 0));
        c.reduction_body(Opcode::k_add, element);
      });
  const ValueId scaled =
      c.elementwise(Opcode::k_multiply,
                    {sum, c.number(element, c.real("alpha", 1e-4) / static_cast<double>(size))});
  const ValueId base = c.elementwise(Opcode::k_add, {scaled, c.number(element, c.real("bias", 1))});
  const ValueId divisor =
      c.elementwise(Opcode::k_power, {base, c.number(element, c.real("beta", 0.75))});
  c.set(0, c.elementwise(Opcode::k_divide, {x, divisor}));
}

/// Nothing at inference; a random mask when training.
void dropout(NodeContext& c) {
  const ValueId x = c.operand(0);
  const auto mode = c.known_real(2);
  const bool training = c.version() >= 12
                            ? (c.has_input(2) && (!mode || *mode != 0))
                            : c.version() < 7 && c.integer("is_test", 0) == 0 && c.has_output(1);
  const ElementType mask_type = c.version() < 10 ? c.element(0) : ElementType::kBool;
  if (!training) {
    c.set(0, c.emit(Opcode::k_identity, {x}, c.element(0), c.dims(0)));
    if (c.has_output(1)) c.set(1, c.splat(mask_type, c.dims(0), 1));
    return;
  }
  const ElementType element = c.element(0);
  const double ratio = c.has_input(1) ? c.known_real(1).value_or(0.5) : c.real("ratio", 0.5);
  const ValueId low = c.number(element, 0), high = c.number(element, 1);
  const ValueId random = c.emit(Opcode::k_rng, {low, high}, element, c.dims(0));
  const ValueId mask = c.compare("GE", random, c.number(element, ratio));
  const ValueId scaled =
      c.elementwise(Opcode::k_multiply, {x, c.number(element, ratio < 1 ? 1 / (1 - ratio) : 0)});
  c.set(0, c.emit(Opcode::k_select, {mask, scaled, low}, element, c.dims(0)));
  c.set(1, c.convert(mask, mask_type));
}

constexpr OperatorRule kRules[] = {
    {"BatchNormalization", batch_normalization},
    {"Dropout", dropout},
    {"GroupNormalization", group_normalization},
    {"InstanceNormalization", instance_normalization},
    {"LRN", local_response_normalization},
    {"LayerNormalization", layer_normalization},
    {"LogSoftmax", log_softmax},
    {"LpNormalization", lp_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"RMSNormalization", rms_normalization},
    // ONNX Runtime writes this one into the default domain.
    {"SimplifiedLayerNormalization", rms_normalization},
    {"Softmax", softmax},
};

}  // namespace

std::vector<ValueId> normalize(NodeContext& c, Opcode code, std::span<const ValueId> operands,
                               const Dims& axes, double epsilon, size_t results) {
  const Dims dims = c.dims_of(operands[0]);
  const ElementType element = c.element_of(operands[0]);
  Dims kept = dims;
  for (int64_t a : axes) kept[at(a)] = 1;
  // Saved mean and deviation are 32-bit, whatever is normalised.
  const ElementType stash = element == ElementType::kF64 ? element : ElementType::kF32;
  std::vector<TypeId> types(results, c.type(stash, kept));
  types[0] = c.type(element, dims);
  return c.emit_many(code, operands, types, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kDimensions, axes);
    b.set_real(Attr::kEpsilon, epsilon);
  });
}

std::span<const OperatorRule> normalization_rules() { return kRules; }

}  // namespace orrery::onnx
