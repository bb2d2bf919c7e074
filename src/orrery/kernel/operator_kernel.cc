#include "orrery/kernel/operator_kernel.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "orrery/base/nearest.h"
#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargestSize = int64_t{1} << 40;

/// One row's parameters, with messages that name them.
class Parameters {
 public:
  Parameters(std::string_view op, std::string_view text) : op_(op) {
    json_ = Json::parse(text, nullptr, false);
    if (!json_.is_object())
      throw std::invalid_argument(fmt::format("params: expected a JSON object, found '{}'", text));
  }

  int64_t size(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end())
      throw std::invalid_argument(fmt::format("params: {} needs '{}'", op_, key));
    return checked(key, *found, 1);
  }
  int64_t size(const char* key, int64_t otherwise) const {
    const auto found = json_.find(key);
    return found == json_.end() ? otherwise : checked(key, *found, 0);
  }
  bool flag(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return false;
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_number_integer()) return found->get<int64_t>() != 0;
    throw std::invalid_argument(fmt::format("params: '{}' must be true or false", key));
  }
  std::string text(const char* key, std::string otherwise) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    if (!found->is_string())
      throw std::invalid_argument(fmt::format("params: '{}' must be a string", key));
    return found->get<std::string>();
  }
  std::vector<int64_t> shape() const {
    const auto found = json_.find("shape");
    if (found == json_.end() || !found->is_array() || found->empty() || found->size() > 8)
      throw std::invalid_argument(
          fmt::format("params: {} needs 'shape', a list of 1 to 8 sizes", op_));
    std::vector<int64_t> dims;
    for (const Json& d : *found) dims.push_back(checked("shape", d, 1));
    return dims;
  }

 private:
  int64_t checked(const char* key, const Json& value, int64_t least) const {
    if (!value.is_number_integer())
      throw std::invalid_argument(fmt::format("params: '{}' must be an integer", key));
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kLargestSize))
      throw std::invalid_argument(fmt::format("params: '{}' is larger than 2^40", key));
    const auto n = value.get<int64_t>();
    if (n < least || n > kLargestSize)
      throw std::invalid_argument(
          fmt::format("params: '{}' must lie within {} and 2^40, found {}", key, least, n));
    return n;
  }

  std::string_view op_;
  Json json_;
};

struct Precision {
  ElementType storage = ElementType::kNone;
  ElementType compute = ElementType::kNone;  ///< Of products.
};

Precision precision(std::string_view dtype) {
  if (dtype == "tf32") return {ElementType::kF32, ElementType::kTF32};
  const auto type = element_type_from_user(dtype);
  if (!type || *type == ElementType::kNone || *type == ElementType::kString)
    throw std::invalid_argument(fmt::format(
        "dtype: '{}' is not known; there is fp32, tf32, fp16, bf16, fp8, int8, fp4, …", dtype));
  return {*type, *type};
}

/// Builds the operator as a workload of one operation, so that its cost is
/// worked out where every other operation's is.
class OperatorBuilder {
 public:
  OperatorBuilder(std::string_view dtype, const Parameters& params)
      : b_("operator", "operator"), type_(precision(dtype)), p_(params) {
    b_.begin_function(b_.declare_function("main"));
  }

  Kernel finish(OpId op) {
    const ValueId result = b_.result(op);
    b_.emit_return({{result}});
    b_.end_function();
    const Workload w = b_.finish();
    return kernel_of(w, op);
  }

  OpId gemm(bool batched) {
    const int64_t m = p_.size("m"), n = p_.size("n"), k = p_.size("k");
    const int64_t batch = batched ? p_.size("b") : 1;
    // gemm is x[m,k]·w[n,k]ᵀ, bmm [b,m,k]·[b,k,n].
    const ValueId x = batched ? argument({batch, m, k}) : argument({m, k});
    const ValueId w = batched ? argument({batch, k, n}) : argument({n, k});
    b_.begin_op(Opcode::k_dot_general, {{x, w}}, 1);
    if (batched) {
      b_.set_ints(Attr::kLhsBatching, {0});
      b_.set_ints(Attr::kRhsBatching, {0});
    }
    b_.set_ints(Attr::kLhsContracting, {batched ? 2 : 1});
    b_.set_ints(Attr::kRhsContracting, {1});
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(type_.compute));
    b_.set_result_type(0, batched ? b_.tensor_type(output_type(), {batch, m, n})
                                  : b_.tensor_type(output_type(), {m, n}));
    return b_.end_op();
  }

  OpId convolution() {
    const int64_t n = p_.size("n"), c = p_.size("c"), h = p_.size("h"), w = p_.size("w"),
                  k = p_.size("k");
    const int64_t r = p_.size("r"), s = p_.size("s", r),
                  stride = std::max<int64_t>(1, p_.size("stride", 1));
    const int64_t pad = p_.size("pad", 0), groups = std::max<int64_t>(1, p_.size("groups", 1));
    const std::string layout = p_.text("layout", "nhwc");
    if (layout != "nhwc" && layout != "nchw")
      throw std::invalid_argument("params: 'layout' must be nhwc or nchw");
    if (c % groups != 0 || k % groups != 0)
      throw std::invalid_argument(
          fmt::format("params: {} groups do not divide c={} and k={}", groups, c, k));
    if (h + 2 * pad < r || w + 2 * pad < s)
      throw std::invalid_argument("params: the window is larger than the padded image");
    const int64_t oh = (h + 2 * pad - r) / stride + 1, ow = (w + 2 * pad - s) / stride + 1;
    const bool last = layout == "nhwc";
    const ValueId x = last ? argument({n, h, w, c}) : argument({n, c, h, w});
    const ValueId f = argument({k, c / groups, r, s});
    b_.begin_op(Opcode::k_convolution, {{x, f}}, 1);
    b_.set_int(Attr::kInputBatch, 0);
    b_.set_int(Attr::kInputFeature, last ? 3 : 1);
    b_.set_ints(Attr::kInputSpatial,
                last ? std::initializer_list<int64_t>{1, 2} : std::initializer_list<int64_t>{2, 3});
    b_.set_int(Attr::kKernelOutput, 0);
    b_.set_int(Attr::kKernelInput, 1);
    b_.set_ints(Attr::kKernelSpatial, {2, 3});
    b_.set_int(Attr::kOutputBatch, 0);
    b_.set_int(Attr::kOutputFeature, last ? 3 : 1);
    b_.set_ints(Attr::kOutputSpatial,
                last ? std::initializer_list<int64_t>{1, 2} : std::initializer_list<int64_t>{2, 3});
    b_.set_ints(Attr::kWindowStrides, {stride, stride});
    b_.set_ints(Attr::kPaddingLow, {pad, pad});
    b_.set_ints(Attr::kPaddingHigh, {pad, pad});
    b_.set_int(Attr::kFeatureGroups, groups);
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(type_.compute));
    b_.set_result_type(0, last ? b_.tensor_type(output_type(), {n, oh, ow, k})
                               : b_.tensor_type(output_type(), {n, k, oh, ow}));
    return b_.end_op();
  }

  OpId attention() {
    const int64_t batch = p_.size("b"), heads = p_.size("h"), s = p_.size("s"), d = p_.size("d");
    const int64_t t = p_.size("t", s), kv = std::max<int64_t>(1, p_.size("kv", heads));
    const int64_t dv = std::max<int64_t>(1, p_.size("dv", d));
    if (heads % kv != 0)
      throw std::invalid_argument(
          fmt::format("params: {} heads are not a multiple of {} kv heads", heads, kv));
    b_.begin_op(Opcode::k_attention,
                {{argument({batch, heads, s, d}), argument({batch, kv, t, d}),
                  argument({batch, kv, t, dv})}},
                1);
    b_.set_int(Attr::kCausal, p_.flag("causal") ? 1 : 0);
    b_.set_int(Attr::kWindow, p_.size("window", 0));
    b_.set_result_type(0, b_.tensor_type(output_type(), {batch, heads, s, dv}));
    return b_.end_op();
  }

  OpId elementwise(Opcode code, int inputs) {
    const TypeId t = b_.tensor_type(type_.storage, p_.shape());
    std::vector<ValueId> operands;
    operands.reserve(static_cast<size_t>(inputs));
    for (int i = 0; i < inputs; ++i) operands.push_back(b_.add_argument(t, {}));
    return simple(code, operands, t);
  }

  /// Over the last axis, with weights of its length where `weights` says so.
  OpId over_last_axis(Opcode code, int weights) {
    const std::vector<int64_t> shape = p_.shape();
    const TypeId t = b_.tensor_type(type_.storage, shape);
    std::vector<ValueId> operands = {b_.add_argument(t, {})};
    for (int i = 0; i < weights; ++i) operands.push_back(argument({shape.back()}));
    b_.begin_op(code, operands, 1);
    b_.set_ints(Attr::kDimensions, {static_cast<int64_t>(shape.size()) - 1});
    b_.set_result_type(0, t);
    return b_.end_op();
  }

  OpId reduce(bool first_axis) {
    std::vector<int64_t> shape = p_.shape();
    const TypeId t = b_.tensor_type(type_.storage, shape);
    const int64_t axis = first_axis ? 0 : static_cast<int64_t>(shape.size()) - 1;
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
    const ValueId x = b_.add_argument(t, {});
    b_.begin_op(Opcode::k_reduce, {{x}}, 1);
    b_.set_ints(Attr::kDimensions, {axis});
    b_.set_result_type(0, b_.tensor_type(type_.storage, shape));
    return b_.end_op();
  }

  /// The two last axes swapped.
  OpId transpose() {
    std::vector<int64_t> shape = p_.shape();
    if (shape.size() < 2) throw std::invalid_argument("params: transpose needs two axes or more");
    const ValueId x = b_.add_argument(b_.tensor_type(type_.storage, shape), {});
    std::vector<int64_t> order;
    for (size_t i = 0; i < shape.size(); ++i) order.push_back(static_cast<int64_t>(i));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    b_.begin_op(Opcode::k_transpose, {{x}}, 1);
    b_.set_ints(Attr::kDimensions, order);
    b_.set_result_type(0, b_.tensor_type(type_.storage, shape));
    return b_.end_op();
  }

  OpId top_k() {
    std::vector<int64_t> shape = p_.shape();
    const ValueId x = b_.add_argument(b_.tensor_type(type_.storage, shape), {});
    const int64_t k = std::max<int64_t>(1, p_.size("k", 8));
    const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
    shape.back() = std::min(k, shape.back());
    b_.begin_op(Opcode::k_top_k, {{x}}, 2);
    b_.set_int(Attr::kK, k);
    b_.set_ints(Attr::kDimensions, {axis});
    b_.set_result_type(0, b_.tensor_type(type_.storage, shape));
    b_.set_result_type(1, b_.tensor_type(ElementType::kS64, shape));
    return b_.end_op();
  }

  OpId sort() {
    const std::vector<int64_t> shape = p_.shape();
    const TypeId t = b_.tensor_type(type_.storage, shape);
    const ValueId x = b_.add_argument(t, {});
    b_.begin_op(Opcode::k_sort, {{x}}, 2);
    b_.set_ints(Attr::kDimensions, {static_cast<int64_t>(shape.size()) - 1});
    b_.set_result_type(0, t);
    b_.set_result_type(1, b_.tensor_type(ElementType::kS64, shape));
    return b_.end_op();
  }

  /// `shape` has the row width last; the sizes before it count the look-ups.
  OpId embedding() {
    std::vector<int64_t> shape = p_.shape();
    const ValueId table = argument({p_.size("vocab"), shape.back()});
    const TypeId result = b_.tensor_type(type_.storage, shape);
    shape.pop_back();
    const ValueId ids = b_.add_argument(b_.tensor_type(ElementType::kS64, shape), {});
    return simple(Opcode::k_gather, {table, ids}, result);
  }

 private:
  ValueId argument(std::initializer_list<int64_t> dims) {
    return b_.add_argument(b_.tensor_type(type_.storage, dims), {});
  }
  OpId simple(Opcode code, const std::vector<ValueId>& operands, TypeId result) {
    b_.begin_op(code, operands, 1);
    b_.set_result_type(0, result);
    return b_.end_op();
  }
  /// Products of narrow types give bf16, those of int8 int32.
  ElementType output_type() const {
    if (type_.storage == ElementType::kS8) return ElementType::kS32;
    return bit_width(type_.storage) < 16 ? ElementType::kBF16 : type_.storage;
  }

  WorkloadBuilder b_;
  Precision type_;
  const Parameters& p_;
};

struct Operator {
  OperatorDescription description;
  OpId (*build)(OperatorBuilder&);
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kOperators = {
      {{"gemm", "m, n, k: x[m,k]·w[n,k]ᵀ"}, [](OperatorBuilder& b) { return b.gemm(false); }},
      {{"bmm", "b, m, n, k: [b,m,k]·[b,k,n]"}, [](OperatorBuilder& b) { return b.gemm(true); }},
      {{"conv2d", "n, c, h, w, k, r, s, stride, pad, groups, layout"},
       [](OperatorBuilder& b) { return b.convolution(); }},
      {{"sdpa", "b, h, kv, s, t, d, dv, causal, window"},
       [](OperatorBuilder& b) { return b.attention(); }},
      {{"add", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_add, 2); }},
      {{"mul", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_multiply, 2); }},
      {{"relu", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_relu, 1); }},
      {{"gelu", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_gelu, 1); }},
      {{"silu", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_silu, 1); }},
      {{"tanh", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_tanh, 1); }},
      {{"exp", "shape"},
       [](OperatorBuilder& b) { return b.elementwise(Opcode::k_exponential, 1); }},
      {{"copy", "shape"}, [](OperatorBuilder& b) { return b.elementwise(Opcode::k_copy, 1); }},
      {{"softmax", "shape"},
       [](OperatorBuilder& b) { return b.over_last_axis(Opcode::k_softmax, 0); }},
      {{"layernorm", "shape"},
       [](OperatorBuilder& b) { return b.over_last_axis(Opcode::k_layer_norm, 2); }},
      {{"rmsnorm", "shape"},
       [](OperatorBuilder& b) { return b.over_last_axis(Opcode::k_rms_norm, 1); }},
      {{"cumsum", "shape"},
       [](OperatorBuilder& b) { return b.over_last_axis(Opcode::k_cumsum, 0); }},
      {{"reduce_sum", "shape; over the last axis"},
       [](OperatorBuilder& b) { return b.reduce(false); }},
      {{"reduce_sum_axis0", "shape; over the first axis"},
       [](OperatorBuilder& b) { return b.reduce(true); }},
      {{"transpose", "shape; the two last axes swapped"},
       [](OperatorBuilder& b) { return b.transpose(); }},
      {{"topk", "shape, k (8)"}, [](OperatorBuilder& b) { return b.top_k(); }},
      {{"sort", "shape; along the last axis"}, [](OperatorBuilder& b) { return b.sort(); }},
      {{"embedding", "vocab, shape with the row width last"},
       [](OperatorBuilder& b) { return b.embedding(); }},
  };
  return kOperators;
}

}  // namespace

const std::vector<OperatorDescription>& supported_operators() {
  static const std::vector<OperatorDescription> kDescriptions = [] {
    std::vector<OperatorDescription> all;
    for (const Operator& o : operators()) all.push_back(o.description);
    return all;
  }();
  return kDescriptions;
}

Kernel operator_kernel(std::string_view op, std::string_view dtype, std::string_view params) {
  for (const Operator& o : operators()) {
    if (o.description.op != op) continue;
    const Parameters parameters(op, params);
    OperatorBuilder builder(dtype, parameters);
    return builder.finish(o.build(builder));
  }
  std::vector<std::string> known;
  for (const Operator& o : operators()) known.push_back(o.description.op);
  throw std::invalid_argument(fmt::format("op: '{}' is not known{}", op, suggestion(op, known)));
}

}  // namespace orrery
