// Every operator once more, as a workload of one operation: what `operator_kernel`
// makes directly must be what `kernel_of` makes of that, in all fields.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace {

using Json = nlohmann::json;
using E = ElementType;
using Sizes = std::vector<int64_t>;

class OperatorWorkload {
 public:
  OperatorWorkload(const std::string& dtype, const Json& params)
      : b_("operator", "operator"), p_(params) {
    b_.begin_function(b_.declare_function("main"));
    const ElementType type = dtype == "tf32"          ? E::kF32
                             : dtype == "int4_weight" ? E::kBF16
                             : dtype == "fp8_block"   ? E::kF8E4M3FN
                                                      : element_type_from_user(dtype).value();
    storage_ = type;
    weight_ = dtype == "int4_weight" ? E::kS4 : type;
    compute_ = dtype == "tf32" ? E::kTF32 : type;
    output_ = type == E::kS8 ? E::kS32 : bit_width(type) < 16 ? E::kBF16 : type;
    int4_ = dtype == "int4_weight";
    fp8_block_ = dtype == "fp8_block";
  }

  Kernel kernel(const std::string& op) {
    const OpId id = build(op);
    const ValueId result = b_.result(id);
    b_.emit_return({{result}});
    b_.end_function();
    const Workload w = b_.finish();
    return kernel_of(w, id);
  }

 private:
  OpId build(const std::string& op) {
    if (op == "gemm") return gemm();
    if (op == "bmm") return bmm();
    if (op == "grouped_gemm") return grouped_gemm();
    if (op == "conv2d") return convolution();
    if (op == "sdpa") return attention();
    if (op == "add") return simple(Opcode::k_add, 2);
    if (op == "mul") return simple(Opcode::k_multiply, 2);
    if (op == "div") return simple(Opcode::k_divide, 2);
    if (op == "pow") return simple(Opcode::k_power, 2);
    if (op == "add_scalar") return simple(Opcode::k_add, 1);
    if (op == "mul_scalar") return simple(Opcode::k_multiply, 1);
    if (op == "div_scalar") return simple(Opcode::k_divide, 1);
    if (op == "pow_scalar") return simple(Opcode::k_power, 1);
    if (op == "relu") return simple(Opcode::k_relu, 1);
    if (op == "gelu") return simple(Opcode::k_gelu, 1);
    if (op == "silu") return simple(Opcode::k_silu, 1);
    if (op == "tanh") return simple(Opcode::k_tanh, 1);
    if (op == "exp") return simple(Opcode::k_exponential, 1);
    if (op == "copy") return simple(Opcode::k_copy, 1);
    if (op == "softmax") return over_last_axis(Opcode::k_softmax, 0);
    if (op == "layernorm") return over_last_axis(Opcode::k_layer_norm, 2);
    if (op == "rmsnorm") return over_last_axis(Opcode::k_rms_norm, 1);
    if (op == "cumsum") return over_last_axis(Opcode::k_cumsum, 0);
    if (op == "reduce_sum") return reduce(size("axis", -1), Opcode::k_add);
    if (op == "reduce_max") return reduce(size("axis", -1), Opcode::k_maximum);
    if (op == "reduce_sum_axis0") return reduce(0, Opcode::k_add);
    if (op == "transpose") return permute(true);
    if (op == "permute") return permute(false);
    if (op == "topk") return top_k();
    if (op == "sort") return sort();
    if (op == "embedding") return look_up(size("vocab"));
    if (op == "index_select") return look_up(size("rows"));
    if (op == "index_add") return index_add();
    throw std::logic_error("no workload for " + op);
  }

  OpId gemm() {
    const int64_t m = size("m"), n = size("n"), k = size("k");
    std::vector<ValueId> operands = {argument(storage_, {m, k}), argument(weight_, {n, k})};
    if (int4_) operands.push_back(argument(E::kBF16, {n, blocks(k)}));
    if (fp8_block_) {
      operands.push_back(argument(E::kF32, {blocks(n), blocks(k)}));
      operands.push_back(argument(E::kF32, {m, blocks(k)}));
    }
    b_.begin_op(operands.size() > 2 ? Opcode::k_scaled_dot : Opcode::k_dot_general, operands, 1);
    b_.set_ints(Attr::kLhsContracting, {1});
    b_.set_ints(Attr::kRhsContracting, {1});
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(compute_));
    return finish(output_, {m, n});
  }
  OpId bmm() {
    const int64_t b = size("b"), m = size("m"), n = size("n"), k = size("k");
    b_.begin_op(Opcode::k_dot_general,
                {{argument(storage_, {b, m, k}), argument(storage_, {b, k, n})}}, 1);
    b_.set_ints(Attr::kLhsBatching, {0});
    b_.set_ints(Attr::kRhsBatching, {0});
    b_.set_ints(Attr::kLhsContracting, {2});
    b_.set_ints(Attr::kRhsContracting, {1});
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(compute_));
    return finish(output_, {b, m, n});
  }
  OpId grouped_gemm() {
    const int64_t e = size("experts"), tokens = size("tokens"), n = size("n"), k = size("k");
    std::vector<ValueId> operands = {argument(storage_, {tokens, k}), argument(weight_, {e, k, n})};
    if (int4_) operands.push_back(argument(E::kBF16, {e, blocks(k), n}));
    if (fp8_block_) {
      operands.push_back(argument(E::kF32, {e, blocks(k), blocks(n)}));
      operands.push_back(argument(E::kF32, {tokens, blocks(k)}));
    }
    b_.begin_op(Opcode::k_grouped_dot, operands, 1);
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(compute_));
    b_.set_real(Attr::kSkew, p_.value("skew", 0.0));
    return finish(output_, {tokens, n});
  }
  OpId convolution() {
    const int64_t n = size("n"), c = size("c"), h = size("h"), w = size("w"), k = size("k");
    const int64_t r = size("r"), s = size("s", r), stride = size("stride", 1);
    const int64_t pad = size("pad", 0), groups = size("groups", 1);
    const int64_t oh = (h + 2 * pad - r) / stride + 1, ow = (w + 2 * pad - s) / stride + 1;
    const bool last = p_.value("layout", "nhwc") == "nhwc";
    const ValueId x = argument(storage_, last ? Sizes{n, h, w, c} : Sizes{n, c, h, w});
    const ValueId f = argument(storage_, {k, c / groups, r, s});
    b_.begin_op(Opcode::k_convolution, {{x, f}}, 1);
    for (Attr feature : {Attr::kInputFeature, Attr::kOutputFeature})
      b_.set_int(feature, last ? 3 : 1);
    for (Attr spatial : {Attr::kInputSpatial, Attr::kOutputSpatial})
      b_.set_ints(spatial, last ? Sizes{1, 2} : Sizes{2, 3});
    b_.set_int(Attr::kKernelOutput, 0);
    b_.set_int(Attr::kKernelInput, 1);
    b_.set_ints(Attr::kKernelSpatial, {2, 3});
    b_.set_ints(Attr::kWindowStrides, {stride, stride});
    b_.set_ints(Attr::kPaddingLow, {pad, pad});
    b_.set_ints(Attr::kPaddingHigh, {pad, pad});
    b_.set_int(Attr::kFeatureGroups, groups);
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(compute_));
    return finish(output_, last ? Sizes{n, oh, ow, k} : Sizes{n, k, oh, ow});
  }
  OpId attention() {
    const int64_t b = size("b"), h = size("h"), s = size("s"), d = size("d");
    const int64_t t = size("t", s), kv = size("kv", h), dv = size("dv", d);
    const ElementType stored =
        p_.contains("kv_dtype") ? element_type_from_user(p_["kv_dtype"].get<std::string>()).value()
                                : storage_;
    b_.begin_op(Opcode::k_attention,
                {{argument(storage_, {b, h, s, d}), argument(stored, {b, kv, t, d}),
                  argument(stored, {b, kv, t, dv})}},
                1);
    b_.set_int(Attr::kCausal, p_.value("causal", false) ? 1 : 0);
    b_.set_int(Attr::kWindow, size("window", 0));
    b_.set_int(Attr::kPaged, p_.value("paged", false) ? 1 : 0);
    b_.set_int(Attr::kComputeType, static_cast<int64_t>(compute_));
    return finish(output_, {b, h, s, dv});
  }
  OpId simple(Opcode code, int inputs) {
    std::vector<ValueId> operands;
    for (int i = 0; i < inputs; ++i) operands.push_back(argument(storage_, shape()));
    b_.begin_op(code, operands, 1);
    return finish(storage_, shape());
  }
  OpId over_last_axis(Opcode code, int weights) {
    std::vector<ValueId> operands = {argument(storage_, shape())};
    for (int i = 0; i < weights; ++i) operands.push_back(argument(storage_, {shape().back()}));
    b_.begin_op(code, operands, 1);
    b_.set_ints(Attr::kDimensions, {rank() - 1});
    return finish(storage_, shape());
  }
  OpId reduce(int64_t axis, Opcode combiner) {
    if (axis < 0) axis += rank();
    Sizes kept = shape();
    kept.erase(kept.begin() + axis);
    b_.begin_op(Opcode::k_reduce, {{argument(storage_, shape())}}, 1);
    b_.set_ints(Attr::kDimensions, {axis});
    const TypeId scalar = b_.tensor_type(storage_, {});
    b_.begin_region();
    const ValueId left = b_.add_region_argument(scalar), right = b_.add_region_argument(scalar);
    const ValueId combined = b_.emit(combiner, {left, right}, scalar);
    b_.emit_return(std::span(&combined, 1));
    b_.end_region();
    return finish(storage_, kept);
  }
  OpId permute(bool last_two) {
    Sizes order;
    for (int64_t i = 0; i < rank(); ++i) order.push_back(i);
    if (last_two)
      std::swap(order[order.size() - 1], order[order.size() - 2]);
    else
      order = p_["order"].get<Sizes>();
    Sizes result;
    for (int64_t d : order) result.push_back(shape()[static_cast<size_t>(d)]);
    b_.begin_op(Opcode::k_transpose, {{argument(storage_, shape())}}, 1);
    b_.set_ints(Attr::kDimensions, order);
    return finish(storage_, result);
  }
  OpId top_k() {
    Sizes kept = shape();
    const int64_t k = size("k", 8);
    kept.back() = std::min(k, kept.back());
    b_.begin_op(Opcode::k_top_k, {{argument(storage_, shape())}}, 2);
    b_.set_int(Attr::kK, k);
    b_.set_ints(Attr::kDimensions, {rank() - 1});
    b_.set_result_type(1, b_.tensor_type(E::kS64, kept));
    return finish(storage_, kept);
  }
  OpId sort() {
    b_.begin_op(Opcode::k_sort, {{argument(storage_, shape())}}, 2);
    b_.set_ints(Attr::kDimensions, {rank() - 1});
    b_.set_result_type(1, b_.tensor_type(E::kS64, shape()));
    return finish(storage_, shape());
  }
  OpId look_up(int64_t rows) {
    Sizes counted = shape();
    counted.pop_back();
    b_.begin_op(Opcode::k_gather,
                {{argument(storage_, {rows, shape().back()}), argument(E::kS64, counted)}}, 1);
    b_.set_ints(Attr::kSliceSizes, {1, shape().back()});
    return finish(storage_, shape());
  }
  OpId index_add() {
    const Sizes table = {size("rows"), shape().back()};
    b_.begin_op(
        Opcode::k_scatter,
        {{argument(storage_, table), argument(E::kS64, {shape()[0]}), argument(storage_, shape())}},
        1);
    b_.set_ints(Attr::kUpdateWindowDims, {1});
    return finish(storage_, table);
  }

  OpId finish(ElementType element, const Sizes& dims) {
    b_.set_result_type(0, b_.tensor_type(element, dims));
    return b_.end_op();
  }
  ValueId argument(ElementType element, const Sizes& dims) {
    return b_.add_argument(b_.tensor_type(element, dims), {});
  }
  int64_t size(const char* key) const { return p_.at(key).get<int64_t>(); }
  int64_t size(const char* key, int64_t otherwise) const { return p_.value(key, otherwise); }
  Sizes shape() const { return p_.at("shape").get<Sizes>(); }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  static int64_t blocks(int64_t size) { return (size + 127) / 128; }

  WorkloadBuilder b_;
  Json p_;
  ElementType storage_, weight_, compute_, output_;
  bool int4_ = false, fp8_block_ = false;
};

struct Case {
  const char* op;
  std::vector<const char*> params;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"gemm",
       {R"({"m": 512, "n": 4096, "k": 1024})", R"({"m": 1, "n": 1, "k": 130})",
        R"({"m": 7, "n": 1099511627776, "k": 200})"}},
      {"bmm",
       {R"({"b": 13, "m": 1927, "n": 1864, "k": 40})", R"({"b": 1, "m": 1, "n": 1, "k": 1})"}},
      {"grouped_gemm",
       {R"({"experts": 64, "tokens": 1000, "n": 1536, "k": 2048, "skew": 1.2})",
        R"({"experts": 64, "tokens": 10, "n": 1536, "k": 2048})",
        R"({"experts": 1, "tokens": 10, "n": 8, "k": 300, "skew": 0})"}},
      {"conv2d",
       {R"({"n": 2, "c": 3, "h": 224, "w": 200, "k": 64, "r": 7, "s": 5, "stride": 2, "pad": 3})",
        R"({"n": 4, "c": 32, "h": 14, "w": 14, "k": 64, "r": 3, "groups": 8, "layout": "nchw"})"}},
      {"sdpa",
       {R"({"b": 2, "h": 8, "kv": 2, "s": 128, "t": 256, "d": 64, "causal": true})",
        R"({"b": 2, "h": 8, "s": 1, "t": 4096, "d": 64, "window": 512, "paged": true})",
        R"({"b": 1, "h": 128, "kv": 1, "s": 3, "t": 999, "d": 576, "dv": 512, "kv_dtype": "fp8"})",
        R"({"b": 2, "h": 4, "s": 2048, "d": 128, "causal": true, "window": 500})"}},
      {"reduce_sum",
       {R"({"shape": [3, 5, 7]})", R"({"shape": [3, 5, 7], "axis": 1})",
        R"({"shape": [3, 5, 7], "axis": -3})", R"({"shape": [9]})"}},
      {"reduce_max", {R"({"shape": [3, 5, 7], "axis": 0})"}},
      {"permute",
       {R"({"shape": [2, 16, 8, 64], "order": [0, 2, 1, 3]})",
        R"({"shape": [2, 16, 8, 8], "order": [0, 2, 3, 1]})",
        R"({"shape": [2, 16, 1, 8], "order": [0, 2, 1, 3]})"}},
      {"transpose", {R"({"shape": [8, 16]})", R"({"shape": [3, 8, 16]})", R"({"shape": [1, 16]})"}},
      {"topk", {R"({"shape": [8, 16]})", R"({"shape": [8, 1000], "k": 50})", R"({"shape": [4]})"}},
      {"embedding",
       {R"({"vocab": 1000, "shape": [8, 16]})", R"({"vocab": 3, "shape": [2, 8, 16]})"}},
      {"index_select", {R"({"rows": 1000, "shape": [8, 16]})", R"({"rows": 3, "shape": [8, 16]})"}},
      {"index_add", {R"({"rows": 1000, "shape": [8, 16]})", R"({"rows": 3, "shape": [8, 16]})"}},
  };
  return kCases;
}

const std::vector<const char*> kOtherParams = {R"({"shape": [8, 16]})", R"({"shape": [123]})",
                                               R"({"shape": [2, 3, 4, 5, 6, 7, 8, 9]})"};

std::string describe(const Kernel& k) {
  std::string text =
      fmt::format("{} {} matrix {} {} vector {} {} special {} read {} written {} shape {} loops",
                  name(k.code), name(k.family), k.cost.matrix_flops, mlir_name(k.cost.matrix_type),
                  k.cost.vector_flops, mlir_name(k.cost.vector_type), k.cost.transcendental_flops,
                  k.cost.bytes_read, k.cost.bytes_written, k.shape.index());
  for (size_t i = 0; i < k.loop_count; ++i)
    text += fmt::format(" {}{}", k.loops[i].extent, k.loops[i].reduction ? "r" : "");
  for (size_t i = 0; i < k.tensor_count; ++i)
    text += fmt::format(" {}:{}/{}", mlir_name(k.tensors[i].element), k.tensors[i].bytes,
                        k.tensors[i].loops);
  return text;
}

TEST(OperatorWorkload, EveryOperatorIsTheKernelOfItsOperation) {
  size_t compared = 0;
  for (const OperatorDescription& o : supported_operators()) {
    if (o.op == "moe") continue;                             // two operations
    if (o.op == "fusion" || o.op == "fused_gemm") continue;  // any number of them
    std::vector<const char*> params = kOtherParams;
    for (const Case& c : cases())
      if (o.op == c.op) params = c.params;
    std::vector<std::string> dtypes = {"bf16", "fp16", "fp32", "tf32", "fp8",
                                       "int8", "fp4",  "fp64", "c64",  "int4"};
    if (o.op == "gemm" || o.op == "grouped_gemm") {
      dtypes.emplace_back("int4_weight");
      dtypes.emplace_back("fp8_block");
    }
    for (const char* p : params)
      for (const std::string& dtype : dtypes) {
        const Kernel direct = operator_kernel(o.op, dtype, p);
        const Kernel through = OperatorWorkload(dtype, Json::parse(p)).kernel(o.op);
        EXPECT_TRUE(direct == through) << o.op << " " << dtype << " " << p << "\n  direct  "
                                       << describe(direct) << "\n  through " << describe(through);
        ++compared;
      }
  }
  EXPECT_GE(compared, 700u);
}

}  // namespace
}  // namespace orrery
