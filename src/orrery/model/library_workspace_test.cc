// Which products XLA gave to cuBLAS on an H200, from the programs it compiled there.

#include "orrery/model/library_workspace.h"

#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"

namespace orrery {
namespace {

constexpr int64_t kWorkspace = 33554432;

int64_t workspace(ProductShape shape, ElementType type = ElementType::kBF16,
                  const char* device = "h200", bool aligned = true) {
  const Catalogue catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware");
  Kernel kernel;
  kernel.cost.matrix_type = type;
  kernel.shape = shape;
  kernel.tensors[0].bytes = 2 * shape.m * shape.k;
  return library_call(kernel, catalogue.device(device), aligned).workspace;
}

int64_t workspace(const ConvolutionShape& shape) {
  const Catalogue catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware");
  Kernel kernel;
  kernel.cost.matrix_type = ElementType::kBF16;
  kernel.shape = shape;
  return library_call(kernel, catalogue.device("h200"), true).workspace;
}

ProductShape product(int64_t m, int64_t n, int64_t k) { return {.m = m, .n = n, .k = k}; }

TEST(LibraryWorkspace, LargeProductsGoToCublas) {
  EXPECT_EQ(workspace(product(4096, 4096, 4096)), kWorkspace);
  EXPECT_EQ(workspace(product(2048, 2048, 2048), ElementType::kF32), kWorkspace);
  EXPECT_EQ(workspace(product(512, 4096, 4096)), kWorkspace);
  EXPECT_EQ(workspace(product(1764, 1152, 1152)), kWorkspace);  // 4.7 GFLOP, a long sum
  EXPECT_EQ(workspace(product(12544, 768, 768)), kWorkspace);   // 14.8 GFLOP, a short one
  EXPECT_EQ(workspace({.batch = 8, .m = 2200, .n = 2048, .k = 2304}), kWorkspace);
  EXPECT_EQ(workspace({.batch = 224, .m = 2048, .n = 2048, .k = 256}), kWorkspace);
  EXPECT_EQ(workspace({.batch = 192, .m = 512, .n = 512, .k = 64}), kWorkspace);
}

TEST(LibraryWorkspace, OthersAreGenerated) {
  EXPECT_EQ(workspace(product(512, 8192, 2048)), 0);   // 128 tiles of 128×256 on 132 SMs
  EXPECT_EQ(workspace(product(16, 128256, 4096)), 0);  // few rows
  EXPECT_EQ(workspace(product(8192, 768, 768)), 0);    // small
  EXPECT_EQ(workspace(product(8192, 50257, 768), ElementType::kBF16, "h200", false), 0);
  EXPECT_EQ(workspace(product(1048576, 384, 96)), 0);  // a sum of 96
  EXPECT_EQ(workspace({.batch = 384, .m = 512, .n = 64, .k = 512}), 0);
}

TEST(LibraryWorkspace, AGroupedProductRepeatsItsRowsForEveryGroup) {
  EXPECT_EQ(workspace({.m = 8192, .n = 1024, .k = 2048, .groups = 32}),
            int64_t{32} * 8192 * 2048 * 2 + kWorkspace);
  EXPECT_GT(workspace({.m = int64_t{1} << 40, .n = 8, .k = int64_t{1} << 20, .groups = 1 << 30}),
            0);
}

// Sizes that XLA gave cuDNN's convolutions on the H200, less 16 bytes of alignment.
TEST(LibraryWorkspace, ChannelsAreAddedInACopy) {
  // next_w96_b256_s256: 256 images of 257×257 with 8 channels for 3, and the filter.
  ConvolutionShape stem{.batch = 256, .channels = 3, .height = 256, .width = 256};
  stem.features = 96, stem.out_height = stem.out_width = 128, stem.stride = 2;
  stem.window_height = stem.window_width = 3;
  EXPECT_EQ(workspace(stem), 270550528);
  // vit_b16_b64: patches of 16×16.
  ConvolutionShape patches{.batch = 64, .channels = 3, .height = 224, .width = 224};
  patches.features = 768, patches.out_height = patches.out_width = 14, patches.stride = 16;
  patches.window_height = patches.window_width = 16;
  EXPECT_EQ(workspace(patches), 54525952);
  // unet_w192_b16_s64: four channels at the end.
  ConvolutionShape last{.batch = 16, .channels = 192, .height = 64, .width = 64};
  last.features = 4, last.out_height = last.out_width = 64;
  last.window_height = last.window_width = 3;
  EXPECT_EQ(workspace(last), 1076224);
  stem.features = 32;  // mobilenet_b256: too few outputs for matrix units
  EXPECT_EQ(workspace(stem), 0);
}

TEST(LibraryWorkspace, FiltersOfSingleChannelsAreSummedInParts) {
  // next_w192_b40_s192_train: 40 images, 7×7, 768 channels.
  ConvolutionShape c{.batch = 40, .channels = 768, .height = 12, .width = 12};
  c.features = c.groups = 768, c.out_height = c.out_width = 12;
  c.window_height = c.window_width = 7;
  EXPECT_EQ(workspace(c), 0);
  c.computes = ConvolutionShape::Computes::kFilterGradient;
  EXPECT_EQ(workspace(c), 48168960);
}

TEST(LibraryWorkspace, SomeConvolutionsOfSinglePositionsHaveATable) {
  ConvolutionShape c{.batch = 256, .channels = 32, .height = 112, .width = 112};
  c.features = 192, c.out_height = c.out_width = 112;
  EXPECT_EQ(workspace(c), 131);
  c.batch = 32;
  EXPECT_EQ(workspace(c), 0);
  c.stride = 2, c.out_height = c.out_width = 56;
  EXPECT_EQ(workspace(c), 0);
  c.channels = 64;
  EXPECT_EQ(workspace(c), 131);
}

TEST(LibraryWorkspace, OnlyWhereThereIsCublas) {
  EXPECT_EQ(workspace(product(4096, 4096, 4096), ElementType::kBF16, "mi300x"), 0);
}

}  // namespace
}  // namespace orrery
