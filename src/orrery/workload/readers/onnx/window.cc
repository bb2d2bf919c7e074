// Pooling and resampling over spatial dimensions.
#include <array>
#include <cmath>
#include <numeric>

#include "orrery/workload/readers/onnx/contraction.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Dims spatial_dims(NodeContext& c, size_t input = 0) {
  c.expect_rank(input, 3);
  return {c.dims(input).begin() + 2, c.dims(input).end()};
}

Dims spatial_axes(NodeContext& c) {
  Dims axes(spatial_dims(c).size());
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

Dims with_leading(const Dims& first, const Dims& rest) {
  Dims result(first.begin(), first.begin() + 2);
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

void set_window(WorkloadBuilder& b, const Window& w) {
  const auto all = [](const Dims& spatial, int64_t leading) {
    return with_leading({leading, leading}, spatial);
  };
  b.set_ints(Attr::kWindowSize, all(w.size, 1));
  b.set_ints(Attr::kWindowStrides, all(w.strides, 1));
  b.set_ints(Attr::kBaseDilation, Dims(w.size.size() + 2, 1));
  b.set_ints(Attr::kWindowDilation, all(w.dilations, 1));
  b.set_ints(Attr::kPaddingLow, all(w.low, 0));
  b.set_ints(Attr::kPaddingHigh, all(w.high, 0));
}

ValueId pool(NodeContext& c, Opcode combine, ValueId x, const Window& window) {
  const ElementType element = c.element_of(x);
  const double start = combine == Opcode::k_maximum && is_float(element) ? -HUGE_VAL : 0;
  const ValueId initial = c.number(element, start);
  return c.emit(Opcode::k_reduce_window, {x, initial}, element,
                with_leading(c.dims_of(x), window.output), [&](WorkloadBuilder& b) {
                  set_window(b, window);
                  c.reduction_body(combine, element);
                });
}

/// Keeps the larger of two values and where it was.
void max_with_index_body(NodeContext& c, ElementType element) {
  WorkloadBuilder& b = c.builder();
  const TypeId scalar = c.type(element, {}), index = c.type(ElementType::kS64, {});
  b.begin_region();
  const ValueId x = b.add_region_argument(scalar), i = b.add_region_argument(index);
  const ValueId y = b.add_region_argument(scalar), k = b.add_region_argument(index);
  b.begin_op(Opcode::k_compare, {{x, y}}, 1);
  b.set_string(Attr::kCompare, "GE");
  b.set_result_type(0, c.type(ElementType::kBool, {}));
  const ValueId larger = b.result(b.end_op());
  const ValueId value = b.emit(Opcode::k_select, {larger, x, y}, scalar);
  const ValueId place = b.emit(Opcode::k_select, {larger, i, k}, index);
  b.emit_return({{value, place}});
  b.end_region();
}

void max_pool(NodeContext& c) {
  const Window window = read_window(c, spatial_dims(c), {});
  const ValueId x = c.operand(0);
  if (!c.has_output(1)) return c.set(0, pool(c, Opcode::k_maximum, x, window));
  const Dims dims = with_leading(c.dims(0), window.output);
  const ElementType element = c.element(0);
  const ValueId flat = c.iota(ElementType::kS64, {c.product(c.dims(0))}, 0);
  const ValueId places = c.reshape(flat, c.dims(0));
  const ValueId lowest = c.number(element, is_float(element) ? -HUGE_VAL : 0);
  const ValueId zero = c.number(ElementType::kS64, 0);
  const std::array types = {c.type(element, dims), c.type(ElementType::kS64, dims)};
  const auto results = c.emit_many(Opcode::k_reduce_window, {{x, places, lowest, zero}}, types,
                                   [&](WorkloadBuilder& b) {
                                     set_window(b, window);
                                     max_with_index_body(c, element);
                                   });
  c.set(0, results[0]);
  c.set(1, results[1]);
}

void average_pool(NodeContext& c) {
  const Window window = read_window(c, spatial_dims(c), {});
  const ValueId sum = pool(c, Opcode::k_add, c.operand(0), window);
  const double count = static_cast<double>(c.product(window.size));
  c.set(0, c.elementwise(Opcode::k_multiply, {sum, c.number(c.element(0), 1 / count)}));
}

/// (Σ|x|^p)^(1/p), with the roots that have operations of their own.
ValueId powered(NodeContext& c, ValueId x, double p) {
  if (p == 1) return c.elementwise(Opcode::k_abs, {x});
  if (p == 2) return c.elementwise(Opcode::k_square, {x});
  const ValueId magnitude = c.elementwise(Opcode::k_abs, {x});
  return c.elementwise(Opcode::k_power, {magnitude, c.number(c.element_of(x), p)});
}
ValueId rooted(NodeContext& c, ValueId x, double p) {
  if (p == 1) return x;
  if (p == 2) return c.elementwise(Opcode::k_sqrt, {x});
  return c.elementwise(Opcode::k_power, {x, c.number(c.element_of(x), 1 / p)});
}

double norm_order(NodeContext& c) {
  // A float in operator set 1, an integer since.
  const NodeAttribute* p = c.find("p");
  const double order = p != nullptr && p->kind == NodeAttribute::Kind::kFloat
                           ? static_cast<double>(p->real)
                           : static_cast<double>(c.integer("p", 2));
  if (!(order > 0)) c.fail("'p' must be positive");
  return order;
}

void lp_pool(NodeContext& c) {
  const double p = norm_order(c);
  const Window window = read_window(c, spatial_dims(c), {});
  const ValueId sum = pool(c, Opcode::k_add, powered(c, c.operand(0), p), window);
  c.set(0, rooted(c, sum, p));
}

void global_average_pool(NodeContext& c) {
  const ValueId sum = c.reduce(Opcode::k_add, c.operand(0), spatial_axes(c), true);
  const double count = static_cast<double>(std::max<int64_t>(1, c.product(spatial_dims(c))));
  c.set(0, c.elementwise(Opcode::k_multiply, {sum, c.number(c.element(0), 1 / count)}));
}
void global_max_pool(NodeContext& c) {
  c.set(0, c.reduce(Opcode::k_maximum, c.operand(0), spatial_axes(c), true));
}
void global_lp_pool(NodeContext& c) {
  const double p = norm_order(c);
  const ValueId sum = c.reduce(Opcode::k_add, powered(c, c.operand(0), p), spatial_axes(c), true);
  c.set(0, rooted(c, sum, p));
}

/// Adds or writes windows back into an image.
ValueId scatter_windows(NodeContext& c, ValueId updates, ValueId places, const Dims& dims,
                        Opcode combine) {
  const ElementType element = c.element_of(updates);
  const ValueId zeros = c.splat(element, dims, 0);
  return c.emit(Opcode::k_scatter, {zeros, places, updates}, element, dims,
                [&](WorkloadBuilder&) { c.reduction_body(combine, element); });
}

void max_unpool(NodeContext& c) {
  c.expect_inputs(2);
  Dims dims = c.dims(0);
  if (c.has_input(2)) {
    dims = c.integers(2, "the output shape");
  } else {
    const Dims spatial = spatial_dims(c);
    const auto kernel = c.integer_list("kernel_shape");
    const Dims strides = c.integer_list("strides").value_or(Dims(spatial.size(), 1));
    const Dims pads = c.integer_list("pads").value_or(Dims(2 * spatial.size()));
    if (!kernel || kernel->size() != spatial.size() || strides.size() != spatial.size() ||
        pads.size() != 2 * spatial.size())
      c.fail("kernel_shape, strides and pads do not fit the input");
    for (size_t i = 0; i < spatial.size(); ++i)
      dims[i + 2] = c.add(c.add(c.multiply(spatial[i] - 1, strides[i]), (*kernel)[i]),
                          -c.add(pads[i], pads[i + spatial.size()]));
  }
  const ValueId x = c.operand(0), places = c.operand(1);
  c.set(0, scatter_windows(c, x, places, dims, Opcode::k_maximum));
}

void column_to_image(NodeContext& c) {
  c.expect_inputs(3);
  c.expect_rank(0, 3);
  const Dims image = c.integers(1, "the image shape"), block = c.integers(2, "the block shape");
  const int64_t taps = c.product(block);
  if (taps <= 0 || c.dims(0)[1] % taps != 0) c.fail("the blocks do not divide the columns");
  const ValueId x = c.operand(0);
  const ValueId places = c.iota(ElementType::kS64, c.dims(0), 2);
  const Dims dims = with_leading({c.dims(0)[0], c.dims(0)[1] / taps}, image);
  c.set(0, scatter_windows(c, x, places, dims, Opcode::k_add));
}

// --- resampling -------------------------------------------------------------

void resample(NodeContext& c, const Dims& dims) {
  if (dims == c.dims(0)) {
    c.set(0, c.emit(Opcode::k_identity, {c.operand(0)}, c.element(0), dims));
    return;
  }
  c.set(0, c.emit(Opcode::k_resize, {c.operand(0)}, c.element(0), dims, [&](WorkloadBuilder& b) {
    b.set_string(Attr::kConfig, c.string("mode", "nearest"));
  }));
}

int64_t scaled(NodeContext& c, int64_t size, double scale) {
  const double result = std::floor(static_cast<double>(size) * scale);
  if (!(result >= 0 && result < 1e15)) c.fail(fmt::format("a scale of {}", scale));
  return static_cast<int64_t>(result);
}

void resize(NodeContext& c) {
  const size_t rank = c.rank(0);
  // Operator set 10 has (X, scales); later ones (X, roi, scales, sizes).
  const size_t scales_at = c.version() < 11 ? 1 : 2;
  Dims axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto given = c.integer_list("axes")) axes = c.axes(*given, rank);
  Dims dims = c.dims(0);
  const bool by_size = c.has_input(3) && c.product(c.dims(3)) > 0;
  if (by_size) {
    Dims sizes = c.integers(3, "the sizes");
    if (sizes.size() != axes.size()) c.fail("one size an axis is expected");
    const std::string_view policy = c.string("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      // One scale for all axes: the smallest, or the largest, that is asked for.
      double scale = 0;
      for (size_t i = 0; i < axes.size(); ++i) {
        if (dims[at(axes[i])] == 0) c.fail("an empty image has no aspect ratio");
        const double own = static_cast<double>(sizes[i]) / static_cast<double>(dims[at(axes[i])]);
        scale =
            i == 0 ? own : (policy == "not_larger" ? std::min(scale, own) : std::max(scale, own));
      }
      for (size_t i = 0; i < axes.size(); ++i)
        sizes[i] = scaled(c, 1, std::round(scale * static_cast<double>(dims[at(axes[i])])));
    }
    for (size_t i = 0; i < axes.size(); ++i) dims[at(axes[i])] = sizes[i];
  } else {
    if (!c.has_input(scales_at)) c.fail("neither scales nor sizes are given");
    const Constant* scales = c.constant(scales_at);
    if (scales == nullptr)
      dims = c.data_dependent(0, std::vector<std::optional<int64_t>>(rank));
    else if (scales->size() != axes.size())
      c.fail("one scale an axis is expected");
    else
      for (size_t i = 0; i < axes.size(); ++i)
        dims[at(axes[i])] = scaled(c, dims[at(axes[i])], scales->real(i));
  }
  resample(c, dims);
}

void upsample(NodeContext& c) {
  Dims dims = c.dims(0);
  std::vector<double> scales;
  if (c.version() >= 9) {
    const Constant* given = c.constant(1);
    if (given == nullptr) c.fail("the scales depend on data");
    for (size_t i = 0; i < given->size(); ++i) scales.push_back(given->real(i));
  } else if (c.version() >= 7) {
    for (float s : c.real_list("scales")) scales.push_back(s);
  } else {
    scales = {1, 1, c.real("height_scale", 1), c.real("width_scale", 1)};
  }
  if (scales.size() != dims.size()) c.fail("one scale a dimension is expected");
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = scaled(c, dims[i], scales[i]);
  resample(c, dims);
}

void grid_sample(NodeContext& c) {
  c.expect_inputs(2);
  const Dims spatial = spatial_dims(c);
  if (c.rank(1) != c.rank(0)) c.fail("input and grid differ in rank");
  const Dims dims = with_leading(c.dims(0), {c.dims(1).begin() + 1, c.dims(1).end() - 1});
  const ValueId x = c.operand(0), grid = c.operand(1);
  c.set(0, c.emit(Opcode::k_resize, {x, grid}, c.element(0), dims));
}

void roi_align(NodeContext& c) {
  c.expect_inputs(3);
  if (c.rank(0) != 4 || c.rank(1) != 2) c.fail("an image batch and a list of boxes are expected");
  const Dims dims = {c.dims(1)[0], c.dims(0)[1], c.integer("output_height", 1),
                     c.integer("output_width", 1)};
  const ValueId x = c.operand(0), boxes = c.operand(1), batch = c.operand(2);
  c.set(0, c.emit(Opcode::k_resize, {x, boxes, batch}, c.element(0), dims));
}

void max_roi_pool(NodeContext& c) {
  c.expect_inputs(2);
  if (c.rank(0) != 4 || c.rank(1) != 2) c.fail("an image batch and a list of boxes are expected");
  const auto pooled = c.integer_list("pooled_shape");
  if (!pooled || pooled->size() != 2) c.fail("'pooled_shape' must give height and width");
  const ValueId x = c.operand(0), boxes = c.operand(1);
  c.set(0, c.emit(Opcode::k_resize, {x, boxes}, c.element(0),
                  {c.dims(1)[0], c.dims(0)[1], (*pooled)[0], (*pooled)[1]}));
}

/// A grid of points moved by one small matrix an image.
void affine_grid(NodeContext& c) {
  c.expect_inputs(2);
  const Dims size = c.integers(1, "the size");
  if (c.rank(0) != 3 || size.size() < 4)
    c.fail("[N, 2, 3] or [N, 3, 4] matrices and a size are expected");
  const Dims spatial(size.begin() + 2, size.end());
  const auto axes = static_cast<int64_t>(spatial.size());
  if (c.dims(0)[1] != axes || c.dims(0)[2] != axes + 1) c.fail("the matrices do not fit the size");
  const ElementType element = c.element(0);
  const ValueId points = c.iota(element, {c.product(spatial), axes + 1}, 0);
  const ValueId theta = c.operand(0);
  const ValueId moved = dot_general(c, theta, points, {{}, {}, {2}, {1}}, element, {1, 2, 0});
  Dims dims = {size[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(axes);
  if (c.dims(0)[0] != size[0]) c.fail("one matrix an image is expected");
  c.set(0, bitcast(c, moved, dims));
}

constexpr OperatorRule kRules[] = {
    {"AffineGrid", affine_grid},
    {"AveragePool", average_pool},
    {"Col2Im", column_to_image},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalLpPool", global_lp_pool},
    {"GlobalMaxPool", global_max_pool},
    {"GridSample", grid_sample},
    {"LpPool", lp_pool},
    {"MaxPool", max_pool},
    {"MaxRoiPool", max_roi_pool},
    {"MaxUnpool", max_unpool},
    {"Resize", resize},
    {"RoiAlign", roi_align},
    {"Upsample", upsample},
};

}  // namespace

std::span<const OperatorRule> window_rules() { return kRules; }

}  // namespace orrery::onnx
