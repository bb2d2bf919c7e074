#include "orrery/cluster/network/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/network/cluster_for_test.h"

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> way(const Topology& topology, int from, int to) {
  RouteMemory memory;
  std::vector<int> links;
  topology.route(from, to, memory, links);
  std::vector<std::string> names;
  for (const int l : links) names.push_back(topology.link_name(l));
  return names;
}

double latency(const Topology& topology, int from, int to) {
  RouteMemory memory;
  std::vector<int> links;
  topology.route(from, to, memory, links);
  double sum = 0;
  for (const int l : links) sum += topology.links()[static_cast<size_t>(l)].latency.value;
  return sum;
}

double bandwidth(const Topology& topology, const std::string& link) {
  for (size_t l = 0; l < topology.links().size(); ++l)
    if (topology.link_name(static_cast<int>(l)) == link) return topology.links()[l].bandwidth.value;
  ADD_FAILURE() << "no link " << link;
  return 0;
}

template <class Call>
void expect_error(ErrorKind kind, const std::string& text, Call call) {
  try {
    call();
    FAIL() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Topology, SwitchIsOneHopUpAndOneDown) {
  const Topology topology(test_switch(8), 8);
  EXPECT_THAT(way(topology, 3, 5), ElementsAre("3-nvlink.0", "nvlink.0-5"));
  EXPECT_DOUBLE_EQ(latency(topology, 3, 5), 1e-6);
  EXPECT_DOUBLE_EQ(bandwidth(topology, "3-nvlink.0"), 100e9);
  EXPECT_TRUE(topology.uniform());
}

TEST(Topology, RingGoesTheShorterWayAndUpwardsWhenEqual) {
  const Topology topology(test_ring(6), 6);
  EXPECT_THAT(way(topology, 5, 1), ElementsAre("5-0", "0-1"));
  EXPECT_THAT(way(topology, 1, 5), ElementsAre("1-0", "0-5"));
  EXPECT_THAT(way(topology, 0, 3), ElementsAre("0-1", "1-2", "2-3"));
  EXPECT_DOUBLE_EQ(bandwidth(topology, "0-1"), 50e9);
}

// Rank x + 4y; dimension x first. Three links a member: two in x, one in y of extent 2.
TEST(Topology, TorusGoesDimensionByDimension) {
  const Topology topology(test_torus({4, 2}), 8);
  EXPECT_THAT(way(topology, 0, 7), ElementsAre("0-3", "3-7"));
  EXPECT_THAT(way(topology, 7, 1), ElementsAre("7-4", "4-5", "5-1"));
  EXPECT_DOUBLE_EQ(bandwidth(topology, "3-7"), 100e9 / 3);
}

TEST(Topology, FullyConnectedSharesItsBandwidthAmongLinks) {
  const Topology topology(test_cluster({test_tier("xgmi", FabricShape::kFullyConnected, 5)}), 4);
  EXPECT_THAT(way(topology, 3, 1), ElementsAre("3-1"));
  EXPECT_DOUBLE_EQ(bandwidth(topology, "3-1"), 25e9);
  EXPECT_FALSE(topology.uniform());  // One of the five is not a rank.
}

TEST(Topology, NodesMeetThroughTheirOwnAdapters) {
  const Topology topology(test_nodes(4), 32);
  EXPECT_THAT(way(topology, 1, 6), ElementsAre("1-nvlink.0", "nvlink.0-6"));
  EXPECT_THAT(way(topology, 9, 22), ElementsAre("9-infiniband.0", "infiniband.0-22"));
  EXPECT_DOUBLE_EQ(bandwidth(topology, "9-infiniband.0"), 50e9);
  EXPECT_DOUBLE_EQ(latency(topology, 9, 22), 5e-6);
  EXPECT_THAT(topology.extents(), ElementsAre(8, 4));
}

TEST(Topology, DevicesShareFewerAdapters) {
  const Topology topology(test_nodes(2, FabricShape::kSwitch, 0, 1, 2), 16);
  EXPECT_THAT(way(topology, 3, 12),
              ElementsAre("infiniband.port.0-infiniband.0", "infiniband.0-infiniband.port.3"));
}

// Leaves of two nodes a rail: rank 17 is device 1 of node 2, so leaf 1·8 + 1.
TEST(Topology, FatTreeClimbsToTheSpineOfTheDestination) {
  const Topology topology(test_nodes(4, FabricShape::kFatTree, 2), 32);
  EXPECT_THAT(way(topology, 1, 9), ElementsAre("1-infiniband.leaf.1", "infiniband.leaf.1-9"));
  EXPECT_THAT(way(topology, 1, 17),
              ElementsAre("1-infiniband.leaf.1", "infiniband.leaf.1-infiniband.spine.0",
                          "infiniband.spine.0-infiniband.leaf.9", "infiniband.leaf.9-17"));
  EXPECT_THAT(way(topology, 1, 25),
              ElementsAre("1-infiniband.leaf.1", "infiniband.leaf.1-infiniband.spine.1",
                          "infiniband.spine.1-infiniband.leaf.9", "infiniband.leaf.9-25"));
  EXPECT_DOUBLE_EQ(latency(topology, 1, 17), 10e-6);
  const Topology narrow(test_nodes(8, FabricShape::kFatTree, 4, 4), 64);
  EXPECT_DOUBLE_EQ(bandwidth(narrow, "infiniband.leaf.0-infiniband.spine.0"), 50e9);
}

TEST(Topology, HashSpreadsOverAllSpines) {
  const Topology topology(test_nodes(64, FabricShape::kFatTree, 8), 512, Spreading::kHash);
  std::vector<int> used(8, 0);
  for (int to = 64; to < 512; to += 8)
    for (int spine = 0; spine < 8; ++spine)
      if (way(topology, 0, to)[1] == "infiniband.leaf.0-infiniband.spine." + std::to_string(spine))
        ++used[static_cast<size_t>(spine)];
  for (const int times : used) EXPECT_GT(times, 0);
  EXPECT_FALSE(topology.uniform());
}

// Groups of 8: two members a router (a = 2p), four routers. Group 0 reaches group 3 from its
// router 2 and arrives at router 0.
TEST(Topology, DragonflyCrossesOneLinkBetweenGroups) {
  FabricTier tier = test_tier("net", FabricShape::kDragonfly, 32);
  tier.group = 8;
  const Topology topology(test_cluster({tier}), 32);
  EXPECT_THAT(way(topology, 0, 31), ElementsAre("0-net.router.0", "net.router.0-net.router.2",
                                                "net.router.2-net.router.12",
                                                "net.router.12-net.router.15", "net.router.15-31"));
  EXPECT_THAT(way(topology, 0, 1), ElementsAre("0-net.router.0", "net.router.0-1"));
  // What a group's eight members send, over links to three others.
  EXPECT_DOUBLE_EQ(bandwidth(topology, "net.router.2-net.router.12"), 100e9 * 8 / 3);
}

Cluster drawn() {
  FabricTier tier = test_tier("mesh", FabricShape::kGraph, 4);
  const BytesPerSecond rate(10e9);
  const Seconds hop(1e-6);
  tier.drawn = {{0, 4, rate, hop}, {1, 4, rate, hop}, {4, 5, rate, hop},
                {2, 5, rate, hop}, {0, 1, rate, hop}, {0, 2, rate, hop}};
  return test_cluster({tier});
}

TEST(Topology, DrawnGraphTakesTheFewestHopsAroundDeadLinks) {
  Topology topology(drawn(), 3);
  EXPECT_THAT(way(topology, 1, 2), ElementsAre("1-0", "0-2"));
  topology.scale_link("0", "2", 0);
  EXPECT_THAT(way(topology, 1, 2),
              ElementsAre("1-mesh.switch.0", "mesh.switch.0-mesh.switch.1", "mesh.switch.1-2"));
}

TEST(Topology, ErrorsNameWhatIsInTheWay) {
  const Topology lonely(drawn(), 4);
  expect_error(ErrorKind::kInfeasible, "rank 0 cannot send to rank 3: no way leads there",
               [&] { way(lonely, 0, 3); });
  Topology ring(test_ring(6), 6);
  ring.scale_link("2", "3", 0);
  EXPECT_FALSE(ring.uniform());
  expect_error(ErrorKind::kInfeasible, "rank 1 cannot send to rank 3: link 2-3 is dead",
               [&] { way(ring, 1, 3); });
  EXPECT_THAT(way(ring, 0, 5), ElementsAre("0-5"));
  expect_error(ErrorKind::kUsage, "there is no link 0-3; 0 is joined to 1, 5",
               [&] { ring.scale_link("0", "3", 0.5); });
  expect_error(ErrorKind::kUsage, "the fabric has no 'nvlink.0'",
               [&] { ring.scale_link("nvlink.0", "3", 0.5); });
  expect_error(ErrorKind::kUsage, "there is no rank 6", [&] { ring.scale_rank(6, 0.5); });
  expect_error(ErrorKind::kInfeasible, "test has 6 devices at most; 7 ranks",
               [] { const Topology topology(test_ring(6), 7); });
  expect_error(ErrorKind::kInfeasible, "dimensions make 6 members, not 8", [] {
    Cluster cluster = test_torus({4, 2});
    cluster.tiers[0].dimensions = {3, 2};
    const Topology topology(cluster, 8);
  });
  expect_error(ErrorKind::kInfeasible, "more than 16777216 links", [] {
    const Topology topology(test_cluster({test_tier("all", FabricShape::kFullyConnected, 10000)}),
                            10000);
  });
}

}  // namespace
}  // namespace orrery::fabric
