// Reductions, scans, sorts and the losses made of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "orrery/workload/readers/onnx/fold.h"
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Reduction {
  Dims axes;
  bool keep = true;
};

Reduction reduction_of(NodeContext& c) {
  Reduction r;
  r.keep = c.integer("keepdims", 1) != 0;
  std::optional<Dims> given = c.integer_list("axes");
  if (!given && c.has_input(1)) given = c.integers(1, "the axes");
  if (given && !given->empty()) {
    r.axes = c.axes(*given, c.rank(0));
    std::sort(r.axes.begin(), r.axes.end());
  } else if (c.integer("noop_with_empty_axes", 0) == 0) {
    r.axes.resize(c.rank(0));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  return r;
}

ValueId count_reciprocal(NodeContext& c, const Dims& axes) {
  double count = 1;
  for (int64_t a : axes) count *= static_cast<double>(c.dims(0)[at(a)]);
  return c.number(c.element(0), count > 0 ? 1 / count : 0);
}

template <Opcode kCombine>
void plain(NodeContext& c) {
  const Reduction r = reduction_of(c);
  const ValueId x = c.operand(0);
  if (r.axes.empty()) return c.set(0, c.emit(Opcode::k_identity, {x}, c.element(0), c.dims(0)));
  c.set(0, c.reduce(kCombine, x, r.axes, r.keep));
}

void reduce_mean(NodeContext& c) {
  const Reduction r = reduction_of(c);
  const ValueId sum = c.reduce(Opcode::k_add, c.operand(0), r.axes, r.keep);
  c.set(0, c.elementwise(Opcode::k_multiply, {sum, count_reciprocal(c, r.axes)}));
}

/// after(Σ before(x)); k_identity stands for nothing.
template <Opcode kBefore, Opcode kAfter>
void wrapped_sum(NodeContext& c) {
  const Reduction r = reduction_of(c);
  ValueId x = c.operand(0);
  if (kBefore != Opcode::k_identity) x = c.elementwise(kBefore, {x});
  x = c.reduce(Opcode::k_add, x, r.axes, r.keep);
  if (kAfter != Opcode::k_identity) x = c.elementwise(kAfter, {x});
  c.set(0, x);
}

void log_sum_exp(NodeContext& c) {
  const Reduction r = reduction_of(c);
  const ValueId x = c.operand(0);
  const ValueId top = c.reduce(Opcode::k_maximum, x, r.axes, true);
  const ValueId shifted =
      c.elementwise(Opcode::k_exponential, {c.elementwise(Opcode::k_subtract, {x, top})});
  const ValueId sum = c.reduce(Opcode::k_add, shifted, r.axes, true);
  const ValueId total = c.elementwise(Opcode::k_add, {c.elementwise(Opcode::k_log, {sum}), top});
  Dims dims;
  for (size_t i = 0; i < c.rank(0); ++i) {
    const bool gone =
        std::find(r.axes.begin(), r.axes.end(), static_cast<int64_t>(i)) != r.axes.end();
    if (!gone || r.keep) dims.push_back(gone ? 1 : c.dims(0)[i]);
  }
  c.set(0, c.reshape(total, dims));
}

template <Opcode kCombine>
bool fold_reduce(NodeContext& c) {
  const Constant& input = *c.constant(0);
  const Reduction r = reduction_of(c);
  Dims kept = input.dims, dropped;
  for (int64_t a : r.axes) kept[at(a)] = 1;
  for (size_t i = 0; i < input.dims.size(); ++i)
    if (std::find(r.axes.begin(), r.axes.end(), static_cast<int64_t>(i)) == r.axes.end())
      dropped.push_back(input.dims[i]);
  Constant result = Constant::zeros(input.element, kept);
  if (input.size() == 0) return false;
  std::vector<bool> seen(result.size());
  for (size_t i = 0; i < input.size(); ++i) {
    const size_t to = broadcast_position(input.dims, kept, i);
    if (!seen[to]) {
      seen[to] = true;
      result.copy(to, input, i);
      continue;
    }
    if (input.is_real()) {
      double& total = result.reals[to];
      const double x = input.reals[i];
      total = kCombine == Opcode::k_add        ? total + x
              : kCombine == Opcode::k_multiply ? total * x
              : kCombine == Opcode::k_maximum  ? std::max(total, x)
                                               : std::min(total, x);
    } else {
      int64_t& total = result.integers[to];
      const int64_t x = input.integers[i];
      const auto ut = static_cast<uint64_t>(total), ux = static_cast<uint64_t>(x);
      total = kCombine == Opcode::k_add        ? static_cast<int64_t>(ut + ux)
              : kCombine == Opcode::k_multiply ? static_cast<int64_t>(ut * ux)
              : kCombine == Opcode::k_maximum  ? std::max(total, x)
                                               : std::min(total, x);
    }
  }
  if (!r.keep) result.dims = dropped;
  return c.set_constant(0, std::move(result));
}

void arg_extreme(NodeContext& c) {
  c.expect_rank(0, 1);
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  Dims dims = c.dims(0);
  if (c.integer("keepdims", 1) != 0)
    dims[at(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  c.set(0, c.emit(Opcode::k_arg_max, {c.operand(0)}, ElementType::kS64, dims,
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {axis}); }));
}

void hardmax(NodeContext& c) {
  c.expect_rank(0, 1);
  const int64_t axis = c.axis(c.integer("axis", c.version() < 13 ? 1 : -1), c.rank(0));
  Dims kept = c.dims(0), line(c.rank(0), 1);
  kept[at(axis)] = 1;
  line[at(axis)] = c.dims(0)[at(axis)];
  const ValueId top = c.emit(Opcode::k_arg_max, {c.operand(0)}, ElementType::kS64, kept,
                             [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {axis}); });
  const ValueId hit = c.compare("EQ", c.iota(ElementType::kS64, line, axis), top);
  c.set(0, c.convert(hit, c.element(0)));
}

void top_k(NodeContext& c) {
  c.expect_rank(0, 1);
  const int64_t axis = c.axis(c.integer("axis", -1), c.rank(0));
  int64_t k = 0;
  if (c.version() < 10) {
    k = c.required_integer("k");
  } else if (const auto known = c.known_integers(1)) {
    if (known->size() != 1) c.fail("k must be one number");
    k = (*known)[0];
  } else {
    std::vector<std::optional<int64_t>> open(c.dims(0).begin(), c.dims(0).end());
    open[at(axis)] = std::nullopt;
    k = c.data_dependent(0, open)[at(axis)];
  }
  Dims dims = c.dims(0);
  if (k < 0 || k > dims[at(axis)]) c.fail(fmt::format("the {} largest of {}", k, dims[at(axis)]));
  dims[at(axis)] = k;
  const ValueId x = c.operand(0);
  const std::array types = {c.type(c.element(0), dims), c.type(ElementType::kS64, dims)};
  const auto results = c.emit_many(Opcode::k_top_k, {{x}}, types, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kDimensions, {axis});
    b.set_int(Attr::kK, k);
  });
  c.set(0, results[0]);
  c.set(1, results[1]);
}

void cumulative(NodeContext& c) {
  c.expect_inputs(2);
  const auto known = c.known_integers(1);
  // Any axis costs the same; the last stands for one that data decides.
  const int64_t axis = c.axis(known && known->size() == 1 ? (*known)[0] : -1, c.rank(0));
  c.set(0, c.emit(Opcode::k_cumsum, {c.operand(0)}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {axis}); }));
}

// --- losses -----------------------------------------------------------------

/// −weight·log p of each target class, reduced as asked; log p has classes in dimension 1.
ValueId likelihood_loss(NodeContext& c, ValueId log_probability) {
  c.expect_rank(0, 2);
  const Dims targets = c.dims(1);
  Dims expected = c.dims(0);
  expected.erase(expected.begin() + 1);
  if (targets != expected) c.fail("scores and labels do not fit together");
  const ElementType element = c.element(0);
  const ValueId labels = c.operand(1);
  const auto pick = [&](ValueId from) {
    const size_t rank = c.dims_of(from).size();
    return c.emit(Opcode::k_gather, {from, labels}, element, targets,
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, Dims(rank, 1)); });
  };
  ValueId loss = c.elementwise(Opcode::k_negate, {pick(log_probability)});
  ValueId weights;
  if (c.has_input(2)) {
    weights = pick(c.operand(2));
    loss = c.elementwise(Opcode::k_multiply, {loss, weights});
  }
  const std::string_view how = c.string("reduction", "mean");
  if (how == "none") return loss;
  Dims all(targets.size());
  std::iota(all.begin(), all.end(), 0);
  loss = c.reduce(Opcode::k_add, loss, all, false);
  if (how == "sum") return loss;
  if (how != "mean") c.fail(fmt::format("reduction '{}' is not known", how));
  const ValueId count =
      weights.valid()
          ? c.reduce(Opcode::k_add, weights, all, false)
          : c.number(element, static_cast<double>(std::max<int64_t>(1, c.product(targets))));
  return c.elementwise(Opcode::k_divide, {loss, count});
}

void negative_log_likelihood(NodeContext& c) {
  c.expect_inputs(2);
  c.set(0, likelihood_loss(c, c.operand(0)));
}

void softmax_cross_entropy(NodeContext& c) {
  c.expect_inputs(2);
  const ValueId probability =
      c.emit(Opcode::k_softmax, {c.operand(0)}, c.element(0), c.dims(0),
             [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {1}); });
  const ValueId log_probability = c.elementwise(Opcode::k_log, {probability});
  c.set(0, likelihood_loss(c, log_probability));
  c.set(1, log_probability);
}

constexpr OperatorRule kRules[] = {
    {"ArgMax", arg_extreme},
    {"ArgMin", arg_extreme},
    {"CumProd", cumulative},
    {"CumSum", cumulative},
    {"Hardmax", hardmax},
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"ReduceL1", wrapped_sum<Opcode::k_abs, Opcode::k_identity>},
    {"ReduceL2", wrapped_sum<Opcode::k_square, Opcode::k_sqrt>},
    {"ReduceLogSum", wrapped_sum<Opcode::k_identity, Opcode::k_log>},
    {"ReduceLogSumExp", log_sum_exp},
    {"ReduceMax", plain<Opcode::k_maximum>, fold_reduce<Opcode::k_maximum>},
    {"ReduceMean", reduce_mean},
    {"ReduceMin", plain<Opcode::k_minimum>, fold_reduce<Opcode::k_minimum>},
    {"ReduceProd", plain<Opcode::k_multiply>, fold_reduce<Opcode::k_multiply>},
    {"ReduceSum", plain<Opcode::k_add>, fold_reduce<Opcode::k_add>},
    {"ReduceSumSquare", wrapped_sum<Opcode::k_square, Opcode::k_identity>},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
    {"TopK", top_k},
};

}  // namespace

std::span<const OperatorRule> reduction_rules() { return kRules; }

}  // namespace orrery::onnx
