#include "orrery/serving/engine/size_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "orrery/serving/step_times.h"

namespace orrery {
namespace {

TEST(SizeGrid, HasTheSizesOfGraphsThenCoarser) {
  const SizeGrid grid = step_grid(512, 20000);
  EXPECT_EQ((SizeGrid{grid.begin(), grid.begin() + 6}), (SizeGrid{1, 2, 4, 8, 16, 24}));
  const auto has = [&](int64_t n) { return std::ranges::find(grid, n) != grid.end(); };
  EXPECT_TRUE(has(256) && has(272) && has(512) && has(576) && has(2048) && has(2304) && has(8192));
  EXPECT_FALSE(has(264) || has(520) || has(2112));
  EXPECT_GE(grid.back(), 20000);
  EXPECT_EQ(geometric_grid(16, 60), (SizeGrid{16, 23, 32, 45, 64}));
}

TEST(SizeTable, WorksOutEachPointOnceAndDrawsLinesBetween) {
  int asked = 0;
  const SizeTable table({1, 2, 4, 8}, {0, 10}, 2, [&](int64_t x, int64_t y) {
    ++asked;
    return static_cast<double>(x * x + y);
  });
  EXPECT_EQ(table.at(4), 16);
  EXPECT_EQ(table.at(4), 16);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(table.at(6), (16 + 64) / 2.0);
  EXPECT_EQ(table.at(6, 5), (16 + 64) / 2.0 + 5);
  EXPECT_EQ(table.at(4, 20), 16 + 20);  // past the grid its last line goes on
  EXPECT_EQ(table.at(12), 64 + 48);
  EXPECT_EQ(table.at(3), (4 + 16) / 2.0);  // not padded beyond 2
  EXPECT_EQ(table.at(0), 1);
}

TEST(SizeTable, RaisesPaddedSizesToTheNextPoint) {
  const SizeTable table({1, 4, 8, 16}, {0}, 8,
                        [](int64_t x, int64_t) { return static_cast<double>(x); });
  EXPECT_EQ(table.at(2), 4);
  EXPECT_EQ(table.at(5), 8);
  EXPECT_EQ(table.at(12), 12);
}

TEST(KvRoom, CountsBlocksOfASequence) {
  const KvRoom plain{.blocks = 100, .tokens = 16};
  EXPECT_EQ(plain.needed(0), 0);
  EXPECT_EQ(plain.needed(1), 1);
  EXPECT_EQ(plain.needed(16), 1);
  EXPECT_EQ(plain.needed(17), 2);
  const KvRoom mixed{.blocks = 100, .tokens = 16, .windowed = 0.5, .window = 64, .fixed = 3};
  EXPECT_EQ(mixed.needed(160), 10 + 2 + 3);
  EXPECT_EQ(mixed.needed(32), 2 + 1 + 3);
}

}  // namespace
}  // namespace orrery
