#include "orrery/cluster/collective.h"

#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/cluster_for_test.h"
#include "orrery/cluster/group_place.h"

namespace orrery {
namespace {

double alpha_beta_us(const Cluster& cluster, CollectiveKind kind, double bytes, RankGroup group,
                     const std::string& algorithm) {
  const CollectiveCall call{kind, Bytes(bytes), group, ElementType::kF32};
  return bound("alpha-beta", cluster, algorithm)->predict(call).estimate.seconds.value * 1e6;
}

TEST(GroupPlace, SharesTheAdaptersOfANodeAmongTheGroupsThatCrossIt) {
  const Cluster cluster = plain_cluster(8, 16);
  const GroupPlace whole = place_group(cluster, {32, 1});
  EXPECT_EQ(whole.nodes, 4);
  EXPECT_EQ(whole.per_node, 8);
  EXPECT_DOUBLE_EQ(whole.outside_bandwidth.value, 10e9);

  // One rank a node: eight such groups cross each node at once.
  const GroupPlace rail = place_group(cluster, {4, 8});
  EXPECT_EQ(rail.nodes, 4);
  EXPECT_EQ(rail.per_node, 1);
  EXPECT_DOUBLE_EQ(rail.outside_bandwidth.value, 10e9 / 8);

  const GroupPlace inside = place_group(cluster, {4, 2});
  EXPECT_EQ(inside.nodes, 1);
  EXPECT_EQ(inside.outside, nullptr);

  // Ranks 0, 5, 10 and 15: two in the first node and two in the second.
  const GroupPlace uneven = place_group(cluster, {4, 5});
  EXPECT_EQ(uneven.per_node, 2);
  EXPECT_EQ(uneven.nodes, 2);
  EXPECT_EQ(place_group(cluster, {2, 7}).nodes, 1);
  const GroupPlace pairs = place_group(cluster, {8, 4});
  EXPECT_EQ(pairs.per_node, 2);
  EXPECT_EQ(pairs.nodes, 4);
  EXPECT_DOUBLE_EQ(pairs.outside_bandwidth.value, 10e9 * 2 / 8);
}

TEST(GroupPlace, TakesOversubscriptionWhereNeighboursLieInOtherLeaves) {
  Cluster cluster = plain_cluster(8, 64);
  cluster.tiers[1].group = 8;
  cluster.tiers[1].oversubscription = 4;
  // Neighbours one node apart: of eight links one leaves the leaf, which 4:1 allows.
  EXPECT_DOUBLE_EQ(place_group(cluster, {64 * 8, 1}).outside_bandwidth.value, 10e9);
  // Eight nodes apart: all leave it.
  EXPECT_DOUBLE_EQ(place_group(cluster, {8, 64}).outside_bandwidth.value, 10e9 / 4 / 8);
}

TEST(GroupPlace, RefusesWhatIsNotOnTheCluster) {
  const Cluster cluster = plain_cluster(8, 1);
  EXPECT_THROW(place_group(cluster, {9, 1}), Error);
  EXPECT_THROW(place_group(cluster, {0, 1}), Error);
  EXPECT_THROW(place_group(cluster, {2, 0}), Error);
  try {
    place_group(cluster, {2, 8});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInfeasible);
  }
  EXPECT_NO_THROW(place_group(cluster, {2, 7}));
}

TEST(AlphaBeta, RingIsTwoTurnsOfSteps) {
  const Cluster cluster = plain_cluster(8, 1);
  // 2 · 7 steps of 1 µs, and 2 · 7/8 of 80 MB at 100 GB/s: 1,400 µs.
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kAllReduce, 80e6, {8, 1}, "ring"), 1414, 1e-6);
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kAllGather, 80e6, {8, 1}, "ring"), 707, 1e-6);
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kReduceScatter, 80e6, {8, 1}, "ring"), 707,
              1e-6);
  // A pipeline: 7 hops, and the buffer once.
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kBroadcast, 80e6, {8, 1}, "ring"), 807, 1e-6);
}

TEST(AlphaBeta, RingOverNodesIsAsSlowAsTheAdapters) {
  const Cluster cluster = plain_cluster(4, 2);
  // 14 steps, of each turn of 8 hops 2 between nodes: 10.5 · 1 + 3.5 · 5 µs; 1.75 · 8 MB at 10
  // GB/s.
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kAllReduce, 8e6, {8, 1}, "ring"),
              10.5 + 17.5 + 1400, 1e-6);
}

TEST(AlphaBeta, OtherAlgorithmsByHand) {
  const Cluster cluster = plain_cluster(8, 1);
  const auto us = [&](CollectiveKind kind, const char* algorithm) {
    return alpha_beta_us(cluster, kind, 80e6, {8, 1}, algorithm);
  };
  // 2 · ⌈7/2⌉ steps.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, "bidirectional-ring"), 8 + 1400, 1e-6);
  // 2 · log2 8 steps.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, "halving-doubling"), 6 + 1400, 1e-6);
  // A chain up and down: 2 · 7 hops, twice the buffer.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, "tree"), 14 + 1600, 1e-6);
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, "one-shot"), 1 + 7 * 800, 1e-6);
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, "two-shot"), 2 + 1400, 1e-6);
  EXPECT_NEAR(us(CollectiveKind::kAllToAll, "direct"), 1 + 700, 1e-6);
  EXPECT_NEAR(us(CollectiveKind::kSendReceive, "direct"), 1 + 800, 1e-6);
  EXPECT_NEAR(us(CollectiveKind::kGather, "direct"), 1 + 5600, 1e-6);
  // The best of all by itself.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, ""), 2 + 1400, 1e-6);
}

TEST(AlphaBeta, AllToAllOverNodesLeavesThroughTheAdapters) {
  const Cluster cluster = plain_cluster(4, 2);
  // Each of 4 ranks sends 4/8 of 8 MB out of its node: 16 MB at 10 GB/s, one hop of 5 µs.
  EXPECT_NEAR(alpha_beta_us(cluster, CollectiveKind::kAllToAll, 8e6, {8, 1}, "direct"), 1605, 1e-6);
}

TEST(AlphaBeta, TorusRunsAlongAllAxes) {
  const Cluster pod = catalogue_cluster("tpu-v5p-pod");  // 16x20x28, 600 GB/s, 1 µs a hop
  const int all = 16 * 20 * 28;
  const auto us = [&](CollectiveKind kind, RankGroup group) {
    return alpha_beta_us(pod, kind, 6e9, group, "");
  };
  // Half around each axis, all links at work.
  EXPECT_NEAR(us(CollectiveKind::kAllGather, {all, 1}), 8 + 10 + 14 + 1e4 * (all - 1) / all, 1e-3);
  // One closed axis of three: a third of the links.
  EXPECT_NEAR(us(CollectiveKind::kAllGather, {16, 1}), 8 + 3e4 * 15 / 16, 1e-3);
  // Four of sixteen: not closed, so half of that third.
  EXPECT_NEAR(us(CollectiveKind::kAllGather, {4, 1}), 3 + 6e4 * 3 / 4, 1e-3);
  // The second axis: ranks sixteen apart.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, {20, 16}), 2 * 10 + 2 * 3e4 * 19 / 20, 1e-3);
  // All-to-all over the longest axis: S · 28 / (8 · 100 GB/s).
  EXPECT_NEAR(us(CollectiveKind::kAllToAll, {all, 1}), 32 + 6e9 * 28 / 8 / 100e9 * 1e6, 1e-3);
}

TEST(Collectives, OneRankTakesNoTime) {
  for (const char* library : {"nccl", "vllm-custom", "alpha-beta"}) {
    const auto predictor = bound(library, catalogue_cluster("dgx-h100"));
    const CollectiveEstimate e =
        predictor->predict({CollectiveKind::kAllReduce, Bytes(1e6), {1, 1}, ElementType::kBF16});
    EXPECT_EQ(e.estimate.seconds.value, 0) << library;
    EXPECT_EQ(e.algorithm, "none");
  }
}

TEST(Collectives, AllKindsHaveATimeOnAllClusters) {
  const Catalogue catalogue(ORRERY_SOURCE_DIR "/hardware");
  for (const std::string& name : catalogue.cluster_names()) {
    const Cluster cluster = catalogue.cluster(name);
    const auto predictor = bound(std::string(default_library(cluster)), cluster);
    for (size_t k = 0; k < kCollectiveKindCount; ++k)
      for (const RankGroup group :
           {RankGroup{2, 1}, RankGroup{4, 1}, RankGroup{16, 1}, RankGroup{16, 8}}) {
        if ((group.size - 1) * group.stride + 1 > cluster.largest()) continue;
        double last = 0;
        for (const double bytes : {8.0, 65536.0, 1e6 * 16, 1e9 * 16, 1e12}) {
          const CollectiveEstimate e = predictor->predict(
              {static_cast<CollectiveKind>(k), Bytes(bytes), group, ElementType::kBF16});
          // NCCL may choose another algorithm late, and the time falls: of 16 B200 by a third.
          EXPECT_GT(e.estimate.seconds.value, last * (k == 10 ? 0 : 0.6))
              << name << " " << k << " " << bytes;
          last = e.estimate.seconds.value;
        }
      }
  }
}

TEST(Collectives, KindsAreNamed) {
  for (size_t k = 0; k < kCollectiveKindCount; ++k)
    EXPECT_EQ(collective_kind(name(static_cast<CollectiveKind>(k))),
              static_cast<CollectiveKind>(k));
  try {
    collective_kind("allreduce");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_NE(e.message().find("all-reduce"), std::string::npos) << e.message();
  }
}

}  // namespace
}  // namespace orrery
