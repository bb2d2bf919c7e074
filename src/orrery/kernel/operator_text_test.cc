#include "orrery/kernel/operator_text.h"

#include <gtest/gtest.h>

#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

struct Row {
  const char *op, *dtype, *params;
};

TEST(OperatorText, RowsReadBackAsTheSameKernel) {
  for (
      const Row& row : {
          Row{"gemm", "bf16", R"({"m": 512, "n": 4096, "k": 1024})"},
          Row{"gemm", "tf32", R"({"m": 64, "n": 64, "k": 64})"},
          Row{"bmm", "fp16", R"({"b": 12, "m": 196, "n": 196, "k": 64})"},
          Row{"fused_gemm", "bf16",
              R"({"b": 2, "m": 8, "n": 16, "k": 32, "read": 5000, "written": 700, "flops": 9})"},
          Row{"fused_gemm", "bf16",
              R"({"m": 64, "n": 16, "k": 33, "read": 5000, "written": 700, "aligned": 2})"},
          Row{"conv2d", "bf16",
              R"({"n": 8, "c": 64, "h": 56, "w": 56, "k": 64, "r": 3, "s": 3, "stride": 2, "pad": 1})"},
          Row{"conv2d", "bf16",
              R"({"n": 8, "c": 64, "h": 57, "w": 57, "k": 64, "r": 1, "s": 1, "stride": 2, "gradient": "filter"})"},
          Row{"sdpa", "bf16",
              R"({"b": 1, "h": 32, "kv": 8, "s": 128, "t": 128, "d": 64, "causal": 1})"},
          Row{"fusion", "bf16",
              R"({"elements": 4096, "read": 16384, "written": 8192, "flops": 8192, "operations": 2, "inputs": 2, "outputs": 1, "pieces": 3, "run": 2, "does": 34})"},
          Row{"fusion", "fp32",
              R"({"elements": 4096, "read": 16384, "written": 256, "rows": 64, "columns": 64, "inner": 1, "reductions": 2})"},
      }) {
    const Kernel kernel = operator_kernel(row.op, row.dtype, row.params);
    const auto text = operator_text(kernel);
    ASSERT_TRUE(text.has_value()) << row.op << " " << row.params;
    EXPECT_EQ(text->op, row.op);
    EXPECT_EQ(text->dtype, row.dtype);
    EXPECT_TRUE(operator_kernel(text->op, text->dtype, text->params) == kernel) << text->params;
  }
}

TEST(OperatorText, WhatNoRowSaysHasNone) {
  // An output that no symmetric padding gives: 9 of 19 by a window of 7 at a stride of 1.
  Kernel kernel = operator_kernel("conv2d", "bf16",
                                  R"({"n": 1, "c": 8, "h": 19, "w": 19, "k": 8, "r": 7, "s": 7})");
  std::get<ConvolutionShape>(kernel.shape).out_height = 9;
  EXPECT_FALSE(operator_text(kernel).has_value());
  EXPECT_FALSE(operator_text(operator_kernel("sort", "bf16", R"({"shape": [8, 64]})")).has_value());
}

}  // namespace
}  // namespace orrery
