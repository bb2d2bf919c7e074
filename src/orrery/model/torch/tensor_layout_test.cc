#include "orrery/model/torch/tensor_layout.h"

#include <gtest/gtest.h>

#include <array>

namespace orrery {
namespace {

using Sizes = std::vector<int64_t>;

TensorLayout contiguous(const Sizes& dims) { return TensorLayout::contiguous(dims); }

TEST(TensorLayout, IsRowMajorUnlessTheTypeSaysOtherwise) {
  EXPECT_EQ(contiguous({2, 3, 4}).strides, (Sizes{12, 4, 1}));
  Type type;
  type.kind = Type::Kind::kTensor;
  type.dims = {2, 3, 4};
  type.minor_to_major = {1, 2, 0};  // as channels-last images lie
  EXPECT_EQ(TensorLayout::of(type).strides, (Sizes{12, 1, 3}));
}

/// `torch.empty(…).transpose(1, 2)` and what `.view` of it says.
TEST(TensorLayout, ViewsWhatLiesInOrderAndRefusesTheRest) {
  const std::array<int64_t, 4> heads_first = {0, 2, 1, 3};
  const TensorLayout heads = contiguous({2, 5, 3, 4}).permuted(heads_first);  // [2, 3, 5, 4]
  EXPECT_EQ(heads.strides, (Sizes{60, 4, 12, 1}));
  EXPECT_FALSE(heads.is_contiguous());
  EXPECT_TRUE(heads.is_dense());
  EXPECT_FALSE(heads.viewed_as(Sizes{6, 5, 4}));   // batches and heads do not follow each other
  EXPECT_FALSE(heads.viewed_as(Sizes{2, 3, 20}));  // nor do positions and elements
  const auto split = heads.viewed_as(Sizes{2, 3, 5, 2, 2});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->strides, (Sizes{60, 4, 12, 2, 1}));
  const auto flat = contiguous({2, 5, 12}).viewed_as(Sizes{10, 3, 4});
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->strides, (Sizes{12, 4, 1}));
  // With a single batch the heads are all there is.
  EXPECT_TRUE(contiguous({1, 5, 3, 4}).permuted(heads_first).viewed_as(Sizes{3, 5, 4}));
}

TEST(TensorLayout, RepeatedElementsAreStoredOnce) {
  const TensorLayout bias{{8, 16}, {0, 1}};
  EXPECT_EQ(bias.stored(), 16);
  EXPECT_FALSE(bias.is_dense());
  EXPECT_FALSE(bias.steps_like(contiguous({8, 16})));
  EXPECT_EQ(bias.run(), 16);
}

TEST(TensorLayout, AResultKeepsTheOrderOfItsOperand) {
  const TensorLayout sliced{{2, 3, 4}, {24, 8, 1}};  // half of [2, 3, 8]
  EXPECT_FALSE(sliced.is_dense());
  EXPECT_EQ(sliced.run(), 4);
  EXPECT_EQ(sliced.made_dense().strides, (Sizes{12, 4, 1}));
  const std::array<int64_t, 2> swapped = {1, 0};
  EXPECT_EQ(contiguous({3, 5}).permuted(swapped).made_dense().strides, (Sizes{1, 5}));
}

}  // namespace
}  // namespace orrery
