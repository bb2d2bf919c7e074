#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/gradient.h"

namespace orrery {
namespace {

using RawOp = Network::RawOp;

size_t at(int64_t i) { return static_cast<size_t>(i); }

bool contains(const Dims& list, int64_t d) { return std::ranges::find(list, d) != list.end(); }

Tensor zeros(GradientStep& s, const TensorType& type) {
  return s.net.broadcast(s.net.constant(0, type.element), type.dims);
}

Tensor zero(GradientStep& s, const Tensor& like) { return s.net.constant(0, like.element()); }

// --- contractions -----------------------------------------------------------------

/// d own = d result · other over the other's free dimensions. The operand order is
/// the one whose result needs no transpose, where there is one.
void give_dot_side(GradientStep& s, size_t own) {
  if (!s.needs(own)) return;
  const size_t other = 1 - own;
  const Dims& own_batching = s.node.list(own == 0 ? Attr::kLhsBatching : Attr::kRhsBatching);
  const Dims& other_batching = s.node.list(own == 0 ? Attr::kRhsBatching : Attr::kLhsBatching);
  const Dims& own_contracting =
      s.node.list(own == 0 ? Attr::kLhsContracting : Attr::kRhsContracting);
  const Dims& other_contracting =
      s.node.list(own == 0 ? Attr::kRhsContracting : Attr::kLhsContracting);
  const auto free_dims = [](const TensorType& type, const Dims& batching, const Dims& contracting) {
    Dims found;
    for (int64_t d = 0; d < static_cast<int64_t>(type.dims.size()); ++d)
      if (!contains(batching, d) && !contains(contracting, d)) found.push_back(d);
    return found;
  };
  const Dims own_free = free_dims(s.operand_type(own), own_batching, own_contracting);
  const Dims other_free = free_dims(s.operand_type(other), other_batching, other_contracting);
  const auto batch = static_cast<int64_t>(own_batching.size());

  Dims gradient_batching;
  for (int64_t i = 0; i < batch; ++i) gradient_batching.push_back(i);
  const int64_t first_other_free = batch + (own == 0 ? static_cast<int64_t>(own_free.size()) : 0);
  Dims gradient_contracting;
  for (size_t i = 0; i < other_free.size(); ++i)
    gradient_contracting.push_back(first_other_free + static_cast<int64_t>(i));

  // The other's contracted dimensions, in its order, named as the operand's own.
  Dims contracted;
  Dims sorted = other_contracting;
  std::ranges::sort(sorted);
  for (int64_t d : sorted)
    contracted.push_back(
        own_contracting[at(std::ranges::find(other_contracting, d) - other_contracting.begin())]);

  const auto ordered = [&](const Dims& first, const Dims& second) {
    Dims order = own_batching;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());
    return order;
  };
  const Dims gradient_first = ordered(own_free, contracted);
  const Dims other_first = ordered(contracted, own_free);
  const ElementType element = s.operand_type(own).element;
  if (!std::ranges::is_sorted(gradient_first) && std::ranges::is_sorted(other_first)) {
    s.give(own, s.net.dot_general(s.operand(other), s.gradient(), other_batching, gradient_batching,
                                  other_free, gradient_contracting, element));
    return;
  }
  const Tensor product =
      s.net.dot_general(s.gradient(), s.operand(other), gradient_batching, other_batching,
                        gradient_contracting, other_free, element);
  if (std::ranges::is_sorted(gradient_first)) {
    s.give(own, product);
    return;
  }
  Dims permutation(gradient_first.size());
  for (size_t i = 0; i < gradient_first.size(); ++i)
    permutation[at(gradient_first[i])] = static_cast<int64_t>(i);
  s.give(own, s.net.transpose(product, permutation));
}

void dot_general_rule(GradientStep& s) {
  give_dot_side(s, 0);
  give_dot_side(s, 1);
}

/// A grouped kernel [.., in/g, .., out, ..] as the one that leads back: [.., in, .., out/g, ..].
Tensor regrouped_kernel(GradientStep& s, const Tensor& kernel, int64_t groups, int64_t in,
                        int64_t out) {
  if (groups == 1) return kernel;
  Dims split;
  Dims permutation;
  Dims merged = kernel.dims();
  const auto moved = [&](int64_t d) { return d > out ? d + 1 : d; };
  for (int64_t d = 0; d < kernel.rank(); ++d) {
    const int64_t size = kernel.dims()[at(d)];
    if (d == out) split.push_back(groups);
    split.push_back(d == out ? size / groups : size);
    if (d == in) permutation.push_back(out);  // The groups, major to the inputs of each.
    permutation.push_back(d == out ? out + 1 : moved(d));
  }
  merged[at(in)] *= groups;
  merged[at(out)] /= groups;
  return s.net.reshape(s.net.transpose(s.net.reshape(kernel, split), permutation), merged);
}

/// Both gradients of a convolution are convolutions: of the result's gradient with
/// the kernel turned round (the stride becomes dilation of the input), and of the
/// input with the result's gradient (batch and features change places, the stride
/// becomes dilation of the window).
void convolution_rule(GradientStep& s) {
  const Tape::Node& n = s.node;
  const auto integer = [&](Attr key) { return n.integer(key, 0); };
  const TensorType input = s.operand_type(0);
  const TensorType kernel = s.operand_type(1);
  const TensorType output = s.result_type();
  const int64_t groups = n.integer(Attr::kFeatureGroups, 1);
  const Dims stride = n.list(Attr::kWindowStrides);
  const Dims dilation = n.list(Attr::kWindowDilation);
  const Dims low = n.list(Attr::kPaddingLow);
  const Dims input_spatial = n.list(Attr::kInputSpatial);
  const Dims kernel_spatial = n.list(Attr::kKernelSpatial);
  const Dims output_spatial = n.list(Attr::kOutputSpatial);
  const size_t spatial = stride.size();
  const Dims ones(spatial, 1);

  if (s.needs(0)) {
    Dims back_low(spatial);
    Dims back_high(spatial);
    Dims window(spatial);
    for (size_t i = 0; i < spatial; ++i) {
      window[i] = kernel.dims[at(kernel_spatial[i])];
      const int64_t reach = dilation[i] * (window[i] - 1);
      const int64_t dilated = (output.dims[at(output_spatial[i])] - 1) * stride[i] + 1;
      back_low[i] = reach - low[i];
      back_high[i] = input.dims[at(input_spatial[i])] + reach - dilated - back_low[i];
    }
    const Tensor regrouped = regrouped_kernel(s, s.operand(1), groups, integer(Attr::kKernelInput),
                                              integer(Attr::kKernelOutput));
    const bool pointwise = std::ranges::all_of(window, [](int64_t w) { return w == 1; });
    const Tensor turned = pointwise
                              ? regrouped
                              : s.net.emit({.code = Opcode::k_reverse,
                                            .operands = {regrouped},
                                            .results = {{regrouped.element(), regrouped.dims()}},
                                            .lists = {{Attr::kDimensions, kernel_spatial}}})[0];
    s.give(0, s.net.emit({.code = Opcode::k_convolution,
                          .operands = {s.gradient(), turned},
                          .results = {input},
                          .integers = {{Attr::kInputBatch, integer(Attr::kOutputBatch)},
                                       {Attr::kInputFeature, integer(Attr::kOutputFeature)},
                                       {Attr::kKernelInput, integer(Attr::kKernelOutput)},
                                       {Attr::kKernelOutput, integer(Attr::kKernelInput)},
                                       {Attr::kOutputBatch, integer(Attr::kInputBatch)},
                                       {Attr::kOutputFeature, integer(Attr::kInputFeature)},
                                       {Attr::kFeatureGroups, groups},
                                       {Attr::kBatchGroups, 1}},
                          .lists = {{Attr::kInputSpatial, output_spatial},
                                    {Attr::kKernelSpatial, kernel_spatial},
                                    {Attr::kOutputSpatial, input_spatial},
                                    {Attr::kWindowSize, window},
                                    {Attr::kWindowStrides, ones},
                                    {Attr::kPaddingLow, back_low},
                                    {Attr::kPaddingHigh, back_high},
                                    {Attr::kBaseDilation, stride},
                                    {Attr::kWindowDilation, dilation}}})[0]);
  }
  if (s.needs(1)) {
    Dims high(spatial);
    Dims window(spatial);
    for (size_t i = 0; i < spatial; ++i) {
      window[i] = output.dims[at(output_spatial[i])];
      const int64_t reach = stride[i] * (window[i] - 1);
      const int64_t wanted = dilation[i] * (kernel.dims[at(kernel_spatial[i])] - 1);
      high[i] = wanted + reach + 1 - input.dims[at(input_spatial[i])] - low[i];
    }
    s.give(1, s.net.emit({.code = Opcode::k_convolution,
                          .operands = {s.operand(0), s.gradient()},
                          .results = {kernel},
                          .integers = {{Attr::kInputBatch, integer(Attr::kInputFeature)},
                                       {Attr::kInputFeature, integer(Attr::kInputBatch)},
                                       {Attr::kKernelInput, integer(Attr::kOutputBatch)},
                                       {Attr::kKernelOutput, integer(Attr::kOutputFeature)},
                                       {Attr::kOutputBatch, integer(Attr::kKernelInput)},
                                       {Attr::kOutputFeature, integer(Attr::kKernelOutput)},
                                       {Attr::kFeatureGroups, 1},
                                       {Attr::kBatchGroups, groups}},
                          .lists = {{Attr::kInputSpatial, input_spatial},
                                    {Attr::kKernelSpatial, output_spatial},
                                    {Attr::kOutputSpatial, kernel_spatial},
                                    {Attr::kWindowSize, window},
                                    {Attr::kWindowStrides, dilation},
                                    {Attr::kPaddingLow, low},
                                    {Attr::kPaddingHigh, high},
                                    {Attr::kBaseDilation, ones},
                                    {Attr::kWindowDilation, stride}}})[0]);
  }
}

void copy_attributes(const Tape::Node& from, RawOp* to, std::initializer_list<Attr> keys) {
  for (Attr key : keys) {
    const Tape::Attribute* a = from.find(key);
    if (a == nullptr) continue;
    if (const auto* integer = std::get_if<int64_t>(&a->value))
      to->integers.emplace_back(key, *integer);
    if (const auto* real = std::get_if<double>(&a->value)) to->reals.emplace_back(key, *real);
    if (const auto* list = std::get_if<Dims>(&a->value)) to->lists.emplace_back(key, *list);
  }
}

/// An operation `code`(d result, operands…) that gives the gradient in every
/// floating-point operand.
void fused_backward(GradientStep& s, Opcode code, std::initializer_list<Attr> attributes) {
  RawOp op{.code = code, .operands = {s.gradient()}};
  std::vector<size_t> receivers;
  for (size_t i = 0; i < s.node.operands.size(); ++i) {
    op.operands.push_back(s.operand(i));
    // The first three of attention come as one: dq, dk and dv share the recomputed scores.
    if (s.needs(i) || i < 3) {
      receivers.push_back(i);
      op.results.push_back(s.operand_type(i));
    }
  }
  copy_attributes(s.node, &op, attributes);
  const Tensors gradients = s.net.emit(op);
  for (size_t i = 0; i < receivers.size(); ++i) s.give(receivers[i], gradients[i]);
}

void attention_rule(GradientStep& s) {
  fused_backward(s, Opcode::k_attention_backward,
                 {Attr::kCausal, Attr::kWindow, Attr::kHeads, Attr::kKeyValueHeads});
}

void linear_attention_rule(GradientStep& s) {
  fused_backward(s, Opcode::k_linear_attention_backward, {Attr::kWindow});
}

void grouped_dot_rule(GradientStep& s) {
  if (s.needs(0)) {
    RawOp op{.code = Opcode::k_grouped_dot,
             .operands = {s.gradient(), s.net.permuted_view(s.operand(1), {0, 2, 1})},
             .results = {s.operand_type(0)}};
    copy_attributes(s.node, &op, {Attr::kActiveGroups});
    s.give(0, s.net.emit(op)[0]);
  }
  if (s.needs(1)) {
    RawOp op{.code = Opcode::k_grouped_dot,
             .operands = {s.operand(0), s.gradient()},
             .results = {s.operand_type(1)}};
    copy_attributes(s.node, &op, {Attr::kActiveGroups});
    s.give(1, s.net.emit(op)[0]);
  }
}

// --- normalisations and reductions --------------------------------------------------

void normalization_rule(GradientStep& s) {
  RawOp op{.code = Opcode::k_normalization_backward, .operands = {s.gradient()}};
  for (size_t i = 0; i < s.node.operands.size(); ++i) {
    op.operands.push_back(s.operand(i));
    op.results.push_back({s.operand_type(i).element, s.operand_type(i).dims});
  }
  copy_attributes(s.node, &op, {Attr::kDimensions, Attr::kEpsilon, Attr::kFeatureGroups});
  const Tensors gradients = s.net.emit(op);
  for (size_t i = 0; i < gradients.size(); ++i) s.give(i, gradients[i]);
}

/// From the probabilities, which are kept, rather than from the logits.
void softmax_rule(GradientStep& s) {
  RawOp op{.code = Opcode::k_normalization_backward,
           .operands = {s.gradient(), s.result()},
           .results = {s.operand_type(0)}};
  copy_attributes(s.node, &op, {Attr::kDimensions});
  s.give(0, s.net.emit(op)[0]);
}

void batch_norm_training_rule(GradientStep& s) {
  RawOp op{.code = Opcode::k_batch_norm_grad,
           .operands = {s.operand(0), s.operand(1), s.result(1), s.result(2), s.gradient(0)},
           .results = {s.operand_type(0), s.operand_type(1), s.operand_type(2)}};
  copy_attributes(s.node, &op, {Attr::kDimensions, Attr::kEpsilon});
  const Tensors gradients = s.net.emit(op);
  for (size_t i = 0; i < gradients.size(); ++i) s.give(i, gradients[i]);
}

void reduce_rule(GradientStep& s) {
  if (s.node.region != RawOp::Region::kAdd)
    throw_internal("no gradient rule for a reduce that does not add");
  Dims kept = s.operand_type(0).dims;
  for (int64_t d : s.node.list(Attr::kDimensions)) kept[at(d)] = 1;
  s.give(0, s.net.broadcast(s.net.reshape(s.gradient(), kept), s.operand_type(0).dims));
}

void reduce_window_rule(GradientStep& s) {
  const TensorType input = s.operand_type(0);
  const Dims& window = s.node.list(Attr::kWindowSize);
  const Dims& strides = s.node.list(Attr::kWindowStrides);
  const Dims& low = s.node.list(Attr::kPaddingLow);
  if (s.node.region == RawOp::Region::kMaximum) {
    RawOp op{.code = Opcode::k_select_and_scatter,
             .operands = {s.operand(0), s.gradient(), s.net.constant(0, input.element)},
             .results = {input},
             .region = RawOp::Region::kSelectGreaterAndAdd};
    copy_attributes(
        s.node, &op,
        {Attr::kWindowSize, Attr::kWindowStrides, Attr::kPaddingLow, Attr::kPaddingHigh});
    s.give(0, s.net.emit(op)[0]);
    return;
  }
  // Every input gets the sum of the windows it was in: the gradient spread out by
  // the stride, then summed over the same window.
  const Tensor gradient = s.gradient();
  const size_t rank = input.dims.size();
  Dims back_low(rank);
  Dims back_high(rank);
  Dims interior(rank);
  Dims padded(rank);
  for (size_t d = 0; d < rank; ++d) {
    interior[d] = strides[d] - 1;
    const int64_t spread = (gradient.dims()[d] - 1) * strides[d] + 1;
    back_low[d] = window[d] - 1 - low[d];
    back_high[d] = input.dims[d] + window[d] - 1 - spread - back_low[d];
    padded[d] = input.dims[d] + window[d] - 1;
  }
  const Tensor zero_value = zero(s, gradient);
  const Tensor spread = s.net.emit({.code = Opcode::k_pad,
                                    .operands = {gradient, zero_value},
                                    .results = {{input.element, padded}},
                                    .lists = {{Attr::kPaddingLow, back_low},
                                              {Attr::kPaddingHigh, back_high},
                                              {Attr::kPaddingInterior, interior}}})[0];
  s.give(0, s.net.emit({.code = Opcode::k_reduce_window,
                        .operands = {spread, zero_value},
                        .results = {input},
                        .lists = {{Attr::kWindowSize, window},
                                  {Attr::kWindowStrides, Dims(rank, 1)},
                                  {Attr::kPaddingLow, Dims(rank, 0)},
                                  {Attr::kPaddingHigh, Dims(rank, 0)},
                                  {Attr::kBaseDilation, Dims(rank, 1)},
                                  {Attr::kWindowDilation, Dims(rank, 1)}},
                        .region = RawOp::Region::kAdd})[0]);
}

/// Of nearest-neighbour up-sampling: each pixel gets the sum over its copies.
void resize_rule(GradientStep& s) {
  const TensorType input = s.operand_type(0);
  Dims factors;
  for (size_t d = 0; d < input.dims.size(); ++d)
    factors.push_back(s.result_type().dims[d] / input.dims[d]);
  const size_t rank = factors.size();
  s.give(0, s.net.emit({.code = Opcode::k_reduce_window,
                        .operands = {s.gradient(), s.net.constant(0, input.element)},
                        .results = {input},
                        .lists = {{Attr::kWindowSize, factors},
                                  {Attr::kWindowStrides, factors},
                                  {Attr::kPaddingLow, Dims(rank, 0)},
                                  {Attr::kPaddingHigh, Dims(rank, 0)},
                                  {Attr::kBaseDilation, Dims(rank, 1)},
                                  {Attr::kWindowDilation, Dims(rank, 1)}},
                        .region = RawOp::Region::kAdd})[0]);
}

void cumsum_rule(GradientStep& s) {
  const Dims dimensions = s.node.list(Attr::kDimensions);
  const auto reverse = [&](const Tensor& x) {
    return s.net.emit({.code = Opcode::k_reverse,
                       .operands = {x},
                       .results = {{x.element(), x.dims()}},
                       .lists = {{Attr::kDimensions, dimensions}}})[0];
  };
  s.give(0, reverse(s.net.cumsum(reverse(s.gradient()), static_cast<int>(dimensions.at(0)))));
}

// --- look-ups and shapes --------------------------------------------------------------

void gather_rule(GradientStep& s) {
  RawOp op{.code = Opcode::k_scatter,
           .operands = {zeros(s, s.operand_type(0)), s.operand(1), s.gradient()},
           .results = {s.operand_type(0)},
           .lists = {{Attr::kUpdateWindowDims, s.node.list(Attr::kOffsetDims)},
                     {Attr::kInsertedWindowDims, s.node.list(Attr::kCollapsedSliceDims)}},
           .region = RawOp::Region::kAdd};
  copy_attributes(s.node, &op,
                  {Attr::kStartIndexMap, Attr::kIndexVectorDim, Attr::kOperandBatchingDims,
                   Attr::kStartIndicesBatchingDims});
  s.give(0, s.net.emit(op)[0]);
}

void top_k_rule(GradientStep& s) {
  s.give(0, s.net.emit({.code = Opcode::k_scatter,
                        .operands = {zeros(s, s.operand_type(0)), s.result(1), s.gradient(0)},
                        .results = {s.operand_type(0)},
                        .integers = {{Attr::kIndexVectorDim, 2}},
                        .lists = {{Attr::kUpdateWindowDims, {}},
                                  {Attr::kInsertedWindowDims, {1}},
                                  {Attr::kOperandBatchingDims, {0}},
                                  {Attr::kStartIndicesBatchingDims, {0}},
                                  {Attr::kStartIndexMap, {1}}},
                        .region = RawOp::Region::kAdd})[0]);
}

Dims inverse(const Dims& permutation) {
  Dims result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    result[at(permutation[i])] = static_cast<int64_t>(i);
  return result;
}

void reshape_rule(GradientStep& s) {
  s.give(0, s.net.reshape(s.gradient(), s.operand_type(0).dims));
}
void transpose_rule(GradientStep& s) {
  s.give(0, s.net.transpose(s.gradient(), inverse(s.node.list(Attr::kDimensions))));
}
void bitcast_rule(GradientStep& s) {
  s.give(0, s.net.permuted_view(s.gradient(), inverse(s.node.list(Attr::kDimensions))));
}

void broadcast_rule(GradientStep& s) {
  const Dims& map = s.node.list(Attr::kDimensions);
  const TensorType input = s.operand_type(0);
  const TensorType output = s.result_type();
  Dims summed;
  for (int64_t d = 0; d < static_cast<int64_t>(output.dims.size()); ++d) {
    const auto from = std::ranges::find(map, d);
    if (from == map.end() || (input.dims[at(from - map.begin())] == 1 && output.dims[at(d)] != 1))
      summed.push_back(d);
  }
  s.give(0, s.net.reshape(summed.empty() ? s.gradient() : s.net.reduce_sum(s.gradient(), summed),
                          input.dims));
}

void concatenate_rule(GradientStep& s) {
  const auto d = static_cast<int>(s.node.list(Attr::kDimensions).at(0));
  int64_t start = 0;
  for (size_t i = 0; i < s.node.operands.size(); ++i) {
    const int64_t size = s.operand_type(i).dims[at(d)];
    if (s.needs(i)) s.give(i, s.net.slice(s.gradient(), d, start, start + size));
    start += size;
  }
}

void slice_rule(GradientStep& s) {
  Dims high = s.operand_type(0).dims;
  const Dims& limit = s.node.list(Attr::kLimit);
  for (size_t i = 0; i < high.size(); ++i) high[i] -= limit[i];
  s.give(0, s.net.pad(s.gradient(), s.node.list(Attr::kStart), high));
}

void pad_rule(GradientStep& s) {
  const Dims& low = s.node.list(Attr::kPaddingLow);
  Tensor gradient = s.gradient();
  for (size_t d = 0; d < low.size(); ++d)
    gradient =
        s.net.slice(gradient, static_cast<int>(d), low[d], low[d] + s.operand_type(0).dims[d]);
  s.give(0, gradient);
}

// --- elementwise ------------------------------------------------------------------------

void convert_rule(GradientStep& s) {
  s.give(0, s.net.convert(s.gradient(), s.operand_type(0).element));
}

void add_rule(GradientStep& s) {
  s.give(0, s.gradient());
  s.give(1, s.gradient());
}

void subtract_rule(GradientStep& s) {
  s.give(0, s.gradient());
  if (s.needs(1)) s.give(1, s.net.negate(s.gradient()));
}

void multiply_rule(GradientStep& s) {
  if (s.needs(0)) s.give(0, s.net.multiply(s.gradient(), s.operand(1)));
  if (s.needs(1)) s.give(1, s.net.multiply(s.gradient(), s.operand(0)));
}

void divide_rule(GradientStep& s) {
  const Tensor quotient = s.net.divide(s.gradient(), s.operand(1));
  s.give(0, quotient);
  if (s.needs(1)) s.give(1, s.net.negate(s.net.multiply(quotient, s.result())));
}

void extremum_rule(GradientStep& s) {
  const Tensor first =
      s.net.compare(s.operand(0), s.operand(1), s.node.code == Opcode::k_maximum ? "GE" : "LE");
  const Tensor dy = s.gradient();
  if (s.needs(0)) s.give(0, s.net.select(first, dy, zero(s, dy)));
  if (s.needs(1)) s.give(1, s.net.select(first, zero(s, dy), dy));
}

void select_rule(GradientStep& s) {
  const Tensor dy = s.gradient();
  if (s.needs(1)) s.give(1, s.net.select(s.operand(0), dy, zero(s, dy)));
  if (s.needs(2)) s.give(2, s.net.select(s.operand(0), zero(s, dy), dy));
}

/// Inside the bounds the clamped value is the value, so the result serves.
void clamp_rule(GradientStep& s) {
  const Tensor y = s.result();
  const Tensor dy = s.gradient();
  const Tensor above = s.net.compare(y, s.operand(0), "GT");
  const Tensor below = s.net.compare(y, s.operand(2), "LT");
  const Tensor inside = s.net.emit({.code = Opcode::k_and,
                                    .operands = {above, below},
                                    .results = {{ElementType::kBool, y.dims()}}})[0];
  s.give(1, s.net.select(inside, dy, zero(s, dy)));
}

void relu_rule(GradientStep& s) {
  const Tensor dy = s.gradient();
  s.give(0, s.net.select(s.net.compare(s.result(), zero(s, dy), "GT"), dy, zero(s, dy)));
}

/// Φ(x) + x·φ(x), with Φ and φ of the normal distribution.
void gelu_rule(GradientStep& s) {
  Network& net = s.net;
  const Tensor x = s.operand(0);
  const Tensor erf = net.emit({.code = Opcode::k_erf,
                               .operands = {net.scale(x, std::sqrt(0.5))},
                               .results = {{x.element(), x.dims()}}})[0];
  const Tensor cumulative = net.scale(net.offset(erf, 1), 0.5);
  const Tensor density =
      net.scale(net.exponential(net.scale(net.square(x), -0.5)), 1 / std::sqrt(2 * M_PI));
  s.give(0, net.multiply(s.gradient(), net.add(cumulative, net.multiply(x, density))));
}

/// σ·(1 + x·(1 - σ))
void silu_rule(GradientStep& s) {
  Network& net = s.net;
  const Tensor x = s.operand(0);
  const Tensor sigma = net.sigmoid(x);
  const Tensor slope =
      net.multiply(sigma, net.offset(net.multiply(x, net.offset(net.negate(sigma), 1)), 1));
  s.give(0, net.multiply(s.gradient(), slope));
}

void tanh_rule(GradientStep& s) {
  s.give(0, s.net.multiply(s.gradient(), s.net.offset(s.net.negate(s.net.square(s.result())), 1)));
}

void logistic_rule(GradientStep& s) {
  const Tensor y = s.result();
  s.give(0, s.net.multiply(s.gradient(), s.net.multiply(y, s.net.offset(s.net.negate(y), 1))));
}

void exponential_rule(GradientStep& s) { s.give(0, s.net.multiply(s.gradient(), s.result())); }
void log_rule(GradientStep& s) { s.give(0, s.net.divide(s.gradient(), s.operand(0))); }
void log_plus_one_rule(GradientStep& s) {
  s.give(0, s.net.divide(s.gradient(), s.net.offset(s.operand(0), 1)));
}
void sqrt_rule(GradientStep& s) {
  s.give(0, s.net.divide(s.net.scale(s.gradient(), 0.5), s.result()));
}
void rsqrt_rule(GradientStep& s) {
  const Tensor y = s.result();
  s.give(0, s.net.scale(s.net.multiply(s.gradient(), s.net.multiply(y, s.net.square(y))), -0.5));
}
void square_rule(GradientStep& s) {
  s.give(0, s.net.scale(s.net.multiply(s.gradient(), s.operand(0)), 2));
}
void sine_rule(GradientStep& s) {
  s.give(0, s.net.multiply(s.gradient(), s.net.cosine(s.operand(0))));
}
void cosine_rule(GradientStep& s) {
  s.give(0, s.net.negate(s.net.multiply(s.gradient(), s.net.sine(s.operand(0)))));
}
void negate_rule(GradientStep& s) { s.give(0, s.net.negate(s.gradient())); }

}  // namespace

void apply_gradient_rule(GradientStep& step) {
  switch (step.node.code) {
    case Opcode::k_dot_general:
      return dot_general_rule(step);
    case Opcode::k_convolution:
      return convolution_rule(step);
    case Opcode::k_attention:
      return attention_rule(step);
    case Opcode::k_linear_attention:
      return linear_attention_rule(step);
    case Opcode::k_grouped_dot:
      return grouped_dot_rule(step);
    case Opcode::k_layer_norm:
    case Opcode::k_rms_norm:
    case Opcode::k_group_norm:
      return normalization_rule(step);
    case Opcode::k_softmax:
      return softmax_rule(step);
    case Opcode::k_batch_norm_training:
      return batch_norm_training_rule(step);
    case Opcode::k_reduce:
      return reduce_rule(step);
    case Opcode::k_reduce_window:
      return reduce_window_rule(step);
    case Opcode::k_resize:
      return resize_rule(step);
    case Opcode::k_cumsum:
      return cumsum_rule(step);
    case Opcode::k_gather:
      return gather_rule(step);
    case Opcode::k_top_k:
      return top_k_rule(step);
    case Opcode::k_reshape:
      return reshape_rule(step);
    case Opcode::k_transpose:
      return transpose_rule(step);
    case Opcode::k_bitcast:
      return bitcast_rule(step);
    case Opcode::k_broadcast_in_dim:
      return broadcast_rule(step);
    case Opcode::k_concatenate:
      return concatenate_rule(step);
    case Opcode::k_slice:
      return slice_rule(step);
    case Opcode::k_pad:
      return pad_rule(step);
    case Opcode::k_convert:
      return convert_rule(step);
    case Opcode::k_add:
      return add_rule(step);
    case Opcode::k_subtract:
      return subtract_rule(step);
    case Opcode::k_multiply:
      return multiply_rule(step);
    case Opcode::k_divide:
      return divide_rule(step);
    case Opcode::k_maximum:
    case Opcode::k_minimum:
      return extremum_rule(step);
    case Opcode::k_select:
      return select_rule(step);
    case Opcode::k_clamp:
      return clamp_rule(step);
    case Opcode::k_relu:
      return relu_rule(step);
    case Opcode::k_gelu:
      return gelu_rule(step);
    case Opcode::k_silu:
      return silu_rule(step);
    case Opcode::k_tanh:
      return tanh_rule(step);
    case Opcode::k_logistic:
      return logistic_rule(step);
    case Opcode::k_exponential:
      return exponential_rule(step);
    case Opcode::k_log:
      return log_rule(step);
    case Opcode::k_log_plus_one:
      return log_plus_one_rule(step);
    case Opcode::k_sqrt:
      return sqrt_rule(step);
    case Opcode::k_rsqrt:
      return rsqrt_rule(step);
    case Opcode::k_square:
      return square_rule(step);
    case Opcode::k_sine:
      return sine_rule(step);
    case Opcode::k_cosine:
      return cosine_rule(step);
    case Opcode::k_negate:
      return negate_rule(step);
    default:
      throw_internal(fmt::format("no gradient rule for '{}' (in {})", name(step.node.code),
                                 step.node.scope.empty() ? "main" : step.node.scope));
  }
}

}  // namespace orrery
