#include "orrery/workload/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"
#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace {

using stablehlo::find_op;
using stablehlo::function_of;
using stablehlo::read_text;

/// The cost of the first operation of `code` in a function with this signature and line.
Cost cost_of(Opcode code, const std::string& signature, const std::string& lines) {
  const Workload w = read_text(function_of(signature, lines + "\n  return"));
  return cost(w, find_op(w, code).id());
}

// --- one class after the other ----------------------------------------------

TEST(Cost, ElementwiseIsOneOperationAnElement) {
  const Cost c = cost_of(Opcode::k_add, "(%a: tensor<8x16xbf16>, %b: tensor<8x16xbf16>)",
                         "  %0 = stablehlo.add %a, %b : tensor<8x16xbf16>");
  EXPECT_EQ(c.vector_flops, 128);
  EXPECT_EQ(c.transcendental_flops, 0);
  EXPECT_EQ(c.vector_type, ElementType::kBF16);
  EXPECT_EQ(c.bytes_read, 2 * 128 * 2);
  EXPECT_EQ(c.bytes_written, 128 * 2);
}

TEST(Cost, AnOperandNamedTwiceIsReadOnce) {
  const Cost c = cost_of(Opcode::k_multiply, "(%a: tensor<8xf32>)",
                         "  %0 = stablehlo.multiply %a, %a : tensor<8xf32>");
  EXPECT_EQ(c.bytes_read, 32);
}

TEST(Cost, SpecialFunctionsAreCountedApart) {
  const Cost c = cost_of(Opcode::k_exponential, "(%a: tensor<10xf32>)",
                         "  %0 = stablehlo.exponential %a : tensor<10xf32>");
  EXPECT_EQ(c.vector_flops, 0);
  EXPECT_EQ(c.transcendental_flops, 10);
  EXPECT_EQ(c.vector_type, ElementType::kF32);
}

TEST(Cost, ComplexArithmetic) {
  // A sum is two additions; a product four multiplications (and their sums).
  EXPECT_EQ(cost_of(Opcode::k_add, "(%a: tensor<10xcomplex<f32>>, %b: tensor<10xcomplex<f32>>)",
                    "  %0 = stablehlo.add %a, %b : tensor<10xcomplex<f32>>")
                .vector_flops,
            20);
  EXPECT_EQ(
      cost_of(Opcode::k_multiply, "(%a: tensor<10xcomplex<f32>>, %b: tensor<10xcomplex<f32>>)",
              "  %0 = stablehlo.multiply %a, %b : tensor<10xcomplex<f32>>")
          .vector_flops,
      40);
  // [2,3]·[3,4]: 24 multiply-adds of 8 real operations.
  EXPECT_EQ(
      cost_of(Opcode::k_dot_general, "(%a: tensor<2x3xcomplex<f32>>, %b: tensor<3x4xcomplex<f32>>)",
              "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
              "(tensor<2x3xcomplex<f32>>, tensor<3x4xcomplex<f32>>) -> "
              "tensor<2x4xcomplex<f32>>")
          .matrix_flops,
      24 * 8);
}

TEST(Cost, ComparisonsComputeInTheTypeOfTheirOperands) {
  const Cost c = cost_of(Opcode::k_compare, "(%a: tensor<10xf16>, %b: tensor<10xf16>)",
                         "  %0 = stablehlo.compare LT, %a, %b : (tensor<10xf16>, tensor<10xf16>) "
                         "-> tensor<10xi1>");
  EXPECT_EQ(c.vector_type, ElementType::kF16);
  EXPECT_EQ(c.bytes_written, 10);
}

TEST(Cost, ViewsConstantsAndControlAreFree) {
  const Workload w = read_text(function_of(
      "(%a: tensor<8x16xf32>, %t: tuple<tensor<4xf32>>, %u: tensor<1x8x16xf32>)",
      "  %0 = stablehlo.reshape %a : (tensor<8x16xf32>) -> tensor<128xf32>\n"
      "  %1 = stablehlo.bitcast_convert %a : (tensor<8x16xf32>) -> tensor<8x16xi32>\n"
      "  %2 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4xf32>>) -> tensor<4xf32>\n"
      "  %3 = stablehlo.constant dense<1.0> : tensor<4096xf32>\n"
      "  %4 = stablehlo.optimization_barrier %a : tensor<8x16xf32>\n"
      "  %5 = stablehlo.convert %a : tensor<8x16xf32>\n"
      "  %6 = stablehlo.transpose %u, dims = [1, 0, 2] : (tensor<1x8x16xf32>) -> "
      "tensor<8x1x16xf32>\n  return"));
  ASSERT_EQ(w.ops().size(), 8u);
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const Cost c = cost(w, OpId{i});
    EXPECT_EQ(c.flops() + c.bytes(), 0) << name(w.ops()[i].code);
  }
}

TEST(Cost, MovesReadAndWriteTheWhole) {
  const Cost transpose = cost_of(Opcode::k_transpose, "(%a: tensor<8x16xf32>)",
                                 "  %0 = stablehlo.transpose %a, dims = [1, 0] : "
                                 "(tensor<8x16xf32>) -> tensor<16x8xf32>");
  EXPECT_EQ(transpose.bytes_read, 512);
  EXPECT_EQ(transpose.bytes_written, 512);
  EXPECT_EQ(transpose.flops(), 0);
  const Cost broadcast = cost_of(Opcode::k_broadcast_in_dim, "(%a: tensor<16xf32>)",
                                 "  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : "
                                 "(tensor<16xf32>) -> tensor<8x16xf32>");
  EXPECT_EQ(broadcast.bytes_read, 64);
  EXPECT_EQ(broadcast.bytes_written, 512);
}

TEST(Cost, SlicesTouchWhatTheyTake) {
  const Cost slice = cost_of(
      Opcode::k_slice, "(%a: tensor<1000x16xf32>)",
      "  %0 = stablehlo.slice %a [0:10, 0:16] : (tensor<1000x16xf32>) -> tensor<10x16xf32>");
  EXPECT_EQ(slice.bytes_read, 640);
  EXPECT_EQ(slice.bytes_written, 640);
  const Cost update =
      cost_of(Opcode::k_dynamic_update_slice,
              "(%a: tensor<1000x16xf32>, %u: tensor<2x16xf32>, %i: tensor<i32>)",
              "  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<1000x16xf32>, "
              "tensor<2x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1000x16xf32>");
  EXPECT_EQ(update.bytes_read, 128);
  EXPECT_EQ(update.bytes_written, 128);
}

TEST(Cost, GatherReadsRowsAndScatterReadsThemBack) {
  const Cost gather = cost_of(
      Opcode::k_gather, "(%t: tensor<1000x16xf32>, %i: tensor<8x1xi32>)",
      "  %0 = \"stablehlo.gather\"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = "
      "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes "
      "= array<i64: 1, 16>}> : (tensor<1000x16xf32>, tensor<8x1xi32>) -> tensor<8x16xf32>");
  EXPECT_EQ(gather.bytes_read, 8 * 4 + 8 * 16 * 4);  // indices, eight rows
  EXPECT_EQ(gather.bytes_written, 8 * 16 * 4);
  const Cost scatter = cost_of(
      Opcode::k_scatter, "(%t: tensor<1000x16xf32>, %i: tensor<8x1xi32>, %u: tensor<8x16xf32>)",
      "  %0 = \"stablehlo.scatter\"(%t, %i, %u) <{scatter_dimension_numbers = "
      "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n"
      "  ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n    %1 = stablehlo.add %l, %r : tensor<f32>\n"
      "    stablehlo.return %1 : tensor<f32>\n  }) : (tensor<1000x16xf32>, tensor<8x1xi32>, "
      "tensor<8x16xf32>) -> tensor<1000x16xf32>");
  EXPECT_EQ(scatter.bytes_read, 8 * 4 + 2 * 8 * 16 * 4);  // indices, updates, rows there
  EXPECT_EQ(scatter.bytes_written, 8 * 16 * 4);
  EXPECT_EQ(scatter.vector_flops, 8 * 16);
}

// --- contractions -----------------------------------------------------------

TEST(Cost, DotGeneralWithBatchDimensions) {
  const Cost c = cost_of(
      Opcode::k_dot_general, "(%a: tensor<4x8x16xbf16>, %b: tensor<4x16x32xbf16>)",
      "  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x "
      "[1] : (tensor<4x8x16xbf16>, tensor<4x16x32xbf16>) -> tensor<4x8x32xf32>");
  EXPECT_EQ(c.matrix_flops, 2.0 * 4 * 8 * 32 * 16);
  EXPECT_EQ(c.matrix_type, ElementType::kBF16);
  EXPECT_EQ(c.bytes_read, 4 * 8 * 16 * 2 + 4 * 16 * 32 * 2);
  EXPECT_EQ(c.bytes_written, 4 * 8 * 32 * 4);
  EXPECT_EQ(c.vector_flops, 0);
}

TEST(Cost, DotGeneralOverSeveralDimensionsAndNone) {
  EXPECT_EQ(cost_of(Opcode::k_dot_general, "(%a: tensor<3x4x5xf32>, %b: tensor<4x5x7xf32>)",
                    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1, 2] x [0, 1] : "
                    "(tensor<3x4x5xf32>, tensor<4x5x7xf32>) -> tensor<3x7xf32>")
                .matrix_flops,
            2 * 3 * 7 * 20);
  EXPECT_EQ(cost_of(Opcode::k_dot_general, "(%a: tensor<3xf32>, %b: tensor<7xf32>)",
                    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [] x [] : "
                    "(tensor<3xf32>, tensor<7xf32>) -> tensor<3x7xf32>")
                .matrix_flops,
            2 * 21);
}

TEST(Cost, DotAndEinsum) {
  const double expected = 2.0 * 8 * 32 * 16;
  EXPECT_EQ(cost_of(Opcode::k_dot, "(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>)",
                    "  %0 = stablehlo.dot %a, %b : (tensor<8x16xf32>, tensor<16x32xf32>) -> "
                    "tensor<8x32xf32>")
                .matrix_flops,
            expected);
  EXPECT_EQ(cost_of(Opcode::k_einsum, "(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>)",
                    "  %0 = stablehlo.einsum %a, %b, config = \"ab,bc->ac\" : (tensor<8x16xf32>, "
                    "tensor<16x32xf32>) -> tensor<8x32xf32>")
                .matrix_flops,
            expected);
  // b is kept, so only c and d are summed: 2·|ab| · c·d.
  EXPECT_EQ(cost_of(Opcode::k_einsum, "(%a: tensor<2x3x5x7xf32>, %b: tensor<3x5x7xf32>)",
                    "  %0 = stablehlo.einsum %a, %b, config = \"abcd,bcd->ab\" : "
                    "(tensor<2x3x5x7xf32>, tensor<3x5x7xf32>) -> tensor<2x3xf32>")
                .matrix_flops,
            2 * 6 * 35);
}

TEST(Cost, MixedOperandsRunInTheWiderTypeUnlessAnAlgorithmSays) {
  EXPECT_EQ(cost_of(Opcode::k_dot_general, "(%a: tensor<8x16xbf16>, %b: tensor<16x32xi8>)",
                    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
                    "(tensor<8x16xbf16>, tensor<16x32xi8>) -> tensor<8x32xbf16>")
                .matrix_type,
            ElementType::kBF16);
  EXPECT_EQ(cost_of(Opcode::k_dot_general, "(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>)",
                    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], algorithm "
                    "= <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = "
                    "f32, lhs_component_count = 1, rhs_component_count = 1, "
                    "num_primitive_operations = 1, allow_imprecise_accumulation = false> : "
                    "(tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>")
                .matrix_type,
            ElementType::kBF16);
}

/// FLOPs of a convolution of `input` with `kernel` to `output`, all NHWC and HWIO.
double convolution_flops(const std::string& input, const std::string& kernel,
                         const std::string& output, const std::string& window,
                         const std::string& groups) {
  return cost_of(Opcode::k_convolution,
                 "(%x: tensor<" + input + "xf32>, %k: tensor<" + kernel + "xf32>)",
                 "  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, "
                 "o]->[b, 0, 1, f], window = {" +
                     window + "} {" + groups + "} : (tensor<" + input + "xf32>, tensor<" + kernel +
                     "xf32>) -> tensor<" + output + "xf32>")
      .matrix_flops;
}

TEST(Cost, Convolutions) {
  // Every output pixel and feature sums a 3×3 window of all 16 input features.
  EXPECT_EQ(convolution_flops("2x8x8x16", "3x3x16x32", "2x8x8x32", "pad = [[1, 1], [1, 1]]",
                              "batch_group_count = 1 : i64, feature_group_count = 1 : i64"),
            2.0 * 2 * 8 * 8 * 32 * 9 * 16);
  // Stride 2: a quarter of the outputs.
  EXPECT_EQ(convolution_flops("2x8x8x16", "3x3x16x32", "2x4x4x32",
                              "stride = [2, 2], pad = [[0, 1], [0, 1]]",
                              "batch_group_count = 1 : i64, feature_group_count = 1 : i64"),
            2.0 * 2 * 4 * 4 * 32 * 9 * 16);
  // Four groups: each output feature sees a quarter of the inputs.
  EXPECT_EQ(convolution_flops("2x8x8x16", "3x3x4x32", "2x8x8x32", "pad = [[1, 1], [1, 1]]",
                              "batch_group_count = 1 : i64, feature_group_count = 4 : i64"),
            2.0 * 2 * 8 * 8 * 32 * 9 * 4);
  // Depthwise: one input feature each.
  EXPECT_EQ(convolution_flops("2x8x8x16", "3x3x1x16", "2x8x8x16", "pad = [[1, 1], [1, 1]]",
                              "batch_group_count = 1 : i64, feature_group_count = 16 : i64"),
            2.0 * 2 * 8 * 8 * 16 * 9);
  // Two batch groups: the batch of 4 becomes 2, every output still sums the kernel's inputs.
  EXPECT_EQ(convolution_flops("4x8x8x16", "3x3x16x32", "2x8x8x32", "pad = [[1, 1], [1, 1]]",
                              "batch_group_count = 2 : i64, feature_group_count = 1 : i64"),
            2.0 * 2 * 8 * 8 * 32 * 9 * 16);
}

TEST(Cost, TheInputGradientOfAStrideDoesNotMultiplyInsertedZeros) {
  // Forward: [2,8,8,16] → [2,4,4,32], 3×3, stride 2. Its input gradient spreads the 4×4
  // over 8×8 by a base dilation of 2: three in four of the products are with zeros.
  EXPECT_EQ(convolution_flops("2x4x4x32", "3x3x32x16", "2x8x8x16",
                              "pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2]",
                              "batch_group_count = 1 : i64, feature_group_count = 1 : i64"),
            2.0 * 2 * 4 * 4 * 32 * 9 * 16);
}

TEST(Cost, TheKernelGradientEqualsTheForwardPass) {
  // [f,0,1,b]x[i,0,1,o]->[0,1,b,f]: the output's gradient (8×8) is the window, dilated
  // by nothing; 3×3 results for every pair of features, summed over 2·8·8 places.
  const Cost c = cost_of(
      Opcode::k_convolution, "(%x: tensor<2x8x8x16xf32>, %g: tensor<2x8x8x32xf32>)",
      "  %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, "
      "f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = "
      "1 : i64} : (tensor<2x8x8x16xf32>, tensor<2x8x8x32xf32>) -> tensor<3x3x16x32xf32>");
  EXPECT_EQ(c.matrix_flops, 2.0 * 3 * 3 * 16 * 32 * 2 * 8 * 8);
}

struct AttentionShape {
  int64_t batch, heads, key_heads, queries, keys, size, value_size;
};

/// The workload of one attention; its operation is the first.
Workload attention(const AttentionShape& shape, int64_t causal, int64_t window) {
  WorkloadBuilder b("test", "attention");
  b.begin_function(b.declare_function("main"));
  const auto argument = [&](int64_t heads, int64_t tokens, int64_t size) {
    return b.add_argument(b.tensor_type(ElementType::kBF16, {shape.batch, heads, tokens, size}),
                          {});
  };
  const std::vector<ValueId> operands = {argument(shape.heads, shape.queries, shape.size),
                                         argument(shape.key_heads, shape.keys, shape.size),
                                         argument(shape.key_heads, shape.keys, shape.value_size)};
  const OpId op = b.begin_op(Opcode::k_attention, operands, 1);
  b.set_int(Attr::kCausal, causal);
  b.set_int(Attr::kWindow, window);
  b.set_result_type(0, b.tensor_type(ElementType::kBF16,
                                     {shape.batch, shape.heads, shape.queries, shape.value_size}));
  b.end_op();
  b.emit_return({{b.result(op)}});
  b.end_function();
  return b.finish();
}

/// Pairs of a query and a key it sees, counted one by one: query i stands at place
/// t - s + i and sees the keys up to itself, at most the last `window`.
double causal_pairs(int64_t s, int64_t t, int64_t window) {
  double pairs = 0;
  for (int64_t i = 0; i < s; ++i)
    for (int64_t j = 0; j < t; ++j) {
      const int64_t place = t - s + i;
      if (j <= place && (window == 0 || j > place - window)) ++pairs;
    }
  return pairs;
}

TEST(Cost, AttentionCountsThePairsThatItsMaskLeaves) {
  for (const auto& [s, t] : {std::pair<int64_t, int64_t>{16, 16}, {1, 33}, {7, 20}, {16, 17}}) {
    for (const int64_t window : {0, 1, 4, 10, 16, 100}) {
      const AttentionShape shape{2, 4, 2, s, t, 8, 12};  // grouped: two query heads a key head
      const Workload w = attention(shape, 1, window);
      const Cost c = cost(w, OpId{0});
      const double pairs = 2 * 4 * causal_pairs(s, t, window);
      EXPECT_DOUBLE_EQ(c.matrix_flops, 2 * pairs * (8 + 12)) << s << " " << t << " " << window;
      EXPECT_DOUBLE_EQ(c.transcendental_flops, pairs);
      EXPECT_EQ(c.vector_type, ElementType::kF32);
      // Keys and values that some query sees are read once a key head, whatever the number
      // of query heads.
      const int64_t seen = window == 0 ? t : std::min(t, s + window - 1);
      EXPECT_NEAR(c.bytes_read, 2.0 * 2 * (4 * s * 8 + 2 * seen * 8 + 2 * seen * 12), 1e-9);
      EXPECT_EQ(c.bytes_written, 2.0 * 2 * 4 * s * 12);
    }
  }
  const Workload full = attention({1, 2, 2, 5, 9, 4, 4}, 0, 0);
  EXPECT_DOUBLE_EQ(cost(full, OpId{0}).matrix_flops, 2.0 * 2 * 5 * 9 * 8);
}

TEST(Cost, GroupedDotReadsTheGroupsThatAreUsed) {
  const auto grouped = [](int64_t rows, std::optional<int64_t> active) {
    WorkloadBuilder b("test", "experts");
    b.begin_function(b.declare_function("main"));
    const ValueId x = b.add_argument(b.tensor_type(ElementType::kBF16, {rows, 128}), {});
    const ValueId w = b.add_argument(b.tensor_type(ElementType::kBF16, {8, 128, 256}), {});
    const OpId op = b.begin_op(Opcode::k_grouped_dot, {{x, w}}, 1);
    if (active) b.set_int(Attr::kActiveGroups, *active);
    b.set_result_type(0, b.tensor_type(ElementType::kBF16, {rows, 256}));
    b.end_op();
    b.emit_return({{b.result(op)}});
    b.end_function();
    const Workload workload = b.finish();
    return cost(workload, op);
  };
  constexpr double kGroupBytes = 128 * 256 * 2;
  EXPECT_EQ(grouped(64, {}).matrix_flops, 2.0 * 64 * 128 * 256);  // every row meets one group
  EXPECT_EQ(grouped(64, {}).bytes_read, 64 * 128 * 2 + 8 * kGroupBytes);
  EXPECT_EQ(grouped(64, 2).bytes_read, 64 * 128 * 2 + 2 * kGroupBytes);
  EXPECT_EQ(grouped(3, {}).bytes_read, 3 * 128 * 2 + 3 * kGroupBytes);  // at most one a row
}

// --- reductions and the rest ------------------------------------------------

TEST(Cost, Reductions) {
  // 8 sums of 16 elements take 15 additions each.
  const Cost sum = cost_of(Opcode::k_reduce, "(%a: tensor<8x16xf32>, %z: tensor<f32>)",
                           "  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across "
                           "dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>");
  EXPECT_EQ(sum.vector_flops, 8 * 15);
  EXPECT_EQ(sum.bytes_read, 8 * 16 * 4 + 4);
  EXPECT_EQ(sum.bytes_written, 32);
  const Cost window = cost_of(
      Opcode::k_reduce_window, "(%a: tensor<1x8x8x4xf32>, %z: tensor<f32>)",
      "  %0 = \"stablehlo.reduce_window\"(%a, %z) <{window_dimensions = array<i64: 1, 2, 2, 1>, "
      "window_strides = array<i64: 1, 2, 2, 1>}> ({\n  ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n"
      "    %1 = stablehlo.maximum %l, %r : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n"
      "  }) : (tensor<1x8x8x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>");
  EXPECT_EQ(window.vector_flops, 4 * 4 * 4 * 4);  // 64 outputs of four elements
}

TEST(Cost, SortTakesALogarithmOfComparisons) {
  const Cost c = cost_of(
      Opcode::k_sort, "(%a: tensor<4x1024xf32>)",
      "  %0 = \"stablehlo.sort\"(%a) <{dimension = 1 : i64}> ({\n  ^bb0(%l: tensor<f32>, %r: "
      "tensor<f32>):\n    %1 = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> "
      "tensor<i1>\n    stablehlo.return %1 : tensor<i1>\n  }) : (tensor<4x1024xf32>) -> "
      "tensor<4x1024xf32>");
  EXPECT_EQ(c.vector_flops, 4 * 1024 * 10);
}

TEST(Cost, LinearAlgebra) {
  // Cholesky n³/3; a triangular solve n² a right-hand side; FFT 5·n·log2 n.
  EXPECT_DOUBLE_EQ(cost_of(Opcode::k_cholesky, "(%a: tensor<2x6x6xf32>)",
                           "  %0 = stablehlo.cholesky %a, lower = true : tensor<2x6x6xf32>")
                       .vector_flops,
                   2 * 6 * 6 * 6 / 3.0);
  EXPECT_EQ(cost_of(Opcode::k_triangular_solve, "(%a: tensor<6x6xf32>, %b: tensor<6x5xf32>)",
                    "  %0 = \"stablehlo.triangular_solve\"(%a, %b) <{left_side = true, lower = "
                    "true, unit_diagonal = false, transpose_a = #stablehlo<transpose "
                    "NO_TRANSPOSE>}> : (tensor<6x6xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>")
                .vector_flops,
            6 * 6 * 5);
  EXPECT_EQ(cost_of(Opcode::k_fft, "(%a: tensor<3x64xcomplex<f32>>)",
                    "  %0 = stablehlo.fft %a, type = FFT, length = [64] : "
                    "(tensor<3x64xcomplex<f32>>) -> tensor<3x64xcomplex<f32>>")
                .vector_flops,
            3 * 5 * 64 * 6);
}

// --- totals -----------------------------------------------------------------

TEST(TotalCost, FollowsCallsMultipliesLoopsAndTakesTheCostliestBranch) {
  const Workload w = read_text(
      "func.func @main(%x: tensor<100xf32>, %p: tensor<i1>) -> tensor<100xf32> {\n"
      "  %0 = call @twice(%x) : (tensor<100xf32>) -> tensor<100xf32>\n"
      "  %1 = call @twice(%0) : (tensor<100xf32>) -> tensor<100xf32>\n"
      "  %c = stablehlo.constant dense<0> : tensor<i32>\n"
      "  %2:2 = stablehlo.while(%i = %c, %v = %1) : tensor<i32>, tensor<100xf32>\n   cond {\n"
      "    %n = stablehlo.constant dense<7> : tensor<i32>\n"
      "    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %t : tensor<i1>\n  } do {\n"
      "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
      "    %j = stablehlo.add %i, %one : tensor<i32>\n"
      "    %u = func.call @twice(%v) : (tensor<100xf32>) -> tensor<100xf32>\n"
      "    stablehlo.return %j, %u : tensor<i32>, tensor<100xf32>\n  }\n"
      "  %3 = \"stablehlo.if\"(%p) ({\n"
      "    %4 = stablehlo.tanh %2#1 : tensor<100xf32>\n"
      "    %5 = stablehlo.tanh %4 : tensor<100xf32>\n"
      "    stablehlo.return %5 : tensor<100xf32>\n  }, {\n"
      "    %4 = stablehlo.tanh %2#1 : tensor<100xf32>\n"
      "    stablehlo.return %4 : tensor<100xf32>\n  }) : (tensor<i1>) -> tensor<100xf32>\n"
      "  return %3 : tensor<100xf32>\n}\n"
      "func.func private @twice(%x: tensor<100xf32>) -> tensor<100xf32> {\n"
      "  %0 = stablehlo.add %x, %x : tensor<100xf32>\n"
      "  %1 = stablehlo.multiply %0, %x : tensor<100xf32>\n  return %1 : tensor<100xf32>\n}\n");
  const TotalCost total = total_cost(w, w.entry());
  // @twice runs 2 + 7 times at 200 operations; the loop adds its compare and add, seven each.
  EXPECT_EQ(total.flops(Unit::kVector), 9 * 200 + 7 * 2);
  EXPECT_EQ(total.flops(Unit::kTranscendental), 200);
  EXPECT_EQ(total.operations, 9 * 2 + 7 * 2 + 2);
  EXPECT_EQ(total.unknown_trip_counts, 0);
}

TEST(TotalCost, ALoopWithoutATripCountIsCountedOnceAndSaidSo) {
  const Workload w = read_text(function_of(
      "(%n: tensor<i32>) -> tensor<i32>",
      "  %0 = stablehlo.while(%i = %n) : tensor<i32>\n   cond {\n"
      "    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %t : tensor<i1>\n  } do {\n"
      "    %1 = stablehlo.add %i, %i : tensor<i32>\n    stablehlo.return %1 : tensor<i32>\n  }\n"
      "  return %0 : tensor<i32>"));
  const TotalCost total = total_cost(w, w.entry());
  EXPECT_EQ(total.unknown_trip_counts, 1);
  EXPECT_EQ(total.flops(), 2);
}

// --- whole models against formulas ------------------------------------------

double matrix_flops(const std::string& file) {
  const Workload w = read_workload(Source::from_file(file), ReadOptions{});
  const TotalCost total = total_cost(w, w.entry());
  EXPECT_EQ(total.unknown_trip_counts, 0) << file;
  return total.flops(Unit::kMatrix);
}

constexpr double kOnePercent = 0.01;
#define EXPECT_WITHIN(value, expected, fraction) \
  EXPECT_NEAR(value, expected, (fraction) * (expected))

/// Multiply-adds of ResNet-50 for an image of 224×224 (He et al. 2015, table 1; the
/// stride of a stage stands in its first 3×3 convolution).
struct ResNet50 {
  static constexpr double kStem = 112.0 * 112 * 64 * 7 * 7 * 3;
  static constexpr double kClassifier = 2048.0 * 1000;
  static double products() {
    double sum = kStem + kClassifier;
    double in = 64;    // features that come in
    double side = 56;  // of the picture that comes in
    for (int stage = 0; stage < 4; ++stage) {
      const double width = 64 << stage;
      constexpr int kBlocks[] = {3, 4, 6, 3};
      for (int block = 0; block < kBlocks[stage]; ++block) {
        const double out_side = stage > 0 && block == 0 ? side / 2 : side;
        sum += side * side * in * width;                              // 1×1, before the stride
        sum += out_side * out_side * 9 * width * width;               // 3×3
        sum += out_side * out_side * width * 4 * width;               // 1×1
        if (block == 0) sum += out_side * out_side * in * 4 * width;  // the shortcut
        in = 4 * width;
        side = out_side;
      }
    }
    return sum;
  }
};

TEST(ModelFlops, ResNet50) {
  // 4.09 G multiply-adds are what is commonly published for this variant.
  EXPECT_WITHIN(ResNet50::products(), 4.09e9, 0.005);
  for (const auto& [name, batch] :
       {std::pair<const char*, double>{"resnet50_b1_infer", 1}, {"resnet50_b256_infer", 256}}) {
    ORRERY_SHARED_DATA_OR_SKIP(file, std::string("h200/stablehlo/") + name + ".mlir");
    EXPECT_WITHIN(matrix_flops(file), 2 * batch * ResNet50::products(), kOnePercent);
  }
  // Training: forward, gradient of the weights, gradient of the inputs except of the picture.
  ORRERY_SHARED_DATA_OR_SKIP(train, "h200/stablehlo/resnet50_b64_train.mlir");
  EXPECT_WITHIN(matrix_flops(train), 2 * 64 * (3 * ResNet50::products() - ResNet50::kStem),
                kOnePercent);
}

/// Multiply-adds a sequence of an encoder or a GPT: four d×d projections, two of d×4d,
/// scores and values of s×s×d, in `layers`; then logits for every position.
double transformer_products(double layers, double d, double s, double vocabulary) {
  return layers * (s * (4 * d * d + 2 * d * 4 * d) + 2 * s * s * d) + s * d * vocabulary;
}

TEST(ModelFlops, BertBase) {
  ORRERY_SHARED_DATA_OR_SKIP(small, "h200/stablehlo/bert_base_b1_s128_infer.mlir");
  EXPECT_WITHIN(matrix_flops(small), 2 * transformer_products(12, 768, 128, 30522), kOnePercent);
  ORRERY_SHARED_DATA_OR_SKIP(large, "h200/stablehlo/bert_base_b32_s512_infer.mlir");
  EXPECT_WITHIN(matrix_flops(large), 2 * 32 * transformer_products(12, 768, 512, 30522),
                kOnePercent);
  // Every product of the forward pass has the gradients of both of its sides.
  ORRERY_SHARED_DATA_OR_SKIP(train, "h200/stablehlo/bert_base_b16_s512_train.mlir");
  EXPECT_WITHIN(matrix_flops(train), 3 * 2 * 16 * transformer_products(12, 768, 512, 30522),
                kOnePercent);
}

TEST(ModelFlops, Gpt2Training) {
  ORRERY_SHARED_DATA_OR_SKIP(train, "h200/stablehlo/gpt2_b8_s1024_train.mlir");
  EXPECT_WITHIN(matrix_flops(train), 3 * 2 * 8 * transformer_products(12, 768, 1024, 50257),
                kOnePercent);
}

/// Multiply-adds of Llama-2-7B (Touvron et al. 2023): 32 layers, width 4,096, gated
/// feed-forward 11,008, for `s` new tokens that each meet `t` keys.
double llama_products(double s, double t, double logits) {
  constexpr double kWidth = 4096, kInner = 11008;
  return 32 * (s * (4 * kWidth * kWidth + 3 * kWidth * kInner) + 2 * s * t * kWidth) +
         logits * kWidth * 32000;
}

TEST(ModelFlops, Llama2) {
  for (const double s : {512.0, 2048.0}) {
    ORRERY_SHARED_DATA_OR_SKIP(file, "h200/stablehlo/llama2_7b_b1_s" +
                                         std::to_string(static_cast<int>(s)) + "_prefill.mlir");
    EXPECT_WITHIN(matrix_flops(file), 2 * llama_products(s, s, s), kOnePercent);
  }
  for (const double batch : {1.0, 32.0}) {
    ORRERY_SHARED_DATA_OR_SKIP(file, "h200/stablehlo/llama2_7b_b" +
                                         std::to_string(static_cast<int>(batch)) +
                                         "_c1024_decode.mlir");
    EXPECT_WITHIN(matrix_flops(file), 2 * batch * llama_products(1, 1024, 1), kOnePercent);
  }
}

TEST(ModelFlops, TheScannedLlamaEqualsTheUnrolledOne) {
  ORRERY_SHARED_DATA_OR_SKIP(unrolled, "h200/stablehlo/llama2_7b_b1_s512_prefill.mlir");
  ORRERY_SHARED_DATA_OR_SKIP(scanned, "h200/stablehlo/llama2_7b_b1_s512_prefill_scan.mlir");
  const Workload a = read_workload(Source::from_file(unrolled), ReadOptions{});
  const Workload b = read_workload(Source::from_file(scanned), ReadOptions{});
  const TotalCost whole = total_cost(a, a.entry()), looped = total_cost(b, b.entry());
  EXPECT_WITHIN(looped.flops(Unit::kMatrix), whole.flops(Unit::kMatrix), 0.001);
  EXPECT_WITHIN(looped.flops(), whole.flops(), 0.001);
}

}  // namespace
}  // namespace orrery
