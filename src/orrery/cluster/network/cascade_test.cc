#include <gtest/gtest.h>

#include <random>

#include "orrery/cluster/network/flow_system.h"

namespace orrery::fabric {
namespace {

/// A flow over its own link of 1 byte a second.
int add_flow(FlowSystem& s, double bytes, double latency, double start, int64_t repeat) {
  s.bytes.push_back(bytes);
  s.latency.push_back(latency);
  s.start.push_back(start);
  s.repeat.push_back(repeat);
  s.link.push_back(static_cast<int>(s.capacity.size()));
  s.crossing.push_back(1);
  s.capacity.push_back(1);
  s.first_link.push_back(static_cast<int>(s.link.size()));
  s.first_wait.push_back(static_cast<int>(s.wait_on.size()));
  return s.size() - 1;
}

/// Flows of random length that wait for the one before them, as rings of `n`.
FlowSystem random_rings(int n, int rings, int64_t repeat, unsigned seed, bool late) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> length(1, 2), lag(0.1, 3), start(0, late ? 50 : 0);
  FlowSystem s;
  for (int r = 0; r < rings; ++r)
    for (int i = 0; i < n; ++i) {
      s.wait_on.push_back(r * n + (i + n - 1) % n);
      s.wait.push_back(Wait::kPreviousTurn);
      add_flow(s, length(random), lag(random), start(random), repeat);
    }
  return s;
}

void expect_like_events(const FlowSystem& s, int64_t most_bends) {
  FlowWork work;
  const SentTimes events = run_events(s, false, work);
  const SentTimes cascade = run_cascade(s, work, most_bends);
  ASSERT_EQ(events.size(), cascade.size());
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_NEAR(cascade[i], events[i], events[i] * 1e-10) << i;
}

TEST(Cascade, RandomRingsEndAsTheirEventsDo) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const FlowSystem s = random_rings(17, 2, 60, seed, seed % 2 == 0);
    ASSERT_TRUE(s.uncontended());
    expect_like_events(s, -1);
    expect_like_events(s, 0);  // Turn by turn.
  }
}

// A pipeline of four stages of 1 to 4 s with ten turns: the stage of 4 s sets the pace, and the
// first turn comes to it after 1 + 2 + 3 s and three latencies of 0.5 s.
TEST(Cascade, PipelineRunsAtThePaceOfItsSlowestStage) {
  FlowSystem s;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      s.wait_on.push_back(i - 1);
      s.wait.push_back(Wait::kSameTurn);
    }
    add_flow(s, i + 1, 0.5, 0, 10);
  }
  FlowWork work;
  EXPECT_NEAR(run_cascade(s, work)[3], 1 + 2 + 3 + 3 * 0.5 + 10 * 4, 1e-9);
  expect_like_events(s, 0);
}

// Ends when the late stage overtakes: a fast stage that starts at 30 s and a slow one at 0.
TEST(Cascade, BendsWhereAnotherTakesOver) {
  FlowSystem s;
  add_flow(s, 2, 0, 0, 100);   // Ends turn k at 2(k + 1).
  add_flow(s, 1, 0, 30, 100);  // Ends turn k at 31 + k, so it is ahead until turn 29.
  s.wait_on = {0, 1};
  s.wait = {Wait::kSameTurn, Wait::kSameTurn};
  add_flow(s, 0.5, 0, 0, 100);
  FlowWork work;
  EXPECT_NEAR(run_cascade(s, work)[2], 200.5, 1e-9);
  EXPECT_LT(work.events, 12);
  expect_like_events(s, -1);
}

// 60,000 turns in a steady state are not walked.
TEST(Events, RepeatedTurnsAreSkipped) {
  FlowSystem s;
  for (int i = 0; i < 2; ++i) {
    s.wait_on.push_back(1 - i);
    s.wait.push_back(Wait::kPreviousTurn);
    add_flow(s, 1 + i, 0.25, 0, 60000);
  }
  // Both share the second's link.
  s.link[0] = 1;
  FlowWork work;
  const SentTimes walked = run_events(s, false, work);
  FlowWork skipped;
  const SentTimes jumped = run_events(s, true, skipped);
  EXPECT_NEAR(jumped[0] / walked[0], 1, 1e-9);
  EXPECT_NEAR(jumped[1] / walked[1], 1, 1e-9);
  EXPECT_LT(skipped.events, 100);
  EXPECT_GT(skipped.skipped, 100000);
}

// Six flows in pairs over three links, one of them half as wide: two classes.
TEST(Fold, FlowsInEqualPlacesAreOne) {
  FlowSystem s;
  s.capacity = {2, 2, 1};
  for (int i = 0; i < 6; ++i) {
    s.bytes.push_back(1);
    s.latency.push_back(0);
    s.start.push_back(0);
    s.repeat.push_back(1);
    s.link.push_back(i / 2);
    s.crossing.push_back(1);
    s.first_link.push_back(i + 1);
    s.first_wait.push_back(0);
  }
  const FoldedSystem folded = fold(FlowSystem(s));
  EXPECT_EQ(folded.system.size(), 2);
  EXPECT_EQ(folded.class_of, (std::vector<int>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(folded.system.crossing, (std::vector<double>{2, 2}));
  FlowWork work;
  EXPECT_EQ(run_events(folded.system, false, work), (SentTimes{1, 2}));
}

}  // namespace
}  // namespace orrery::fabric
