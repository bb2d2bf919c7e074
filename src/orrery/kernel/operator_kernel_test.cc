#include "orrery/kernel/operator_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view op, std::string_view dtype, std::string_view params) {
  try {
    operator_kernel(op, dtype, params);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(OperatorKernel, Products) {
  const Cost gemm = operator_kernel("gemm", "bf16", R"({"m": 512, "n": 4096, "k": 1024})").cost;
  EXPECT_EQ(gemm.matrix_flops, 2.0 * 512 * 4096 * 1024);
  EXPECT_EQ(gemm.bytes_read, 2.0 * (512 * 1024 + 4096 * 1024));
  EXPECT_EQ(gemm.bytes_written, 2.0 * 512 * 4096);
  EXPECT_EQ(gemm.matrix_type, ElementType::kBF16);
  const Cost bmm = operator_kernel("bmm", "fp16", R"({"b": 3, "m": 5, "n": 7, "k": 11})").cost;
  EXPECT_EQ(bmm.matrix_flops, 2.0 * 3 * 5 * 7 * 11);
  EXPECT_EQ(bmm.bytes(), 2.0 * 3 * (5 * 11 + 11 * 7 + 5 * 7));
}

TEST(OperatorKernel, TypesOfProducts) {
  const char* params = R"({"m": 8, "n": 8, "k": 8})";
  const Cost tf32 = operator_kernel("gemm", "tf32", params).cost;
  EXPECT_EQ(tf32.matrix_type, ElementType::kTF32);
  EXPECT_EQ(tf32.bytes_read, 2 * 64 * 4);  // four-byte inputs
  EXPECT_EQ(operator_kernel("gemm", "fp32", params).cost.matrix_type, ElementType::kF32);
  EXPECT_EQ(operator_kernel("gemm", "fp8", params).cost.bytes_written, 64 * 2);   // bf16
  EXPECT_EQ(operator_kernel("gemm", "int8", params).cost.bytes_written, 64 * 4);  // int32
  EXPECT_EQ(operator_kernel("gemm", "fp4", params).cost.bytes_read, 2 * 64 / 2);
}

TEST(OperatorKernel, Convolution) {
  // 224×224 by 7×7, stride 2, pad 3: 112×112.
  const Cost c = operator_kernel("conv2d", "bf16",
                                 R"({"n": 2, "c": 3, "h": 224, "w": 224, "k": 64, "r": 7, "s": 7,
                                     "stride": 2, "pad": 3})")
                     .cost;
  EXPECT_EQ(c.matrix_flops, 2.0 * 2 * 112 * 112 * 64 * 3 * 49);
  EXPECT_EQ(c.bytes_written, 2.0 * 2 * 112 * 112 * 64);
}

TEST(OperatorKernel, Attention) {
  const Cost c =
      operator_kernel("sdpa", "bf16",
                      R"({"b": 2, "h": 8, "kv": 2, "s": 128, "t": 256, "d": 64, "causal": true})")
          .cost;
  // Query i of 128 sees 128 + i + 1 keys.
  const double pairs = 2.0 * 8 * (128 * 128 + 128 * 129 / 2);
  EXPECT_EQ(c.matrix_flops, 2 * pairs * 128);
  EXPECT_EQ(c.bytes_read, 2.0 * 2 * (8 * 128 * 64 + 2 * 2 * 256 * 64));
}

TEST(OperatorKernel, NarrowWeights) {
  const Kernel int4 = operator_kernel("gemm", "int4_weight", R"({"m": 3, "n": 256, "k": 512})");
  EXPECT_EQ(int4.cost.matrix_type, ElementType::kBF16);
  // bf16 activations, half a byte a weight, a bf16 scale for each 128 of them.
  EXPECT_EQ(int4.cost.bytes_read, 2 * 3 * 512 + 256 * 512 / 2 + 2 * 256 * 4);
  EXPECT_EQ(int4.cost.bytes_written, 2 * 3 * 256);
  EXPECT_EQ(std::get<ProductShape>(int4.shape),
            (ProductShape{1, 3, 256, 512, 1, 0, 1, 0, ElementType::kS4, 128}));
  const Kernel fp4 = operator_kernel("gemm", "fp4_weight", R"({"m": 3, "n": 256, "k": 512})");
  EXPECT_EQ(fp4.cost.matrix_type, ElementType::kBF16);
  // MXFP4: a scale of one byte for each 32.
  EXPECT_EQ(fp4.cost.bytes_read, 2 * 3 * 512 + 256 * 512 / 2 + 256 * 16);
  const Kernel fp8 = operator_kernel("gemm", "fp8_block", R"({"m": 3, "n": 256, "k": 512})");
  EXPECT_EQ(fp8.cost.matrix_type, ElementType::kF8E4M3FN);
  // fp32 scales: of weights one for 128×128, of activations one for 1×128.
  EXPECT_EQ(fp8.cost.bytes_read, 3 * 512 + 256 * 512 + 4 * 2 * 4 + 4 * 3 * 4);
  EXPECT_EQ(fp8.cost.bytes_written, 2 * 3 * 256);
  EXPECT_EQ(std::get<ProductShape>(fp8.shape).scale_block, 128);
}

TEST(OperatorKernel, AMixtureOfExpertsIsTwoGroupedProductsOnARank) {
  // Of 64 experts 16 on a rank, 100·8/4 = 200 rows to them; 1408/2 columns of each expert.
  const Kernel moe = operator_kernel("moe", "bf16",
                                     R"({"tokens": 100, "hidden": 2048, "inter": 1408, "topk": 8,
                                         "experts": 64, "tp": 2, "ep": 4, "skew": 0.6})");
  const Cost up = operator_kernel("grouped_gemm", "bf16",
                                  R"({"experts": 16, "tokens": 200, "n": 1408, "k": 2048})")
                      .cost;
  const Cost down = operator_kernel("grouped_gemm", "bf16",
                                    R"({"experts": 16, "tokens": 200, "n": 2048, "k": 704})")
                        .cost;
  EXPECT_EQ(moe.cost.matrix_flops, 2.0 * 200 * 2048 * 3 * 704);
  EXPECT_EQ(moe.cost.matrix_flops, up.matrix_flops + down.matrix_flops);
  EXPECT_EQ(moe.cost.bytes_read, up.bytes_read + down.bytes_read);
  EXPECT_EQ(moe.cost.bytes_written, up.bytes_written + down.bytes_written);
  EXPECT_EQ(moe.family, KernelFamily::kGemm);
  EXPECT_EQ(moe.code, Opcode::k_grouped_dot);
  EXPECT_EQ(std::get<ProductShape>(moe.shape),
            (ProductShape{1, 200, 3 * 704, 2048, 16, 8, 4, 0.6F, ElementType::kBF16, 0, 100}));
}

TEST(OperatorKernel, GroupsWithoutRowsAreNotRead) {
  const Cost c =
      operator_kernel("grouped_gemm", "bf16", R"({"experts": 64, "tokens": 16, "n": 32, "k": 8})")
          .cost;
  EXPECT_EQ(c.bytes_read, 2.0 * (16 * 8 + 16 * 8 * 32));  // 16 of the 64 experts' weights
}

TEST(OperatorKernel, Shapes) {
  const auto shape = [](const char* op, const char* params) {
    return operator_kernel(op, "bf16", params).shape;
  };
  EXPECT_EQ(std::get<AttentionShape>(shape("sdpa", R"({"b": 2, "h": 8, "kv": 2, "s": 5, "t": 7,
                "d": 64, "dv": 32, "causal": true, "window": 3, "paged": true, "kv_dtype": "fp8"})")),
            (AttentionShape{2, 8, 2, 5, 7, 64, 32, 3, true, true, ElementType::kF8E4M3FN}));
  EXPECT_EQ(std::get<ConvolutionShape>(shape(
                "conv2d", R"({"n": 2, "c": 6, "h": 9, "w": 11, "k": 4, "r": 3, "s": 5, "stride": 2,
                              "pad": 1, "groups": 2, "layout": "nchw"})")),
            (ConvolutionShape{2, 6, 9, 11, 4, 5, 5, 3, 5, 2, 2, false}));
  const char* three = R"({"shape": [3, 5, 7]})";
  EXPECT_EQ(std::get<RowShape>(shape("softmax", three)), (RowShape{15, 7, 1}));
  EXPECT_EQ(std::get<RowShape>(shape("sort", three)), (RowShape{15, 7, 1}));
  EXPECT_EQ(std::get<RowShape>(shape("reduce_sum_axis0", three)), (RowShape{35, 3, 35}));
  EXPECT_EQ(std::get<RowShape>(shape("reduce_max", R"({"shape": [3, 5, 7], "axis": -2})")),
            (RowShape{21, 5, 7, true}));
  EXPECT_EQ(std::get<MoveShape>(shape("transpose", three)), (MoveShape{105, 1, 1}));
  EXPECT_EQ(std::get<MoveShape>(shape("permute", R"({"shape": [3, 5, 7], "order": [1, 0, 2]})")),
            (MoveShape{105, 7, 7}));
  EXPECT_EQ(std::get<MoveShape>(shape("copy", three)), (MoveShape{105, 105, 105}));
  EXPECT_EQ(std::get<LookupShape>(shape("embedding", R"({"vocab": 99, "shape": [2, 4, 16]})")),
            (LookupShape{8, 16, 99, false}));
  EXPECT_EQ(std::get<LookupShape>(shape("index_add", R"({"rows": 99, "shape": [4, 16]})")),
            (LookupShape{4, 16, 99, true}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(shape("add", three)));
}

TEST(OperatorKernel, TheRestByTheirBytes) {
  struct Case {
    const char* op;
    double bytes;
  };
  // Of fp32 [8, 16]: 512 bytes.
  for (const Case& c : {Case{"add", 3 * 512},
                        {"mul", 3 * 512},
                        {"div", 3 * 512},
                        {"pow", 3 * 512},
                        {"add_scalar", 2 * 512},
                        {"mul_scalar", 2 * 512},
                        {"div_scalar", 2 * 512},
                        {"pow_scalar", 2 * 512},
                        {"relu", 2 * 512},
                        {"gelu", 2 * 512},
                        {"silu", 2 * 512},
                        {"tanh", 2 * 512},
                        {"exp", 2 * 512},
                        {"copy", 2 * 512},
                        {"softmax", 2 * 512},
                        {"layernorm", 2 * 512 + 2 * 64},
                        {"rmsnorm", 2 * 512 + 64},
                        {"cumsum", 2 * 512},
                        {"reduce_sum", 512 + 32},
                        {"reduce_max", 512 + 32},
                        {"reduce_sum_axis0", 512 + 64},
                        {"transpose", 2 * 512},
                        {"topk", 512 + 8 * 8 * (4 + 8)},
                        {"sort", 512 + 512 + 1024}})
    EXPECT_EQ(operator_kernel(c.op, "fp32", R"({"shape": [8, 16]})").cost.bytes(), c.bytes) << c.op;
  // Eight rows of 16 looked up by 64-bit ids: ids and rows read, rows written.
  EXPECT_EQ(
      operator_kernel("embedding", "fp32", R"({"vocab": 1000, "shape": [8, 16]})").cost.bytes(),
      8 * 8 + 2 * 512);
  const char* table = R"({"rows": 1000, "shape": [8, 16]})";
  EXPECT_EQ(operator_kernel("index_select", "fp32", table).cost.bytes(), 8 * 8 + 2 * 512);
  // What is added to is read and written.
  EXPECT_EQ(operator_kernel("index_add", "fp32", table).cost.bytes(), 8 * 8 + 3 * 512);
  EXPECT_EQ(
      operator_kernel("permute", "fp32", R"({"shape": [8, 16], "order": [1, 0]})").cost.bytes(),
      2 * 512);
}

TEST(OperatorKernel, EveryOperatorOfTheMeasuredTableIsTaken) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "h200/kernels.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(file));
  const size_t op = table.required_column("op"), dtype = table.required_column("dtype"),
               params = table.required_column("params");
  EXPECT_EQ(table.rows(), 1141u);
  for (size_t i = 0; i < table.rows(); ++i) {
    const Kernel k = operator_kernel(table.at(i, op), table.at(i, dtype), table.at(i, params));
    EXPECT_GT(k.cost.bytes(), 0) << table.at(i, op) << " " << table.at(i, params);
  }
}

TEST(OperatorKernel, Errors) {
  EXPECT_THAT(
      refusal("gem", "bf16", "{}"),
      HasSubstr("op: 'gem' is not known; did you mean 'gemm', 'fused_gemm' or 'grouped_gemm'?"));
  EXPECT_THAT(refusal("gemm", "fp33", R"({"m": 1, "n": 1, "k": 1})"),
              HasSubstr("dtype: 'fp33' is not known"));
  EXPECT_EQ(refusal("gemm", "bf16", R"({"m": 1, "n": 1})"), "params: gemm needs 'k'");
  EXPECT_EQ(refusal("gemm", "bf16", R"({"m": 1.5, "n": 1, "k": 1})"),
            "params: 'm' must be an integer");
  EXPECT_EQ(refusal("gemm", "bf16", R"({"m": 0, "n": 1, "k": 1})"),
            "params: 'm' must lie within 1 and 2^40, found 0");
  EXPECT_EQ(refusal("gemm", "bf16", R"({"m": 18446744073709551615, "n": 1, "k": 1})"),
            "params: 'm' is larger than 2^40");
  EXPECT_NE(refusal("gemm", "bf16", R"({"m": 1099511627776, "n": 1099511627776, "k": 1})"), "");
  EXPECT_THAT(refusal("add", "bf16", R"({"shape": []})"), HasSubstr("a list of 1 to 8 sizes"));
  EXPECT_THAT(refusal("add", "bf16", R"({"shape": 4})"), HasSubstr("a list of 1 to 8 sizes"));
  EXPECT_THAT(refusal("add", "bf16", "not json"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(refusal("add", "bf16", "[1]"), HasSubstr("expected a JSON object"));
  EXPECT_EQ(refusal("sdpa", "bf16", R"({"b": 1, "h": 8, "kv": 3, "s": 4, "d": 4})"),
            "params: 8 heads are not a multiple of 3 kv heads");
  EXPECT_THAT(
      refusal("conv2d", "bf16", R"({"n": 1, "c": 3, "h": 4, "w": 4, "k": 8, "r": 3, "groups": 2})"),
      HasSubstr("2 groups do not divide"));
  EXPECT_THAT(refusal("conv2d", "bf16", R"({"n": 1, "c": 3, "h": 4, "w": 4, "k": 8, "r": 5})"),
              HasSubstr("the window is larger"));
  EXPECT_THAT(refusal("transpose", "bf16", R"({"shape": [4]})"), HasSubstr("two axes or more"));
  EXPECT_EQ(refusal("conv2d", "int4_weight", "{}"),
            "dtype: conv2d takes no 'int4_weight', gemm, grouped_gemm and moe do");
  EXPECT_EQ(refusal("sdpa", "bf16", R"({"b": 1, "h": 1, "s": 4, "d": 4, "kv_dtype": "f9"})"),
            "params: 'kv_dtype' 'f9' is not known");
}

TEST(OperatorKernel, WhatCannotBeIsRefused) {
  const auto expect_zero_refused = [](const char* op, const std::string& given, const char* zero) {
    EXPECT_EQ(refusal(op, "bf16", given + "}"), "") << op;
    EXPECT_EQ(refusal(op, "bf16", given + ", \"" + zero + "\": 0}"),
              std::string("params: '") + zero + "' must lie within 1 and 2^40, found 0");
  };
  const std::string conv = R"({"n": 1, "c": 4, "h": 8, "w": 8, "k": 4, "r": 3)";
  for (const char* zero : {"stride", "groups", "s"}) expect_zero_refused("conv2d", conv, zero);
  for (const char* zero : {"kv", "t", "dv"})
    expect_zero_refused("sdpa", R"({"b": 1, "h": 8, "s": 4, "d": 64)", zero);
  const std::string moe = R"({"tokens": 64, "hidden": 32, "inter": 64, "experts": 8, "topk": )";
  for (const char* zero : {"tp", "ep"}) expect_zero_refused("moe", moe + "2", zero);
  expect_zero_refused("topk", R"({"shape": [4, 64])", "k");

  EXPECT_EQ(refusal("moe", "bf16", moe + "8, \"ep\": 8}"), "");
  EXPECT_EQ(refusal("moe", "bf16", moe + "200}"),
            "params: 'topk' must not exceed the 8 experts, found 200");
  EXPECT_EQ(refusal("moe", "bf16", moe + "2, \"ep\": 64}"),
            "params: 'ep' must not exceed the 8 experts, found 64");
  EXPECT_EQ(refusal("topk", "bf16", R"({"shape": [64, 16], "k": 17})"),
            "params: 'k' must not exceed the row width 16, found 17");
  EXPECT_EQ(refusal("topk", "bf16", R"({"shape": [64, 4]})"), "");  // all of them
  EXPECT_EQ(
      refusal("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 4096, "t": 1, "d": 64, "causal": true})"),
      "params: causal with s=4096 queries and t=1 keys: the first would see none");
  EXPECT_EQ(refusal("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 4096, "t": 1, "d": 64})"), "");
  EXPECT_EQ(
      refusal("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 1, "t": 4096, "d": 64, "causal": true})"),
      "");
}

TEST(OperatorKernel, DescriptionsNameEveryOperator) {
  EXPECT_GE(supported_operators().size(), 22u);
  for (const OperatorDescription& d : supported_operators()) EXPECT_FALSE(d.params.empty()) << d.op;
}

}  // namespace
}  // namespace orrery
