#include "orrery/base/small_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Four = SmallVector<uint32_t, 4>;

TEST(SmallVector, IsAsSmallAsAVectorAndStartsEmpty) {
  EXPECT_EQ(sizeof(Four), 24u);
  EXPECT_THAT(Four(), IsEmpty());
}

TEST(SmallVector, GrowsBeyondWhatIsInside) {
  Four list;
  std::vector<uint32_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 7u);
  for (uint32_t x : expected) list.push_back(x);
  EXPECT_TRUE(std::equal(list.begin(), list.end(), expected.begin(), expected.end()));
  EXPECT_EQ(list.front(), 7u);
  EXPECT_EQ(list.back(), 1006u);
}

TEST(SmallVector, AnElementOfItsOwnIsPushedWhereItGrows) {
  Four list{1, 2, 3, 4};
  list.push_back(list[0]);
  EXPECT_THAT(list, ElementsAre(1, 2, 3, 4, 1));
}

TEST(SmallVector, CopiesAreTheirOwn) {
  for (Four list : {Four{1, 2}, Four{1, 2, 3, 4, 5}}) {
    const Four before = list;
    Four copy = list;
    copy[0] = 9;
    EXPECT_EQ(list, before);
    copy = list;
    EXPECT_EQ(copy, before);
    list = *&list;
    EXPECT_EQ(list, before);
  }
}

TEST(SmallVector, WhatIsMovedFromIsEmptyAndCanBeFilledAgain) {
  for (const Four& content : {Four{1, 2}, Four{1, 2, 3, 4, 5}}) {
    Four list = content;
    Four moved = std::move(list);
    EXPECT_EQ(moved, content);
    list = {8};  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_THAT(list, ElementsAre(8));
    list = std::move(moved);
    EXPECT_EQ(list, content);
    std::swap(list, moved);
    EXPECT_EQ(moved, content);
  }
}

TEST(SmallVector, InsertsErasesAndResizes) {
  Four list{1, 3};
  list.insert(list.begin() + 1, 2);
  EXPECT_THAT(list, ElementsAre(1, 2, 3));
  list.append(list.begin() + 3, list.begin() + 3);
  const std::vector<int64_t> more{4, 5};
  list.append(more.begin(), more.end());
  EXPECT_THAT(list, ElementsAre(1, 2, 3, 4, 5));
  list.erase(list.begin());
  list.erase(list.begin() + 1, list.begin() + 3);
  EXPECT_THAT(list, ElementsAre(2, 5));
  list.resize(6, 7);
  EXPECT_THAT(list, ElementsAre(2, 5, 7, 7, 7, 7));
  erase_if(list, [](uint32_t x) { return x == 7; });
  EXPECT_THAT(list, ElementsAre(2, 5));
  list.pop_back();
  EXPECT_THAT(list, ElementsAre(2));
  list.clear();
  EXPECT_THAT(list, IsEmpty());
}

TEST(SmallVector, ComparesAsTextDoes) {
  EXPECT_LT((Four{1, 2}), (Four{1, 3}));
  EXPECT_LT((Four{1, 2}), (Four{1, 2, 0}));
  EXPECT_GT((Four{2}), (Four{1, 9, 9, 9, 9}));
  EXPECT_EQ((Four{1, 2}), (Four{1, 2}));
}

}  // namespace
}  // namespace orrery
