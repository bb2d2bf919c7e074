#include "orrery/serving/engine/size_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

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

TEST(SizeTable, FindsItsPlaceInTheSecondGrid) {
  // Through points of y², the line at y lies (y - a)(b - y) above it, between points a and b.
  for (const SizeGrid& grid : {SizeGrid{0, 1, 3, 100}, geometric_grid(16, 1 << 20),
                               SizeGrid{7, 8, 9, 10, 11, 12, 13, 14, 15, 1000}}) {
    const SizeTable table({1}, grid, 0,
                          [](int64_t, int64_t y) { return static_cast<double>(y * y); });
    for (size_t i = 0; i + 1 < grid.size(); ++i) {
      const auto a = static_cast<double>(grid[i]), b = static_cast<double>(grid[i + 1]);
      for (const double share : {0.0, 0.25, 0.5, 0.999}) {
        const double y = a + share * (b - a);
        EXPECT_NEAR(table.at(1, y), y * y + (y - a) * (b - y), 1e-9 * b * b) << y;
      }
    }
  }
}

TEST(SizeTable, SaysHowFarALineGoes) {
  const SizeTable table({2, 4}, {10, 20, 40}, 0,
                        [](int64_t x, int64_t y) { return static_cast<double>(x * y * y); });
  // Through (10, 200) and (20, 800) of x = 2, and through (10, 400) and (20, 1600) of x = 4.
  SizeTable::Line line = table.line(3, 15);
  EXPECT_EQ(line.value, (500 + 1000) / 2.0);
  EXPECT_EQ(line.slope, (60 + 120) / 2.0);
  EXPECT_EQ(line.end, 20);
  line = table.line(2, 20);  // at a point, that which follows
  EXPECT_EQ(line.value, 800);
  EXPECT_EQ(line.slope, 120);
  EXPECT_EQ(line.end, std::numeric_limits<double>::infinity());
  line = table.line(2, 4);  // before the first point nothing changes
  EXPECT_EQ(line.value, 200);
  EXPECT_EQ(line.slope, 0);
  EXPECT_EQ(line.end, 10);
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
