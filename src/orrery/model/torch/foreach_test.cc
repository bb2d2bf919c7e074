#include "orrery/model/torch/foreach.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

ForeachTensors tensors(size_t count, int64_t elements) {
  return ForeachTensors(count, {ElementType::kBF16, elements});
}

TEST(Foreach, ALaunchHoldsThreeHundredAndTwentyChunks) {
  // 65,536 elements a chunk: 321 chunks are one too many.
  EXPECT_EQ(foreach_kernels(tensors(1, 320 * 65536), 1, 1, 0).size(), 1u);
  const auto two = foreach_kernels(tensors(1, 320 * 65536 + 1), 1, 1, 0);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_LT(two[1].cost.bytes(), two[0].cost.bytes() / 1e6);
}

TEST(Foreach, ALaunchHoldsFewerTensorsTheMoreListsThereAre) {
  EXPECT_EQ(foreach_kernels(tensors(220, 10), 1, 1, 0).size(), 2u);  // 110 of one list
  EXPECT_EQ(foreach_kernels(tensors(128, 10), 2, 1, 0).size(), 2u);  // 64 of two
  EXPECT_EQ(foreach_kernels(tensors(144, 10), 4, 3, 0).size(), 4u);  // 36 of four
}

TEST(Foreach, AdamIsOneKernelOrEight) {
  const ForeachTensors one = tensors(1, 1000);
  EXPECT_EQ(optimizer_kernels(one, true, true).size(), 1u);
  EXPECT_EQ(optimizer_kernels(one, true, false).size(), 8u);
  EXPECT_EQ(optimizer_kernels(one, false, true).size(), 1u);
}

}  // namespace
}  // namespace orrery
