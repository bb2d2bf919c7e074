// Convolutions and matrix products.
#include "orrery/workload/readers/onnx/contraction.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Keeps products of two window numbers and a dimension inside 64 bits.
constexpr int64_t kMaxWindowNumber = int64_t{1} << 30;

Dims window_list(NodeContext& c, std::string_view name, size_t count, int64_t otherwise,
                 int64_t least) {
  auto given = c.integer_list(name);
  if (!given) return Dims(count, otherwise);
  if (given->size() != count)
    c.fail(fmt::format("'{}' has {} numbers where {} are expected", name, given->size(), count));
  for (int64_t v : *given)
    if (v < least || v > kMaxWindowNumber) c.fail(fmt::format("{} in '{}'", v, name));
  return *given;
}

Dims count_from(int64_t first, size_t count) {
  Dims result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

void set_convolution(WorkloadBuilder& b, size_t spatial, const Window& window,
                     const Dims& base_dilation, int64_t groups, bool kernel_input_first) {
  const Dims dimensions = count_from(2, spatial);
  b.set_int(Attr::kInputBatch, 0);
  b.set_int(Attr::kInputFeature, 1);
  b.set_ints(Attr::kInputSpatial, dimensions);
  b.set_int(Attr::kKernelInput, kernel_input_first ? 0 : 1);
  b.set_int(Attr::kKernelOutput, kernel_input_first ? 1 : 0);
  b.set_ints(Attr::kKernelSpatial, dimensions);
  b.set_int(Attr::kOutputBatch, 0);
  b.set_int(Attr::kOutputFeature, 1);
  b.set_ints(Attr::kOutputSpatial, dimensions);
  b.set_int(Attr::kFeatureGroups, groups);
  b.set_int(Attr::kBatchGroups, 1);
  b.set_ints(Attr::kWindowStrides, window.strides);
  b.set_ints(Attr::kBaseDilation, base_dilation.empty() ? Dims(spatial, 1) : base_dilation);
  b.set_ints(Attr::kWindowDilation, window.dilations);
  b.set_ints(Attr::kPaddingLow, window.low);
  b.set_ints(Attr::kPaddingHigh, window.high);
}

int64_t groups_of(NodeContext& c, int64_t channels, int64_t per_group, int64_t outputs) {
  const int64_t groups = c.integer("group", 1);
  if (groups <= 0 || channels % groups != 0 || per_group != channels / groups ||
      outputs % groups != 0)
    c.fail(fmt::format("{} channels in {} groups do not fit a kernel of {}→{}", channels, groups,
                       per_group, outputs));
  return groups;
}

/// Input and weights at the given positions; the bias is added by the caller.
ValueId convolution_of(NodeContext& c, size_t input, size_t kernel, ElementType result) {
  c.tensor(input);
  c.tensor(kernel);
  c.expect_rank(input, 3);
  if (c.rank(input) != c.rank(kernel)) c.fail("input and weights differ in rank");
  const Dims& x = c.dims(input);
  const Dims& w = c.dims(kernel);
  const int64_t groups = groups_of(c, x[1], w[1], w[0]);
  const Window window = read_window(c, {x.begin() + 2, x.end()}, {w.begin() + 2, w.end()});
  const ValueId lhs = c.operand(input), rhs = c.operand(kernel);
  return convolve(c, lhs, rhs, window, groups, result);
}

void conv(NodeContext& c) {
  ValueId y = convolution_of(c, 0, 1, c.element(0));
  if (c.has_input(2)) y = add_channel_bias(c, y, c.operand(2));
  c.set(0, y);
}

void conv_integer(NodeContext& c) { c.set(0, convolution_of(c, 0, 1, ElementType::kS32)); }

/// int32 sums scaled and rounded back to 8 bits.
ValueId requantize(NodeContext& c, ValueId sums, size_t scale, size_t zero_point) {
  c.expect_inputs(zero_point + 1);
  const ValueId y_scale = c.operand(scale), y_zero = c.operand(zero_point);
  return c.emit(Opcode::k_uniform_quantize, {sums, y_scale, y_zero}, c.element(zero_point),
                c.dims_of(sums));
}

void qlinear_conv(NodeContext& c) {
  c.expect_inputs(8);
  ValueId y = convolution_of(c, 0, 3, ElementType::kS32);
  if (c.has_input(8)) y = add_channel_bias(c, y, c.operand(8));
  c.set(0, requantize(c, y, 6, 7));
}

void conv_transpose(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 3);
  if (c.rank(0) != c.rank(1)) c.fail("input and weights differ in rank");
  const Dims x = c.dims(0), w = c.dims(1);
  const size_t spatial = x.size() - 2;
  const int64_t groups = c.integer("group", 1);
  if (groups <= 0 || x[1] % groups != 0 || w[0] != x[1])
    c.fail(fmt::format("{} channels in {} groups do not fit a kernel over {}", x[1], groups, w[0]));
  const int64_t outputs = c.multiply(w[1], groups);

  const Dims size(w.begin() + 2, w.end());
  const Dims strides = window_list(c, "strides", spatial, 1, 1);
  const Dims dilations = window_list(c, "dilations", spatial, 1, 1);
  const Dims extra = window_list(c, "output_padding", spatial, 0, 0);
  Dims pads = window_list(c, "pads", 2 * spatial, 0, -kMaxWindowNumber);
  const std::string_view auto_pad = c.string("auto_pad", "NOTSET");
  const auto wanted = c.integer_list("output_shape");
  if (wanted && wanted->size() != spatial) c.fail("'output_shape' must give the spatial sizes");
  if (wanted && std::any_of(wanted->begin(), wanted->end(), [](int64_t d) { return d < 0; }))
    c.fail("a negative size in 'output_shape'");

  Window window{size, Dims(spatial, 1), dilations, Dims(spatial), Dims(spatial), {}};
  Dims dims = {x[0], outputs};
  for (size_t i = 0; i < spatial; ++i) {
    if (size[i] <= 0 || size[i] > kMaxWindowNumber) c.fail("an empty or huge kernel");
    const int64_t reach = c.multiply(dilations[i], size[i] - 1);
    const int64_t full = c.add(c.multiply(strides[i], x[i + 2] - 1), c.add(extra[i], reach + 1));
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (wanted || same) {
      const int64_t target = wanted ? (*wanted)[i] : c.multiply(x[i + 2], strides[i]);
      // A result larger than the whole product is padded at its end.
      const int64_t total = c.add(full, -target);
      const int64_t half = std::max<int64_t>(0, total) / 2;
      const bool more_at_start = total > 0 && auto_pad != "SAME_UPPER";
      pads[i] = more_at_start ? total - half : half;
      pads[i + spatial] = total - pads[i];
    }
    dims.push_back(full - pads[i] - pads[i + spatial]);
    window.low[i] = reach - pads[i];
    window.high[i] = reach - pads[i + spatial] + extra[i];
  }
  window.output.assign(dims.begin() + 2, dims.end());

  const ValueId input = c.operand(0);
  ValueId kernel = c.operand(1);
  if (groups > 1) {
    // The groups' kernels side by side over their outputs. Runtimes pack weights
    // when they load them, so this names sizes and moves nothing.
    Dims packed = w;
    packed[0] = x[1] / groups;
    packed[1] = outputs;
    kernel = c.reshape(kernel, packed);
  }
  ValueId y = c.emit(
      Opcode::k_convolution, {input, kernel}, c.element(0), dims,
      [&](WorkloadBuilder& b) { set_convolution(b, spatial, window, strides, groups, true); });
  if (c.has_input(2)) y = add_channel_bias(c, y, c.operand(2));
  c.set(0, y);
}

/// Samples the input at learnt offsets, then multiplies like a convolution.
void deform_conv(NodeContext& c) {
  c.expect_inputs(3);
  if (c.rank(0) != 4 || c.rank(1) != 4) c.fail("four dimensions are expected");
  const Dims x = c.dims(0), w = c.dims(1);
  const int64_t groups = groups_of(c, x[1], w[1], w[0]);
  const Window window = read_window(c, {x[2], x[3]}, {w[2], w[3]});
  const int64_t taps = c.multiply(w[2], w[3]);
  std::vector<ValueId> operands = {c.operand(0), c.operand(2)};
  if (c.has_input(4)) operands.push_back(c.operand(4));
  const Dims sampled = {x[0], c.multiply(x[1], taps), window.output[0], window.output[1]};
  const ValueId columns = c.emit(Opcode::k_resize, operands, c.type(c.element(0), sampled));
  const ValueId kernel = c.reshape(c.operand(1), {w[0], c.multiply(w[1], taps), 1, 1});
  const Window point{{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, window.output};
  ValueId y = convolve(c, columns, kernel, point, groups, c.element(0));
  if (c.has_input(3)) y = add_channel_bias(c, y, c.operand(3));
  c.set(0, y);
}

void gemm(NodeContext& c) {
  c.expect_inputs(2);
  if (c.rank(0) != 2 || c.rank(1) != 2) c.fail("matrices are expected");
  const int64_t lhs = c.integer("transA", 0) != 0 ? 0 : 1;
  const int64_t rhs = c.integer("transB", 0) != 0 ? 1 : 0;
  const ValueId a = c.operand(0), b = c.operand(1);
  ValueId y = dot_general(c, a, b, {{}, {}, {lhs}, {rhs}}, c.element(0));
  if (const double alpha = c.real("alpha", 1); alpha != 1)
    y = c.elementwise(Opcode::k_multiply, {y, c.number(c.element(0), alpha)});
  if (c.has_input(2)) {
    ValueId bias = c.operand(2);
    const double beta = c.real("beta", 1);
    if (beta != 1) bias = c.elementwise(Opcode::k_multiply, {bias, c.number(c.element(0), beta)});
    if (beta != 0) y = c.elementwise(Opcode::k_add, {y, bias});
  }
  c.set(0, y);
}

void matmul_rule(NodeContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1);
  c.set(0, matmul(c, a, b, c.element(0)));
}

void matmul_integer(NodeContext& c) {
  const ValueId a = c.operand(0), b = c.operand(1);
  c.set(0, matmul(c, a, b, ElementType::kS32));
}

void qlinear_matmul(NodeContext& c) {
  c.expect_inputs(8);
  const ValueId a = c.operand(0), b = c.operand(3);
  c.set(0, requantize(c, matmul(c, a, b, ElementType::kS32), 6, 7));
}

// --- einsum -----------------------------------------------------------------

/// A tensor with a label a dimension. Letters are themselves; the dimensions an
/// ellipsis stands for are 1000 + their position from the right.
struct Labelled {
  ValueId value;
  std::vector<int> labels;
};

constexpr int kEllipsis = 1000;

std::vector<int> parse_labels(NodeContext& c, std::string_view term, std::optional<size_t> rank,
                              size_t ellipsis_rank) {
  std::vector<int> labels;
  bool ellipsis = false;
  size_t letters = 0;
  for (char ch : term) letters += ch != '.' ? 1 : 0;
  for (size_t i = 0; i < term.size(); ++i) {
    const char ch = term[i];
    if (ch == '.') {
      if (ellipsis || term.substr(i, 3) != "...") c.fail("a stray '.' in the equation");
      ellipsis = true;
      i += 2;
      size_t hidden = ellipsis_rank;
      if (rank) {
        if (letters > *rank) c.fail("the equation names more dimensions than an input has");
        hidden = *rank - letters;
      }
      for (size_t d = hidden; d-- > 0;) labels.push_back(kEllipsis + static_cast<int>(d));
    } else if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      labels.push_back(ch);
    } else {
      c.fail(fmt::format("'{}' in the equation", ch));
    }
  }
  return labels;
}

bool has(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// Sums away the labels that `keep` does not want.
Labelled sum_out(NodeContext& c, Labelled x, const std::vector<int>& keep) {
  Dims axes;
  std::vector<int> left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(keep, x.labels[i]))
      left.push_back(x.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) x.value = c.reduce(Opcode::k_add, x.value, axes, false);
  x.labels = std::move(left);
  return x;
}

/// Takes the diagonal of repeated labels.
Labelled without_repeats(NodeContext& c, Labelled x) {
  std::vector<int> labels;
  Dims dims;
  const Dims from = c.dims_of(x.value);
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (!has(labels, x.labels[i])) {
      labels.push_back(x.labels[i]);
      dims.push_back(from[i]);
    }
  if (labels.size() == x.labels.size()) return x;
  const ValueId value =
      c.emit(Opcode::k_gather, {x.value}, c.element_of(x.value), dims,
             [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, Dims(from.size(), 1)); });
  return {value, labels};
}

/// Sizes of 1 broadcast: they drop out of a contraction.
Labelled drop_ones(NodeContext& c, Labelled x, const Labelled& other) {
  const Dims dims = c.dims_of(x.value), theirs = c.dims_of(other.value);
  Dims kept;
  std::vector<int> labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    bool drop = false;
    for (size_t k = 0; k < other.labels.size(); ++k)
      drop = drop || (other.labels[k] == x.labels[i] && dims[i] == 1 && theirs[k] != 1);
    if (drop) continue;
    kept.push_back(dims[i]);
    labels.push_back(x.labels[i]);
  }
  x.value = c.reshape(x.value, kept);
  x.labels = std::move(labels);
  return x;
}

Labelled contract(NodeContext& c, Labelled lhs, Labelled rhs, const std::vector<int>& keep) {
  // What only one side has and nobody wants is summed before the product.
  std::vector<int> lhs_keep = keep, rhs_keep = keep;
  lhs_keep.insert(lhs_keep.end(), rhs.labels.begin(), rhs.labels.end());
  rhs_keep.insert(rhs_keep.end(), lhs.labels.begin(), lhs.labels.end());
  lhs = sum_out(c, std::move(lhs), lhs_keep);
  rhs = sum_out(c, std::move(rhs), rhs_keep);
  const Labelled lhs_full = lhs;
  lhs = drop_ones(c, std::move(lhs), rhs);
  rhs = drop_ones(c, std::move(rhs), lhs_full);
  DotDimensions numbers;
  std::vector<int> labels, lhs_free, rhs_free;
  for (size_t i = 0; i < lhs.labels.size(); ++i) {
    const auto found = std::find(rhs.labels.begin(), rhs.labels.end(), lhs.labels[i]);
    if (found == rhs.labels.end()) {
      lhs_free.push_back(lhs.labels[i]);
      continue;
    }
    const int64_t other = found - rhs.labels.begin();
    const bool batch = has(keep, lhs.labels[i]);
    (batch ? numbers.lhs_batching : numbers.lhs_contracting).push_back(static_cast<int64_t>(i));
    (batch ? numbers.rhs_batching : numbers.rhs_contracting).push_back(other);
    if (batch) labels.push_back(lhs.labels[i]);
  }
  for (int label : rhs.labels)
    if (!has(lhs.labels, label)) rhs_free.push_back(label);
  labels.insert(labels.end(), lhs_free.begin(), lhs_free.end());
  labels.insert(labels.end(), rhs_free.begin(), rhs_free.end());
  const ElementType element = c.element_of(lhs.value);
  return {dot_general(c, lhs.value, rhs.value, numbers, element), labels};
}

void einsum(NodeContext& c) {
  std::string equation;
  for (char ch : c.string("equation", ""))
    if (ch != ' ') equation += ch;
  const size_t arrow = equation.find("->");
  const std::string_view left = std::string_view(equation).substr(0, arrow);
  std::vector<Labelled> terms;
  size_t ellipsis_rank = 0;
  size_t start = 0;
  for (size_t i = 0; i <= left.size(); ++i) {
    if (i < left.size() && left[i] != ',') continue;
    const size_t input = terms.size();
    auto labels = parse_labels(c, left.substr(start, i - start), c.rank(input), 0);
    if (labels.size() != c.rank(input))
      c.fail(
          fmt::format("the equation does not fit input {} of {} dimensions", input, c.rank(input)));
    for (int label : labels)
      if (label >= kEllipsis) ellipsis_rank = std::max(ellipsis_rank, at(label - kEllipsis) + 1);
    terms.push_back({c.operand(input), std::move(labels)});
    start = i + 1;
  }
  if (terms.size() != c.input_count()) c.fail("the equation and the inputs differ in number");

  std::vector<int> output;
  if (arrow != std::string::npos) {
    output =
        parse_labels(c, std::string_view(equation).substr(arrow + 2), std::nullopt, ellipsis_rank);
  } else {
    // Implicit output: the ellipsis, then labels seen once, in alphabetical order.
    std::map<int, int> seen;
    for (const Labelled& term : terms)
      for (int label : term.labels) ++seen[label];
    for (size_t d = ellipsis_rank; d-- > 0;) output.push_back(kEllipsis + static_cast<int>(d));
    for (const auto& [label, count] : seen)
      if (label < kEllipsis && count == 1) output.push_back(label);
  }
  for (Labelled& term : terms) term = without_repeats(c, std::move(term));

  Labelled total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::vector<int> keep = output;
    for (size_t k = i + 1; k < terms.size(); ++k)
      keep.insert(keep.end(), terms[k].labels.begin(), terms[k].labels.end());
    total = contract(c, std::move(total), terms[i], keep);
  }
  total = sum_out(c, std::move(total), output);
  if (total.labels.size() != output.size()) c.fail("the output names a label twice or none has");
  Dims permutation;
  for (int label : output) {
    const auto found = std::find(total.labels.begin(), total.labels.end(), label);
    if (found == total.labels.end()) c.fail("the output names a label that no input has");
    permutation.push_back(found - total.labels.begin());
  }
  c.axes(permutation, permutation.size());
  c.set(0, c.transpose(total.value, permutation));
}

constexpr OperatorRule kRules[] = {
    {"Conv", conv},
    {"ConvInteger", conv_integer},
    {"ConvTranspose", conv_transpose},
    {"DeformConv", deform_conv},
    {"Einsum", einsum},
    {"Gemm", gemm},
    {"MatMul", matmul_rule},
    {"MatMulInteger", matmul_integer},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
};

}  // namespace

Window read_window(NodeContext& c, const Dims& spatial, const Dims& size) {
  const size_t count = spatial.size();
  Window window;
  window.size = window_list(c, "kernel_shape", count, 1, 1);
  if (!size.empty()) {
    if (c.has_attribute("kernel_shape") && window.size != size)
      c.fail("'kernel_shape' is not that of the weights");
    window.size = size;
  } else if (!c.has_attribute("kernel_shape")) {
    c.fail("attribute 'kernel_shape' is missing");
  }
  window.strides = window_list(c, "strides", count, 1, 1);
  window.dilations = window_list(c, "dilations", count, 1, 1);
  const Dims pads = window_list(c, "pads", 2 * count, 0, -kMaxWindowNumber);
  const std::string_view auto_pad = c.string("auto_pad", "NOTSET");
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  for (size_t i = 0; i < count; ++i) {
    if (window.size[i] <= 0 || window.size[i] > kMaxWindowNumber) c.fail("an empty or huge window");
    const int64_t stride = window.strides[i];
    const int64_t reach = c.multiply(window.dilations[i], window.size[i] - 1) + 1;
    int64_t low = 0, high = 0;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const int64_t steps = (spatial[i] + stride - 1) / stride;
      const int64_t total =
          std::max<int64_t>(0, c.add(c.multiply(steps - 1, stride), reach) - spatial[i]);
      low = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    } else if (auto_pad == "NOTSET" || auto_pad.empty()) {
      low = pads[i];
      high = pads[i + count];
    } else if (auto_pad != "VALID") {
      c.fail(fmt::format("auto_pad '{}' is not known", auto_pad));
    }
    const int64_t room = spatial[i] + low + high - reach;
    if (room < 0)
      c.fail(fmt::format("a window of {} does not fit {} with padding {} and {}", reach, spatial[i],
                         low, high));
    int64_t steps = room / stride + 1;
    if (ceil && room % stride != 0) {
      // The last window must still start inside the input or its left padding.
      if (steps * stride < spatial[i] + low) {
        high += stride - room % stride;
        ++steps;
      }
    }
    window.low.push_back(low);
    window.high.push_back(high);
    window.output.push_back(steps);
  }
  return window;
}

ValueId bitcast(NodeContext& c, ValueId value, const Dims& dims, const Dims& minor_to_major) {
  if (c.product(c.dims_of(value)) != c.product(dims)) c.fail("sizes do not fit together");
  const ElementType element = c.element_of(value);
  return c.emit(Opcode::k_bitcast, {{value}}, c.type(element, dims, minor_to_major));
}

ValueId add_channel_bias(NodeContext& c, ValueId value, ValueId bias) {
  Dims dims(c.dims_of(value).size(), 1);
  dims[1] = c.product(c.dims_of(bias));
  return c.elementwise(Opcode::k_add, {value, c.reshape(bias, dims)});
}

ValueId convolve(NodeContext& c, ValueId input, ValueId kernel, const Window& window,
                 int64_t groups, ElementType result, const Dims& base_dilation) {
  Dims dims = {c.dims_of(input)[0], c.dims_of(kernel)[0]};
  dims.insert(dims.end(), window.output.begin(), window.output.end());
  return c.emit(Opcode::k_convolution, {input, kernel}, result, dims, [&](WorkloadBuilder& b) {
    set_convolution(b, window.output.size(), window, base_dilation, groups, false);
  });
}

ValueId dot_general(NodeContext& c, ValueId lhs, ValueId rhs, const DotDimensions& numbers,
                    ElementType result, const Dims& minor_to_major) {
  const Dims left = c.dims_of(lhs), right = c.dims_of(rhs);
  const auto check = [&](const Dims& a, const Dims& b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (left[at(a[i])] != right[at(b[i])])
        c.fail(fmt::format("[{}] and [{}] cannot be multiplied", fmt::join(left, "x"),
                           fmt::join(right, "x")));
  };
  check(numbers.lhs_batching, numbers.rhs_batching);
  check(numbers.lhs_contracting, numbers.rhs_contracting);
  Dims dims;
  for (int64_t i : numbers.lhs_batching) dims.push_back(left[at(i)]);
  const auto add_free = [&](const Dims& from, const Dims& batching, const Dims& contracting) {
    for (size_t i = 0; i < from.size(); ++i) {
      const auto d = static_cast<int64_t>(i);
      if (std::find(batching.begin(), batching.end(), d) == batching.end() &&
          std::find(contracting.begin(), contracting.end(), d) == contracting.end())
        dims.push_back(from[i]);
    }
  };
  add_free(left, numbers.lhs_batching, numbers.lhs_contracting);
  add_free(right, numbers.rhs_batching, numbers.rhs_contracting);
  const TypeId type = c.type(result, dims, minor_to_major);
  return c.emit(Opcode::k_dot_general, {{lhs, rhs}}, type, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kLhsBatching, numbers.lhs_batching);
    b.set_ints(Attr::kRhsBatching, numbers.rhs_batching);
    b.set_ints(Attr::kLhsContracting, numbers.lhs_contracting);
    b.set_ints(Attr::kRhsContracting, numbers.rhs_contracting);
  });
}

ValueId matmul(NodeContext& c, ValueId lhs, ValueId rhs, ElementType result) {
  Dims left = c.dims_of(lhs), right = c.dims_of(rhs);
  if (left.empty() || right.empty()) c.fail("a scalar cannot be multiplied as a matrix");
  const bool lhs_vector = left.size() == 1, rhs_vector = right.size() == 1;
  if (lhs_vector) left.insert(left.begin(), 1);
  if (rhs_vector) right.push_back(1);
  const int64_t m = left[left.size() - 2], k = left.back(), n = right.back();
  if (right[right.size() - 2] != k)
    c.fail(fmt::format("[{}] and [{}] cannot be multiplied", fmt::join(left, "x"),
                       fmt::join(right, "x")));
  const Dims batch = c.broadcast({left.begin(), left.end() - 2}, {right.begin(), right.end() - 2});

  // Which side each batch dimension lives on.
  Dims lhs_dims, rhs_dims;
  DotDimensions numbers;
  std::vector<size_t> shared, lhs_free, rhs_free;
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t from_end = batch.size() - i;
    const int64_t x = from_end + 2 <= left.size() ? left[left.size() - 2 - from_end] : 1;
    const int64_t y = from_end + 2 <= right.size() ? right[right.size() - 2 - from_end] : 1;
    if (x != 1 && y != 1) {
      numbers.lhs_batching.push_back(static_cast<int64_t>(lhs_dims.size()));
      numbers.rhs_batching.push_back(static_cast<int64_t>(rhs_dims.size()));
      shared.push_back(i);
    } else if (x != 1) {
      lhs_free.push_back(i);
    } else if (y != 1) {
      rhs_free.push_back(i);
    }
    if (x != 1) lhs_dims.push_back(x);
    if (y != 1) rhs_dims.push_back(y);
  }
  numbers.lhs_contracting = {static_cast<int64_t>(lhs_dims.size()) + 1};
  numbers.rhs_contracting = {static_cast<int64_t>(rhs_dims.size())};
  lhs_dims.insert(lhs_dims.end(), {m, k});
  rhs_dims.insert(rhs_dims.end(), {k, n});
  lhs = c.reshape(lhs, lhs_dims);
  rhs = c.reshape(rhs, rhs_dims);

  // The natural order is shared, lhs free, m, rhs free, n. `m` counts as
  // position batch.size(), `n` as the one after.
  std::vector<size_t> natural = shared;
  natural.insert(natural.end(), lhs_free.begin(), lhs_free.end());
  natural.push_back(batch.size());
  natural.insert(natural.end(), rhs_free.begin(), rhs_free.end());
  natural.push_back(batch.size() + 1);
  Dims wanted = batch;
  if (!lhs_vector) wanted.push_back(m);
  if (!rhs_vector) wanted.push_back(n);
  if (std::is_sorted(natural.begin(), natural.end()))
    return c.reshape(dot_general(c, lhs, rhs, numbers, result), wanted);
  // Written to memory in the wanted order.
  std::vector<int64_t> major_to_minor(natural.size());
  std::iota(major_to_minor.begin(), major_to_minor.end(), 0);
  std::sort(major_to_minor.begin(), major_to_minor.end(),
            [&](int64_t a, int64_t b) { return natural[at(a)] < natural[at(b)]; });
  const Dims minor_to_major(major_to_minor.rbegin(), major_to_minor.rend());
  return bitcast(c, dot_general(c, lhs, rhs, numbers, result, minor_to_major), wanted);
}

std::span<const OperatorRule> contraction_rules() { return kRules; }

}  // namespace orrery::onnx
