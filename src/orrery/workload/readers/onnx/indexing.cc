// Operators that read or write parts of tensors: slices, gathers, scatters, masks.
#include <algorithm>
#include <array>
#include <numeric>

#include "orrery/workload/readers/onnx/fold.h"
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Dims count_from(int64_t first, size_t count) {
  Dims result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

Dims all_but(size_t rank, int64_t axis) {
  Dims result;
  for (size_t i = 0; i < rank; ++i)
    if (static_cast<int64_t>(i) != axis) result.push_back(static_cast<int64_t>(i));
  return result;
}

// --- slice ------------------------------------------------------------------

/// Along each dimension from `start` in steps; negative steps run backwards.
struct SlicePlan {
  Dims start, step, size;
};

SlicePlan slice_plan(NodeContext& c, const Dims& starts, const Dims& ends, const Dims& axes,
                     const Dims& steps) {
  const Dims& dims = c.dims(0);
  SlicePlan plan{Dims(dims.size()), Dims(dims.size(), 1), dims};
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.fail("starts, ends, axes and steps differ in length");
  const Dims normal = c.axes(axes, dims.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t a = at(normal[i]);
    const int64_t size = dims[a], step = steps[i];
    if (step == 0 || step == INT64_MIN) c.fail(fmt::format("a step of {}", step));
    const auto wrap = [&](int64_t x) { return x < 0 ? x + size : x; };
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const int64_t start = std::clamp<int64_t>(wrap(starts[i]), 0, std::max<int64_t>(0, high));
    const int64_t end = std::clamp<int64_t>(wrap(ends[i]), low, size);
    plan.start[a] = start;
    plan.step[a] = step;
    const int64_t span = step > 0 ? end - start : start - end;
    const int64_t stride = step > 0 ? step : -step;
    plan.size[a] = size == 0 || span <= 0 ? 0 : (span - 1) / stride + 1;
  }
  return plan;
}

std::optional<SlicePlan> known_slice(NodeContext& c) {
  std::optional<Dims> starts, ends, axes, steps;
  if (c.version() < 10) {
    starts = c.integer_list("starts");
    ends = c.integer_list("ends");
    axes = c.integer_list("axes");
    if (!starts || !ends) c.fail("'starts' and 'ends' are needed");
  } else {
    c.expect_inputs(3);
    starts = c.known_integers(1);
    ends = c.known_integers(2);
    if (c.has_input(3)) axes = c.integers(3, "the axes");
    if (c.has_input(4)) steps = c.integers(4, "the steps");
    if (!starts || !ends) return std::nullopt;
  }
  if (!axes) axes = count_from(0, starts->size());
  if (!steps) steps = Dims(starts->size(), 1);
  return slice_plan(c, *starts, *ends, *axes, *steps);
}

bool fold_slice(NodeContext& c) {
  const auto plan = known_slice(c);
  const Constant* input = c.constant(0);
  if (!plan || input == nullptr) return false;
  Constant result = Constant::zeros(input->element, plan->size);
  for (size_t i = 0; i < result.size(); ++i) {
    Dims index = unravel(plan->size, i);
    for (size_t d = 0; d < index.size(); ++d) index[d] = plan->start[d] + index[d] * plan->step[d];
    result.copy(i, *input, ravel(input->dims, index));
  }
  return c.set_constant(0, std::move(result));
}

/// Bounds that depend on data: sizes as declared, start as an operand.
void dynamic_slice(NodeContext& c) {
  std::vector<std::optional<int64_t>> dims(c.dims(0).begin(), c.dims(0).end());
  const Dims axes = c.has_input(3) ? c.axes(c.integers(3, "the axes"), c.rank(0))
                                   : count_from(0, static_cast<size_t>(c.product(c.dims(1))));
  for (int64_t a : axes) dims[at(c.axis(a, dims.size()))] = std::nullopt;
  const Dims sizes = c.data_dependent(0, dims);
  const ValueId x = c.operand(0), start = c.operand(1);
  c.set(0, c.emit(Opcode::k_dynamic_slice, {x, start}, c.element(0), sizes,
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, sizes); }));
}

void slice(NodeContext& c) {
  const auto plan = known_slice(c);
  if (!plan) return dynamic_slice(c);
  const size_t rank = c.rank(0);
  Dims start(rank), limit(rank), stride(rank), reversed;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = plan->size[i];
    stride[i] = plan->step[i] < 0 ? -plan->step[i] : plan->step[i];
    const int64_t last = size == 0 ? plan->start[i] : plan->start[i] + (size - 1) * plan->step[i];
    start[i] = std::min(plan->start[i], last);
    limit[i] = size == 0 ? start[i] : std::max(plan->start[i], last) + 1;
    if (plan->step[i] < 0 && size > 1) reversed.push_back(static_cast<int64_t>(i));
  }
  ValueId x = c.operand(0);
  if (plan->size == c.dims(0) && reversed.empty())
    x = c.emit(Opcode::k_identity, {x}, c.element(0), c.dims(0));
  else
    x = c.slice(x, start, limit, stride);
  if (!reversed.empty())
    x = c.emit(Opcode::k_reverse, {x}, c.element(0), plan->size,
               [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, reversed); });
  c.set(0, x);
}

// --- gather -----------------------------------------------------------------

Dims gather_dims(NodeContext& c, size_t axis) {
  Dims dims(c.dims(0).begin(), c.dims(0).begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.end(), c.dims(1).begin(), c.dims(1).end());
  dims.insert(dims.end(), c.dims(0).begin() + static_cast<ptrdiff_t>(axis) + 1, c.dims(0).end());
  return dims;
}

bool fold_gather(NodeContext& c) {
  const Constant *data = c.constant(0), *indices = c.constant(1);
  if (data == nullptr || indices == nullptr) return false;
  const auto axis = at(c.axis(c.integer("axis", 0), c.rank(0)));
  const Dims dims = gather_dims(c, axis);
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(data->element, dims);
  const size_t q = indices->dims.size();
  for (size_t i = 0; i < result.size(); ++i) {
    const Dims index = unravel(dims, i);
    const Dims which(index.begin() + static_cast<ptrdiff_t>(axis),
                     index.begin() + static_cast<ptrdiff_t>(axis + q));
    int64_t row = indices->integer(ravel(indices->dims, which));
    const int64_t size = data->dims[axis];
    if (row < 0) row += size;
    if (row < 0 || row >= size) c.fail(fmt::format("index {} is outside {} elements", row, size));
    Dims from(index.begin(), index.begin() + static_cast<ptrdiff_t>(axis));
    from.push_back(row);
    from.insert(from.end(), index.begin() + static_cast<ptrdiff_t>(axis + q), index.end());
    result.copy(i, *data, ravel(data->dims, from));
  }
  return c.set_constant(0, std::move(result));
}

void gather(NodeContext& c) {
  c.expect_inputs(2);
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  const Dims dims = gather_dims(c, at(axis));
  Dims sizes = c.dims(0);
  sizes[at(axis)] = 1;
  Dims offsets = count_from(0, at(axis));
  const Dims after = count_from(axis + static_cast<int64_t>(c.rank(1)), c.rank(0) - at(axis) - 1);
  offsets.insert(offsets.end(), after.begin(), after.end());
  const ValueId data = c.operand(0), indices = c.operand(1);
  c.set(0, c.emit(Opcode::k_gather, {data, indices}, c.element(0), dims, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kSliceSizes, sizes);
    b.set_ints(Attr::kOffsetDims, offsets);
    b.set_ints(Attr::kCollapsedSliceDims, {axis});
    b.set_ints(Attr::kStartIndexMap, {axis});
    b.set_int(Attr::kIndexVectorDim, static_cast<int64_t>(c.rank(1)));
  }));
}

void gather_elements(NodeContext& c) {
  c.expect_inputs(2);
  if (c.rank(0) != c.rank(1)) c.fail("data and indices differ in rank");
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  const Dims others = all_but(c.rank(0), axis);
  const ValueId data = c.operand(0), indices = c.operand(1);
  c.set(0,
        c.emit(Opcode::k_gather, {data, indices}, c.element(0), c.dims(1), [&](WorkloadBuilder& b) {
          b.set_ints(Attr::kSliceSizes, Dims(c.rank(0), 1));
          b.set_ints(Attr::kCollapsedSliceDims, {axis});
          b.set_ints(Attr::kOperandBatchingDims, others);
          b.set_ints(Attr::kStartIndicesBatchingDims, others);
          b.set_ints(Attr::kStartIndexMap, {axis});
          b.set_int(Attr::kIndexVectorDim, static_cast<int64_t>(c.rank(1)));
        }));
}

void gather_nd(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 1);
  c.expect_rank(1, 1);
  const int64_t batch = c.integer("batch_dims", 0);
  const int64_t depth = c.dims(1).back();
  if (batch < 0 || at(batch) >= std::min(c.rank(0), c.rank(1)) || depth < 0 ||
      depth > static_cast<int64_t>(c.rank(0)) - batch)
    c.fail("'batch_dims' and the indices' last dimension do not fit the data");
  Dims dims(c.dims(1).begin(), c.dims(1).end() - 1);
  const Dims window(c.dims(0).begin() + batch + depth, c.dims(0).end());
  Dims offsets = count_from(static_cast<int64_t>(dims.size()), window.size());
  dims.insert(dims.end(), window.begin(), window.end());
  Dims sizes(at(batch + depth), 1);
  sizes.insert(sizes.end(), window.begin(), window.end());
  const ValueId data = c.operand(0), indices = c.operand(1);
  c.set(0, c.emit(Opcode::k_gather, {data, indices}, c.element(0), dims, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kSliceSizes, sizes);
    b.set_ints(Attr::kOffsetDims, offsets);
    b.set_ints(Attr::kCollapsedSliceDims, count_from(batch, at(depth)));
    b.set_ints(Attr::kOperandBatchingDims, count_from(0, at(batch)));
    b.set_ints(Attr::kStartIndicesBatchingDims, count_from(0, at(batch)));
    b.set_ints(Attr::kStartIndexMap, count_from(batch, at(depth)));
    b.set_int(Attr::kIndexVectorDim, static_cast<int64_t>(c.rank(1)) - 1);
  }));
}

/// Picks along an axis by a mask, a data-dependent number of times.
void compress(NodeContext& c) {
  c.expect_inputs(2);
  std::vector<std::optional<int64_t>> dims;
  std::optional<int64_t> picked;
  if (const auto mask = c.known_integers(1))
    picked = std::count_if(mask->begin(), mask->end(), [](int64_t m) { return m != 0; });
  if (c.has_attribute("axis")) {
    dims.assign(c.dims(0).begin(), c.dims(0).end());
    dims[at(c.axis(c.integer("axis", 0), c.rank(0)))] = picked;
  } else {
    dims = {picked};
  }
  const Dims result = c.data_dependent(0, dims);
  const ValueId data = c.operand(0), mask = c.operand(1);
  Dims sizes = Dims(c.rank(0), 1);
  c.set(0, c.emit(Opcode::k_gather, {data, mask}, c.element(0), result,
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, sizes); }));
}

void reverse_sequence(NodeContext& c) {
  c.expect_inputs(2);
  c.expect_rank(0, 2);
  const ValueId data = c.operand(0), lengths = c.operand(1);
  c.set(0, c.emit(Opcode::k_gather, {data, lengths}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, Dims(c.rank(0), 1)); }));
}

// --- scatter ----------------------------------------------------------------

void scatter_body(NodeContext& c) {
  const std::string_view how = c.string("reduction", "none");
  const ElementType element = c.element(0);
  if (how == "add") return c.reduction_body(Opcode::k_add, element);
  if (how == "mul") return c.reduction_body(Opcode::k_multiply, element);
  if (how == "max") return c.reduction_body(Opcode::k_maximum, element);
  if (how == "min") return c.reduction_body(Opcode::k_minimum, element);
  if (how != "none") c.fail(fmt::format("reduction '{}' is not known", how));
  WorkloadBuilder& b = c.builder();
  const TypeId scalar = c.type(element, {});
  b.begin_region();
  b.add_region_argument(scalar);
  const ValueId update = b.add_region_argument(scalar);
  b.emit_return({{update}});
  b.end_region();
}

void scatter_elements(NodeContext& c) {
  c.expect_inputs(3);
  if (c.rank(0) != c.rank(1) || c.dims(1) != c.dims(2))
    c.fail("data, indices and updates do not fit together");
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  const Dims others = all_but(c.rank(0), axis);
  const ValueId data = c.operand(0), indices = c.operand(1), updates = c.operand(2);
  c.set(0, c.emit(Opcode::k_scatter, {data, indices, updates}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) {
                    b.set_ints(Attr::kUpdateWindowDims, Dims{});
                    b.set_ints(Attr::kInsertedWindowDims, {axis});
                    b.set_ints(Attr::kOperandBatchingDims, others);
                    b.set_ints(Attr::kStartIndicesBatchingDims, others);
                    b.set_ints(Attr::kStartIndexMap, {axis});
                    b.set_int(Attr::kIndexVectorDim, static_cast<int64_t>(c.rank(1)));
                    scatter_body(c);
                  }));
}

bool fold_scatter_nd(NodeContext& c) {
  const Constant *data = c.constant(0), *indices = c.constant(1), *updates = c.constant(2);
  if (data == nullptr || indices == nullptr || updates == nullptr || indices->dims.empty() ||
      c.string("reduction", "none") != "none" || data->element != updates->element)
    return false;
  const int64_t depth = indices->dims.back();
  if (depth != static_cast<int64_t>(data->dims.size()) || depth == 0) return false;
  const size_t points = indices->size() / at(depth);
  if (updates->size() != points) return false;
  Constant result = *data;
  for (size_t i = 0; i < points; ++i) {
    Dims index;
    for (size_t d = 0; d < at(depth); ++d) {
      int64_t x = indices->integer(i * at(depth) + d);
      if (x < 0) x += data->dims[d];
      if (x < 0 || x >= data->dims[d]) return false;
      index.push_back(x);
    }
    result.copy(ravel(data->dims, index), *updates, i);
  }
  return c.set_constant(0, std::move(result));
}

void scatter_nd(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 1);
  c.expect_rank(1, 1);
  const int64_t depth = c.dims(1).back();
  if (depth < 0 || depth > static_cast<int64_t>(c.rank(0)))
    c.fail("the indices' last dimension does not fit the data");
  Dims expected(c.dims(1).begin(), c.dims(1).end() - 1);
  const size_t outer = expected.size();
  expected.insert(expected.end(), c.dims(0).begin() + depth, c.dims(0).end());
  if (expected != c.dims(2))
    c.fail(fmt::format("updates are [{}] where [{}] is expected", fmt::join(c.dims(2), "x"),
                       fmt::join(expected, "x")));
  const ValueId data = c.operand(0), indices = c.operand(1), updates = c.operand(2);
  c.set(0, c.emit(Opcode::k_scatter, {data, indices, updates}, c.element(0), c.dims(0),
                  [&](WorkloadBuilder& b) {
                    b.set_ints(Attr::kUpdateWindowDims,
                               count_from(static_cast<int64_t>(outer), expected.size() - outer));
                    b.set_ints(Attr::kInsertedWindowDims, count_from(0, at(depth)));
                    b.set_ints(Attr::kStartIndexMap, count_from(0, at(depth)));
                    b.set_int(Attr::kIndexVectorDim, static_cast<int64_t>(c.rank(1)) - 1);
                    scatter_body(c);
                  }));
}

/// Writes new keys or values into a cache in place.
void tensor_scatter(NodeContext& c) {
  c.expect_inputs(2);
  const ValueId cache = c.operand(0), update = c.operand(1);
  std::vector<ValueId> operands = {cache, update};
  if (c.has_input(2)) operands.push_back(c.operand(2));
  c.set(0, c.emit(Opcode::k_dynamic_update_slice, operands, c.type(c.element(0), c.dims(0)),
                  [&](WorkloadBuilder& b) { b.set_int(Attr::kInPlace, 1); }));
}

// --- masks and searches -----------------------------------------------------

void one_hot(NodeContext& c) {
  c.expect_inputs(3);
  const Dims depth = c.integers(1, "the depth");
  if (depth.size() != 1 || depth[0] < 0) c.fail("the depth must be one number");
  const size_t rank = c.rank(0) + 1;
  const int64_t axis = c.axis(c.integer("axis", -1), rank);
  Dims dims = c.dims(0);
  dims.insert(dims.begin() + axis, depth[0]);
  Dims open = c.dims(0);
  open.insert(open.begin() + axis, 1);
  Dims line(rank, 1);
  line[at(axis)] = depth[0];
  const ValueId indices = c.reshape(c.operand(0), open);
  const ValueId classes = c.iota(c.element(0), line, axis);
  const ValueId hit = c.compare("EQ", indices, classes);
  const ValueId values = c.operand(2);
  const TypeId pair = c.type(c.element(2), {1});
  const auto pick = [&](int64_t i) {
    return c.emit(Opcode::k_slice, {{values}}, pair, [&](WorkloadBuilder& b) {
      b.set_ints(Attr::kStart, {i});
      b.set_ints(Attr::kLimit, {i + 1});
      b.set_ints(Attr::kStride, {1});
    });
  };
  if (c.dims(2) != Dims{2}) c.fail("'values' must hold the off and the on value");
  const ValueId off = pick(0), on = pick(1);
  c.set(0, c.emit(Opcode::k_select, {hit, on, off}, c.element(2), dims));
}

/// Row and column numbers of the last two dimensions compared.
ValueId diagonal_mask(NodeContext& c, const Dims& matrix, std::string_view how) {
  const ValueId rows = c.iota(ElementType::kS64, {matrix[0], 1}, 0);
  const ValueId columns = c.iota(ElementType::kS64, {1, matrix[1]}, 1);
  return c.compare(how, rows, columns);
}

void trilu(NodeContext& c) {
  c.expect_rank(0, 2);
  const Dims matrix(c.dims(0).end() - 2, c.dims(0).end());
  const ValueId mask = diagonal_mask(c, matrix, c.integer("upper", 1) != 0 ? "LE" : "GE");
  const ValueId x = c.operand(0), zero = c.number(c.element(0), 0);
  c.set(0, c.emit(Opcode::k_select, {mask, x, zero}, c.element(0), c.dims(0)));
}

void eye_like(NodeContext& c) {
  if (c.rank(0) != 2) c.fail("a matrix is expected");
  const ElementType element =
      c.has_attribute("dtype") ? c.data_type(c.integer("dtype", 1)) : c.element(0);
  c.set(0, c.convert(diagonal_mask(c, c.dims(0), "EQ"), element));
}

bool fold_non_zero(NodeContext& c) {
  const Constant& input = *c.constant(0);
  std::vector<Dims> found;
  for (size_t i = 0; i < input.size(); ++i)
    if (input.real(i) != 0) found.push_back(unravel(input.dims, i));
  const Dims dims = {static_cast<int64_t>(input.dims.size()), static_cast<int64_t>(found.size())};
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(ElementType::kS64, dims);
  for (size_t i = 0; i < found.size(); ++i)
    for (size_t d = 0; d < found[i].size(); ++d)
      result.integers[d * found.size() + i] = found[i][d];
  return c.set_constant(0, std::move(result));
}

/// Work without an operation of its own, with its traffic counted.
std::vector<ValueId> library(NodeContext& c, std::span<const ValueId> operands,
                             std::span<const TypeId> results) {
  c.note(fmt::format("{} is counted by its memory traffic alone", c.node().op_type));
  return c.emit_many(Opcode::k_custom_call, operands, results, [&](WorkloadBuilder& b) {
    b.set_string(Attr::kTarget, fmt::format("onnx.{}", c.node().op_type));
  });
}

void non_zero(NodeContext& c) {
  const Dims dims = c.data_dependent(0, {static_cast<int64_t>(c.rank(0)), std::nullopt});
  const ValueId x = c.operand(0);
  const TypeId type = c.type(ElementType::kS64, dims);
  c.set(0, library(c, {{x}}, {&type, 1})[0]);
}

void unique(NodeContext& c) {
  std::vector<std::optional<int64_t>> dims = {std::nullopt};
  int64_t length = c.product(c.dims(0));
  if (c.has_attribute("axis")) {
    const size_t axis = at(c.axis(c.integer("axis", 0), c.rank(0)));
    dims.assign(c.dims(0).begin(), c.dims(0).end());
    length = c.dims(0)[axis];
    dims[axis] = std::nullopt;
  }
  const Dims found = c.data_dependent(0, dims);
  const Dims count =
      c.has_attribute("axis") ? Dims{found[at(c.axis(c.integer("axis", 0), c.rank(0)))]} : found;
  const ValueId flat = c.reshape(c.operand(0), {c.product(c.dims(0))});
  const ValueId sorted = c.emit(Opcode::k_sort, {flat}, c.element(0), c.dims_of(flat),
                                [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {0}); });
  const std::array types = {c.type(c.element(0), found), c.type(ElementType::kS64, count),
                            c.type(ElementType::kS64, {length}), c.type(ElementType::kS64, count)};
  const auto results = library(c, {{sorted}}, types);
  for (size_t i = 0; i < results.size(); ++i) c.set(i, results[i]);
}

void non_max_suppression(NodeContext& c) {
  c.expect_inputs(2);
  const Dims dims = c.data_dependent(0, {std::nullopt, 3});
  const ValueId boxes = c.operand(0), scores = c.operand(1);
  const TypeId type = c.type(ElementType::kS64, dims);
  c.set(0, library(c, {{boxes, scores}}, {&type, 1})[0]);
}

void determinant(NodeContext& c) {
  c.expect_rank(0, 2);
  const ValueId x = c.operand(0);
  const TypeId type = c.type(c.element(0), Dims(c.dims(0).begin(), c.dims(0).end() - 2));
  c.set(0, library(c, {{x}}, {&type, 1})[0]);
}

constexpr OperatorRule kRules[] = {
    {"Compress", compress},
    {"Det", determinant},
    {"EyeLike", eye_like},
    {"Gather", gather, fold_gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero, fold_non_zero},
    {"OneHot", one_hot},
    {"ReverseSequence", reverse_sequence},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd, fold_scatter_nd},
    {"Slice", slice, fold_slice},
    {"TensorScatter", tensor_scatter},
    {"Trilu", trilu},
    {"Unique", unique},
};

}  // namespace

std::span<const OperatorRule> indexing_rules() { return kRules; }

}  // namespace orrery::onnx
