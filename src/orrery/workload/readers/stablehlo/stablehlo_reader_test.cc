#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/workload/cost.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery::stablehlo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<Opcode> codes(const Workload& w) {
  std::vector<Opcode> found;
  for (const Op& op : w.ops()) found.push_back(op.code);
  return found;
}

std::string_view sharding_text(const Workload& w, ShardingId id) {
  return id.valid() ? std::string_view(w.shardings()[id.index].text) : "none";
}

// --- forms ------------------------------------------------------------------

TEST(StableHloForms, PrettyAndGenericOfOneOperationMeanTheSame) {
  const std::string pretty = function_of(
      "(%a: tensor<4x8x16xbf16>, %b: tensor<4x16x32xbf16>) -> tensor<4x8x32xf32>",
      "  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x "
      "[1], precision = [HIGH, HIGHEST] : (tensor<4x8x16xbf16>, tensor<4x16x32xbf16>) -> "
      "tensor<4x8x32xf32>\n"
      "  return %0 : tensor<4x8x32xf32>");
  const std::string generic = function_of(
      "(%a: tensor<4x8x16xbf16>, %b: tensor<4x16x32xbf16>) -> tensor<4x8x32xf32>",
      "  %0 = \"stablehlo.dot_general\"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<"
      "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
      "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, "
      "precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]}> : "
      "(tensor<4x8x16xbf16>, tensor<4x16x32xbf16>) -> tensor<4x8x32xf32>\n"
      "  \"func.return\"(%0) : (tensor<4x8x32xf32>) -> ()");
  for (const std::string& text : {pretty, generic}) {
    const Workload w = read_text(text);
    EXPECT_THAT(codes(w), ElementsAre(Opcode::k_dot_general, Opcode::k_return));
    const OpView dot = find_op(w, Opcode::k_dot_general);
    EXPECT_THAT(list(dot, Attr::kLhsBatching), ElementsAre(0));
    EXPECT_THAT(list(dot, Attr::kRhsBatching), ElementsAre(0));
    EXPECT_THAT(list(dot, Attr::kLhsContracting), ElementsAre(2));
    EXPECT_THAT(list(dot, Attr::kRhsContracting), ElementsAre(1));
    EXPECT_EQ(dot.integer(Attr::kPrecision, 0), 2);
    EXPECT_THAT(dot.result_type(0).dims, ElementsAre(4, 8, 32));
    EXPECT_EQ(dot.result_type(0).element, ElementType::kF32);
  }
}

TEST(StableHloForms, DotAlgorithmGivesTheTypeThatRuns) {
  const Workload w = read_text(
      function_of("(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32>",
                  "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], algorithm = "
                  "<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, "
                  "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, "
                  "allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x4xf32>) -> "
                  "tensor<2x4xf32>\n  return %0 : tensor<2x4xf32>"));
  EXPECT_EQ(find_op(w, Opcode::k_dot_general).integer(Attr::kComputeType, -1),
            static_cast<int64_t>(ElementType::kTF32));
}

TEST(StableHloForms, ConvolutionInItsThreeSpellings) {
  const std::string signature =
      "(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x2x6xf32>) -> tensor<1x4x4x6xf32>";
  const std::string types =
      " : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x4x4x6xf32>\n"
      "  return %0 : tensor<1x4x4x6xf32>";
  const std::string pretty = function_of(
      signature,
      "  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, "
      "f], window = {stride = [2, 2], pad = [[1, 0], [1, 2]], lhs_dilate = [1, 1], rhs_dilate = "
      "[1, 3], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : "
      "i64, precision_config = [#stablehlo<precision DEFAULT>]}" +
          types);
  const std::string generic = function_of(
      signature,
      "  %0 = \"stablehlo.convolution\"(%x, %k) <{window_strides = array<i64: 2, 2>, padding = "
      "dense<[[1, 0], [1, 2]]> : tensor<2x2xi64>, rhs_dilation = array<i64: 1, 3>, "
      "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
      "feature_group_count = 2 : i64, batch_group_count = 1 : i64}>" +
          types);
  const std::string raw = function_of(
      signature,
      "  %0 = \"stablehlo.convolution\"(%x, %k) {window_strides = dense<2> : tensor<2xi64>, "
      "padding = dense<[[1, 0], [1, 2]]> : tensor<2x2xi64>, rhs_dilation = dense<[1, 3]> : "
      "tensor<2xi64>, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, "
      "input_feature_dimension = 3, input_spatial_dimensions = [1, 2], "
      "kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, "
      "kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = "
      "3, output_spatial_dimensions = [1, 2]>, feature_group_count = 2 : i64, batch_group_count = "
      "1 : i64}" +
          types);
  for (const std::string& text : {pretty, generic, raw}) {
    const Workload w = read_text(text);
    const OpView conv = find_op(w, Opcode::k_convolution);
    EXPECT_EQ(conv.integer(Attr::kInputBatch, -1), 0);
    EXPECT_EQ(conv.integer(Attr::kInputFeature, -1), 3);
    EXPECT_THAT(list(conv, Attr::kInputSpatial), ElementsAre(1, 2));
    EXPECT_EQ(conv.integer(Attr::kKernelInput, -1), 2);
    EXPECT_EQ(conv.integer(Attr::kKernelOutput, -1), 3);
    EXPECT_THAT(list(conv, Attr::kKernelSpatial), ElementsAre(0, 1));
    EXPECT_EQ(conv.integer(Attr::kOutputBatch, -1), 0);
    EXPECT_EQ(conv.integer(Attr::kOutputFeature, -1), 3);
    EXPECT_THAT(list(conv, Attr::kOutputSpatial), ElementsAre(1, 2));
    EXPECT_THAT(list(conv, Attr::kWindowStrides), ElementsAre(2, 2));
    EXPECT_THAT(list(conv, Attr::kPaddingLow), ElementsAre(1, 1));
    EXPECT_THAT(list(conv, Attr::kPaddingHigh), ElementsAre(0, 2));
    EXPECT_THAT(list(conv, Attr::kWindowDilation), ElementsAre(1, 3));
    EXPECT_EQ(conv.integer(Attr::kFeatureGroups, -1), 2);
  }
}

TEST(StableHloForms, PrettyOperationsKeepTheirSettings) {
  const Workload w = read_text(function_of(
      "(%a: tensor<8x6xf32>, %b: tensor<f32>, %i: tensor<i32>, %p: tensor<8x6xi1>)",
      "  %0 = stablehlo.slice %a [1:7, 0:6:2] : (tensor<8x6xf32>) -> tensor<6x3xf32>\n"
      "  %1 = stablehlo.pad %a, %b, low = [1, -1], high = [0, 2], interior = [0, 1] : "
      "(tensor<8x6xf32>, tensor<f32>) -> tensor<9x12xf32>\n"
      "  %2 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>\n"
      "  %3 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<8x6xf32>) -> "
      "tensor<8x3x6xf32>\n"
      "  %4 = stablehlo.dynamic_slice %a, %i, %i, sizes = [2, 3] : (tensor<8x6xf32>, tensor<i32>, "
      "tensor<i32>) -> tensor<2x3xf32>\n"
      "  %5 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<8x6xf32>, tensor<8x6xf32>) -> "
      "tensor<8x12xf32>\n"
      "  %6 = stablehlo.iota dim = 1 : tensor<4x4xi32>\n"
      "  %7 = stablehlo.compare GE, %a, %a, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> "
      "tensor<8x6xi1>\n"
      "  %8 = stablehlo.select %p, %a, %a : tensor<8x6xi1>, tensor<8x6xf32>\n"
      "  %9 = stablehlo.reduce_precision %a, format = e5m10 : tensor<8x6xf32>\n"
      "  %10 = stablehlo.fft %a, type = RFFT, length = [6] : (tensor<8x6xf32>) -> "
      "tensor<8x4xcomplex<f32>>\n"
      "  %11 = stablehlo.reverse %a, dims = [0] : tensor<8x6xf32>\n"
      "  %12 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<8x6xf32>) -> tensor<i32>\n"
      "  return"));
  const OpView slice = find_op(w, Opcode::k_slice);
  EXPECT_THAT(list(slice, Attr::kStart), ElementsAre(1, 0));
  EXPECT_THAT(list(slice, Attr::kLimit), ElementsAre(7, 6));
  EXPECT_THAT(list(slice, Attr::kStride), ElementsAre(1, 2));
  const OpView pad = find_op(w, Opcode::k_pad);
  EXPECT_THAT(list(pad, Attr::kPaddingLow), ElementsAre(1, -1));
  EXPECT_THAT(list(pad, Attr::kPaddingHigh), ElementsAre(0, 2));
  EXPECT_THAT(list(pad, Attr::kPaddingInterior), ElementsAre(0, 1));
  EXPECT_THAT(list(find_op(w, Opcode::k_transpose), Attr::kDimensions), ElementsAre(1, 0));
  EXPECT_THAT(list(find_op(w, Opcode::k_broadcast_in_dim), Attr::kDimensions), ElementsAre(0, 2));
  EXPECT_THAT(list(find_op(w, Opcode::k_dynamic_slice), Attr::kSliceSizes), ElementsAre(2, 3));
  EXPECT_EQ(find_op(w, Opcode::k_dynamic_slice).operand_count(), 3u);
  EXPECT_THAT(list(find_op(w, Opcode::k_concatenate), Attr::kDimensions), ElementsAre(1));
  EXPECT_THAT(list(find_op(w, Opcode::k_iota), Attr::kDimensions), ElementsAre(1));
  EXPECT_EQ(find_op(w, Opcode::k_compare).string(Attr::kCompare), "GE");
  EXPECT_EQ(find_op(w, Opcode::k_compare).result_type(0).element, ElementType::kBool);
  // Of "i1, f32" the last is the result's.
  EXPECT_EQ(find_op(w, Opcode::k_select).result_type(0).element, ElementType::kF32);
  EXPECT_THAT(list(find_op(w, Opcode::k_fft), Attr::kLength), ElementsAre(6));
  EXPECT_EQ(find_op(w, Opcode::k_fft).result_type(0).bytes, 8 * 4 * 8);
  EXPECT_THAT(list(find_op(w, Opcode::k_reverse), Attr::kDimensions), ElementsAre(0));
}

TEST(StableHloForms, ReduceWithAppliesAndWithAReducer) {
  const Workload w = read_text(function_of(
      "(%a: tensor<8x6xf32>, %n: tensor<8x6xi32>, %z: tensor<f32>, %i: tensor<i32>)",
      "  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1] : "
      "(tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>\n"
      "  %1:2 = stablehlo.reduce(%a init: %z), (%n init: %i) across dimensions = [0] : "
      "(tensor<8x6xf32>, tensor<8x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<6xf32>, "
      "tensor<6xi32>)\n"
      "   reducer(%l: tensor<f32>, %r: tensor<f32>) (%m: tensor<i32>, %s: tensor<i32>)  {\n"
      "    %2 = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
      "    %3 = stablehlo.select %2, %l, %r : tensor<i1>, tensor<f32>\n"
      "    %4 = stablehlo.select %2, %m, %s : tensor<i1>, tensor<i32>\n"
      "    stablehlo.return %3, %4 : tensor<f32>, tensor<i32>\n"
      "  }\n"
      "  %5 = stablehlo.add %1#1, %1#1 : tensor<6xi32>\n"
      "  return"));
  const OpView maximum = find_op(w, Opcode::k_reduce);
  EXPECT_EQ(maximum.string(Attr::kReducer), "maximum");
  EXPECT_THAT(list(maximum, Attr::kDimensions), ElementsAre(1));
  const OpView argmax = find_op(w, Opcode::k_reduce, 1);
  EXPECT_EQ(argmax.operand_count(), 4u);  // both inputs, then both initial values
  EXPECT_EQ(argmax.operand_type(1).element, ElementType::kS32);
  EXPECT_EQ(argmax.operand_type(2).rank(), 0);
  EXPECT_EQ(argmax.result_count(), 2u);
  ASSERT_EQ(argmax.bodies().size(), 1u);
  const Region& body = w.region(argmax.bodies()[0]);
  EXPECT_EQ(body.argument_count, 4u);
  // Arguments of the body: all left ones, then all right ones.
  EXPECT_EQ(w.type(ValueId{body.first_argument + 1}).element, ElementType::kS32);
  EXPECT_EQ(w.type(ValueId{body.first_argument + 2}).element, ElementType::kF32);
  EXPECT_EQ(find_op(w, Opcode::k_add).operand(0), argmax.result(1));
}

TEST(StableHloForms, ScanOfOneInputAsJaxWritesACumulativeSum) {
  const Workload w = read_text(function_of(
      "(%a: tensor<729xi32>)",
      "  %c = stablehlo.constant dense<0> : tensor<i32>\n"
      "  %0:2 = chlo.scan(%a) inits (%c) dimension=0  attributes {is_associative = true, "
      "is_reverse = false} {\n"
      "  ^bb0(%input: tensor<i32>, %carry: tensor<i32>):\n"
      "    %1 = stablehlo.add %input, %carry : tensor<i32>\n"
      "    stablehlo.return %1, %1 : tensor<i32>, tensor<i32>\n"
      "  } : (tensor<729xi32>, tensor<i32>) -> (tensor<729xi32>, tensor<i32>)\n"
      "  %2 = stablehlo.negate %0#1 : tensor<i32>\n"
      "  return"));
  EXPECT_TRUE(w.notes().empty());
  const OpView scan = find_op(w, Opcode::k_scan);
  EXPECT_EQ(scan.operand_count(), 2u);
  EXPECT_THAT(list(scan, Attr::kDimensions), ElementsAre(0));
  EXPECT_EQ(scan.result_type(0).bytes, 729 * 4);
  EXPECT_EQ(find_op(w, Opcode::k_negate).operand(0), scan.result(1));
  ASSERT_EQ(scan.bodies().size(), 1u);
  EXPECT_EQ(w.region(scan.bodies()[0]).argument_count, 2u);
  const Cost c = cost(w, scan.id());
  EXPECT_EQ(c.vector_flops, 729);
  EXPECT_EQ(c.bytes_read, 729 * 4 + 4);
  EXPECT_EQ(c.bytes_written, 729 * 4 + 4);
}

// A recurrence h ← a·h + x over the 5 steps of dimension 1, eight wide, and how often it ran. The
// body works on slices: a product and a sum of 8 numbers and a sum of one, 5 times.
TEST(StableHloForms, ScanOfSeveralInputsIsItsGenericForm) {
  const std::string signature =
      "(%a: tensor<8x5xf32>, %x: tensor<8x5xf32>, %h: tensor<8xf32>, %n: tensor<i32>)";
  const std::string body =
      "  ^bb0(%p: tensor<8xf32>, %q: tensor<8xf32>, %s: tensor<8xf32>, %k: tensor<i32>):\n"
      "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
      "    %1 = stablehlo.multiply %p, %s : tensor<8xf32>\n"
      "    %2 = stablehlo.add %1, %q : tensor<8xf32>\n"
      "    %3 = stablehlo.add %k, %one : tensor<i32>\n"
      "    stablehlo.return %2, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<i32>\n"
      "  }";
  const std::string types =
      " : (tensor<8x5xf32>, tensor<8x5xf32>, tensor<8xf32>, tensor<i32>) -> "
      "(tensor<8x5xf32>, tensor<8xf32>, tensor<i32>)\n  return";
  const std::string pretty =
      "  %0:3 = chlo.scan(%a, %x) inits(%h, %n) dimension=1 {\n" + body + types;
  const std::string generic =
      "  %0:3 = \"chlo.scan\"(%a, %x, %h, %n) <{dimension = 1 : i64, operandSegmentSizes = "
      "array<i32: 2, 2>, resultSegmentSizes = array<i32: 1, 2>}> ({\n" +
      body + ")" + types;
  for (const std::string& lines : {pretty, generic}) {
    const Workload w = read_text(function_of(signature, lines));
    const OpView scan = find_op(w, Opcode::k_scan);
    EXPECT_EQ(scan.operand_count(), 4u);  // the inputs, then the initial carries
    EXPECT_THAT(list(scan, Attr::kDimensions), ElementsAre(1));
    ASSERT_EQ(scan.result_count(), 3u);  // what is stacked, then the carries
    EXPECT_EQ(scan.result_type(0).bytes, 8 * 5 * 4);
    EXPECT_EQ(scan.result_type(1).bytes, 8 * 4);
    const Cost c = cost(w, scan.id());
    EXPECT_EQ(c.vector_flops, 5 * (8 + 8 + 1));
    EXPECT_EQ(c.bytes_read, 2 * 160 + 32 + 4);
    EXPECT_EQ(c.bytes_written, 160 + 32 + 4);
  }
}

TEST(StableHloForms, AScanThatMustRunInOrderIsNoted) {
  const Workload w = read_text(
      function_of("(%a: tensor<4xf32>, %c: tensor<f32>)",
                  "  %0:2 = chlo.scan(%a) inits (%c) dimension=0 attributes {is_associative = "
                  "false} {\n  ^bb0(%i: tensor<f32>, %s: tensor<f32>):\n"
                  "    stablehlo.return %i, %s : tensor<f32>, tensor<f32>\n"
                  "  } : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)\n"
                  "  return"));
  EXPECT_THAT(w.notes(), ElementsAre("a scan that is not associative is counted as one kernel, "
                                     "not as a loop over its steps"));
}

TEST(StableHloForms, OldStyleAttributesAfterTheRegion) {
  const Workload w = read_text(
      "\"builtin.module\"() ({\n"
      "  \"func.func\"() ({\n"
      "  ^bb0(%arg0: tensor<4x6xf32>, %arg1: tensor<f32>):\n"
      "    %0 = \"stablehlo.reduce\"(%arg0, %arg1) ({\n"
      "    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):\n"
      "      %1 = \"stablehlo.add\"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
      "      \"stablehlo.return\"(%1) : (tensor<f32>) -> ()\n"
      "    }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<4x6xf32>, tensor<f32>) -> "
      "tensor<4xf32>\n"
      "    \"func.return\"(%0) : (tensor<4xf32>) -> ()\n"
      "  }) {function_type = (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>, sym_name = \"main\", "
      "arg_attrs = [{tf.aliasing_output = 0 : i32}, {}]} : () -> ()\n"
      "}) {mhlo.num_partitions = 4 : i32} : () -> ()\n");
  EXPECT_THAT(list(find_op(w, Opcode::k_reduce), Attr::kDimensions), ElementsAre(1));
  const Function& main = w.function(w.entry());
  EXPECT_EQ(w.string(main.name), "main");
  ASSERT_EQ(main.arguments.size(), 2u);
  EXPECT_EQ(main.arguments[0].aliased_output, 0);
  EXPECT_FALSE(main.arguments[1].donated);
  ASSERT_EQ(main.result_types.size(), 1u);
  EXPECT_THAT(w.type(main.result_types[0]).dims, ElementsAre(4));
}

TEST(StableHloForms, GenericModuleWithPropertiesBeforeTheRegion) {
  const Workload w = read_text(
      "\"builtin.module\"() <{sym_name = \"m\"}> ({\n"
      "  \"func.func\"() <{arg_attrs = [{jax.buffer_donor = true}], function_type = "
      "(tensor<2xf32>) -> tensor<2xf32>, sym_name = \"helper\", sym_visibility = \"private\"}> ({\n"
      "  ^bb0(%arg0: tensor<2xf32>):\n"
      "    %0 = \"stablehlo.tanh\"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n"
      "    \"func.return\"(%0) : (tensor<2xf32>) -> ()\n"
      "  }) : () -> ()\n"
      "  \"func.func\"() <{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = \"f\"}> "
      "({\n"
      "  ^bb0(%arg0: tensor<2xf32>):\n"
      "    %0 = \"func.call\"(%arg0) <{callee = @helper}> : (tensor<2xf32>) -> tensor<2xf32>\n"
      "    \"func.return\"(%0) : (tensor<2xf32>) -> ()\n"
      "  }) : () -> ()\n"
      "}) : () -> ()\n");
  // No main: the only public function is where a run starts.
  EXPECT_EQ(w.string(w.function(w.entry()).name), "f");
  const FunctionId callee = find_op(w, Opcode::k_call).callee();
  EXPECT_EQ(w.string(w.function(callee).name), "helper");
  EXPECT_FALSE(w.function(callee).is_public);
  EXPECT_TRUE(w.function(callee).arguments[0].donated);
}

TEST(StableHloForms, UnnamedResultsAndSeveral) {
  const Workload w = read_text(function_of(
      "(%arg0: tensor<4xf32>, %arg1: tensor<4xi32>) -> tensor<4xi32>",
      "  stablehlo.add %arg0, %arg0 : tensor<4xf32>\n"
      "  %0:2 = \"stablehlo.sort\"(%arg0, %arg1) <{dimension = 0 : i64, is_stable = true}> ({\n"
      "  ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<i32>, %arg5: tensor<i32>):\n"
      "    %2 = stablehlo.compare LT, %arg2, %arg3, TOTALORDER : (tensor<f32>, tensor<f32>) -> "
      "tensor<i1>\n"
      "    stablehlo.return %2 : tensor<i1>\n"
      "  }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)\n"
      "  %a, %b = \"stablehlo.optimization_barrier\"(%0#0, %0#1) : (tensor<4xf32>, tensor<4xi32>) "
      "-> (tensor<4xf32>, tensor<4xi32>)\n"
      "  return %b : tensor<4xi32>"));
  EXPECT_EQ(find_op(w, Opcode::k_add).result_count(), 1u);
  EXPECT_EQ(find_op(w, Opcode::k_sort).result_count(), 2u);
  const OpView barrier = find_op(w, Opcode::k_optimization_barrier);
  EXPECT_EQ(barrier.operand(1), find_op(w, Opcode::k_sort).result(1));
  EXPECT_EQ(find_op(w, Opcode::k_return, 1).operand(0), barrier.result(1));
}

TEST(StableHloForms, NamesAreFreeAgainWhenTheirRegionCloses) {
  const Workload w = read_text(
      "module @two {\n"
      "  func.func private @f(%arg0: tensor<f32>) -> tensor<f32> {\n"
      "    %0 = stablehlo.tanh %arg0 : tensor<f32>\n    return %0 : tensor<f32>\n  }\n"
      "  func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n"
      "    %0 = call @f(%arg0) : (tensor<f32>) -> tensor<f32>\n"
      "    %1 = func.call @f(%0) : (tensor<f32>) -> tensor<f32>\n"
      "    return %1 : tensor<f32>\n  }\n}\n");
  EXPECT_EQ(w.name(), "two");
  EXPECT_EQ(count(w, Opcode::k_call), 2);
  EXPECT_EQ(find_op(w, Opcode::k_call, 1).operand(0), find_op(w, Opcode::k_call).result(0));
}

TEST(StableHloForms, FunctionsMayBeCalledBeforeTheirBodyAndDeclaredWithoutOne) {
  const Workload w = read_text(
      "func.func private @outside(tensor<4xf32>) -> tensor<4xf32>\n"
      "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = call @later(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  %1 = call @outside(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  return %1 : tensor<4xf32>\n}\n"
      "func.func private @later(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  return %x : tensor<4xf32>\n}\n");
  EXPECT_TRUE(w.function(find_op(w, Opcode::k_call).callee()).body.valid());
  EXPECT_FALSE(w.function(find_op(w, Opcode::k_call, 1).callee()).body.valid());
  EXPECT_EQ(w.string(w.function(w.entry()).name), "main");
}

// --- control ----------------------------------------------------------------

/// A loop from `start` whose condition and step are given; its trip count, -1 for none.
int64_t trips(const std::string& start, const std::string& condition, const std::string& step) {
  const Workload w = read_text(function_of(
      "(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32>",
      "  %start = stablehlo.constant dense<" + start +
          "> : tensor<i32>\n  %limit = stablehlo.constant dense<10> : tensor<i32>\n"
          "  %three = stablehlo.constant dense<3> : tensor<i32>\n"
          "  %0:3 = stablehlo.while(%i = %start, %e = %limit, %v = %x) : tensor<i32>, tensor<i32>, "
          "tensor<4xf32>\n"
          "   cond {\n    %ten = stablehlo.constant dense<10> : tensor<i32>\n    %t = "
          "stablehlo.compare " +
          condition +
          ", SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
          "    stablehlo.return %t : tensor<i1>\n  } do {\n"
          "    %one = stablehlo.constant dense<1> : tensor<i32>\n    %next = stablehlo." +
          step +
          " : tensor<i32>\n    %w = stablehlo.add %v, %v : tensor<4xf32>\n"
          "    stablehlo.return %next, %e, %w : tensor<i32>, tensor<i32>, tensor<4xf32>\n  }\n"
          "  return %0#2 : tensor<4xf32>"));
  return find_op(w, Opcode::k_while).integer(Attr::kTripCount, -1);
}

TEST(StableHloLoops, TripCountsOfEveryDirection) {
  EXPECT_EQ(trips("0", "LT, %i, %ten", "add %i, %one"), 10);         // 0 … 9
  EXPECT_EQ(trips("0", "LE, %i, %ten", "add %i, %one"), 11);         // 0 … 10
  EXPECT_EQ(trips("0", "LT, %i, %ten", "add %i, %three"), 4);        // 0 3 6 9
  EXPECT_EQ(trips("1", "LE, %i, %ten", "add %i, %three"), 4);        // 1 4 7 10
  EXPECT_EQ(trips("0", "NE, %i, %ten", "add %one, %i"), 10);         // 0 … 9
  EXPECT_EQ(trips("-2", "NE, %i, %ten", "add %i, %three"), 4);       // -2 1 4 7
  EXPECT_EQ(trips("20", "GT, %i, %ten", "subtract %i, %one"), 10);   // 20 … 11
  EXPECT_EQ(trips("20", "GE, %i, %ten", "subtract %i, %one"), 11);   // 20 … 10
  EXPECT_EQ(trips("20", "GT, %i, %ten", "subtract %i, %three"), 4);  // 20 17 14 11
  EXPECT_EQ(trips("10", "LT, %i, %ten", "add %i, %one"), 0);
  EXPECT_EQ(trips("50", "LT, %i, %ten", "add %i, %one"), 0);
}

TEST(StableHloLoops, TheCounterMayStandOnEitherSideAndTheBoundBeCarried) {
  EXPECT_EQ(trips("0", "GT, %ten, %i", "add %i, %one"), 10);
  EXPECT_EQ(trips("0", "GE, %ten, %i", "add %i, %one"), 11);
  EXPECT_EQ(trips("20", "LT, %ten, %i", "subtract %i, %one"), 10);
  EXPECT_EQ(trips("20", "LE, %ten, %i", "subtract %i, %one"), 11);
  EXPECT_EQ(trips("0", "LT, %i, %e", "add %i, %one"), 10);  // carried, handed on unchanged
  EXPECT_EQ(trips("0", "GT, %e, %i", "add %i, %one"), 10);
  EXPECT_EQ(trips("0", "LT, %i, %limit", "add %i, %one"), 10);  // captured from outside
}

TEST(StableHloLoops, WhatCannotBeKnownHasNoTripCount) {
  EXPECT_EQ(trips("0", "LT, %i, %n", "add %i, %one"), -1);  // bound is an argument
  EXPECT_EQ(trips("0", "LT, %i, %ten", "add %i, %n"), -1);  // step is an argument
  EXPECT_EQ(trips("0", "LT, %i, %ten", "multiply %i, %three"), -1);
  EXPECT_EQ(trips("0", "LT, %i, %ten", "subtract %i, %one"), -1);  // runs away
  EXPECT_EQ(trips("0", "EQ, %i, %ten", "add %i, %one"), -1);
  EXPECT_EQ(trips("0", "NE, %i, %ten", "add %i, %three"), -1);  // steps over it: 9, 12
  EXPECT_EQ(trips("0", "LT, %i, %ten", "add %e, %one"), -1);    // not this counter
}

TEST(StableHloLoops, AGivenTripCountIsUsedWhereNoneIsInferred) {
  const std::string text = function_of(
      "(%n: tensor<i32>) -> tensor<i32>",
      "  %0 = stablehlo.while(%i = %n) : tensor<i32>\n   cond {\n"
      "    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %t : tensor<i1>\n  } do {\n"
      "    %1 = stablehlo.add %i, %i : tensor<i32>\n    stablehlo.return %1 : tensor<i32>\n  }\n"
      "  return %0 : tensor<i32>");
  EXPECT_FALSE(find_op(read_text(text), Opcode::k_while).has(Attr::kTripCount));
  ReadOptions options;
  options.trip_count = 7;
  EXPECT_EQ(find_op(read_text(text, options), Opcode::k_while).integer(Attr::kTripCount, -1), 7);
}

TEST(StableHloControl, IfAndCaseCaptureOuterValues) {
  const Workload w = read_text(function_of(
      "(%p: tensor<i1>, %k: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32>",
      "  %0 = \"stablehlo.if\"(%p) ({\n"
      "    %2 = stablehlo.tanh %x : tensor<4xf32>\n    stablehlo.return %2 : tensor<4xf32>\n"
      "  }, {\n    stablehlo.return %x : tensor<4xf32>\n  }) : (tensor<i1>) -> tensor<4xf32>\n"
      "  %1 = \"stablehlo.case\"(%k) ({\n    stablehlo.return %0 : tensor<4xf32>\n  }, {\n"
      "    stablehlo.return %x : tensor<4xf32>\n  }, {\n"
      "    %2 = stablehlo.negate %0 : tensor<4xf32>\n    stablehlo.return %2 : tensor<4xf32>\n"
      "  }) : (tensor<i32>) -> tensor<4xf32>\n  return %1 : tensor<4xf32>"));
  EXPECT_EQ(find_op(w, Opcode::k_if).raw_regions().size(), 2u);
  EXPECT_EQ(find_op(w, Opcode::k_case).raw_regions().size(), 3u);
  EXPECT_EQ(find_op(w, Opcode::k_negate).operand(0), find_op(w, Opcode::k_if).result(0));
}

// --- constants --------------------------------------------------------------

OpView constant(const Workload& w) { return find_op(w, Opcode::k_constant); }
Workload constant_of(const std::string& written) {
  return read_text(function_of("()", "  %0 = stablehlo.constant " + written + "\n  return"));
}

TEST(StableHloConstants, IntegersInEveryNotation) {
  EXPECT_THAT(list(constant(constant_of("dense<5> : tensor<3xi32>")), Attr::kValue),
              ElementsAre(5));
  EXPECT_THAT(list(constant(constant_of("dense<-7> : tensor<i64>")), Attr::kValue),
              ElementsAre(-7));
  EXPECT_THAT(list(constant(constant_of("dense<[1, -2, 3]> : tensor<3xi32>")), Attr::kValue),
              ElementsAre(1, -2, 3));
  EXPECT_THAT(
      list(constant(constant_of("dense<[[1, 2], [3, 4]]> : tensor<2x2xui8>")), Attr::kValue),
      ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(list(constant(constant_of("dense<true> : tensor<i1>")), Attr::kValue),
              ElementsAre(1));
  EXPECT_THAT(list(constant(constant_of("dense<[true, false]> : tensor<2xi1>")), Attr::kValue),
              ElementsAre(1, 0));
}

TEST(StableHloConstants, HexadecimalStringsAreLittleEndianBytes) {
  // 01000000 02000000 is 1, 2 in 32 bits; FFFFFFFF is -1 signed and 2^32 - 1 unsigned.
  EXPECT_THAT(
      list(constant(constant_of("dense<\"0x0100000002000000\"> : tensor<2xi32>")), Attr::kValue),
      ElementsAre(1, 2));
  EXPECT_THAT(list(constant(constant_of("dense<\"0xFFFFFFFF\"> : tensor<1xi32>")), Attr::kValue),
              ElementsAre(-1));
  EXPECT_THAT(list(constant(constant_of("dense<\"0xFFFFFFFF\"> : tensor<1xui32>")), Attr::kValue),
              ElementsAre(4294967295));
  EXPECT_THAT(list(constant(constant_of("dense<\"0xFE\"> : tensor<1xi8>")), Attr::kValue),
              ElementsAre(-2));
  // Booleans are packed by bits there: no value is kept rather than a wrong one.
  EXPECT_FALSE(constant(constant_of("dense<\"0x03\"> : tensor<8xi1>")).has(Attr::kValue));
}

TEST(StableHloConstants, RealsAndTheirBitPatterns) {
  const auto real = [](const std::string& written) {
    const Workload w = constant_of(written);
    EXPECT_TRUE(constant(w).has(Attr::kRealValue)) << written;
    return constant(w).real(Attr::kRealValue, -1);
  };
  EXPECT_EQ(real("dense<1.000000e+00> : tensor<f32>"), 1);
  EXPECT_EQ(real("dense<-2.5E-1> : tensor<4xbf16>"), -0.25);
  EXPECT_EQ(real("dense<0x7F800000> : tensor<f32>"), INFINITY);
  EXPECT_EQ(real("dense<0xFF800000> : tensor<f32>"), -INFINITY);
  EXPECT_EQ(real("dense<0xFF80> : tensor<bf16>"), -INFINITY);
  EXPECT_EQ(real("dense<0xFC00> : tensor<f16>"), -INFINITY);
  EXPECT_EQ(real("dense<0x7FF0000000000000> : tensor<f64>"), INFINITY);
  EXPECT_TRUE(std::isnan(real("dense<0x7FC00000> : tensor<f32>")));
  EXPECT_TRUE(std::isnan(real("dense<0xFFC0> : tensor<bf16>")));
  // IEEE 754: 3F800000 is 1.0 and C0490FDB -π in single precision, 3C00 is 1.0 in half.
  EXPECT_EQ(real("dense<0x3F800000> : tensor<f32>"), 1);
  EXPECT_NEAR(real("dense<0xC0490FDB> : tensor<f32>"), -3.14159265, 1e-7);
  EXPECT_EQ(real("dense<0x3C00> : tensor<f16>"), 1);
  EXPECT_EQ(real("dense<0x3F80> : tensor<bf16>"), 1);
}

TEST(StableHloConstants, OthersAreReadWhole) {
  for (const char* written :
       {"dense<(1.0, -2.0)> : tensor<complex<f32>>",
        "dense<[(1.0, 2.0), (0x7F800000, 0.0)]> : tensor<2xcomplex<f64>>",
        "dense_resource<weights> : tensor<4x4xf32>", "dense_resource<\"a b\"> : tensor<4x4xf32>",
        "dense<> : tensor<0x4xf32>", "dense<\"0x0000803F\"> : tensor<1xf32>",
        "dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>",
        "{mhlo.frontend_attributes = {a = \"b\"}} dense<1> : tensor<i32>",
        "dense<[1, 2]> {mhlo.sharding = \"{replicated}\"} : tensor<2xi32>"}) {
    const Workload w = constant_of(written);
    EXPECT_EQ(count(w, Opcode::k_constant), 1) << written;
    EXPECT_TRUE(w.notes().empty()) << written << ": " << w.notes()[0];
  }
  const Workload generic = read_text(function_of(
      "()",
      "  %0 = \"stablehlo.constant\"() <{value = dense<42> : tensor<i64>}> : () -> tensor<i64>\n"
      "  %1 = \"stablehlo.constant\"() {value = dense<43> : tensor<i64>} : () -> tensor<i64>\n"
      "  return"));
  EXPECT_THAT(list(find_op(generic, Opcode::k_constant, 0), Attr::kValue), ElementsAre(42));
  EXPECT_THAT(list(find_op(generic, Opcode::k_constant, 1), Attr::kValue), ElementsAre(43));
}

TEST(StableHloConstants, LargeOnesAreSizedNotKept) {
  std::string numbers = "0";
  for (int i = 1; i < 65; ++i) numbers += ", " + std::to_string(i);
  const Workload w = constant_of("dense<[" + numbers + "]> : tensor<65xi32>");
  EXPECT_FALSE(constant(w).has(Attr::kValue));
  EXPECT_EQ(constant(w).result_type(0).bytes, 260);
}

// --- aliases and locations --------------------------------------------------

TEST(StableHloAliases, OfAttributesAndTypes) {
  const Workload w = read_text(
      "#dims = array<i64: 1, 0>\n"
      "!half = tensor<4x6xbf16>\n"
      "!q = !quant.uniform<i8:f32, 0.5>\n"
      "module {\n"
      "  func.func @main(%x: !half, %y: tensor<8x!q>) -> tensor<6x4xbf16> {\n"
      "    %0 = \"stablehlo.transpose\"(%x) <{permutation = #dims}> : (!half) -> "
      "tensor<6x4xbf16>\n"
      "    return %0 : tensor<6x4xbf16>\n  }\n}\n");
  const OpView transpose = find_op(w, Opcode::k_transpose);
  EXPECT_THAT(list(transpose, Attr::kDimensions), ElementsAre(1, 0));
  EXPECT_EQ(transpose.operand_type(0).element, ElementType::kBF16);
  const Region& body = w.region(w.function(w.entry()).body);
  EXPECT_EQ(w.type(ValueId{body.first_argument + 1}).bytes, 8);
}

TEST(StableHloLocations, GiveOperationsTheirNames) {
  const Workload w = read_text(
      "#loc1 = loc(\"early.py\":3:5)\n"
      "module {\n"
      "  func.func @main(%x: tensor<f32> loc(\"x\")) -> tensor<f32> {\n"
      "    %0 = stablehlo.tanh %x : tensor<f32> loc(\"attention/tanh\")\n"
      "    %1 = stablehlo.tanh %0 : tensor<f32> loc(\"model.py\":12:3)\n"
      "    %2 = stablehlo.tanh %1 : tensor<f32> loc(#loc7)\n"
      "    %3 = stablehlo.tanh %2 : tensor<f32> loc(fused[\"first\", \"second\"])\n"
      "    %4 = stablehlo.tanh %3 : tensor<f32> loc(callsite(\"callee\"(\"a.py\":1:1) at "
      "\"caller\"))\n"
      "    %5 = stablehlo.tanh %4 : tensor<f32> loc(unknown)\n"
      "    %6 = stablehlo.tanh %5 : tensor<f32> loc(#loc1)\n"
      "    %7 = stablehlo.tanh %6 : tensor<f32> loc(fused<{name = \"m\"}>[#loc8])\n"
      "    return %7 : tensor<f32> loc(#loc1)\n  } loc(#loc1)\n} loc(#loc1)\n"
      "#loc7 = loc(\"jit(f)/mul\"(#loc1))\n"
      "#loc8 = loc(callsite(#loc7 at #loc1))\n");
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i)
    names.emplace_back(w.string(find_op(w, Opcode::k_tanh, i).raw().name));
  EXPECT_THAT(names, ElementsAre("attention/tanh", "model.py:12", "jit(f)/mul", "first", "callee",
                                 "", "early.py:3", "jit(f)/mul"));
}

TEST(StableHloLocations, ALocationThatNamesItselfEnds) {
  const Workload w = read_text(
      "func.func @main(%x: tensor<f32>) {\n  %0 = stablehlo.tanh %x : tensor<f32> loc(#loc1)\n"
      "  return\n}\n#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(fused[#loc1])\n");
  EXPECT_EQ(w.string(find_op(w, Opcode::k_tanh).raw().name), "");
}

// --- chlo, custom calls, composites -----------------------------------------

TEST(StableHloNeighbours, ChloOperations) {
  const Workload w = read_text(function_of(
      "(%a: tensor<4x8xf32>, %b: tensor<8xf32>)",
      "  %0 = chlo.broadcast_add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>\n"
      "  %1 = chlo.broadcast_multiply %a, %b {broadcast_dimensions = array<i64: 1>} : "
      "(tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>\n"
      "  %2 = chlo.erf %a : tensor<4x8xf32> -> tensor<4x8xf32>\n"
      "  %values, %indices = chlo.top_k(%a, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, "
      "tensor<4x2xi32>)\n"
      "  %3 = \"chlo.erf_inv\"(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
      "  %4 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction "
      "GT>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>\n"
      "  %5 = chlo.square %a : tensor<4x8xf32> -> tensor<4x8xf32>\n"
      "  return"));
  EXPECT_TRUE(w.notes().empty());
  EXPECT_THAT(codes(w), ElementsAre(Opcode::k_add, Opcode::k_multiply, Opcode::k_erf,
                                    Opcode::k_top_k, Opcode::k_erf_inv, Opcode::k_compare,
                                    Opcode::k_square, Opcode::k_return));
  const OpView top = find_op(w, Opcode::k_top_k);
  EXPECT_EQ(top.integer(Attr::kK, 0), 2);
  EXPECT_EQ(top.result_count(), 2u);
  EXPECT_EQ(find_op(w, Opcode::k_compare).string(Attr::kCompare), "GT");
}

TEST(StableHloNeighbours, CustomCalls) {
  const Workload w = read_text(function_of(
      "(%a: tensor<8x16xf32>)",
      "  %0 = stablehlo.custom_call @Sharding(%a) {backend_config = \"\", mhlo.sharding = "
      "\"{devices=[8,1]<=[8]}\"} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = \"{manual}\"} : "
      "(tensor<8x16xf32>) -> tensor<1x16xf32>\n"
      "  %2:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 4 : i64, largest = "
      "true}, mhlo.version = 1 : i64} : (tensor<8x16xf32>) -> (tensor<8x4xf32>, tensor<8x4xi32>)\n"
      "  %3 = stablehlo.custom_call @__gpu$xla.gpu.triton(%a) {api_version = 4 : i32, "
      "backend_config = {name = \"k\"}, output_operand_aliases = "
      "[#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, "
      "operand_tuple_indices = []>]} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "  %4 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"foo\", has_side_effect = "
      "true}> : (tensor<8x16xf32>) -> tensor<8x16xf32>\n  return"));
  EXPECT_THAT(codes(w), ElementsAre(Opcode::k_sharding_constraint, Opcode::k_sharding_constraint,
                                    Opcode::k_top_k, Opcode::k_custom_call, Opcode::k_custom_call,
                                    Opcode::k_return));
  const OpView constraint = find_op(w, Opcode::k_sharding_constraint);
  ASSERT_TRUE(constraint.has(Attr::kSharding));
  EXPECT_EQ(w.shardings()[constraint.find(Attr::kSharding)->index].text, "{devices=[8,1]<=[8]}");
  EXPECT_EQ(find_op(w, Opcode::k_top_k).integer(Attr::kK, 0), 4);
  EXPECT_EQ(find_op(w, Opcode::k_custom_call).string(Attr::kTarget), "__gpu$xla.gpu.triton");
  EXPECT_EQ(find_op(w, Opcode::k_custom_call, 1).string(Attr::kTarget), "foo");
}

TEST(StableHloNeighbours, AttentionByLibrarySaysWhatItComputes) {
  const Workload w = read_text(function_of(
      "(%q: tensor<4x256x16x64xbf16>, %k: tensor<4x256x2x64xbf16>)",
      "  %0:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%q, %k, %k) {backend_config = "
      "\"{\\22cudnn_fmha_backend_config\\22: {\\22intermediate_tensor_shape\\22: "
      "{\\22dimensions\\22: [\\224\\22, \\2216\\22, \\22256\\22, \\22256\\22]}, "
      "\\22bmm1_dot_dimension_numbers\\22: {\\22lhs_contracting_dimensions\\22: [\\223\\22], "
      "\\22rhs_contracting_dimensions\\22: [\\223\\22], \\22lhs_batch_dimensions\\22: "
      "[\\220\\22, \\222\\22], \\22rhs_batch_dimensions\\22: [\\220\\22, \\222\\22]}, "
      "\\22mask_type\\22: \\22CAUSAL\\22}}\"} : (tensor<4x256x16x64xbf16>, "
      "tensor<4x256x2x64xbf16>, tensor<4x256x2x64xbf16>) -> (tensor<4x16x256x64xbf16>, "
      "tensor<0xui8>)\n  return"));
  const OpView attention = find_op(w, Opcode::k_custom_call);
  EXPECT_THAT(attention.integers(Attr::kScores), ElementsAre(4, 16, 256, 256));
  EXPECT_EQ(attention.integer(Attr::kKeyValueHeads, 0), 2);
  EXPECT_EQ(attention.integer(Attr::kCausal, 0), 1);
}

TEST(StableHloNeighbours, CompositesRunTheirDecomposition) {
  const Workload w = read_text(
      "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.composite \"my.gelu\" %x {composite_attributes = {approximate = \"tanh\"}, "
      "decomposition = @gelu, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>\n"
      "  return %0 : tensor<4xf32>\n}\n"
      "func.func private @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.tanh %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n");
  const OpView composite = find_op(w, Opcode::k_composite);
  EXPECT_EQ(composite.string(Attr::kTarget), "my.gelu");
  ASSERT_TRUE(composite.callee().valid());
  EXPECT_EQ(w.string(w.function(composite.callee()).name), "gelu");
}

TEST(StableHloNeighbours, AGenericOperationOfAnotherDialectIsKeptAndNoted) {
  const Workload w = read_text(function_of(
      "(%a: tensor<4xf32>)",
      "  %0 = \"tosa.thing\"(%a) <{axis = 1 : i32}> : (tensor<4xf32>) -> tensor<4xf32>\n  return"));
  EXPECT_EQ(count(w, Opcode::k_unknown), 1);
  ASSERT_EQ(w.notes().size(), 1u);
  EXPECT_THAT(w.notes()[0], HasSubstr("'tosa.thing' is not known"));
}

// --- devices ----------------------------------------------------------------

TEST(StableHloDevices, ShardyMeshesAndShardings) {
  const Workload w = read_text(
      "module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 2 : i32} {\n"
      "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n"
      "  sdy.mesh @turned = <[\"x\"=2, \"y\"=2], device_ids=[0, 2, 1, 3]>\n"
      "  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, "
      "{}]>}, %b: tensor<8x8xf32> {mhlo.sharding = \"{replicated}\"}) -> (tensor<8x8xf32> "
      "{jax.result_info = \"out\", sdy.sharding = #sdy.sharding<@mesh, [{}, {\"y\", ?}], "
      "replicated={\"x\"}>}) {\n"
      "    %0 = sdy.sharding_constraint %a <@mesh, [{\"x\", \"y\"}, {}]> : tensor<8x8xf32>\n"
      "    %1 = stablehlo.add %0, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"y\"}, "
      "{}]>]>} : tensor<8x8xf32>\n"
      "    return %1 : tensor<8x8xf32>\n  }\n}\n");
  EXPECT_EQ(w.partitions(), 8);
  EXPECT_EQ(w.replicas(), 2);
  ASSERT_EQ(w.meshes().size(), 2u);
  EXPECT_EQ(w.meshes()[0].name, "mesh");
  EXPECT_EQ(w.meshes()[0].axes[1].name, "y");
  EXPECT_EQ(w.meshes()[0].axes[1].size, 4);
  EXPECT_THAT(w.meshes()[1].device_ids, ElementsAre(0, 2, 1, 3));
  const Function& main = w.function(w.entry());
  EXPECT_EQ(sharding_text(w, main.arguments[0].sharding), "[{\"x\"}, {}]");
  EXPECT_EQ(w.shardings()[main.arguments[0].sharding.index].mesh, MeshId{0});
  EXPECT_EQ(sharding_text(w, main.arguments[1].sharding), "{replicated}");
  EXPECT_EQ(sharding_text(w, main.results[0].sharding), "[{}, {\"y\", ?}], replicated={\"x\"}");
  EXPECT_EQ(w.string(main.results[0].name), "out");
  const OpView constraint = find_op(w, Opcode::k_sharding_constraint);
  ASSERT_TRUE(constraint.has(Attr::kSharding));
  EXPECT_EQ(w.shardings()[constraint.find(Attr::kSharding)->index].text, "[{\"x\", \"y\"}, {}]");
  const OpView add = find_op(w, Opcode::k_add);
  ASSERT_TRUE(add.has(Attr::kSharding));
  EXPECT_EQ(w.shardings()[add.find(Attr::kSharding)->index].text, "[{\"y\"}, {}]");
}

TEST(StableHloDevices, ManualComputation) {
  const Workload w = read_text(
      "module {\n  sdy.mesh @mesh = <[\"d\"=8]>\n"
      "  func.func @main(%a: tensor<64x8xf32>) -> tensor<64x8xf32> {\n"
      "    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"d\"}, {}]>] "
      "out_shardings=[<@mesh, [{\"d\"}, {}]>] manual_axes={\"d\"} (%arg1: tensor<8x8xf32>) {\n"
      "      %1 = stablehlo.tanh %arg1 : tensor<8x8xf32>\n"
      "      sdy.return %1 : tensor<8x8xf32>\n"
      "    } : (tensor<64x8xf32>) -> tensor<64x8xf32>\n"
      "    return %0 : tensor<64x8xf32>\n  }\n}\n");
  const OpView manual = find_op(w, Opcode::k_manual_computation);
  EXPECT_EQ(manual.string(Attr::kManualAxes), "d");
  const auto in = list(manual, Attr::kInShardings);
  ASSERT_EQ(in.size(), 1u);
  EXPECT_EQ(w.shardings()[static_cast<size_t>(in[0])].text, "[{\"d\"}, {}]");
  ASSERT_EQ(list(manual, Attr::kOutShardings).size(), 1u);
  ASSERT_EQ(manual.raw_regions().size(), 1u);
  EXPECT_EQ(find_op(w, Opcode::k_tanh).result_type(0).bytes, 8 * 8 * 4);
}

/// An all_reduce over eight devices with these groups and, before it, this mesh.
Workload all_reduce(const std::string& mesh, const std::string& groups) {
  return read_text("module {\n" + mesh +
                   "\n  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                   "    %0 = \"stablehlo.all_reduce\"(%a) <{channel_handle = "
                   "#stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = " +
                   groups +
                   ", use_global_device_ids}> ({\n    ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n"
                   "      %1 = stablehlo.add %l, %r : tensor<f32>\n"
                   "      stablehlo.return %1 : tensor<f32>\n"
                   "    }) : (tensor<4xf32>) -> tensor<4xf32>\n"
                   "    return %0 : tensor<4xf32>\n  }\n}\n");
}

TEST(StableHloDevices, ReplicaGroupsAsLists) {
  const Workload w = all_reduce("", "dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>");
  const OpView op = find_op(w, Opcode::k_all_reduce);
  EXPECT_THAT(list(op, Attr::kReplicaGroups), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_EQ(op.integer(Attr::kReplicaGroupSize, 0), 4);
  EXPECT_EQ(op.integer(Attr::kChannel, 0), 3);
  EXPECT_EQ(op.integer(Attr::kUseGlobalIds, 0), 1);  // a unit attribute is "true"
}

TEST(StableHloDevices, RaggedReplicaGroupsArePaddedWithMinusOne) {
  const Workload w = all_reduce("", "dense<[[0, 1, 2], [3, 4, -1]]> : tensor<2x3xi64>");
  const OpView op = find_op(w, Opcode::k_all_reduce);
  EXPECT_THAT(list(op, Attr::kReplicaGroups), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(list(op, Attr::kRaggedGroups), ElementsAre(3, 2));
  EXPECT_EQ(op.integer(Attr::kReplicaGroupSize, 0), 3);
}

TEST(StableHloDevices, ReplicaGroupsOverMeshAxes) {
  const std::string mesh = "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>";
  const auto axes = [](const std::string& references) {
    return "#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [" + references + "]>";
  };
  // Device of (x, y) is 4x + y. Over y: rows; over x: columns.
  const Workload rows = all_reduce(mesh, axes("#stablehlo.axis_ref<name = \"y\">"));
  EXPECT_THAT(list(find_op(rows, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(find_op(rows, Opcode::k_all_reduce).integer(Attr::kReplicaGroupSize, 0), 4);
  const Workload columns = all_reduce(mesh, axes("#stablehlo.axis_ref<name = \"x\">"));
  EXPECT_THAT(list(find_op(columns, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  // The minor two of y = 2·major + minor: neighbours.
  const Workload part =
      all_reduce(mesh, axes("#stablehlo.axis_ref<name = \"y\", sub_axis_info = (2)2>"));
  EXPECT_THAT(list(find_op(part, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(find_op(part, Opcode::k_all_reduce).integer(Attr::kReplicaGroupSize, 0), 2);
  // The major two of y: y and y + 2.
  const Workload major =
      all_reduce(mesh, axes("#stablehlo.axis_ref<name = \"y\", sub_axis_info = (1)2>"));
  EXPECT_THAT(list(find_op(major, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  // Both axes, y first: device order 4x + y with x running fastest.
  const Workload both = all_reduce(
      mesh, axes("#stablehlo.axis_ref<name = \"y\">, #stablehlo.axis_ref<name = \"x\">"));
  EXPECT_THAT(list(find_op(both, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_EQ(find_op(both, Opcode::k_all_reduce).integer(Attr::kReplicaGroupSize, 0), 8);
}

TEST(StableHloDevices, MeshesInAnotherOrderAndWrittenInline) {
  // Place (x, y) = 2x + y holds device 3, 2, 1, 0: over y that is 3 with 2 and 1 with 0.
  const Workload turned =
      all_reduce("  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]>",
                 "#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = "
                 "[#stablehlo.axis_ref<name = \"y\">]>");
  EXPECT_THAT(list(find_op(turned, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(3, 2, 1, 0));
  const Workload inline_mesh = all_reduce(
      "",
      "#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = "
      "[#stablehlo.mesh_axis<name = \"a\", size = 2>, #stablehlo.mesh_axis<name = \"b\", size "
      "= 3>]>, axes = [#stablehlo.axis_ref<name = \"a\">]>");
  EXPECT_THAT(list(find_op(inline_mesh, Opcode::k_all_reduce), Attr::kReplicaGroups),
              ElementsAre(0, 3, 1, 4, 2, 5));
  const Workload unknown = all_reduce("",
                                      "#stablehlo.replica_group_mesh_axes<mesh = @nowhere, axes = "
                                      "[#stablehlo.axis_ref<name = \"y\">]>");
  ASSERT_EQ(unknown.notes().size(), 1u);
  EXPECT_THAT(unknown.notes()[0], HasSubstr("'@nowhere' could not be worked out"));
}

TEST(StableHloDevices, OtherCollectives) {
  const Workload w = read_text(function_of(
      "(%a: tensor<8x4xf32>)",
      "  %0 = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 1 : i64, replica_groups = "
      "dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x4xf32>) -> tensor<8x8xf32>\n"
      "  %1 = \"stablehlo.all_to_all\"(%a) <{split_dimension = 0 : i64, concat_dimension = 1 : "
      "i64, split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : "
      "(tensor<8x4xf32>) -> tensor<2x16xf32>\n"
      "  %2 = \"stablehlo.collective_permute\"(%a) <{source_target_pairs = dense<[[0, 1], [1, "
      "0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>}> "
      ": (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
      "  %3 = \"stablehlo.reduce_scatter\"(%a) <{scatter_dimension = 0 : i64, replica_groups = "
      "dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n  ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n"
      "    %4 = stablehlo.add %l, %r : tensor<f32>\n    stablehlo.return %4 : tensor<f32>\n  }) : "
      "(tensor<8x4xf32>) -> tensor<4x4xf32>\n  return"));
  EXPECT_THAT(list(find_op(w, Opcode::k_all_gather), Attr::kDimensions), ElementsAre(1));
  const OpView exchange = find_op(w, Opcode::k_all_to_all);
  EXPECT_EQ(exchange.integer(Attr::kSplitDimension, -1), 0);
  EXPECT_EQ(exchange.integer(Attr::kConcatDimension, -1), 1);
  EXPECT_EQ(exchange.integer(Attr::kSplitCount, -1), 4);
  EXPECT_THAT(list(find_op(w, Opcode::k_collective_permute), Attr::kSourceTargetPairs),
              ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(list(find_op(w, Opcode::k_reduce_scatter), Attr::kDimensions), ElementsAre(0));
}

TEST(StableHloDevices, AsyncStartAndDone) {
  const Workload w = read_text(function_of(
      "(%a: tensor<4xf32>) -> tensor<8xf32>",
      "  %0 = \"stablehlo.async_start\"(%a) ({\n  ^bb0(%b: tensor<4xf32>):\n"
      "    %2 = \"stablehlo.all_gather\"(%b) <{all_gather_dim = 0 : i64, replica_groups = "
      "dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>\n"
      "    stablehlo.return %2 : tensor<8xf32>\n"
      "  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>\n"
      "  %1 = \"stablehlo.async_done\"(%0) : (!stablehlo.future<tensor<8xf32>>) -> "
      "tensor<8xf32>\n  return %1 : tensor<8xf32>"));
  EXPECT_EQ(find_op(w, Opcode::k_async_start).bodies().size(), 1u);
  EXPECT_EQ(find_op(w, Opcode::k_async_done).result_type(0).bytes, 32);
  EXPECT_EQ(count(w, Opcode::k_all_gather), 1);
}

// --- types and arguments ----------------------------------------------------

TEST(StableHloTypes, EveryElementTypeHasItsSize) {
  struct Case {
    const char* written;
    int64_t bytes;
  };
  // Twelve elements each: sub-byte types are packed, i1 takes a byte.
  for (const Case& c : {Case{"i1", 12},
                        {"i2", 3},
                        {"i4", 6},
                        {"ui4", 6},
                        {"i8", 12},
                        {"si8", 12},
                        {"ui16", 24},
                        {"i32", 48},
                        {"ui64", 96},
                        {"f4E2M1FN", 6},
                        {"f6E3M2FN", 9},
                        {"f8E4M3FN", 12},
                        {"f8E5M2FNUZ", 12},
                        {"f8E8M0FNU", 12},
                        {"bf16", 24},
                        {"f16", 24},
                        {"f32", 48},
                        {"f64", 96},
                        {"complex<f32>", 96},
                        {"complex<f64>", 192},
                        {"index", 96},
                        {"!quant.uniform<i8:f32, 0.1:2>", 12},
                        {"!quant.uniform<i4<-7:7>:f32:0, {0.1:0, 0.2:1}>", 6},
                        {"!quant.uniform<u8:f32, 3.4e+00:16>", 12}}) {
    const Workload w =
        read_text(function_of("(%a: tensor<3x4x" + std::string(c.written) + ">)", "  return"));
    EXPECT_EQ(w.type(ValueId{w.region(w.function(w.entry()).body).first_argument}).bytes, c.bytes)
        << c.written;
  }
}

TEST(StableHloTypes, QuantisedTypesKnowWhatTheyStandFor) {
  const Workload w =
      read_text(function_of("(%a: tensor<2x!quant.uniform<i8:bf16, 0.5:-3>>)", "  return"));
  const Type& type = w.type(ValueId{w.region(w.function(w.entry()).body).first_argument});
  EXPECT_EQ(type.element, ElementType::kS8);
  EXPECT_EQ(type.expressed, ElementType::kBF16);
}

TEST(StableHloTypes, BoundedDimensionsAreTakenAtTheirBound) {
  const Workload w =
      read_text(function_of("(%a: tensor<?x4xf32, #stablehlo.bounds<8, ?>>)", "  return"));
  EXPECT_THAT(w.type(ValueId{w.region(w.function(w.entry()).body).first_argument}).dims,
              ElementsAre(8, 4));
  ASSERT_EQ(w.notes().size(), 1u);
  EXPECT_THAT(w.notes()[0], HasSubstr("bound"));
}

TEST(StableHloTypes, OpenDimensionsCanBeBound) {
  const std::string text =
      function_of("(%a: tensor<?x4xf32>) -> tensor<?x4xf32>",
                  "  %0 = stablehlo.tanh %a : tensor<?x4xf32>\n  return %0 : tensor<?x4xf32>");
  const Workload open = read_text(text);
  EXPECT_TRUE(find_op(open, Opcode::k_tanh).result_type(0).dynamic);
  ReadOptions options;
  options.bindings["?"] = 16;
  const Workload bound = read_text(text, options);
  EXPECT_FALSE(find_op(bound, Opcode::k_tanh).result_type(0).dynamic);
  EXPECT_EQ(find_op(bound, Opcode::k_tanh).result_type(0).bytes, 16 * 4 * 4);
}

TEST(StableHloTypes, TokensAndTuples) {
  const Workload w = read_text(function_of(
      "(%t: !stablehlo.token, %p: tuple<tensor<4xf32>, tuple<tensor<2xi8>>>)",
      "  %0 = stablehlo.get_tuple_element %p[0] : (tuple<tensor<4xf32>, tuple<tensor<2xi8>>>) -> "
      "tensor<4xf32>\n"
      "  %1 = stablehlo.tuple %0, %0 : tuple<tensor<4xf32>, tensor<4xf32>>\n"
      "  %2 = stablehlo.after_all %t, %t : !stablehlo.token\n"
      "  %3 = \"stablehlo.outfeed\"(%0, %2) <{outfeed_config = \"\"}> : (tensor<4xf32>, "
      "!stablehlo.token) -> !stablehlo.token\n  return"));
  const Region& body = w.region(w.function(w.entry()).body);
  EXPECT_EQ(w.type(ValueId{body.first_argument}).bytes, 0);
  EXPECT_EQ(w.type(ValueId{body.first_argument + 1}).bytes, 16 + 2);
  EXPECT_EQ(find_op(w, Opcode::k_get_tuple_element).integer(Attr::kIndex, -1), 0);
}

TEST(StableHloArguments, Donation) {
  const Workload w = read_text(
      "func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<4xf32> "
      "{jax.buffer_donor = true}, %c: tensor<4xf32> {mhlo.layout_mode = \"default\"}) -> "
      "(tensor<4xf32>, tensor<4xf32>) {\n  return %b, %a : tensor<4xf32>, tensor<4xf32>\n}\n");
  const Function& main = w.function(w.entry());
  EXPECT_TRUE(main.arguments[0].donated);
  EXPECT_EQ(main.arguments[0].aliased_output, 1);
  EXPECT_TRUE(main.arguments[1].donated);
  EXPECT_EQ(main.arguments[1].aliased_output, -1);
  EXPECT_FALSE(main.arguments[2].donated);
}

TEST(StableHloArguments, RolesThatTheCompilerWroteDown) {
  const Workload w = read_text(
      "func.func @main(%a: tensor<4xf32> {ttcore.argument_type = "
      "#ttcore.argument_type<parameter>}, "
      "%b: tensor<4xf32> {ttcore.argument_type = #ttcore.argument_type<input>}, %c: tensor<4xf32>) "
      "{\n  return\n}\n");
  const Function& main = w.function(w.entry());
  EXPECT_EQ(main.arguments[0].role, Role::kParameter);
  EXPECT_EQ(main.arguments[1].role, Role::kInput);
  EXPECT_EQ(main.arguments[2].role, Role::kUnknown);
}

TEST(StableHloArguments, GatherAndScatterDimensionNumbers) {
  const Workload w = read_text(function_of(
      "(%t: tensor<100x16xf32>, %i: tensor<8x1xi32>, %u: tensor<8x16xf32>)",
      "  %0 = \"stablehlo.gather\"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = "
      "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes "
      "= array<i64: 1, 16>}> : (tensor<100x16xf32>, tensor<8x1xi32>) -> tensor<8x16xf32>\n"
      "  %1 = \"stablehlo.scatter\"(%t, %i, %u) <{scatter_dimension_numbers = "
      "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n"
      "  ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n    stablehlo.return %r : tensor<f32>\n  }) : "
      "(tensor<100x16xf32>, tensor<8x1xi32>, tensor<8x16xf32>) -> tensor<100x16xf32>\n  return"));
  const OpView gather = find_op(w, Opcode::k_gather);
  EXPECT_THAT(list(gather, Attr::kOffsetDims), ElementsAre(1));
  EXPECT_THAT(list(gather, Attr::kCollapsedSliceDims), ElementsAre(0));
  EXPECT_THAT(list(gather, Attr::kStartIndexMap), ElementsAre(0));
  EXPECT_EQ(gather.integer(Attr::kIndexVectorDim, -1), 1);
  EXPECT_THAT(list(gather, Attr::kSliceSizes), ElementsAre(1, 16));
  const OpView scatter = find_op(w, Opcode::k_scatter);
  EXPECT_THAT(list(scatter, Attr::kUpdateWindowDims), ElementsAre(1));
  EXPECT_THAT(list(scatter, Attr::kInsertedWindowDims), ElementsAre(0));
  EXPECT_THAT(list(scatter, Attr::kStartIndexMap), ElementsAre(0));
}

TEST(StableHloModule, ResourcesAtTheEndAreReadPast) {
  const Workload w = read_text(
      "module {\n  func.func @main() -> tensor<2xf32> {\n"
      "    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>\n"
      "    return %0 : tensor<2xf32>\n  }\n}\n\n{-#\n  dialect_resources: {\n    builtin: {\n"
      "      w: \"0x04000000000080BF0000803F\"\n    }\n  }\n#-}\n");
  EXPECT_EQ(find_op(w, Opcode::k_constant).result_type(0).bytes, 8);
  EXPECT_THAT(w.notes(), IsEmpty());
}

TEST(StableHloReader, SeveralModulesOfAFileKeepTheirOwnFunctions) {
  // A banner is no separator, and a separator at the end splits nothing.
  const std::string text =
      "// ------- the model -------\n"
      "module {\n  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
      "    %0 = stablehlo.add %a, %a : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
      "// -----\n"
      "module {\n  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
      "    %0 = call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>\n  "
      "}\n"
      "  func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
      "    return %a : tensor<8xf32>\n  }\n}\n"
      "// -----\n";
  const Workload w = read_workload(Source::from_memory("two.mlir", text), {});
  ASSERT_EQ(w.functions().size(), 3u);
  EXPECT_EQ(w.string(w.function(w.entry()).name), "main");
  EXPECT_EQ(w.string(w.functions()[1].name), "main#2");
  EXPECT_EQ(w.string(w.functions()[2].name), "f#2");
  EXPECT_EQ(w.type(w.function(w.entry()).result_types[0]).dims, (std::vector<int64_t>{4}));
}

}  // namespace
}  // namespace orrery::stablehlo
