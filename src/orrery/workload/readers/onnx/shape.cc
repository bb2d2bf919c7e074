// Operators that rearrange, view or assemble whole tensors, and those that
// compute with shapes.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "orrery/workload/readers/onnx/fold.h"
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// Gives output 0 the same numbers in another shape.
bool fold_view(NodeContext& c, Dims dims) {
  const Constant* input = c.constant(0);
  if (input == nullptr) return false;
  Constant result = *input;
  if (c.product(result.dims) != c.product(dims)) return false;
  result.dims = std::move(dims);
  return c.set_constant(0, std::move(result));
}

// --- shapes as data ---------------------------------------------------------

void shape(NodeContext& c) {
  const Dims& dims = c.dims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = clamp(std::clamp<int64_t>(c.integer("start", 0), -rank, rank));
  const int64_t end = clamp(std::clamp<int64_t>(c.integer("end", rank), -rank, rank));
  Dims part;
  if (start < end) part.assign(dims.begin() + start, dims.begin() + end);
  if (!c.set_constant(0, Constant::vector(std::move(part)))) c.fail("too many folded constants");
}

void size(NodeContext& c) {
  if (!c.set_constant(0, Constant::scalar(ElementType::kS64, c.product(c.dims(0)))))
    c.fail("too many folded constants");
}

void constant(NodeContext& c) {
  using Kind = NodeAttribute::Kind;
  for (std::string_view name : {"value", "sparse_value"}) {
    const NodeAttribute* attribute = c.find(name);
    if (attribute == nullptr) continue;
    if (attribute->kind != Kind::kTensor && attribute->kind != Kind::kSparseTensor)
      c.fail(fmt::format("attribute '{}' must be a tensor", name));
    const Tensor& tensor = *attribute->tensor;
    if (auto known = decode(c.source(), tensor); known && c.set_constant(0, std::move(*known)))
      return;
    c.set(0, c.emit(Opcode::k_constant, {}, tensor.element, tensor.dims));
    return;
  }
  Constant result;
  if (c.has_attribute("value_int")) {
    result = Constant::scalar(ElementType::kS64, c.integer("value_int", 0));
  } else if (c.has_attribute("value_float")) {
    result = Constant::zeros(ElementType::kF32, {});
    result.reals[0] = c.real("value_float", 0);
  } else if (auto integers = c.integer_list("value_ints")) {
    result = Constant::vector(std::move(*integers));
  } else if (c.has_attribute("value_floats")) {
    const std::vector<float> reals = c.real_list("value_floats");
    result.element = ElementType::kF32;
    result.dims = {static_cast<int64_t>(reals.size())};
    result.reals.assign(reals.begin(), reals.end());
  } else if (const NodeAttribute* strings = c.find("value_strings")) {
    const Dims dims = {static_cast<int64_t>(strings->strings.size())};
    c.set(0, c.emit(Opcode::k_constant, {}, ElementType::kString, dims));
    return;
  } else if (c.has_attribute("value_string")) {
    c.set(0, c.emit(Opcode::k_constant, {}, ElementType::kString, Dims{}));
    return;
  } else {
    c.fail("no value is given");
  }
  const Dims dims = result.dims;
  const ElementType element = result.element;
  if (!c.set_constant(0, std::move(result)))
    c.set(0, c.emit(Opcode::k_constant, {}, element, dims));
}

/// The element type and number ConstantOfShape fills with.
std::pair<ElementType, double> fill_value(NodeContext& c) {
  const NodeAttribute* attribute = c.find("value");
  if (attribute == nullptr) return {ElementType::kF32, 0};
  if (attribute->kind != NodeAttribute::Kind::kTensor) c.fail("attribute 'value' must be a tensor");
  const auto known = decode(c.source(), *attribute->tensor);
  const bool one = known && known->size() == 1;
  return {attribute->tensor->element, one ? known->real(0) : 0};
}

void constant_of_shape(NodeContext& c) {
  const Dims dims = c.integers(0, "the shape");
  const auto [element, value] = fill_value(c);
  const auto count = foldable_elements(dims);
  // Small integer ones take part in shape arithmetic; others are data.
  if (count && !is_float(element) && is_foldable(element)) {
    Constant result = Constant::zeros(element, dims);
    for (size_t i = 0; i < *count; ++i) result.set(i, value);
    if (c.set_constant(0, std::move(result))) return;
  }
  c.set(0, c.splat(element, dims, value));
}

void constant_fill(NodeContext& c) {
  Dims dims;
  if (c.input_count() > 0 && c.has_input(0))
    dims = c.integer("input_as_shape", 0) != 0 ? c.integers(0, "the shape") : c.dims(0);
  else
    dims = c.integer_list("shape").value_or(Dims{});
  c.set(0, c.splat(c.data_type(c.integer("dtype", 1)), dims, c.real("value", 0)));
}

void range(NodeContext& c) {
  c.expect_inputs(3);
  const Constant *start = c.constant(0), *limit = c.constant(1), *delta = c.constant(2);
  Dims dims;
  if (start != nullptr && limit != nullptr && delta != nullptr && start->size() == 1 &&
      limit->size() == 1 && delta->size() == 1) {
    const double step = delta->real(0);
    if (step == 0) c.fail("the step of a range is zero");
    const double steps = std::ceil((limit->real(0) - start->real(0)) / step);
    if (!(steps < 1e15)) c.fail("a range of more than 10^15 elements");
    dims = {steps > 0 ? static_cast<int64_t>(steps) : 0};
    if (const auto count = foldable_elements(dims)) {
      Constant result = Constant::zeros(start->element, dims);
      for (size_t i = 0; i < *count; ++i) {
        if (result.is_real())
          result.reals[i] = start->reals[0] + static_cast<double>(i) * step;
        else
          result.integers[i] = static_cast<int64_t>(static_cast<uint64_t>(start->integers[0]) +
                                                    i * static_cast<uint64_t>(delta->integer(0)));
      }
      if (c.set_constant(0, std::move(result))) return;
    }
  } else {
    dims = c.data_dependent(0, {std::nullopt});
  }
  c.set(0, c.iota(c.element(0), dims, 0));
}

// --- views ------------------------------------------------------------------

Dims reshape_target(NodeContext& c) {
  Dims target;
  if (c.version() < 5 && c.has_attribute("shape"))
    target = *c.integer_list("shape");
  else
    target = c.integers(1, "the shape");
  const Dims& from = c.dims(0);
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !zero_is_zero) {
      if (i >= from.size()) c.fail("a 0 in the shape copies a dimension that the input lacks");
      target[i] = from[i];
    }
    if (target[i] == -1) {
      if (open) c.fail("more than one -1 in the shape");
      open = i;
    } else if (target[i] < 0) {
      c.fail(fmt::format("{} in the shape", target[i]));
    } else {
      known = c.multiply(known, target[i]);
    }
  }
  if (open) {
    const int64_t total = c.product(from);
    if (known == 0 || total % known != 0)
      c.fail(fmt::format("[{}] cannot be reshaped to [{}]", fmt::join(from, "x"),
                         fmt::join(target, "x")));
    target[*open] = total / known;
  }
  return target;
}

bool fold_reshape(NodeContext& c) { return fold_view(c, reshape_target(c)); }

/// A view, as an operation even when nothing changes, so that the node shows.
void view(NodeContext& c, const Dims& dims) {
  const ValueId x = c.operand(0);
  if (dims == c.dims(0))
    c.set(0, c.emit(Opcode::k_identity, {x}, c.element(0), dims));
  else
    c.set(0, c.reshape(x, dims));
}

void reshape(NodeContext& c) { view(c, reshape_target(c)); }

Dims flatten_target(NodeContext& c) {
  const auto rank = static_cast<int64_t>(c.rank(0));
  int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) c.fail(fmt::format("axis {} is outside the input", axis));
  if (axis < 0) axis += rank;
  const std::span<const int64_t> dims = c.dims(0);
  return {c.product(dims.subspan(0, at(axis))), c.product(dims.subspan(at(axis)))};
}
bool fold_flatten(NodeContext& c) { return fold_view(c, flatten_target(c)); }
void flatten(NodeContext& c) { view(c, flatten_target(c)); }

/// `axes` as an attribute (before operator set 13) or the second input.
std::optional<Dims> axes_given(NodeContext& c) {
  if (auto axes = c.integer_list("axes")) return axes;
  if (c.has_input(1)) return c.integers(1, "the axes");
  return std::nullopt;
}

Dims squeeze_target(NodeContext& c) {
  const Dims& from = c.dims(0);
  const auto given = axes_given(c);
  Dims target;
  if (!given) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(target),
                 [](int64_t d) { return d != 1; });
    return target;
  }
  const Dims axes = c.axes(*given, from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
      target.push_back(from[i]);
    else if (from[i] != 1)
      c.fail(fmt::format("dimension {} is {} and cannot be squeezed", i, from[i]));
  }
  return target;
}
bool fold_squeeze(NodeContext& c) { return fold_view(c, squeeze_target(c)); }
void squeeze(NodeContext& c) { view(c, squeeze_target(c)); }

Dims unsqueeze_target(NodeContext& c) {
  const auto given = axes_given(c);
  if (!given) c.fail("no axes are given");
  const Dims& from = c.dims(0);
  const size_t rank = from.size() + given->size();
  const Dims axes = c.axes(*given, rank);
  Dims target;
  auto next = from.begin();
  for (size_t i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    target.push_back(added ? 1 : *next++);
  }
  return target;
}
bool fold_unsqueeze(NodeContext& c) { return fold_view(c, unsqueeze_target(c)); }
void unsqueeze(NodeContext& c) { view(c, unsqueeze_target(c)); }

// --- movement ---------------------------------------------------------------

Dims permutation_of(NodeContext& c) {
  const size_t rank = c.rank(0);
  auto given = c.integer_list("perm");
  if (!given) {
    Dims reversed(rank);
    for (size_t i = 0; i < rank; ++i) reversed[i] = static_cast<int64_t>(rank - 1 - i);
    return reversed;
  }
  if (given->size() != rank) c.fail("'perm' does not have one entry a dimension");
  return c.axes(*given, rank);
}

bool fold_transpose(NodeContext& c) {
  const Constant& input = *c.constant(0);
  const Dims permutation = permutation_of(c);
  Dims dims;
  for (int64_t p : permutation) dims.push_back(input.dims[at(p)]);
  Constant result = Constant::zeros(input.element, dims);
  Dims source(dims.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const Dims index = unravel(dims, i);
    for (size_t d = 0; d < dims.size(); ++d) source[at(permutation[d])] = index[d];
    result.copy(i, input, ravel(input.dims, source));
  }
  return c.set_constant(0, std::move(result));
}

void transpose(NodeContext& c) {
  const Dims permutation = permutation_of(c);
  Dims dims, order, permuted_order;
  for (size_t i = 0; i < permutation.size(); ++i) {
    dims.push_back(c.dims(0)[at(permutation[i])]);
    // Moving dimensions of size 1 moves no data.
    if (c.dims(0)[i] != 1) order.push_back(static_cast<int64_t>(i));
    if (dims.back() != 1) permuted_order.push_back(permutation[i]);
  }
  if (order == permuted_order)
    view(c, dims);
  else
    c.set(0, c.transpose(c.operand(0), permutation));
}

int64_t concat_axis(NodeContext& c) {
  const int64_t axis = c.version() < 4 ? c.integer("axis", 1) : c.required_integer("axis");
  return c.axis(axis, c.rank(0));
}

bool fold_concat(NodeContext& c) {
  const int64_t axis = concat_axis(c);
  Dims dims = c.dims(0);
  dims[at(axis)] = 0;
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (c.rank(i) != dims.size()) return false;
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != at(axis) && c.dims(i)[d] != dims[d]) return false;
    dims[at(axis)] += c.dims(i)[at(axis)];
  }
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(c.element(0), dims);
  int64_t before = 0;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const Constant& part = *c.constant(i);
    if (part.element != result.element) return false;
    for (size_t k = 0; k < part.size(); ++k) {
      Dims index = unravel(part.dims, k);
      index[at(axis)] += before;
      result.copy(ravel(dims, index), part, k);
    }
    before += part.dims[at(axis)];
  }
  return c.set_constant(0, std::move(result));
}

void concat(NodeContext& c) {
  const int64_t axis = concat_axis(c);
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.input_count(); ++i) parts.push_back(c.operand(i));
  c.set(0, c.concatenate(parts, axis));
}

struct Split {
  int64_t axis = 0;
  Dims sizes;
};

Split split_of(NodeContext& c) {
  Split split;
  c.expect_rank(0, 1);
  split.axis = c.axis(c.integer("axis", 0), c.rank(0));
  const int64_t size = c.dims(0)[at(split.axis)];
  if (auto sizes = c.integer_list("split")) {
    split.sizes = *sizes;
  } else if (c.has_input(1)) {
    split.sizes = c.integers(1, "the split");
  } else {
    const auto parts = c.integer("num_outputs", static_cast<int64_t>(c.output_count()));
    if (parts <= 0 || parts > static_cast<int64_t>(c.output_count()))
      c.fail("'num_outputs' is not the number of outputs");
    const int64_t part = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      split.sizes.push_back(std::clamp<int64_t>(size - i * part, 0, part));
  }
  if (split.sizes.size() < c.output_count()) c.fail("more outputs than parts");
  int64_t total = 0;
  for (int64_t part : split.sizes) {
    if (part < 0) c.fail("a part of negative size");
    total = c.add(total, part);
  }
  if (total != size) c.fail(fmt::format("the parts sum to {}, not to {}", total, size));
  return split;
}

bool fold_split(NodeContext& c) {
  const Split split = split_of(c);
  const Constant& input = *c.constant(0);
  int64_t before = 0;
  for (size_t i = 0; i < c.output_count(); ++i) {
    Dims dims = input.dims;
    dims[at(split.axis)] = split.sizes[i];
    Constant part = Constant::zeros(input.element, dims);
    for (size_t k = 0; k < part.size(); ++k) {
      Dims index = unravel(dims, k);
      index[at(split.axis)] += before;
      part.copy(k, input, ravel(input.dims, index));
    }
    before += split.sizes[i];
    if (!c.set_constant(i, std::move(part))) c.fail("too many folded constants");
  }
  return true;
}

void split(NodeContext& c) {
  const Split split = split_of(c);
  const ValueId x = c.operand(0);
  Dims start(c.rank(0)), limit = c.dims(0);
  const Dims stride(c.rank(0), 1);
  for (size_t i = 0; i < c.output_count(); ++i) {
    limit[at(split.axis)] = start[at(split.axis)] + split.sizes[i];
    if (c.has_output(i)) c.set(i, c.slice(x, start, limit, stride));
    start[at(split.axis)] = limit[at(split.axis)];
  }
}

bool fold_expand(NodeContext& c) {
  const Constant& input = *c.constant(0);
  const Dims dims = c.broadcast(input.dims, c.integers(1, "the shape"));
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(input.element, dims);
  for (size_t i = 0; i < result.size(); ++i)
    result.copy(i, input, broadcast_position(dims, input.dims, i));
  return c.set_constant(0, std::move(result));
}

/// A broadcast of input 0, its dimensions aligned at the end.
void broadcast_to(NodeContext& c, const Dims& dims) {
  const ValueId x = c.operand(0);
  if (c.product(dims) == c.product(c.dims(0))) return view(c, dims);
  Dims positions(c.rank(0));
  std::iota(positions.begin(), positions.end(), static_cast<int64_t>(dims.size() - c.rank(0)));
  c.set(0, c.emit(Opcode::k_broadcast_in_dim, {x}, c.element(0), dims,
                  [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, positions); }));
}

void expand(NodeContext& c) {
  Dims shape = c.integers(1, "the shape");
  for (int64_t d : shape)
    if (d < 0) c.fail(fmt::format("{} in the shape", d));
  broadcast_to(c, c.broadcast(c.dims(0), shape));
}

Dims tile_dims(NodeContext& c) {
  Dims dims = c.dims(0);
  if (c.version() < 6) {
    const Dims tiles = c.integers(1, "the tiles"), axis = c.integers(2, "the axis");
    if (tiles.size() != 1 || axis.size() != 1) c.fail("'tiles' and 'axis' must be one number each");
    int64_t& dim = dims[at(c.axis(axis[0], dims.size()))];
    dim = c.multiply(dim, tiles[0]);
    return dims;
  }
  const Dims repeats = c.integers(1, "the repeats");
  if (repeats.size() != dims.size()) c.fail("one repeat a dimension is expected");
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = c.multiply(dims[i], repeats[i]);
  return dims;
}

bool fold_tile(NodeContext& c) {
  if (c.version() < 6) return false;
  const Constant& input = *c.constant(0);
  const Dims dims = tile_dims(c);
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(input.element, dims);
  for (size_t i = 0; i < result.size(); ++i) {
    Dims index = unravel(dims, i);
    for (size_t d = 0; d < index.size(); ++d) index[d] %= input.dims[d];
    result.copy(i, input, ravel(input.dims, index));
  }
  return c.set_constant(0, std::move(result));
}

void tile(NodeContext& c) {
  const Dims dims = tile_dims(c);
  if (dims == c.dims(0)) return view(c, dims);
  c.set(0, c.emit(Opcode::k_broadcast, {c.operand(0)}, c.element(0), dims));
}

void pad(NodeContext& c) {
  const size_t rank = c.rank(0);
  Dims pads;
  if (auto given = c.integer_list(c.version() < 2 ? "paddings" : "pads"))
    pads = *given;
  else
    pads = c.integers(1, "the padding");
  Dims axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has_input(3)) axes = c.axes(c.integers(3, "the axes"), rank);
  if (pads.size() != 2 * axes.size()) c.fail("'pads' must hold two numbers an axis");
  Dims low(rank), high(rank), dims = c.dims(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    low[at(axes[i])] = pads[i];
    high[at(axes[i])] = pads[i + axes.size()];
    int64_t& dim = dims[at(axes[i])];
    dim = c.add(dim, c.add(pads[i], pads[i + axes.size()]));
  }
  const ValueId x = c.operand(0);
  const std::string_view mode = c.string("mode", "constant");
  if (mode == "constant") {
    const ValueId value = c.has_input(2)
                              ? c.operand(2)
                              : c.number(c.element(0), c.version() < 11 ? c.real("value", 0) : 0);
    c.set(0, c.emit(Opcode::k_pad, {x, value}, c.element(0), dims, [&](WorkloadBuilder& b) {
      b.set_ints(Attr::kPaddingLow, low);
      b.set_ints(Attr::kPaddingHigh, high);
      b.set_ints(Attr::kPaddingInterior, Dims(rank));
    }));
    return;
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap")
    c.fail(fmt::format("padding mode '{}' is not known", mode));
  // Borders copied from inside: every result element is read from somewhere.
  c.set(0, c.emit(Opcode::k_copy, {x}, c.element(0), dims));
}

/// Blocks of `block`×`block` moved between depth and space.
void depth_to_space(NodeContext& c) {
  if (c.rank(0) != 4) c.fail("four dimensions are expected");
  const int64_t block = c.required_integer("blocksize");
  const Dims d = c.dims(0);
  if (block <= 0 || block > (1 << 20) || d[1] % (block * block) != 0)
    c.fail("the channels do not divide into blocks");
  const int64_t depth = d[1] / (block * block);
  const bool depth_first = c.string("mode", "DCR") == "DCR";
  const Dims split = depth_first ? Dims{d[0], block, block, depth, d[2], d[3]}
                                 : Dims{d[0], depth, block, block, d[2], d[3]};
  const Dims permutation = depth_first ? Dims{0, 3, 4, 1, 5, 2} : Dims{0, 1, 4, 2, 5, 3};
  const ValueId moved = c.transpose(c.reshape(c.operand(0), split), permutation);
  c.set(0, c.reshape(moved, {d[0], depth, c.multiply(d[2], block), c.multiply(d[3], block)}));
}

void space_to_depth(NodeContext& c) {
  if (c.rank(0) != 4) c.fail("four dimensions are expected");
  const int64_t block = c.required_integer("blocksize");
  const Dims d = c.dims(0);
  if (block <= 0 || d[2] % block != 0 || d[3] % block != 0)
    c.fail("height and width do not divide into blocks");
  const Dims split = {d[0], d[1], d[2] / block, block, d[3] / block, block};
  const ValueId moved = c.transpose(c.reshape(c.operand(0), split), {0, 3, 5, 1, 2, 4});
  c.set(0, c.reshape(moved, {d[0], c.multiply(d[1], c.multiply(block, block)), d[2] / block,
                             d[3] / block}));
}

void center_crop_pad(NodeContext& c) {
  const size_t rank = c.rank(0);
  const Dims target = c.integers(1, "the shape");
  Dims axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto given = c.integer_list("axes")) axes = c.axes(*given, rank);
  if (target.size() != axes.size()) c.fail("one size an axis is expected");
  Dims start(rank), limit = c.dims(0), low(rank), high(rank), dims = c.dims(0);
  bool pads = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t a = at(axes[i]);
    const int64_t from = dims[a], to = target[i];
    if (to < 0) c.fail("a negative size");
    dims[a] = to;
    if (to < from) {
      start[a] = (from - to) / 2;
      limit[a] = start[a] + to;
    } else if (to > from) {
      low[a] = (to - from) / 2;
      high[a] = to - from - low[a];
      pads = true;
    }
  }
  ValueId x = c.slice(c.operand(0), start, limit, Dims(rank, 1));
  if (pads) {
    const ValueId zero = c.number(c.element(0), 0);
    x = c.emit(Opcode::k_pad, {x, zero}, c.element(0), dims, [&](WorkloadBuilder& b) {
      b.set_ints(Attr::kPaddingLow, low);
      b.set_ints(Attr::kPaddingHigh, high);
      b.set_ints(Attr::kPaddingInterior, Dims(rank));
    });
  }
  c.set(0, x);
}

constexpr OperatorRule kRules[] = {
    {"CenterCropPad", center_crop_pad},
    {"Concat", concat, fold_concat},
    {"Constant", constant},
    {"ConstantFill", constant_fill},
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand, fold_expand},
    {"Flatten", flatten, fold_flatten},
    {"Pad", pad},
    {"Range", range},
    {"Reshape", reshape, fold_reshape},
    {"Shape", shape},
    {"Size", size},
    {"SpaceToDepth", space_to_depth},
    {"Split", split, fold_split},
    {"Squeeze", squeeze, fold_squeeze},
    {"Tile", tile, fold_tile},
    {"Transpose", transpose, fold_transpose},
    {"Unsqueeze", unsqueeze, fold_unsqueeze},
};

}  // namespace

std::span<const OperatorRule> shape_rules() { return kRules; }

}  // namespace orrery::onnx
