#include "orrery/serving/engine/ragged_grid.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(RaggedGrid, IsAStraightLineBetweenPoints) {
  const RaggedGrid grid(1, {{{4}, 10, 3}, {{1}, 1, 2}, {{2}, 2, 4}});
  EXPECT_DOUBLE_EQ(grid.at(1), 1);
  EXPECT_DOUBLE_EQ(grid.at(2), 2);
  EXPECT_DOUBLE_EQ(grid.at(3), 6);
  EXPECT_DOUBLE_EQ(grid.at(0), 1);
  // Past the last by the line from the point at half of it, 2: 10 + (10 − 2) · 2 / 2.
  EXPECT_DOUBLE_EQ(grid.at(6), 18);
}

TEST(RaggedGrid, NeverFallsPastTheLastPoint) {
  const RaggedGrid grid(1, {{{8}, 4, 1}, {{16}, 3, 2}});
  EXPECT_DOUBLE_EQ(grid.at(12), 3.5);
  EXPECT_DOUBLE_EQ(grid.at(1000), 3);
}

TEST(RaggedGrid, HasSecondSizesOfItsOwnUnderEveryFirst) {
  // Under 1 lie 10 and 30, under 3 only 20.
  const RaggedGrid grid(2, {{{1, 10}, 1, 1}, {{1, 30}, 5, 2}, {{3, 20}, 9, 3}});
  EXPECT_DOUBLE_EQ(grid.at(1, 20), 3);
  EXPECT_DOUBLE_EQ(grid.at(3, 25), 9);
  EXPECT_DOUBLE_EQ(grid.at(2, 20), (3 + 9) / 2.0);
  EXPECT_DOUBLE_EQ(grid.at(1.5, 25), 4 + (9 - 4) / 4.0);
}

TEST(RaggedGrid, TakesFourSizes) {
  std::vector<RaggedGrid::Point> points;
  for (const int64_t a : {1, 2})
    for (const int64_t b : {0, 4})
      for (const int64_t c : {1, 3})
        for (const int64_t d : {0, 8})
          points.push_back({{a, b, c, d}, static_cast<double>(a + 10 * b + 100 * c + 1000 * d), 1});
  const RaggedGrid grid(4, points);
  EXPECT_DOUBLE_EQ(grid.at(std::array{1.5, 1.0, 2.5, 2.0}), 1.5 + 10 + 250 + 2000);
}

TEST(RaggedGrid, SaysWhichLineIsRepeated) {
  EXPECT_EQ(RaggedGrid(2, {{{1, 2}, 1, 5}, {{1, 3}, 1, 6}}).repeated(), 0);
  EXPECT_EQ(RaggedGrid(2, {{{1, 2}, 1, 5}, {{2, 2}, 1, 6}, {{1, 2}, 4, 7}}).repeated(), 7);
}

}  // namespace
}  // namespace orrery
