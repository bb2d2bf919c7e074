// Which products XLA gave to cuBLAS on an H200, from the programs it compiled there.

#include "orrery/model/library_workspace.h"

#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"

namespace orrery {
namespace {

constexpr int64_t kWorkspace = 33554432;

int64_t workspace(ProductShape shape, ElementType type = ElementType::kBF16,
                  const char* device = "h200") {
  const Catalogue catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware");
  Kernel kernel;
  kernel.cost.matrix_type = type;
  kernel.shape = shape;
  kernel.tensors[0].bytes = 2 * shape.m * shape.k;
  return library_call(kernel, catalogue.device(device)).workspace;
}

ProductShape product(int64_t m, int64_t n, int64_t k) { return {.m = m, .n = n, .k = k}; }

TEST(LibraryWorkspace, LargeProductsGoToCublas) {
  EXPECT_EQ(workspace(product(4096, 4096, 4096)), kWorkspace);
  EXPECT_EQ(workspace(product(2048, 2048, 2048), ElementType::kF32), kWorkspace);
  EXPECT_EQ(workspace(product(512, 4096, 4096)), kWorkspace);
  EXPECT_EQ(workspace({.batch = 192, .m = 512, .n = 512, .k = 64}), kWorkspace);
}

TEST(LibraryWorkspace, OthersAreGenerated) {
  EXPECT_EQ(workspace(product(512, 8192, 2048)), 0);   // 128 tiles of 128×256 on 132 SMs
  EXPECT_EQ(workspace(product(16, 128256, 4096)), 0);  // few rows
  EXPECT_EQ(workspace(product(8192, 768, 768)), 0);    // small
  EXPECT_EQ(workspace(product(8192, 50257, 768)), 0);  // an odd side
  EXPECT_EQ(workspace({.batch = 384, .m = 512, .n = 64, .k = 512}), 0);
}

TEST(LibraryWorkspace, AGroupedProductRepeatsItsRowsForEveryGroup) {
  EXPECT_EQ(workspace({.m = 8192, .n = 1024, .k = 2048, .groups = 32}),
            int64_t{32} * 8192 * 2048 * 2 + kWorkspace);
  EXPECT_GT(workspace({.m = int64_t{1} << 40, .n = 8, .k = int64_t{1} << 20, .groups = 1 << 30}),
            0);
}

TEST(LibraryWorkspace, OnlyWhereThereIsCublas) {
  EXPECT_EQ(workspace(product(4096, 4096, 4096), ElementType::kBF16, "mi300x"), 0);
}

}  // namespace
}  // namespace orrery
