#include "orrery/cluster/network/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;
using K = CollectiveKind;

std::map<int, double> sent_by_rank(const Schedule& schedule) {
  std::map<int, double> sent;
  for (const Phase& phase : schedule.phases) {
    for (const Transfer& t : phase.transfers)
      sent[t.source] += t.bytes.value * static_cast<double>(t.repeat);
    for (const std::vector<int>& crowd : phase.crowds)
      for (const int rank : crowd)
        sent[rank] += phase.crowd_bytes.value * static_cast<double>(crowd.size() - 1);
  }
  return sent;
}

Schedule schedule(const std::string& algorithm, K kind, double bytes, int ranks,
                  const std::vector<int>& extents = {}) {
  const GroupLayout layout =
      lay_groups({ranks, 1}, ranks, extents.empty() ? std::vector<int>{ranks} : extents);
  const auto made =
      Registry<ScheduleAlgorithm>::instance().at(algorithm, "collective algorithm").create();
  EXPECT_TRUE(made->runs(kind, layout.grid));
  return made->schedule(kind, Bytes(bytes), layout);
}

/// Every rank sends as much.
double sent_by_each(const Schedule& schedule, int ranks) {
  const std::map<int, double> sent = sent_by_rank(schedule);
  EXPECT_EQ(static_cast<int>(sent.size()), ranks);
  for (const auto& [rank, bytes] : sent) EXPECT_NEAR(bytes, sent.at(0), 1e-6) << rank;
  return sent.at(0);
}

// The least that an all-reduce can send is 2(n − 1)/n of its buffer (Patarasuk and Yuan, 2009).
TEST(Schedule, AllReducesSendTheLeastThereIs) {
  const double least = 2 * 63.0 / 64 * 640;
  for (const char* algorithm : {"ring", "bidirectional-ring", "halving-doubling", "direct"})
    EXPECT_NEAR(sent_by_each(schedule(algorithm, K::kAllReduce, 640, 64), 64), least, 1e-6)
        << algorithm;
  for (const char* algorithm : {"hierarchical", "torus", "rail-rings"})
    EXPECT_NEAR(sent_by_each(schedule(algorithm, K::kAllReduce, 640, 64, {4, 16}), 64), least, 1e-6)
        << algorithm;
}

TEST(Schedule, HalvesOfAnAllReduceSendHalf) {
  const double least = 63.0 / 64 * 640;
  for (const K kind : {K::kAllGather, K::kReduceScatter}) {
    for (const char* algorithm : {"ring", "bidirectional-ring", "halving-doubling", "direct"})
      EXPECT_NEAR(sent_by_each(schedule(algorithm, kind, 640, 64), 64), least, 1e-6) << algorithm;
    for (const char* algorithm : {"hierarchical", "torus"})
      EXPECT_NEAR(sent_by_each(schedule(algorithm, kind, 640, 64, {4, 4, 4}), 64), least, 1e-6)
          << algorithm;
  }
  EXPECT_NEAR(sent_by_each(schedule("bruck", K::kAllGather, 640, 64), 64), least, 1e-6);
  // Not a power of two: 1, 2, 4 and 3 blocks of a tenth.
  EXPECT_NEAR(sent_by_each(schedule("bruck", K::kAllGather, 10, 11), 11), 10.0 * 10 / 11, 1e-6);
}

// Each step passes on the 32 of 64 blocks with one bit set.
TEST(Schedule, BruckAllToAllSendsHalfInEveryStep) {
  EXPECT_NEAR(sent_by_each(schedule("bruck", K::kAllToAll, 640, 64), 64), 6 * 320, 1e-6);
}

// Whoever is a leaf of one tree has children in the other: nobody sends more than the buffer up
// and the buffer down.
TEST(Schedule, TwoTreesShareTheLoad) {
  for (const int n : {2, 7, 8, 64, 100}) {
    const Schedule trees = schedule("double-binary-tree", K::kAllReduce, 8e6, n);
    double total = 0;
    for (const auto& [rank, bytes] : sent_by_rank(trees)) {
      EXPECT_LE(bytes, 2 * 8e6 + 1e-6) << rank;
      total += bytes;
    }
    EXPECT_NEAR(total, 2.0 * (n - 1) * 8e6, 1);
  }
}

TEST(Schedule, RootedCollectivesMoveWhatTheyMust) {
  const std::map<int, double> scattered = sent_by_rank(schedule("binomial", K::kScatter, 10, 8));
  EXPECT_DOUBLE_EQ(scattered.at(0), 70);
  EXPECT_DOUBLE_EQ(scattered.at(4), 30);
  EXPECT_DOUBLE_EQ(scattered.at(6), 10);
  const std::map<int, double> gathered = sent_by_rank(schedule("binomial", K::kGather, 10, 7));
  EXPECT_EQ(gathered.count(0), 0U);
  EXPECT_DOUBLE_EQ(gathered.at(4), 30);
  const std::map<int, double> told = sent_by_rank(schedule("ring", K::kBroadcast, 10, 4));
  EXPECT_EQ(told, (std::map<int, double>{{0, 10}, {1, 10}, {2, 10}}));
  EXPECT_EQ(schedule("bruck", K::kBarrier, 0, 9).phases.size(), 4U);
}

// A ring of n ranks is n transfers, however often they repeat.
TEST(Schedule, RingsAreNotUnrolled) {
  const Schedule ring = schedule("ring", K::kAllReduce, 1e9, 65536);
  ASSERT_EQ(ring.phases.size(), 1U);
  EXPECT_EQ(ring.phases[0].transfers.size(), 65536U);
  EXPECT_EQ(ring.phases[0].transfers[0].repeat, 2 * 65535);
}

TEST(Schedule, GroupsFillTheirNodes) {
  EXPECT_EQ(call_ranks({4, 8}, 8), 32);
  EXPECT_EQ(call_ranks({2, 2}, 8), 8);
  const GroupLayout pairs = lay_groups({2, 2}, 8, {8});
  EXPECT_THAT(pairs.groups, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6),
                                        ElementsAre(5, 7)));
  EXPECT_THAT(lay_groups({16, 1}, 16, {8, 2}).grid, ElementsAre(8, 2));
  EXPECT_THAT(lay_groups({8, 2}, 16, {8, 2}).grid, ElementsAre(4, 2));
  EXPECT_THAT(lay_groups({4, 8}, 32, {8, 4}).grid, ElementsAre(4));
  EXPECT_THAT(lay_groups({12, 1}, 12, {8, 2}).grid, ElementsAre(12));
}

}  // namespace
}  // namespace orrery::fabric
