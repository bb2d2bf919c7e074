#include "orrery/cluster/network/max_min.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::fabric {
namespace {

using ::testing::UnorderedElementsAre;

/// Flows by the links they cross.
FlowSystem system(std::vector<double> capacity, const std::vector<std::vector<int>>& flows) {
  FlowSystem s;
  s.capacity = std::move(capacity);
  for (const std::vector<int>& links : flows) {
    s.bytes.push_back(1);
    s.latency.push_back(0);
    s.start.push_back(0);
    s.repeat.push_back(1);
    for (const int l : links) {
      s.link.push_back(l);
      s.crossing.push_back(1);
    }
    s.first_link.push_back(static_cast<int>(s.link.size()));
    s.first_wait.push_back(0);
  }
  return s;
}

TEST(MaxMin, TwoFlowsOnALinkGetHalfEach) {
  const FlowSystem s = system({10}, {{0}, {0}});
  MaxMinShares shares(s);
  shares.start(0);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(0), 10);
  shares.start(1);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(0), 5);
  EXPECT_DOUBLE_EQ(shares.rate(1), 5);
  shares.stop(0);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(1), 10);
}

// After Bertsekas and Gallager's first example (§6.5.2): three share the first link, and the long
// one leaves two thirds of the second link to the flow it meets there.
TEST(MaxMin, WhatABottleneckLeavesGoesToOthers) {
  const FlowSystem s = system({1, 1}, {{0}, {0}, {0, 1}, {1}});
  MaxMinShares shares(s);
  for (int i = 0; i < 4; ++i) shares.start(i);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares.rate(1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares.rate(2), 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares.rate(3), 2.0 / 3);
}

// The parking lot: one flow over links of 12, 6 and 9 meets one, two and three others there.
TEST(MaxMin, LongFlowGetsTheNarrowestShareOfItsWay) {
  const FlowSystem s = system({12, 6, 9}, {{0, 1, 2}, {0}, {1}, {1}, {2}, {2}, {2}});
  MaxMinShares shares(s);
  for (int i = 0; i < 7; ++i) shares.start(i);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(0), 2);   // 6 / 3
  EXPECT_DOUBLE_EQ(shares.rate(1), 10);  // 12 − 2
  EXPECT_DOUBLE_EQ(shares.rate(2), 2);
  EXPECT_DOUBLE_EQ(shares.rate(4), 7.0 / 3);  // (9 − 2) / 3
}

TEST(MaxMin, OnlyFlowsThatMeetAreSharedAnew) {
  const FlowSystem s = system({1, 1, 1}, {{0}, {0, 1}, {1}, {2}});
  MaxMinShares shares(s);
  for (int i = 0; i < 4; ++i) shares.start(i);
  EXPECT_THAT(shares.update(), UnorderedElementsAre(0, 1, 2, 3));
  shares.stop(2);
  EXPECT_THAT(shares.update(), UnorderedElementsAre(0, 1));
  EXPECT_TRUE(shares.update().empty());
}

// A folded flow that stands for four on a link of 8 next to a single one: 8 / 5 each.
TEST(MaxMin, FoldedFlowsCountOnTheirLinks) {
  FlowSystem s = system({8}, {{0}, {0}});
  s.crossing[0] = 4;
  MaxMinShares shares(s);
  shares.start(0);
  shares.start(1);
  shares.update();
  EXPECT_DOUBLE_EQ(shares.rate(0), 1.6);
  EXPECT_DOUBLE_EQ(shares.rate(1), 1.6);
}

}  // namespace
}  // namespace orrery::fabric
