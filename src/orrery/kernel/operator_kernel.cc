#include "orrery/kernel/operator_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "orrery/base/nearest.h"
#include "orrery/kernel/describe.h"
#include "orrery/kernel/operator_parameters.h"
#include "orrery/workload/cost_formula.h"

namespace orrery {
namespace {

using E = ElementType;
using P = OperatorParameter;

/// What a `dtype` stands for.
struct Precision {
  ElementType storage = E::kNone;  ///< Of activations, and of all there is elsewhere.
  ElementType weight = E::kNone;   ///< Of the second operand of products.
  ElementType compute = E::kNone;  ///< Of products.
  ElementType output = E::kNone;   ///< Of products.
  ElementType scale = E::kNone;    ///< Of the scales of weights; kNone: there are none.
  int32_t scale_block = 0;         ///< Elements along k that share a scale …
  bool square_blocks = false;      ///< … and as many along n.
  bool activation_scales = false;  ///< A row of activations has a scale a block, too.
};

/// Products of narrow types give bf16, those of int8 int32.
ElementType product_type(ElementType storage) {
  if (storage == E::kS8) return E::kS32;
  return bit_width(storage) < 16 ? E::kBF16 : storage;
}

Precision plain(ElementType storage, ElementType compute) {
  return {storage, storage, compute, product_type(storage), E::kNone, 0, false, false};
}

Precision precision(std::string_view dtype) {
  // The usual ones first: looking through all spellings takes longer than the rest of a row.
  if (dtype == "bf16") return plain(E::kBF16, E::kBF16);
  if (dtype == "fp16") return plain(E::kF16, E::kF16);
  if (dtype == "fp32") return plain(E::kF32, E::kF32);
  if (dtype == "tf32") return plain(E::kF32, E::kTF32);
  if (dtype == "fp8") return plain(E::kF8E4M3FN, E::kF8E4M3FN);
  if (dtype == "int8") return plain(E::kS8, E::kS8);
  if (dtype == "fp4") return plain(E::kF4E2M1FN, E::kF4E2M1FN);
  if (dtype == "int4_weight")
    return {E::kBF16, E::kS4, E::kBF16, E::kBF16, E::kBF16, 128, false, false};
  if (dtype == "fp4_weight")  // MXFP4 of the Open Compute Project's specification
    return {E::kBF16, E::kF4E2M1FN, E::kBF16, E::kBF16, E::kF8E8M0FNU, 32, false, false};
  if (dtype == "fp8_block")
    return {E::kF8E4M3FN, E::kF8E4M3FN, E::kF8E4M3FN, E::kBF16, E::kF32, 128, true, true};
  const auto type = element_type_from_user(dtype);
  if (!type || *type == E::kNone || *type == E::kString)
    throw std::invalid_argument(
        fmt::format("dtype: '{}' is not known; there is fp32, tf32, fp16, bf16, fp8, fp8_block, "
                    "int8, int4_weight, fp4_weight, fp4, …",
                    dtype));
  return plain(*type, *type);
}

TensorSize tensor(ElementType element, std::span<const int64_t> dims) {
  constexpr int64_t kMostElements = int64_t{1} << 48;
  int64_t elements = 1;
  for (int64_t d : dims)
    if (__builtin_mul_overflow(elements, d, &elements) || elements > kMostElements)
      throw std::invalid_argument("a tensor of more than 2^48 elements");
  return {element, elements, (elements * bit_width(element) + 7) / 8};
}
TensorSize tensor(ElementType element, std::initializer_list<int64_t> dims) {
  return tensor(element, std::span(dims.begin(), dims.size()));
}

int64_t parts(int64_t whole, int64_t size) { return (whole + size - 1) / size; }
double elements(const TensorSize& t) { return static_cast<double>(t.elements); }
double bytes(const TensorSize& t) { return static_cast<double>(t.bytes); }

/// Fills a kernel from a row of the table.
class OperatorBuilder {
 public:
  OperatorBuilder(std::string_view op, std::string_view dtype, const OperatorParameters& params,
                  Kernel& kernel)
      : op_(op), dtype_(dtype), type_(precision(dtype)), p_(params), kernel_(kernel) {}

  /// x[m,k]·w[n,k]ᵀ, or [b,m,k]·[b,k,n].
  void gemm(bool batched) {
    if (batched) refuse_scales();
    ProductShape shape;
    shape.m = p_.size(P::k_m);
    shape.n = p_.size(P::k_n);
    shape.k = p_.size(P::k_k);
    shape.batch = batched ? p_.size(P::k_b) : 1;
    shape.weight = type_.weight;
    shape.scale_block = type_.scale_block;
    const TensorSize x = tensor(type_.storage, {shape.batch, shape.m, shape.k});
    const TensorSize w = tensor(type_.weight, {shape.batch, shape.n, shape.k});
    const TensorSize y = tensor(type_.output, {shape.batch, shape.m, shape.n});
    begin(type_.scale == E::kNone ? Opcode::k_dot_general : Opcode::k_scaled_dot);
    describe_product(kernel_, shape, x, w);
    add_tensor(kernel_, y, kBatchLoop | kRowLoop | kColumnLoop, true);
    add_products(kernel_.cost, elements(y) * static_cast<double>(shape.k), type_.compute);
    read(x);
    read(w);
    read_scales(shape);
    write(y);
  }

  void grouped_gemm() {
    ProductShape shape;
    shape.groups = p_.size(P::k_experts);
    shape.m = p_.size(P::k_tokens);
    shape.n = p_.size(P::k_n);
    shape.k = p_.size(P::k_k);
    shape.skew = skew();
    shape.weight = type_.weight;
    shape.scale_block = type_.scale_block;
    begin(Opcode::k_grouped_dot);
    const GroupedTensors t = grouped_tensors(shape);
    describe_product(kernel_, shape, t.x, t.w);
    add_tensor(kernel_, t.y, kBatchLoop | kRowLoop | kColumnLoop, true);
    add_grouped_cost(shape, t);
  }

  /// Gate and up projection, then down, of the experts of one rank.
  void moe() {
    const int64_t hidden = p_.size(P::k_hidden), experts = p_.size(P::k_experts);
    const int64_t tp = p_.size(P::k_tp, 1), ep = p_.size(P::k_ep, 1);
    const int64_t choices = p_.size(P::k_topk);
    if (choices > experts)
      throw std::invalid_argument(
          fmt::format("params: 'topk' must not exceed the {} experts, found {}", experts, choices));
    if (ep > experts)
      throw std::invalid_argument(
          fmt::format("params: 'ep' must not exceed the {} experts, found {}", experts, ep));
    const int64_t inter = parts(p_.size(P::k_inter), tp);
    const double rows = static_cast<double>(p_.size(P::k_tokens)) * static_cast<double>(choices) /
                        static_cast<double>(ep);
    if (rows > 0x1p48) throw std::invalid_argument("a tensor of more than 2^48 elements");
    ProductShape up;
    up.groups = parts(experts, ep);
    up.m = std::max<int64_t>(1, std::llround(rows));
    up.n = 2 * inter;
    up.k = hidden;
    up.skew = skew();
    up.weight = type_.weight;
    up.scale_block = type_.scale_block;
    ProductShape down = up;
    down.n = hidden;
    down.k = inter;
    ProductShape both = up;
    both.n = 3 * inter;
    both.tokens = p_.size(P::k_tokens);
    both.choices = static_cast<int32_t>(std::min<int64_t>(choices, INT32_MAX));
    both.ranks = static_cast<int32_t>(std::min<int64_t>(ep, INT32_MAX));
    begin(Opcode::k_grouped_dot);
    const GroupedTensors first = grouped_tensors(up), second = grouped_tensors(down);
    const TensorSize weights = tensor(type_.weight, {up.groups, both.n, hidden});
    describe_product(kernel_, both, first.x, weights);
    add_tensor(kernel_, second.y, kBatchLoop | kRowLoop | kDepthLoop, true);
    add_grouped_cost(up, first);
    add_grouped_cost(down, second);
  }

  void convolution() {
    refuse_scales();
    ConvolutionShape shape;
    shape.batch = p_.size(P::k_n);
    shape.channels = p_.size(P::k_c);
    shape.height = p_.size(P::k_h);
    shape.width = p_.size(P::k_w);
    shape.features = p_.size(P::k_k);
    shape.window_height = p_.size(P::k_r);
    shape.window_width = p_.size(P::k_s, shape.window_height);
    shape.stride = p_.size(P::k_stride, 1);
    shape.groups = p_.size(P::k_groups, 1);
    const int64_t pad = p_.count(P::k_pad, 0);
    const std::string_view layout = p_.text(P::k_layout, "nhwc");
    if (layout != "nhwc" && layout != "nchw")
      throw std::invalid_argument("params: 'layout' must be nhwc or nchw");
    shape.channels_last = layout == "nhwc";
    if (const std::string_view of = p_.text(P::k_gradient, ""); !of.empty()) {
      if (of != "input" && of != "filter")
        throw std::invalid_argument("params: 'gradient' must be input or filter");
      shape.computes = of == "input" ? ConvolutionShape::Computes::kInputGradient
                                     : ConvolutionShape::Computes::kFilterGradient;
    }
    if (shape.channels % shape.groups != 0 || shape.features % shape.groups != 0)
      throw std::invalid_argument(fmt::format("params: {} groups do not divide c={} and k={}",
                                              shape.groups, shape.channels, shape.features));
    const int64_t high = shape.height + 2 * pad, wide = shape.width + 2 * pad;
    if (high < shape.window_height || wide < shape.window_width)
      throw std::invalid_argument("params: the window is larger than the padded image");
    shape.out_height = (high - shape.window_height) / shape.stride + 1;
    shape.out_width = (wide - shape.window_width) / shape.stride + 1;
    const int64_t depth = shape.channels / shape.groups;
    const TensorSize x =
        tensor(type_.storage, {shape.batch, shape.height, shape.width, shape.channels});
    const TensorSize f =
        tensor(type_.storage, {shape.features, depth, shape.window_height, shape.window_width});
    const TensorSize y =
        tensor(type_.output, {shape.batch, shape.out_height, shape.out_width, shape.features});
    begin(Opcode::k_convolution);
    const int64_t products = depth * shape.window_height * shape.window_width;
    describe_product(kernel_, shape.groups, y.elements / shape.features,
                     shape.features / shape.groups, products, x, f);
    add_tensor(kernel_, y, kBatchLoop | kRowLoop | kColumnLoop, true);
    kernel_.shape = shape;
    add_products(kernel_.cost, elements(y) * static_cast<double>(products), type_.compute);
    read(x);
    read(f);
    write(y);
  }

  void attention() {
    refuse_scales();
    AttentionShape shape;
    shape.batch = p_.size(P::k_b);
    shape.heads = p_.size(P::k_h);
    shape.queries = p_.size(P::k_s);
    shape.head = p_.size(P::k_d);
    shape.keys = p_.size(P::k_t, shape.queries);
    shape.kv_heads = p_.size(P::k_kv, shape.heads);
    shape.value_head = p_.size(P::k_dv, shape.head);
    shape.window = p_.count(P::k_window, 0);
    shape.causal = p_.flag(P::k_causal);
    shape.paged = p_.flag(P::k_paged);
    shape.kv = p_.has(P::k_kv_dtype) ? stored_type(p_.text(P::k_kv_dtype, "")) : type_.storage;
    if (shape.heads % shape.kv_heads != 0)
      throw std::invalid_argument(fmt::format("params: {} heads are not a multiple of {} kv heads",
                                              shape.heads, shape.kv_heads));
    if (shape.causal && shape.queries > shape.keys)
      throw std::invalid_argument(
          fmt::format("params: causal with s={} queries and t={} keys: the first would see none",
                      shape.queries, shape.keys));
    const TensorSize q =
        tensor(type_.storage, {shape.batch, shape.heads, shape.queries, shape.head});
    const TensorSize k = tensor(shape.kv, {shape.batch, shape.kv_heads, shape.keys, shape.head});
    const TensorSize v =
        tensor(shape.kv, {shape.batch, shape.kv_heads, shape.keys, shape.value_head});
    const TensorSize y =
        tensor(type_.output, {shape.batch, shape.heads, shape.queries, shape.value_head});
    begin(Opcode::k_attention);
    describe_attention(kernel_, shape);
    add_tensor(kernel_, q, 1 | 2 | 8, false);
    add_tensor(kernel_, k, 1 | 4 | 8, false);
    add_tensor(kernel_, v, 1 | 4 | 8, false);
    add_tensor(kernel_, y, 1 | 2 | 8, true);
    const AttentionMask mask =
        attention_mask(static_cast<double>(shape.queries), static_cast<double>(shape.keys),
                       shape.causal, static_cast<double>(shape.window));
    // Keys and values that no query sees are not read.
    kernel_.cost.bytes_read -= mask.unseen * bytes(k);
    kernel_.cost.bytes_read -= mask.unseen * bytes(v);
    add_attention(kernel_.cost, static_cast<double>(shape.batch) * static_cast<double>(shape.heads),
                  mask.pairs,
                  static_cast<double>(shape.head) + static_cast<double>(shape.value_head),
                  type_.compute);
    read(q);
    read(k);
    read(v);
    write(y);
  }

  void elementwise(Opcode code, int inputs) {
    refuse_scales();
    const auto dims = p_.shape();
    const TensorSize x = tensor(type_.storage, dims);
    begin(code);
    add_dimension_loops(kernel_, dims);
    for (int i = 0; i < inputs; ++i) read_whole(x);
    write_whole(x);
    kernel_.cost.vector_type = x.element;
    add_work(kernel_.cost, elements(x), elementwise_work(code, x.element));
  }

  void copy() {
    refuse_scales();
    const auto dims = p_.shape();
    const TensorSize x = tensor(type_.storage, dims);
    begin(Opcode::k_copy);
    add_dimension_loops(kernel_, dims);
    read_whole(x);
    write_whole(x);
    kernel_.shape = MoveShape{x.elements, x.elements, x.elements};
  }

  /// Over the last axis, with weights of its length where `weights` says so.
  void over_last_axis(Opcode code, int weights) {
    refuse_scales();
    const auto dims = p_.shape();
    const TensorSize x = tensor(type_.storage, dims);
    const TensorSize weight = tensor(type_.storage, {dims.back()});
    begin_rows(code, dims, static_cast<int64_t>(dims.size()) - 1);
    read_whole(x);
    for (int i = 0; i < weights; ++i) read_whole(weight);
    write_whole(x);
    kernel_.cost.vector_type = x.element;
    add_work(kernel_.cost, elements(x), row_work(code, 0));
  }

  void reduce(int64_t otherwise, bool compares = false) {
    refuse_scales();
    const auto dims = p_.shape();
    const int64_t axis = p_.axis(dims.size(), otherwise);
    const TensorSize x = tensor(type_.storage, dims);
    const TensorSize y = tensor(type_.storage, {x.elements / dims[static_cast<size_t>(axis)]});
    begin_rows(Opcode::k_reduce, dims, axis);
    std::get<RowShape>(kernel_.shape).compares = compares;
    read_whole(x);
    write_whole(y);
    kernel_.cost.vector_type = x.element;
    add_work(kernel_.cost, std::max(0.0, elements(x) - elements(y)), {1, 0});
  }

  /// A product whose kernel a compiler chose, with the traffic of what is fused into it.
  void fused_gemm() {
    gemm(p_.has(P::k_b));
    auto& product = std::get<ProductShape>(kernel_.shape);
    product.compiled = true;
    product.aligned = static_cast<uint8_t>(std::min<int64_t>(p_.size(P::k_aligned, 16), 16));
    if (p_.has(P::k_read)) kernel_.cost.bytes_read = static_cast<double>(p_.size(P::k_read));
    if (p_.has(P::k_written))
      kernel_.cost.bytes_written = static_cast<double>(p_.size(P::k_written));
    work_of_fusion();
  }

  /// What a compiler wrote one kernel for, by its sums.
  void fusion() {
    refuse_scales();
    FusionShape shape;
    shape.elements = p_.size(P::k_elements);
    shape.rows = p_.size(P::k_rows, 1);
    shape.columns = p_.size(P::k_columns, 1);
    shape.inner = p_.size(P::k_inner, 1);
    shape.run = p_.count(P::k_run, 0);
    shape.operations = small(P::k_operations);
    shape.inputs = small(P::k_inputs);
    shape.outputs = small(P::k_outputs);
    shape.reductions = small(P::k_reductions);
    shape.pieces = small(P::k_pieces);
    shape.does = static_cast<uint8_t>(std::min<int64_t>(p_.count(P::k_does, 0), 255));
    begin(Opcode::k_fusion);
    kernel_.family = shape.columns > 1 ? KernelFamily::kReduction : KernelFamily::kElementwise;
    kernel_.shape = shape;
    add_dimension_loops(kernel_, {&shape.elements, 1});
    add_tensor(kernel_, tensor(type_.storage, {shape.elements}), all_loops(), true);
    kernel_.cost.bytes_read = static_cast<double>(p_.count(P::k_read, 0));
    kernel_.cost.bytes_written = static_cast<double>(p_.count(P::k_written, 0));
    work_of_fusion();
  }

  /// The two last axes swapped.
  void transpose() {
    const auto dims = p_.shape();
    if (dims.size() < 2) throw std::invalid_argument("params: transpose needs two axes or more");
    std::array<int64_t, OperatorParameters::kLongestList> order{};
    for (size_t i = 0; i < dims.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::swap(order[dims.size() - 1], order[dims.size() - 2]);
    move(dims, std::span(order).first(dims.size()));
  }
  void permute() {
    const auto dims = p_.shape();
    move(dims, p_.order(dims.size()));
  }

  void top_k() {
    refuse_scales();
    const auto dims = p_.shape();
    const int64_t k = p_.size(P::k_k, 8);
    if (p_.has(P::k_k) && k > dims.back())
      throw std::invalid_argument(
          fmt::format("params: 'k' must not exceed the row width {}, found {}", dims.back(), k));
    const TensorSize x = tensor(type_.storage, dims);
    const int64_t kept = x.elements / dims.back() * std::min(k, dims.back());
    begin_rows(Opcode::k_top_k, dims, static_cast<int64_t>(dims.size()) - 1);
    read_whole(x);
    write_whole(tensor(type_.storage, {kept}));
    write_whole(tensor(E::kS64, {kept}));
    kernel_.cost.vector_type = x.element;
    add_work(kernel_.cost, elements(x), row_work(Opcode::k_top_k, static_cast<double>(k)));
  }

  void sort() {
    refuse_scales();
    const auto dims = p_.shape();
    const TensorSize x = tensor(type_.storage, dims);
    begin_rows(Opcode::k_sort, dims, static_cast<int64_t>(dims.size()) - 1);
    read_whole(x);
    write_whole(x);
    write_whole(tensor(E::kS64, dims));
    kernel_.cost.vector_type = x.element;
    const PerElement comparisons = row_work(Opcode::k_sort, static_cast<double>(dims.back()));
    add_work(kernel_.cost, elements(x) * comparisons.vector, {1, 0});
  }

  /// `shape` has the row width last; the sizes before it count the rows looked up.
  void look_up(OperatorParameter table_rows) {
    const Lookup l = lookup(table_rows, false);
    begin_lookup(Opcode::k_gather, l);
    add_tensor(kernel_, l.table, all_loops(), false);
    add_tensor(kernel_, l.ids, all_loops(), false);
    add_tensor(kernel_, l.rows, all_loops(), true);
    read(l.ids);
    read(l.rows);
    write(l.rows);
  }
  void index_add() {
    const Lookup l = lookup(P::k_rows, true);
    begin_lookup(Opcode::k_scatter, l);
    add_tensor(kernel_, l.table, all_loops(), false);
    add_tensor(kernel_, l.ids, all_loops(), false);
    add_tensor(kernel_, l.rows, all_loops(), false);
    add_tensor(kernel_, l.table, all_loops(), true);
    read(l.ids);
    kernel_.cost.bytes_read += 2 * bytes(l.rows);  // the rows, and what they are added to
    write(l.rows);
    kernel_.cost.vector_type = l.rows.element;
    add_work(kernel_.cost, elements(l.rows), {1, 0});
  }

 private:
  uint16_t small(OperatorParameter p) const {
    return static_cast<uint16_t>(std::min<int64_t>(p_.count(p, 0), UINT16_MAX));
  }
  void work_of_fusion() {
    kernel_.cost.vector_type = E::kF32;
    kernel_.cost.vector_flops = static_cast<double>(p_.count(P::k_flops, 0));
    kernel_.cost.transcendental_flops = static_cast<double>(p_.count(P::k_special, 0));
  }
  struct GroupedTensors {
    TensorSize x, w, y;
  };
  struct Lookup {
    std::span<const int64_t> dims;
    LookupShape shape;
    TensorSize table, ids, rows;
  };

  void begin(Opcode code) {
    kernel_.code = code;
    kernel_.family = family_of(code);
  }
  void begin_rows(Opcode code, std::span<const int64_t> dims, int64_t axis) {
    begin(code);
    add_dimension_loops(kernel_, dims);
    mark_reduced(kernel_, dims.size(), {&axis, 1});
    kernel_.shape = row_shape(dims, {&axis, 1});
  }
  void begin_lookup(Opcode code, const Lookup& l) {
    begin(code);
    const std::array<int64_t, 2> table = {l.shape.table_rows, l.shape.width};
    // Loops are those of the largest tensor, the first of equals.
    if (l.table.elements >= l.rows.elements)
      add_dimension_loops(kernel_, table);
    else
      add_dimension_loops(kernel_, l.dims);
    kernel_.shape = l.shape;
  }
  Lookup lookup(OperatorParameter table_rows, bool accumulate) const {
    refuse_scales();
    Lookup l;
    l.dims = p_.shape();
    l.shape.width = l.dims.back();
    l.shape.table_rows = p_.size(table_rows);
    l.shape.accumulate = accumulate;
    l.table = tensor(type_.storage, {l.shape.table_rows, l.shape.width});
    l.rows = tensor(type_.storage, l.dims);
    l.shape.count = l.rows.elements / l.shape.width;
    l.ids = tensor(E::kS64, {l.shape.count});
    return l;
  }
  void move(std::span<const int64_t> dims, std::span<const int64_t> order) {
    refuse_scales();
    const TensorSize x = tensor(type_.storage, dims);
    begin(Opcode::k_transpose);
    add_dimension_loops(kernel_, dims);
    add_tensor(kernel_, x, all_loops(), false);
    add_tensor(kernel_, x, all_loops(), true);
    std::array<int64_t, OperatorParameters::kLongestList> row_major{};
    for (size_t i = 0; i < dims.size(); ++i) row_major[i] = static_cast<int64_t>(i);
    kernel_.shape = move_shape(dims, std::span(row_major).first(dims.size()), order);
    if (moves_unit_dimensions_only(dims, order)) return;
    read(x);
    write(x);
  }
  GroupedTensors grouped_tensors(const ProductShape& s) const {
    return {tensor(type_.storage, {s.m, s.k}), tensor(type_.weight, {s.groups, s.k, s.n}),
            tensor(type_.output, {s.m, s.n})};
  }
  void add_grouped_cost(const ProductShape& s, const GroupedTensors& t) {
    add_products(kernel_.cost, elements(t.y) * static_cast<double>(s.k), type_.compute);
    read(t.x);
    kernel_.cost.bytes_read +=
        active_share(static_cast<double>(s.groups), static_cast<double>(s.m)) * bytes(t.w);
    read_scales(s);
    write(t.y);
  }
  void read_scales(const ProductShape& s) {
    if (type_.scale == E::kNone) return;
    const int64_t blocks = parts(s.k, type_.scale_block);
    const int64_t across = type_.square_blocks ? parts(s.n, type_.scale_block) : s.n;
    read(tensor(type_.scale, {s.groups, across, blocks}));
    if (type_.activation_scales) read(tensor(type_.scale, {s.m, blocks}));
  }
  void refuse_scales() const {
    if (type_.scale != E::kNone)
      throw std::invalid_argument(
          fmt::format("dtype: {} takes no '{}', gemm, grouped_gemm and moe do", op_, dtype_));
  }
  static ElementType stored_type(std::string_view dtype) {
    const auto type = element_type_from_user(dtype);
    if (!type || *type == E::kNone || *type == E::kString)
      throw std::invalid_argument(fmt::format("params: 'kv_dtype' '{}' is not known", dtype));
    return *type;
  }
  float skew() const {
    constexpr double kMostSkew = 8;  // then one group has all but half a percent
    return static_cast<float>(p_.real(P::k_skew, 0, kMostSkew));
  }
  unsigned all_loops() const { return (1u << kernel_.loop_count) - 1; }
  void read(const TensorSize& t) { kernel_.cost.bytes_read += bytes(t); }
  void write(const TensorSize& t) { kernel_.cost.bytes_written += bytes(t); }
  void read_whole(const TensorSize& t) {
    add_tensor(kernel_, t, all_loops(), false);
    read(t);
  }
  void write_whole(const TensorSize& t) {
    add_tensor(kernel_, t, all_loops(), true);
    write(t);
  }

  std::string_view op_, dtype_;
  Precision type_;
  const OperatorParameters& p_;
  Kernel& kernel_;
};

using Builder = OperatorBuilder;

struct Operator {
  std::string_view name;
  std::string_view params;  ///< In words.
  ParameterSet known = 0;
  void (*build)(OperatorBuilder&) = nullptr;
};

constexpr ParameterSet kShape = parameter_set({P::k_shape});
constexpr ParameterSet kShapeAndAxis = parameter_set({P::k_shape, P::k_axis});

constexpr std::array kOperators = {
    Operator{"gemm", "m, n, k: x[m,k]·w[n,k]ᵀ", parameter_set({P::k_m, P::k_n, P::k_k}),
             [](Builder& b) { b.gemm(false); }},
    Operator{"bmm", "b, m, n, k: [b,m,k]·[b,k,n]", parameter_set({P::k_b, P::k_m, P::k_n, P::k_k}),
             [](Builder& b) { b.gemm(true); }},
    Operator{"fused_gemm",
             "m, n, k, b (1), read, written, flops, special, aligned (16): a compiler's",
             parameter_set({P::k_b, P::k_m, P::k_n, P::k_k, P::k_read, P::k_written, P::k_flops,
                            P::k_special, P::k_aligned}),
             [](Builder& b) { b.fused_gemm(); }},
    Operator{"fusion", "elements, read, written, … (docs/commands.md): of a compiler's own",
             parameter_set({P::k_elements, P::k_read, P::k_written, P::k_flops, P::k_special,
                            P::k_operations, P::k_inputs, P::k_outputs, P::k_rows, P::k_columns,
                            P::k_inner, P::k_reductions, P::k_pieces, P::k_run, P::k_does}),
             [](Builder& b) { b.fusion(); }},
    Operator{"grouped_gemm",
             "experts, tokens, n, k, skew (0): rows of expert i fall as (i+1)^-skew",
             parameter_set({P::k_experts, P::k_tokens, P::k_n, P::k_k, P::k_skew}),
             [](Builder& b) { b.grouped_gemm(); }},
    Operator{"moe", "tokens, hidden, inter, topk, experts, tp (1), ep (1), skew (0): on one rank",
             parameter_set({P::k_tokens, P::k_hidden, P::k_inter, P::k_topk, P::k_experts, P::k_tp,
                            P::k_ep, P::k_skew}),
             [](Builder& b) { b.moe(); }},
    Operator{"conv2d",
             "n, c, h, w, k, r, s, stride, pad, groups, layout, gradient (of input or filter)",
             parameter_set({P::k_n, P::k_c, P::k_h, P::k_w, P::k_k, P::k_r, P::k_s, P::k_stride,
                            P::k_pad, P::k_groups, P::k_layout, P::k_gradient}),
             [](Builder& b) { b.convolution(); }},
    Operator{"sdpa", "b, h, kv, s, t, d, dv, causal, window, paged, kv_dtype",
             parameter_set({P::k_b, P::k_h, P::k_kv, P::k_s, P::k_t, P::k_d, P::k_dv, P::k_causal,
                            P::k_window, P::k_paged, P::k_kv_dtype}),
             [](Builder& b) { b.attention(); }},
    Operator{"add", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_add, 2); }},
    Operator{"mul", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_multiply, 2); }},
    Operator{"div", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_divide, 2); }},
    Operator{"pow", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_power, 2); }},
    Operator{"add_scalar", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_add, 1); }},
    Operator{"mul_scalar", "shape", kShape,
             [](Builder& b) { b.elementwise(Opcode::k_multiply, 1); }},
    Operator{"div_scalar", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_divide, 1); }},
    Operator{"pow_scalar", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_power, 1); }},
    Operator{"relu", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_relu, 1); }},
    Operator{"gelu", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_gelu, 1); }},
    Operator{"silu", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_silu, 1); }},
    Operator{"tanh", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_tanh, 1); }},
    Operator{"exp", "shape", kShape, [](Builder& b) { b.elementwise(Opcode::k_exponential, 1); }},
    Operator{"copy", "shape", kShape, [](Builder& b) { b.copy(); }},
    Operator{"softmax", "shape", kShape,
             [](Builder& b) { b.over_last_axis(Opcode::k_softmax, 0); }},
    Operator{"layernorm", "shape", kShape,
             [](Builder& b) { b.over_last_axis(Opcode::k_layer_norm, 2); }},
    Operator{"rmsnorm", "shape", kShape,
             [](Builder& b) { b.over_last_axis(Opcode::k_rms_norm, 1); }},
    Operator{"cumsum", "shape", kShape, [](Builder& b) { b.over_last_axis(Opcode::k_cumsum, 0); }},
    Operator{"reduce_sum", "shape, axis (-1)", kShapeAndAxis, [](Builder& b) { b.reduce(-1); }},
    Operator{"reduce_max", "shape, axis (-1)", kShapeAndAxis,
             [](Builder& b) { b.reduce(-1, true); }},
    Operator{"reduce_sum_axis0", "shape; over the first axis", kShape,
             [](Builder& b) { b.reduce(0); }},
    Operator{"transpose", "shape; the two last axes swapped", kShape,
             [](Builder& b) { b.transpose(); }},
    Operator{"permute", "shape, order of its axes", parameter_set({P::k_shape, P::k_order}),
             [](Builder& b) { b.permute(); }},
    Operator{"topk", "shape, k (8)", parameter_set({P::k_shape, P::k_k}),
             [](Builder& b) { b.top_k(); }},
    Operator{"sort", "shape; along the last axis", kShape, [](Builder& b) { b.sort(); }},
    Operator{"embedding", "vocab, shape with the row width last",
             parameter_set({P::k_vocab, P::k_shape}), [](Builder& b) { b.look_up(P::k_vocab); }},
    Operator{"index_select", "rows of the table, shape [count, width]",
             parameter_set({P::k_rows, P::k_shape}), [](Builder& b) { b.look_up(P::k_rows); }},
    Operator{"index_add", "rows of the table, shape [count, width]",
             parameter_set({P::k_rows, P::k_shape}), [](Builder& b) { b.index_add(); }},
};

/// A table of places in kOperators by a hash of their names; the next place is taken
/// where one is not free.
constexpr size_t kSlots = 128;
constexpr uint8_t kFree = 255;
constexpr size_t slot_of(std::string_view name) {
  const size_t first = static_cast<unsigned char>(name.front());
  const size_t last = static_cast<unsigned char>(name.back());
  return (29 * name.size() + 5 * first + last) % kSlots;
}
constexpr std::array<uint8_t, kSlots> kByName = [] {
  std::array<uint8_t, kSlots> table{};
  for (uint8_t& slot : table) slot = kFree;
  for (size_t i = 0; i < kOperators.size(); ++i) {
    size_t slot = slot_of(kOperators[i].name);
    while (table[slot] != kFree) slot = (slot + 1) % kSlots;
    table[slot] = static_cast<uint8_t>(i);
  }
  return table;
}();

const Operator& find_operator(std::string_view name) {
  if (!name.empty())
    for (size_t slot = slot_of(name); kByName[slot] != kFree; slot = (slot + 1) % kSlots)
      if (kOperators[kByName[slot]].name == name) return kOperators[kByName[slot]];
  std::vector<std::string> known;
  known.reserve(kOperators.size());
  for (const Operator& o : kOperators) known.emplace_back(o.name);
  throw std::invalid_argument(
      fmt::format("op: '{}' is not known{}", name, suggestion(name, known)));
}

}  // namespace

const std::vector<OperatorDescription>& supported_operators() {
  static const std::vector<OperatorDescription> kDescriptions = [] {
    std::vector<OperatorDescription> all;
    all.reserve(kOperators.size());
    for (const Operator& o : kOperators)
      all.push_back({std::string(o.name), std::string(o.params)});
    return all;
  }();
  return kDescriptions;
}

Kernel operator_kernel(std::string_view op, std::string_view dtype, std::string_view params) {
  const Operator& found = find_operator(op);
  const OperatorParameters parameters(op, found.known, params);
  Kernel kernel;
  OperatorBuilder builder(op, dtype, parameters, kernel);
  found.build(builder);
  drop_unused_types(kernel.cost);
  return kernel;
}

}  // namespace orrery
