#include "orrery/kernel/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using stablehlo::find_op;
using stablehlo::function_of;
using stablehlo::read_text;
using testing::ElementsAre;

Kernel kernel(Opcode code, const std::string& signature, const std::string& line) {
  const Workload w = read_text(function_of(signature, line + "\n  return"));
  return kernel_of(w, find_op(w, code).id());
}

std::vector<int64_t> extents(const Kernel& k) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < k.loop_count; ++i) found.push_back(k.loops[i].extent);
  return found;
}

TEST(Kernel, ProductsHaveTheLoopsBatchRowsColumnsDepth) {
  const Kernel k = kernel(
      Opcode::k_dot_general, "(%a: tensor<4x8x16xbf16>, %b: tensor<4x16x32xbf16>)",
      "  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x "
      "[1] : (tensor<4x8x16xbf16>, tensor<4x16x32xbf16>) -> tensor<4x8x32xbf16>");
  EXPECT_EQ(k.family, KernelFamily::kGemm);
  EXPECT_THAT(extents(k), ElementsAre(4, 8, 32, 16));
  EXPECT_TRUE(k.loops[3].reduction);
  EXPECT_FALSE(k.loops[1].reduction);
  ASSERT_EQ(k.tensor_count, 3);
  EXPECT_EQ(k.tensors[0].loops, 0b1011);  // batch, m, k
  EXPECT_EQ(k.tensors[1].loops, 0b1101);  // batch, n, k
  EXPECT_EQ(k.tensors[2].loops, 0b0111);  // batch, m, n
  EXPECT_TRUE(k.tensors[2].written);
  EXPECT_EQ(k.tensors[1].bytes, 4 * 16 * 32 * 2);
  EXPECT_EQ(k.cost.matrix_flops, 2.0 * 4 * 8 * 32 * 16);
  EXPECT_EQ(std::get<ProductShape>(k.shape),
            (ProductShape{.batch = 4, .m = 8, .n = 32, .k = 16, .weight = ElementType::kBF16}));
}

TEST(Kernel, ConvolutionsAreImplicitProducts) {
  const Kernel k = kernel(
      Opcode::k_convolution, "(%x: tensor<2x8x8x16xbf16>, %k: tensor<3x3x4x32xbf16>)",
      "  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, "
      "f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = "
      "4 : i64} : (tensor<2x8x8x16xbf16>, tensor<3x3x4x32xbf16>) -> tensor<2x8x8x32xbf16>");
  EXPECT_EQ(k.family, KernelFamily::kConvolution);
  // Four groups; 2·8·8 pixels; 32/4 features a group; a 3×3 window of 4 inputs.
  EXPECT_THAT(extents(k), ElementsAre(4, 128, 8, 36));
  EXPECT_EQ(std::get<ConvolutionShape>(k.shape),
            (ConvolutionShape{2, 16, 8, 8, 32, 8, 8, 3, 3, 1, 4, true}));
}

TEST(Kernel, OthersTakeTheDimensionsOfTheirLargestTensor) {
  const Kernel reduce = kernel(Opcode::k_reduce, "(%a: tensor<8x16xf32>, %z: tensor<f32>)",
                               "  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across "
                               "dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> "
                               "tensor<8xf32>");
  EXPECT_EQ(reduce.family, KernelFamily::kReduction);
  EXPECT_THAT(extents(reduce), ElementsAre(8, 16));
  EXPECT_FALSE(reduce.loops[0].reduction);
  EXPECT_TRUE(reduce.loops[1].reduction);
  // Eight dimensions are joined to six: the first three become one.
  const Kernel wide = kernel(Opcode::k_tanh, "(%a: tensor<2x3x4x5x6x7x8x9xf32>)",
                             "  %0 = stablehlo.tanh %a : tensor<2x3x4x5x6x7x8x9xf32>");
  EXPECT_THAT(extents(wide), ElementsAre(24, 5, 6, 7, 8, 9));
}

TEST(Kernel, ReductionsKnowTheirRows) {
  const auto rows = [](const char* dims, const char* result) {
    return std::get<RowShape>(
        kernel(Opcode::k_reduce, "(%a: tensor<4x8x16xf32>, %z: tensor<f32>)",
               "  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [" +
                   std::string(dims) + "] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<" + result +
                   ">")
            .shape);
  };
  EXPECT_EQ(rows("2", "4x8xf32"), (RowShape{32, 16, 1}));
  EXPECT_EQ(rows("1", "4x16xf32"), (RowShape{64, 8, 16}));
  EXPECT_EQ(rows("0, 1", "16xf32"), (RowShape{16, 32, 16}));
  EXPECT_EQ(rows("0, 2", "8xf32"), (RowShape{8, 64, 1}));
  const Kernel most = kernel(
      Opcode::k_reduce, "(%a: tensor<4x8xf32>, %z: tensor<f32>)",
      "  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1] : "
      "(tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>");
  EXPECT_EQ(std::get<RowShape>(most.shape), (RowShape{4, 8, 1, true}));
}

TEST(Kernel, TranspositionsKnowWhatStaysSideBySide) {
  const auto move = [](const char* order, const char* result) {
    return std::get<MoveShape>(kernel(Opcode::k_transpose, "(%a: tensor<4x8x16xf32>)",
                                      "  %0 = stablehlo.transpose %a, dims = [" +
                                          std::string(order) +
                                          "] : (tensor<4x8x16xf32>) -> tensor<" + result + ">")
                                   .shape);
  };
  EXPECT_EQ(move("1, 0, 2", "8x4x16xf32"), (MoveShape{512, 16, 16}));
  EXPECT_EQ(move("0, 2, 1", "4x16x8xf32"), (MoveShape{512, 1, 1}));
  EXPECT_EQ(move("2, 0, 1", "16x4x8xf32"), (MoveShape{512, 1, 1}));
}

TEST(Kernel, LookUpsKnowTheirTable) {
  const Kernel k = kernel(
      Opcode::k_gather, "(%t: tensor<1000x64xf32>, %i: tensor<2x8x1xi32>)",
      "  %0 = \"stablehlo.gather\"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = "
      "[2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes "
      "= "
      "array<i64: 1, 64>}> : (tensor<1000x64xf32>, tensor<2x8x1xi32>) -> tensor<2x8x64xf32>");
  EXPECT_EQ(std::get<LookupShape>(k.shape), (LookupShape{16, 64, 1000, false}));
}

TEST(Kernel, AnEmptyTensorCostsNothing) {
  const Kernel k = kernel(Opcode::k_tanh, "(%a: tensor<0x1099511627776xf32>)",
                          "  %0 = stablehlo.tanh %a : tensor<0x1099511627776xf32>");
  EXPECT_EQ(k.cost.bytes() + k.cost.flops(), 0);
}

TEST(Kernel, FamiliesOfOperations) {
  EXPECT_EQ(family_of(Opcode::k_dot_general), KernelFamily::kGemm);
  EXPECT_EQ(family_of(Opcode::k_grouped_dot), KernelFamily::kGemm);
  EXPECT_EQ(family_of(Opcode::k_attention), KernelFamily::kAttention);
  EXPECT_EQ(family_of(Opcode::k_add), KernelFamily::kElementwise);
  EXPECT_EQ(family_of(Opcode::k_softmax), KernelFamily::kNormalization);
  EXPECT_EQ(family_of(Opcode::k_transpose), KernelFamily::kDataMovement);
  EXPECT_EQ(family_of(Opcode::k_gather), KernelFamily::kIndexed);
  EXPECT_EQ(family_of(Opcode::k_top_k), KernelFamily::kSort);
  EXPECT_EQ(family_of(Opcode::k_fft), KernelFamily::kLibrary);
  EXPECT_EQ(family_of(Opcode::k_all_reduce), KernelFamily::kCollective);
  EXPECT_EQ(name(KernelFamily::kCollective), "collective");
}

}  // namespace
}  // namespace orrery
