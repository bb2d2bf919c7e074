#include <fmt/format.h>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/network_state.h"

// Mixtures of experts: tokens are routed, their rows sorted by expert so that one
// grouped product serves all experts, and put back weighted.

namespace orrery {
namespace {

/// x[rows, n] at indices[rows, k] → [rows, k].
Network::RawOp take_along_rows(const Tensor& x, const Tensor& indices) {
  return {.code = Opcode::k_gather,
          .operands = {x, indices},
          .results = {{x.element(), indices.dims()}},
          .integers = {{Attr::kIndexVectorDim, 2}},
          .lists = {{Attr::kOffsetDims, {}},
                    {Attr::kCollapsedSliceDims, {1}},
                    {Attr::kOperandBatchingDims, {0}},
                    {Attr::kStartIndicesBatchingDims, {0}},
                    {Attr::kStartIndexMap, {1}},
                    {Attr::kSliceSizes, {1, 1}}}};
}

/// Sorts `keys` and carries their positions along.
Network::RawOp sort_with_positions(const Tensor& keys, const Tensor& positions) {
  return {.code = Opcode::k_sort,
          .operands = {keys, positions},
          .results = {{keys.element(), keys.dims()}, {positions.element(), positions.dims()}},
          .lists = {{Attr::kDimensions, {0}}},
          .region = Network::RawOp::Region::kLess};
}

}  // namespace

Routing Network::route(const Tensor& logits, const RoutingOptions& options) {
  using Scores = RoutingOptions::Scores;
  const int64_t tokens = logits.dim(0);
  const int64_t experts = logits.dim(1);
  if (options.k < 1 || options.k > experts)
    throw_usage(fmt::format("'{}' routes each token to {} of {} experts; allowed are 1 to {}",
                            state_->name, options.k, experts, experts));
  const Tensor wide = convert(logits, ElementType::kF32);
  const Tensor scores = options.scores == Scores::kSoftmax   ? softmax(wide)
                        : options.scores == Scores::kSigmoid ? sigmoid(wide)
                                                             : wide;
  const Tensor ranked = options.correction_bias.valid()
                            ? add(scores, convert(options.correction_bias, ElementType::kF32))
                            : scores;
  const Tensors top = emit({.code = Opcode::k_top_k,
                            .operands = {ranked},
                            .results = {{ElementType::kF32, {tokens, options.k}},
                                        {ElementType::kS32, {tokens, options.k}}},
                            .integers = {{Attr::kK, options.k}}});
  Tensor weights =
      options.correction_bias.valid() ? emit(take_along_rows(scores, top[1]))[0] : top[0];
  if (options.scores == Scores::kLogits) weights = softmax(weights);
  if (options.renormalise) {
    const Tensor sum = reshape(reduce_sum(weights, {1}), {tokens, 1});
    weights = divide(weights, sum);
  }
  if (options.scale != 1.0) weights = scale(weights, options.scale);

  const int64_t rows = tokens * options.k;
  const Tensors sorted =
      emit(sort_with_positions(reshape(top[1], {rows}), iota(ElementType::kS32, {rows}, 0)));
  return {convert(weights, state_->options.activations), top[1], sorted[1], sorted[0], experts};
}

Tensor Network::dispatch(const Tensor& x, const Routing& routing) {
  const Tensor token = divide(
      routing.order, constant(static_cast<double>(routing.experts.dim(1)), ElementType::kS32));
  return embedding(x, token);
}

Tensor Network::grouped_linear(const Tensor& x, std::string_view name, int64_t groups, int64_t out,
                               const Routing& routing, const LinearOptions& options,
                               int64_t active_groups) {
  Tensors scales;
  const Tensor matrices = weight(name, {groups, x.dim(-1), out}, options.format, &scales, 1, 2);
  const Tensor input = contraction_input(x, options.format, &scales);
  RawOp dot{.code = Opcode::k_grouped_dot,
            .operands = {input, matrices},
            .results = {{x.element(), {x.dim(0), out}}}};
  dot.operands.insert(dot.operands.end(), scales.begin(), scales.end());
  const ElementType compute =
      options.format.compute == ElementType::kNone ? x.element() : options.format.compute;
  if (compute != input.element() || compute != matrices.element())
    dot.integers.emplace_back(Attr::kComputeType, static_cast<int64_t>(compute));
  if (active_groups > 0) dot.integers.emplace_back(Attr::kActiveGroups, active_groups);
  Tensor product = emit(dot)[0];
  if (!options.bias) return product;
  const Tensor bias = parameter(fmt::format("{}.bias", name), {groups, out});
  return add(product, convert(embedding(bias, routing.sorted_experts), x.element()));
}

Tensor Network::combine(const Tensor& y, const Routing& routing) {
  const int64_t tokens = routing.weights.dim(0);
  const int64_t k = routing.weights.dim(1);
  const Tensor inverse =
      emit(sort_with_positions(routing.order, iota(ElementType::kS32, {tokens * k}, 0)))[1];
  const Tensor rows = reshape(embedding(y, inverse), {tokens, k, y.dim(-1)});
  return reduce_sum(multiply(rows, reshape(convert(routing.weights, y.element()), {tokens, k, 1})),
                    {1});
}

}  // namespace orrery
