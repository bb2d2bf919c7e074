#include "orrery/api/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace orrery {
namespace {

TEST(PlacementTest, AStreamThatIsTheSlowerOneNeverWaits) {
  // Kernels of 10, 2 and 5 with gaps of 1: 20 in all; dispatches of 3 take 9.
  const std::vector<QueuedWork> work = {{1, 10, 1, 3}, {1, 2, 1, 3}, {1, 5, 1, 3}};
  std::vector<PlacedWork> placed(3);
  const double lead = place_step(work, 20, placed);
  EXPECT_DOUBLE_EQ(lead, 3);  // the first dispatch
  EXPECT_DOUBLE_EQ(placed[0].start_s, 3);
  EXPECT_DOUBLE_EQ(placed[0].end_s, 13);
  EXPECT_DOUBLE_EQ(placed[1].start_s, 14);
  EXPECT_DOUBLE_EQ(placed[2].start_s, 17);
  EXPECT_DOUBLE_EQ(placed[2].end_s + 1, lead + 20);
  EXPECT_DOUBLE_EQ(placed[2].host_start_s, 6);
  EXPECT_DOUBLE_EQ(placed[2].host_end_s, 9);
}

TEST(PlacementTest, AHostThatIsTheSlowerOneMakesTheStreamWait) {
  // Dispatches of 10 take 30, kernels and gaps 2 + 3 + 2 = 7.
  const std::vector<QueuedWork> work = {{1, 1, 1, 10}, {1, 2, 1, 10}, {1, 1, 1, 10}};
  std::vector<PlacedWork> placed(3);
  const double lead = place_step(work, 30, placed);
  EXPECT_DOUBLE_EQ(lead, 2);  // the last kernel and its gap end with the step
  EXPECT_DOUBLE_EQ(placed[0].start_s, 10);
  EXPECT_DOUBLE_EQ(placed[1].start_s, 20);
  EXPECT_DOUBLE_EQ(placed[2].start_s, 30);
  EXPECT_DOUBLE_EQ(placed[2].end_s + 1, lead + 30);
}

TEST(PlacementTest, TheHostLeadsByWhatSmallKernelsAtTheBeginningNeed) {
  // Three kernels of 1 that the host is slow to queue, then one of 40: 43 in all, so that
  // the host must be 3 dispatches ahead, less what the stream does meanwhile.
  const std::vector<QueuedWork> work = {{1, 1, 0, 5}, {1, 1, 0, 5}, {1, 1, 0, 5}, {1, 40, 0, 5}};
  std::vector<PlacedWork> placed(4);
  const double lead = place_step(work, 43, placed);
  EXPECT_DOUBLE_EQ(lead, 17);  // 20 + 40 − 43
  EXPECT_DOUBLE_EQ(placed[0].start_s, 17);
  EXPECT_DOUBLE_EQ(placed[3].start_s, 20);
  EXPECT_DOUBLE_EQ(placed[3].end_s, lead + 43);
}

TEST(PlacementTest, ManyInARowTakeAsLongAsOneByOne) {
  for (const double dispatch : {0.5, 4.0}) {
    const std::vector<QueuedWork> folded = {{1, 3, 0.5, dispatch}, {5, 1, 0.5, dispatch}};
    std::vector<QueuedWork> single = {folded[0]};
    for (int i = 0; i < 5; ++i) single.push_back({1, 1, 0.5, dispatch});
    const double step = dispatch < 1 ? 3.5 + 5 * 1.5 : 6 * dispatch;
    std::vector<PlacedWork> few(2);
    std::vector<PlacedWork> many(6);
    EXPECT_DOUBLE_EQ(place_step(folded, step, few), place_step(single, step, many));
    EXPECT_DOUBLE_EQ(few[1].start_s, many[1].start_s);
    EXPECT_DOUBLE_EQ(few[1].end_s, many[5].end_s);
    EXPECT_DOUBLE_EQ(few[1].host_end_s, many[5].host_end_s);
  }
}

TEST(PlacementTest, NoWorkTakesNoTime) { EXPECT_EQ(place_step({}, 0, {}), 0); }

}  // namespace
}  // namespace orrery
