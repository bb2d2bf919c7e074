#include "orrery/kernel/kernel.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>
#include <vector>

#include "orrery/kernel/describe.h"

namespace orrery {
namespace {

/// Size of a dimension that a file may name wrongly; at least 1.
int64_t extent(const Type& type, int64_t dimension) {
  return dimension >= 0 && dimension < type.rank()
             ? std::max<int64_t>(1, type.dims[static_cast<size_t>(dimension)])
             : 1;
}

int64_t product(const Type& type, std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n = joined(n, extent(type, d));
  return n;
}

TensorSize size_of(const Type& type) { return {type.element, type.elements, type.bytes}; }

void add_tensors(Kernel& kernel, const OpView& op) {
  const unsigned all = (1u << kernel.loop_count) - 1;
  for (uint32_t i = 0; i < op.operand_count(); ++i)
    add_tensor(kernel, size_of(op.operand_type(i)), all, false);
  for (uint32_t i = 0; i < op.result_count(); ++i)
    add_tensor(kernel, size_of(op.result_type(i)), all, true);
}

void add_product_result(Kernel& kernel, const OpView& op) {
  if (op.result_count() > 0)
    add_tensor(kernel, size_of(op.result_type(0)), kBatchLoop | kRowLoop | kColumnLoop, true);
}

/// Elements along dimension `depth` of the second operand that share a scale, from
/// the scales that follow it. Blocks are powers of two; the last may be cut short.
int32_t scale_block(const OpView& op, int64_t depth) {
  if (op.operand_count() < 3 || op.operand_type(2).rank() != op.operand_type(1).rank()) return 0;
  const int64_t blocks = extent(op.operand_type(2), depth);
  const int64_t size = extent(op.operand_type(1), depth);
  if (blocks <= 1 || blocks > size) return 0;
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>((size + blocks - 1) / blocks)));
}

void describe_dot(Kernel& kernel, const OpView& op) {
  const Type& lhs = op.operand_type(0);
  const Type& rhs = op.operand_type(1);
  const auto contracting = op.integers(Attr::kLhsContracting);
  ProductShape shape;
  shape.k = product(lhs, contracting);
  if (contracting.empty() && op.code() == Opcode::k_dot) shape.k = extent(lhs, lhs.rank() - 1);
  shape.batch = product(lhs, op.integers(Attr::kLhsBatching));
  const int64_t shared = joined(shape.batch, shape.k);
  shape.m = std::max<int64_t>(1, lhs.elements / shared);
  shape.n = std::max<int64_t>(1, rhs.elements / shared);
  shape.weight = rhs.element;
  if (const auto depth = op.integers(Attr::kRhsContracting); depth.size() == 1)
    shape.scale_block = scale_block(op, depth[0]);
  describe_product(kernel, shape, size_of(lhs), size_of(rhs));
  add_product_result(kernel, op);
}

void describe_grouped_dot(Kernel& kernel, const OpView& op) {
  const Type& x = op.operand_type(0);
  const Type& w = op.operand_type(1);
  ProductShape shape;
  shape.k = extent(x, x.rank() - 1);
  shape.m = std::max<int64_t>(1, x.elements / shape.k);
  shape.n = extent(w, w.rank() - 1);
  shape.groups = w.rank() >= 3 ? extent(w, 0) : 1;
  shape.skew = static_cast<float>(op.real(Attr::kSkew, 0));
  shape.weight = w.element;
  shape.scale_block = scale_block(op, w.rank() - 2);
  describe_product(kernel, shape, size_of(x), size_of(w));
  add_product_result(kernel, op);
}

/// Two spatial sizes; of three the first two joined, of one with a height of 1.
std::pair<int64_t, int64_t> height_and_width(const Type& type, std::span<const int64_t> spatial) {
  if (spatial.empty()) return {1, 1};
  return {product(type, spatial.first(spatial.size() - 1)), extent(type, spatial.back())};
}

/// Gradients are written as convolutions too: that of the input spreads its operand out by the
/// stride, that of the filter has the other tensor for its window and sums over the batch, which
/// stands in the features' place while they lead. Their sizes are put back
/// into the places of the forward convolution.
void find_gradient(const OpView& op, ConvolutionShape& s) {
  const auto widest = [](std::span<const int64_t> values) {
    return values.empty() ? 1
                          : std::max<int64_t>(1, *std::max_element(values.begin(), values.end()));
  };
  const int64_t spread = widest(op.integers(Attr::kBaseDilation));
  const int64_t batch_groups = std::max<int64_t>(1, op.integer(Attr::kBatchGroups, 1));
  if (spread > 1) {
    s.computes = ConvolutionShape::Computes::kInputGradient;
    s.stride = spread;
    std::swap(s.channels, s.features);
    std::swap(s.height, s.out_height);
    std::swap(s.width, s.out_width);
  } else if (op.integer(Attr::kInputFeature, 1) == 0) {
    s.computes = ConvolutionShape::Computes::kFilterGradient;
    s.stride = widest(op.integers(Attr::kWindowDilation));
    std::swap(s.batch, s.channels);
    std::swap(s.window_height, s.out_height);
    std::swap(s.window_width, s.out_width);
    if (batch_groups > 1) s.groups = batch_groups;
  }
}

void describe_convolution(Kernel& kernel, const OpView& op) {
  const Type& input = op.operand_type(0);
  const Type& filter = op.operand_type(1);
  if (op.result_count() == 0) return;
  const Type& result = op.result_type(0);
  const bool with_workspace = result.kind == Type::Kind::kTuple && !result.members.empty();
  const Type& output = with_workspace ? op.workload().type(result.members[0]) : result;
  if (output.kind != Type::Kind::kTensor) return;
  ConvolutionShape shape;
  shape.groups = std::max<int64_t>(1, op.integer(Attr::kFeatureGroups, 1));
  shape.features = extent(filter, op.integer(Attr::kKernelOutput, 0));
  const int64_t depth = joined(product(filter, op.integers(Attr::kKernelSpatial)),
                               extent(filter, op.integer(Attr::kKernelInput, 0)));
  const int64_t n = std::max<int64_t>(1, shape.features / shape.groups);
  const int64_t m = std::max<int64_t>(1, output.elements / shape.features);
  describe_product(kernel, shape.groups, m, n, depth, size_of(input), size_of(filter));
  add_product_result(kernel, op);

  const int64_t feature = op.integer(Attr::kInputFeature, 1);
  shape.batch = extent(input, op.integer(Attr::kInputBatch, 0));
  shape.channels = extent(input, feature);
  std::tie(shape.height, shape.width) = height_and_width(input, op.integers(Attr::kInputSpatial));
  std::tie(shape.out_height, shape.out_width) =
      height_and_width(output, op.integers(Attr::kOutputSpatial));
  std::tie(shape.window_height, shape.window_width) =
      height_and_width(filter, op.integers(Attr::kKernelSpatial));
  if (const auto strides = op.integers(Attr::kWindowStrides); !strides.empty())
    shape.stride = std::max<int64_t>(1, strides.back());
  shape.channels_last =
      feature == (input.minor_to_major.empty() ? input.rank() - 1 : input.minor_to_major[0]);
  find_gradient(op, shape);
  kernel.shape = shape;
}

AttentionShape masked(const OpView& op) {
  AttentionShape shape;
  shape.causal = op.integer(Attr::kCausal, 0) != 0;
  shape.window = std::max<int64_t>(0, op.integer(Attr::kWindow, 0));
  shape.paged = op.integer(Attr::kPaged, 0) != 0;
  return shape;
}

void describe_attention(Kernel& kernel, const OpView& op) {
  const bool linear =
      op.code() == Opcode::k_linear_attention || op.code() == Opcode::k_linear_attention_backward;
  const bool backward =
      op.code() == Opcode::k_attention_backward || op.code() == Opcode::k_linear_attention_backward;
  const uint32_t first = backward ? 1 : 0;
  const Type& q = op.operand_type(first);
  const Type& k = op.operand_type(first + 1);
  const Type& v = op.operand_type(first + 2);
  const Type& result = op.result_type(0);
  // Linear attention keeps tokens before heads.
  const size_t heads = linear ? 2 : 1, tokens = linear ? 1 : 2;
  AttentionShape shape = masked(op);
  shape.batch = q.dims[0];
  shape.heads = q.dims[heads];
  shape.kv_heads = k.dims[heads];
  shape.queries = q.dims[tokens];
  shape.keys = k.dims[tokens];
  shape.head = q.dims[3];
  // Where values are the first columns of the keys (MLA), the result is narrower than both.
  shape.value_head = !backward && result.rank() == 4 ? result.dims[3] : v.dims[3];
  shape.kv = k.element;
  describe_attention(kernel, shape);
  add_tensor(kernel, size_of(q), 1 | 2 | 8, false);
  add_tensor(kernel, size_of(k), 1 | 4 | 8, false);
  add_tensor(kernel, size_of(v), 1 | 4 | 8, false);
  add_tensor(kernel, size_of(result), 1 | 2 | 8, true);
}

/// Whether a reduction takes the largest or smallest: by its reducer's name or its body.
bool reduces_by_comparing(const OpView& op) {
  const std::string_view reducer = op.string(Attr::kReducer);
  bool found = reducer == name(Opcode::k_maximum) || reducer == name(Opcode::k_minimum);
  for (const RegionId body : op.bodies())
    for_each_op(op.workload(), op.workload().region(body), [&](OpId id) {
      const Opcode code = op.workload().op(id).code;
      found |= code == Opcode::k_maximum || code == Opcode::k_minimum;
    });
  return found;
}

/// A reduction's rows; nothing where they cannot be told.
KernelShape rows_of(const OpView& op) {
  const Type& input = op.operand_type(0);
  const auto dims = op.integers(Attr::kDimensions);
  switch (op.code()) {
    case Opcode::k_reduce_window: {
      if (op.result_count() == 0) return {};
      const auto window = op.integers(Attr::kWindowSize);
      RowShape shape{std::max<int64_t>(1, op.result_type(0).elements), 1, 1};
      for (size_t d = 0; d < window.size(); ++d) {
        const int64_t size = extent(input, static_cast<int64_t>(d));
        shape.inner = window[d] > 1 ? 1 : joined(shape.inner, size);
        shape.columns = joined(shape.columns, std::max<int64_t>(1, window[d]));
      }
      return shape;
    }
    case Opcode::k_group_norm: {
      const int64_t rows =
          joined(extent(input, 0), std::max<int64_t>(1, op.integer(Attr::kFeatureGroups, 1)));
      return RowShape{rows, std::max<int64_t>(1, input.elements / rows), 1};
    }
    case Opcode::k_batch_norm_training:
    case Opcode::k_batch_norm_grad: {
      if (op.operand_count() < 2) return {};
      const int64_t channels = std::max<int64_t>(1, op.operand_type(1).elements);
      // One dimension names the channels, several the others; of two it is the last.
      int64_t feature = input.rank() - 1;
      if (input.rank() > 2 && dims.size() == 1) feature = dims[0];
      while (input.rank() > 2 && dims.size() > 1 && feature > 0 &&
             std::find(dims.begin(), dims.end(), feature) != dims.end())
        --feature;
      return RowShape{channels, std::max<int64_t>(1, input.elements / channels),
                      feature == input.rank() - 1 ? channels : 1};
    }
    case Opcode::k_batch_norm_inference:
    case Opcode::k_select_and_scatter:
    case Opcode::k_unary_einsum:
      return {};
    default: {
      const int64_t last = input.rank() - 1;
      const bool all_kept = op.code() == Opcode::k_reduce || op.code() == Opcode::k_arg_max;
      if (dims.empty() && !all_kept) return row_shape(input.dims, {&last, 1});
      RowShape shape = row_shape(input.dims, dims);
      shape.compares = op.code() == Opcode::k_reduce && reduces_by_comparing(op);
      return shape;
    }
  }
}

/// The dimensions of a type in memory, slowest first.
std::vector<int64_t> memory_order(const Type& type) {
  std::vector<int64_t> order(type.minor_to_major.rbegin(), type.minor_to_major.rend());
  if (order.empty())
    for (int64_t d = 0; d < type.rank(); ++d) order.push_back(d);
  return order;
}

KernelShape move_of(const OpView& op) {
  const Type& from = op.operand_type(0);
  const Type& to = op.result_type(0);
  std::vector<int64_t> written = memory_order(to);
  if (op.code() == Opcode::k_transpose) {
    const auto order = op.integers(Attr::kDimensions);
    for (int64_t& d : written)
      d = d < static_cast<int64_t>(order.size()) ? order[static_cast<size_t>(d)] : -1;
  } else if (from.rank() != to.rank()) {
    return {};
  }
  return move_shape(from.dims, memory_order(from), written);
}

KernelShape lookup_of(const OpView& op) {
  const bool scatter = op.code() == Opcode::k_scatter;
  const uint32_t tables = scatter ? std::max(1u, op.operand_count() / 2) : 1;
  if (op.operand_count() < tables + (scatter ? 2u : 1u) || op.result_count() == 0) return {};
  const Type& table = op.operand_type(0);
  const Type& index = op.operand_type(tables);
  const Type& moved = scatter ? op.operand_type(tables + 1) : op.result_type(0);
  LookupShape shape;
  shape.accumulate = scatter;
  if (scatter && op.has(Attr::kUpdateWindowDims))
    shape.width = product(moved, op.integers(Attr::kUpdateWindowDims));
  else if (const auto sizes = op.integers(Attr::kSliceSizes); !scatter && !sizes.empty())
    for (int64_t size : sizes) shape.width = joined(shape.width, std::max<int64_t>(1, size));
  else
    shape.width = moved.elements / std::max<int64_t>(1, index.elements);
  shape.width = std::clamp<int64_t>(shape.width, 1, std::max<int64_t>(1, moved.elements));
  shape.count = std::max<int64_t>(1, moved.elements / shape.width);
  shape.table_rows = std::max<int64_t>(1, table.elements / shape.width);
  return shape;
}

KernelShape shape_of(const OpView& op) {
  switch (op.code()) {
    case Opcode::k_transpose:
    case Opcode::k_copy:
      return move_of(op);
    case Opcode::k_gather:
    case Opcode::k_dynamic_gather:
    case Opcode::k_torch_index_select:
    case Opcode::k_scatter:
      return lookup_of(op);
    default:
      return op_class(op.code()) == OpClass::kReduction ? rows_of(op) : KernelShape();
  }
}

/// Loops over the largest tensor.
void describe_pointwise(Kernel& kernel, const OpView& op) {
  const Type* largest = nullptr;
  const auto consider = [&](const Type& type) {
    if (type.kind == Type::Kind::kTensor &&
        (largest == nullptr || type.elements > largest->elements))
      largest = &type;
  };
  for (uint32_t i = 0; i < op.operand_count(); ++i) consider(op.operand_type(i));
  for (uint32_t i = 0; i < op.result_count(); ++i) consider(op.result_type(i));
  if (largest == nullptr) return;
  add_dimension_loops(kernel, largest->dims);
  if (op_class(op.code()) == OpClass::kReduction)
    mark_reduced(kernel, largest->dims.size(), op.integers(Attr::kDimensions));
  add_tensors(kernel, op);
  kernel.shape = shape_of(op);
}

/// Scores [batch, heads, queries, keys] of a library's attention call; the sizes of
/// heads follow from the elements of query, keys and result.
bool describe_library_attention(Kernel& kernel, const OpView& op) {
  const auto scores = op.integers(Attr::kScores);
  if (scores.size() != 4 || op.operand_count() < 2 || op.result_count() == 0) return false;
  const Type& query = op.operand_type(0);
  const Type& result = op.result_type(0);
  const Type& values = result.kind == Type::Kind::kTuple && !result.members.empty()
                           ? op.workload().type(result.members[0])
                           : result;
  AttentionShape shape = masked(op);
  // Sizes that do not multiply to the tensors' own are a fault of the file.
  int64_t rows = 1;
  for (size_t i = 0; i < 3; ++i)
    if (scores[i] < 1 || __builtin_mul_overflow(rows, scores[i], &rows)) return false;
  if (scores[3] < 1 || query.elements < rows) return false;
  shape.batch = scores[0];
  shape.heads = scores[1];
  shape.queries = scores[2];
  shape.keys = scores[3];
  shape.head = query.elements / rows;
  shape.value_head = std::max<int64_t>(1, values.elements / rows);
  int64_t per_head = shape.batch;
  if (__builtin_mul_overflow(per_head, shape.keys, &per_head) ||
      __builtin_mul_overflow(per_head, shape.head, &per_head))
    return false;
  shape.kv_heads = std::clamp<int64_t>(op.operand_type(1).elements / per_head, 1, shape.heads);
  shape.kv = op.operand_type(1).element;
  kernel.family = KernelFamily::kAttention;
  describe_attention(kernel, shape);
  add_tensors(kernel, op);
  return true;
}

}  // namespace

std::string_view name(KernelFamily family) {
  static constexpr std::array<std::string_view, kKernelFamilyCount> kNames = {
      "gemm",          "convolution", "attention", "elementwise", "reduction", "normalization",
      "data movement", "indexed",     "sort",      "library",     "collective"};
  return kNames[static_cast<size_t>(family)];
}

KernelFamily family_of(Opcode code) {
  switch (code) {
    case Opcode::k_convolution:
    case Opcode::k_dynamic_conv:
      return KernelFamily::kConvolution;
    case Opcode::k_attention:
    case Opcode::k_attention_backward:
    case Opcode::k_linear_attention:
    case Opcode::k_linear_attention_backward:
      return KernelFamily::kAttention;
    case Opcode::k_softmax:
    case Opcode::k_layer_norm:
    case Opcode::k_rms_norm:
    case Opcode::k_group_norm:
    case Opcode::k_batch_norm_grad:
    case Opcode::k_batch_norm_inference:
    case Opcode::k_batch_norm_training:
    case Opcode::k_normalization_backward:
      return KernelFamily::kNormalization;
    case Opcode::k_sort:
    case Opcode::k_top_k:
      return KernelFamily::kSort;
    default:
      break;
  }
  switch (op_class(code)) {
    case OpClass::kContraction:
      return KernelFamily::kGemm;
    case OpClass::kReduction:
      return KernelFamily::kReduction;
    case OpClass::kMove:
      return KernelFamily::kDataMovement;
    case OpClass::kIndexed:
      return KernelFamily::kIndexed;
    case OpClass::kLibrary:
      return KernelFamily::kLibrary;
    case OpClass::kCollective:
      return KernelFamily::kCollective;
    default:
      return KernelFamily::kElementwise;
  }
}

Kernel kernel_of(const Workload& workload, OpId id) {
  const OpView op = workload.view(id);
  Kernel kernel;
  kernel.code = op.code();
  kernel.family = family_of(op.code());
  kernel.cost = cost(workload, id);
  switch (kernel.family) {
    case KernelFamily::kGemm:
      if (op.code() == Opcode::k_grouped_dot)
        describe_grouped_dot(kernel, op);
      else
        describe_dot(kernel, op);
      break;
    case KernelFamily::kConvolution:
      describe_convolution(kernel, op);
      break;
    case KernelFamily::kAttention:
      describe_attention(kernel, op);
      break;
    case KernelFamily::kLibrary:
      if (!op.integers(Attr::kLhsContracting).empty()) {
        kernel.family = KernelFamily::kGemm;
        describe_dot(kernel, op);
      } else if (!op.integers(Attr::kKernelSpatial).empty()) {
        kernel.family = KernelFamily::kConvolution;
        describe_convolution(kernel, op);
      } else if (!describe_library_attention(kernel, op)) {
        describe_pointwise(kernel, op);
      }
      break;
    default:
      describe_pointwise(kernel, op);
      break;
  }
  return kernel;
}

}  // namespace orrery
