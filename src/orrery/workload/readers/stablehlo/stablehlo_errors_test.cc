// Malformed modules: each message says what is wrong, at its line and column.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery::stablehlo {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The error of a function of one argument `%a: tensor<4xf32>` with this line 2.
std::string error_in(const std::string& line) {
  return error_of(function_of("(%a: tensor<4xf32>)", line + "\n  return"));
}

TEST(StableHloErrors, Values) {
  EXPECT_EQ(error_in("  %0 = stablehlo.add %a, %b : tensor<4xf32>"),
            "2:26: '%b' is not defined here");
  EXPECT_EQ(error_in("  %a = stablehlo.tanh %a : tensor<4xf32>"), "2:3: '%a' is defined already");
  EXPECT_EQ(error_in("  %0 = stablehlo.tanh %a#1 : tensor<4xf32>"),
            "2:23: '%a' has 1 results, not 2");
  EXPECT_EQ(error_in("  %0 = stablehlo.tanh %0 : tensor<4xf32>"), "2:23: '%0' is not defined here");
  EXPECT_THAT(error_in("  %0:0 = stablehlo.tanh %a : tensor<4xf32>"),
              HasSubstr("expected a number of results from 1 to 65,536"));
  EXPECT_THAT(error_in("  %0:70000 = stablehlo.tanh %a : tensor<4xf32>"),
              HasSubstr("expected a number of results from 1 to 65,536"));
  EXPECT_EQ(error_of("func.func @main(%a: tensor<f32>, %a: tensor<f32>) {\n  return\n}\n"),
            "1:34: '%a' is defined already");
}

TEST(StableHloErrors, AValueOfAnInnerRegionIsNotSeenOutside) {
  EXPECT_EQ(error_of(function_of("(%p: tensor<i1>, %x: tensor<f32>)",
                                 "  %0 = \"stablehlo.if\"(%p) ({\n"
                                 "    %in = stablehlo.tanh %x : tensor<f32>\n"
                                 "    stablehlo.return %in : tensor<f32>\n  }, {\n"
                                 "    stablehlo.return %in : tensor<f32>\n"
                                 "  }) : (tensor<i1>) -> tensor<f32>\n  return")),
            "6:22: '%in' is not defined here");
}

TEST(StableHloErrors, ResultCounts) {
  EXPECT_THAT(error_in("  %0:2 = stablehlo.tanh %a : (tensor<4xf32>) -> tensor<4xf32>"),
              StartsWith("2:28: 1 result types for 2 results"));
  EXPECT_THAT(error_in("  %0:2 = \"stablehlo.sort\"(%a) : (tensor<4xf32>) -> (tensor<4xf32>, "
                       "tensor<4xf32>, tensor<4xf32>)"),
              HasSubstr("3 result types for 2 results"));
  EXPECT_THAT(error_in("  %0:2 = stablehlo.while(%i = %a) : tensor<4xf32> cond {"),
              HasSubstr("2 results named, the loop has 1"));
  EXPECT_THAT(error_in("  %0 = stablehlo.while(%i = %a) : tensor<4xf32>, tensor<4xf32> cond {"),
              HasSubstr("2 types for 1 loop variables"));
}

TEST(StableHloErrors, Scans) {
  const std::string body = " {\n  ^bb0(%i: tensor<f32>, %c: tensor<f32>):\n";
  const std::string end = "  } : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)";
  const auto error = [](const std::string& lines) {
    return error_of(function_of("(%a: tensor<4xf32>, %b: tensor<3xf32>, %z: tensor<f32>)",
                                lines + "\n  return"));
  };
  EXPECT_EQ(error("  %0:2 = chlo.scan() inits (%z) dimension=0"), "2:19: a scan needs an input");
  EXPECT_THAT(error("  %0:2 = chlo.scan(%a) dimension=0"), StartsWith("2:24: expected 'inits'"));
  EXPECT_THAT(error("  %0:2 = chlo.scan(%a) inits (%z) {"),
              StartsWith("2:35: expected 'dimension'"));
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a) inits (%z) dimension=1 {"),
            "2:45: dimension 1 is outside the 1 dimensions of an input");
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a) inits (%z) dimension=-1 {"),
            "2:45: dimension -1 is outside the 1 dimensions of an input");
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a, %b) inits (%z) dimension=0 {"),
            "2:49: inputs of 4 and 3 elements along dimension 0");
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a) inits (%z) dimension=0 {\n  ^bb0(%i: tensor<f32>):\n"
                  "    stablehlo.return %i, %i : tensor<f32>, tensor<f32>\n" +
                  end),
            "2:3: scan: the body takes 1 values, 2 operands given");
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a) inits (%z) dimension=0" + body +
                  "    stablehlo.return %i : tensor<f32>\n" + end),
            "2:3: scan: the body returns 1 values, 2 results named");
  EXPECT_EQ(error("  %0 = chlo.scan(%a) inits (%z, %z) dimension=0 {\n  ^bb0(%i: tensor<f32>, %c: "
                  "tensor<f32>, %d: tensor<f32>):\n    stablehlo.return %i : tensor<f32>\n"
                  "  } : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>"),
            "5:5: 1 results of a scan with 2 carries");
  EXPECT_EQ(error("  %0:2 = chlo.scan(%a) inits (%z) dimension=0" + body +
                  "    stablehlo.return %i, %c : tensor<f32>, tensor<f32>\n  }"),
            "6:3: expected ':' and the types of the operation");
}

TEST(StableHloErrors, WhatIsNotClosed) {
  EXPECT_EQ(error_in("  %0 = \"stablehlo.tanh(%a) : (tensor<4xf32>) -> tensor<4xf32>"),
            "2:8: a string that is not closed");
  EXPECT_EQ(error_of("module {\n  func.func @main() {\n    return\n  }\n"),
            "1:8: the module's '{' is not closed");
  EXPECT_EQ(error_of("module {\n  func.func @main() {\n    return\n"),
            "2:21: the '{' here is not closed");
  EXPECT_THAT(error_in("  %0 = stablehlo.constant dense<1 : tensor<i32"), HasSubstr("not closed"));
  EXPECT_THAT(error_of(function_of("()", "  %0 = stablehlo.constant dense<[1, 2")),
              HasSubstr("dense<…> is not closed"));
  EXPECT_THAT(error_in("  %0 = stablehlo.transpose %a, dims = [0 : (tensor<4xf32>) -> t"),
              HasSubstr("2:"));
  EXPECT_THAT(error_of("#a = array<i64: 1, 2\n"), HasSubstr("1:"));
  EXPECT_THAT(error_of("module {}\n{-# dialect_resources: {"),
              HasSubstr("a '{-#' section that is not closed"));
  EXPECT_THAT(error_of("module attributes {a = {b = [1}} {}"), HasSubstr("unexpected '}'"));
}

TEST(StableHloErrors, Types) {
  EXPECT_EQ(error_in("  %0 = stablehlo.tanh %a : tensor<4xf33>"),
            "2:37: 'f33' is not an element type");
  EXPECT_EQ(error_in("  %0 = stablehlo.tanh %a : tensr<4xf32>"),
            "2:28: 'tensr' is not a type known here");
  EXPECT_EQ(error_in("  %0 = stablehlo.tanh %a : !t"), "2:28: type alias '!t' is not defined");
  EXPECT_THAT(error_in("  %0 = stablehlo.tanh %a : tensor<99999999999999999999xf32>"),
              HasSubstr("a dimension too large for 64 bits"));
  // Each fits, their product does not: 2^24 · 2^24 · 2 > 2^48.
  EXPECT_THAT(error_in("  %0 = stablehlo.tanh %a : tensor<16777216x16777216x2xf32>"),
              StartsWith("2:34: "));
  EXPECT_THAT(error_in("  %0 = stablehlo.tanh %a : tensor<4 4xf32>"),
              HasSubstr("expected 'x' after a dimension"));
  EXPECT_THAT(error_in("  %0 = stablehlo.tanh %a : tensor<4xcomplex<i8>>"),
              HasSubstr("expected complex<f32> or complex<f64>"));
  EXPECT_THAT(error_in("  %0 = stablehlo.tanh %a : tensor<4x!quant.uniform<f33:f32, 1.0>>"),
              HasSubstr("expected !quant.uniform<STORAGE:EXPRESSED"));
}

TEST(StableHloErrors, Operations) {
  EXPECT_EQ(error_in("  %0 = stablehlo.no_such %a : tensor<4xf32>"),
            "2:8: operation 'stablehlo.no_such' is not known, so its own syntax cannot be read; "
            "export it in generic form (--mlir-print-op-generic)");
  EXPECT_EQ(error_in("  %0 = frobnicate %a : tensor<4xf32>"),
            "2:8: expected an operation, found 'frobnicate'");
  EXPECT_EQ(error_in("  stablehlo.tanh %a"),
            "3:3: expected ':' and the types of the operation before this");
  EXPECT_EQ(error_of("hello world"), "1:1: expected 'module' or 'func.func', found 'hello'");
  EXPECT_THAT(error_in("  ^bb1:"), HasSubstr("more than one block in a region: not StableHLO"));
  EXPECT_THAT(error_in("  \"cf.br\"(%a)[^bb1] : (tensor<4xf32>) -> ()"),
              HasSubstr("successor blocks"));
  EXPECT_EQ(error_in("  %0 = \"stablehlo.transpose\"(%a) <{permutation = #dims}> : "
                     "(tensor<4xf32>) -> tensor<4xf32>"),
            "2:50: attribute alias '#dims' is not defined before its use");
}

TEST(StableHloErrors, Functions) {
  EXPECT_EQ(error_of("func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}\n"),
            "4:11: a function of this name is defined already");
  EXPECT_EQ(error_of("func.func @main(%x: tensor<f32>) {\n"
                     "  %0 = call @f(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
                     "  return\n}\nfunc.func private @f(%x: tensor<f32>) -> tensor<f32> {\n"
                     "  return %x : tensor<f32>\n}\n"),
            "2:3: call: '@f' takes 1 arguments, 2 given");
  EXPECT_EQ(error_of("func.func @main(%x: tensor<f32>) {\n"
                     "  %0 = call @missing(%x) : (tensor<f32>) -> tensor<f32>\n  return\n}\n"),
            "2:3: call: function '@missing' is not defined in this file");
  EXPECT_EQ(error_of("func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
                     "  %0 = call @other(%x) : (tensor<f32>) -> tensor<f32>\n"
                     "  return %0 : tensor<f32>\n}\n"
                     "func.func @other(%x: tensor<f32>) -> tensor<f32> {\n"
                     "  %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>\n"
                     "  return %0 : tensor<f32>\n}\n"),
            "6:3: function '@main' calls itself");
  EXPECT_THAT(error_of("module {}"), HasSubstr("there is no function with a body"));
  EXPECT_THAT(error_of("\"func.func\"() <{sym_name = \"f\"}> ({}) : () -> ()"),
              HasSubstr("needs sym_name and function_type"));
}

TEST(StableHloErrors, DimensionNumbers) {
  EXPECT_EQ(error_in("  %0 = stablehlo.transpose %a, dims = [1] : (tensor<4xf32>) -> "
                     "tensor<4xf32>"),
            "2:3: transpose: dimension 1 is outside the 1 dimensions");
  EXPECT_EQ(error_in("  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [3] : "
                     "(tensor<4xf32>, tensor<4xf32>) -> tensor<f32>"),
            "2:3: dot_general: contracting dimension 3 is outside the 1 dimensions");
  EXPECT_THAT(error_in("  %0 = stablehlo.add : tensor<4xf32>"), HasSubstr("at least 1 expected"));
}

// --- hostile ----------------------------------------------------------------

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(StableHloHostile, DeepNestingIsAnErrorNotACrash) {
  const int depth = 100000;
  EXPECT_NE(error_of(repeated("module {", depth)), "");
  EXPECT_NE(error_of("func.func @main(%x: " + repeated("tuple<", depth)), "");
  EXPECT_NE(error_of("func.func @main(%x: " + repeated("(", depth)), "");
  EXPECT_NE(error_in("  %0 = stablehlo.tanh %a {a = " + repeated("[", depth)), "");
  EXPECT_NE(error_in("  %0 = stablehlo.tanh %a {a = " + repeated("<", depth)), "");
  EXPECT_NE(error_in("  %0 = stablehlo.constant dense<" + repeated("[", depth)), "");
  EXPECT_NE(error_in(repeated("  \"stablehlo.if\"(%a) ({\n", depth)), "");
  EXPECT_NE(error_of("#a = " + repeated("#b<", depth)), "");
}

TEST(StableHloHostile, AliasesOfAliasesEndInTime) {
  // Each line names the one before twice: 2^60 values if they were expanded.
  std::string bomb = "#a0 = [0, 1]\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string before = "#a" + std::to_string(i - 1);
    bomb += "#a" + std::to_string(i) + " = [" + before + ", " + before + "]\n";
  }
  const auto started = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(bomb + "module {}"), HasSubstr("aliases expand to more than"));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(5));
}

TEST(StableHloHostile, HugeCountsAreRefusedBeforeTheyAreAllocated) {
  EXPECT_NE(error_of("module {\n sdy.mesh @m = <[\"x\"=9223372036854775807, \"y\"=3]>\n"
                     "func.func @main(%a: tensor<4xf32>) {\n %0 = \"stablehlo.all_reduce\"(%a) "
                     "<{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = "
                     "[#stablehlo.axis_ref<name = \"x\">]>}> : (tensor<4xf32>) -> \n return}}"),
            "");
}

TEST(StableHloHostile, AFewBytesDoNotBecomeMegabytes) {
  // Lists that a splat or a mesh spells in a few bytes, a thousand times.
  std::string splats, groups;
  for (int i = 0; i < 1000; ++i) {
    splats +=
        "  \"stablehlo.slice\"(%a) <{start_indices = dense<0> : tensor<1048576xi64>}> : "
        "(tensor<4xf32>) -> tensor<4xf32>\n";
    groups +=
        "  \"stablehlo.all_reduce\"(%a) <{replica_groups = "
        "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "
        "\"x\">]>}> : (tensor<4xf32>) -> tensor<4xf32>\n";
  }
  EXPECT_LT(read_text(function_of("(%a: tensor<4xf32>)", splats + "  return")).memory_bytes(),
            size_t{1} << 20);
  EXPECT_THAT(error_of("module {\nsdy.mesh @m = <[\"x\"=1048576]>\n" +
                       function_of("(%a: tensor<4xf32>)", groups + "  return") + "}\n"),
              HasSubstr("the module's replica groups list more than 16777216 ranks"));
}

TEST(StableHloHostile, EveryPrefixOfAModuleIsReadOrRefused) {
  const std::string whole =
      "#d = array<i64: 1, 0>\nmodule @m attributes {mhlo.num_partitions = 2 : i32} {\n"
      "  sdy.mesh @mesh = <[\"x\"=2], device_ids=[1, 0]>\n"
      "  func.func @main(%a: tensor<4x!quant.uniform<i8:f32, 0.1>> {sdy.sharding = "
      "#sdy.sharding<@mesh, [{\"x\"}]>}, %b: tensor<?x2xf32, #stablehlo.bounds<4, ?>>) -> "
      "(tensor<f32> {jax.result_info = \"r\"}) {\n"
      "    %c = stablehlo.constant dense<[0x7F800000, 1.0]> : tensor<2xf32> loc(\"c\"(#l))\n"
      "    %0 = stablehlo.convolution(%b, %b) dim_numbers = [b, f]x[i, o]->[b, f], window = "
      "{stride = []} : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>\n"
      "    %1 = stablehlo.reduce(%c init: %c) applies stablehlo.add across dimensions = [0] : "
      "(tensor<2xf32>, tensor<2xf32>) -> tensor<f32>\n"
      "    return %1 : tensor<f32>\n  }\n}\n#l = loc(fused[\"a\", callsite(\"b\" at \"c\")])\n";
  for (size_t n = 0; n < whole.size(); ++n) error_of(whole.substr(0, n));
  EXPECT_EQ(error_of(whole), "");
}

}  // namespace
}  // namespace orrery::stablehlo
