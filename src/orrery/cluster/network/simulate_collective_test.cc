#include "orrery/cluster/network/simulate_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/network/cluster_for_test.h"

namespace orrery::fabric {
namespace {

using ::testing::HasSubstr;

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

CollectiveCall all_reduce(int ranks, int stride = 1) {
  return {CollectiveKind::kAllReduce, Bytes(1e9), {ranks, stride}, ElementType::kBF16};
}

TEST(SimulateCollective, ReadsLinksAndStragglers) {
  const auto link = parse_scaled_link("3-infiniband.leaf.2=0.25");
  EXPECT_EQ(link.a, "3");
  EXPECT_EQ(link.b, "infiniband.leaf.2");
  EXPECT_DOUBLE_EQ(link.factor, 0.25);
  EXPECT_DOUBLE_EQ(parse_straggler("7=2ms").delay.value, 2e-3);
  EXPECT_DOUBLE_EQ(parse_straggler("7=0.5x").speed, 0.5);
  EXPECT_EQ(parse_straggler("7=0.5x").rank, 7);
  for (const char* text : {"3-4", "3=0.5", "3-4=", "3-4=-1", "3-4=nan", "=", ""})
    EXPECT_THROW(parse_scaled_link(text), Error) << text;
  for (const char* text : {"3", "x=2ms", "3x=2ms", "-1=2ms", "3=2", "3=-2ms", "3=x", "=", ""})
    EXPECT_THROW(parse_straggler(text), Error) << text;
}

TEST(SimulateCollective, TakesTheQuickestAlgorithmThatFits) {
  const FlowOptions options;
  // Small messages want few steps, large ones full links.
  CollectiveCall small = all_reduce(64);
  small.bytes = Bytes(1024);
  EXPECT_EQ(simulate_collective(test_switch(64), small, options).algorithm, "direct");
  EXPECT_EQ(simulate_collective(test_torus({4, 4, 4}), all_reduce(64), options).algorithm, "torus");
}

TEST(SimulateCollective, DoesNotPriceWhatTakesTooLong) {
  using ::testing::Contains;
  FlowOptions options;
  // On a ring direct would walk a quarter of it, on average, for each rank.
  const CollectiveSimulation ring =
      simulate_collective(test_ring(1 << 15), all_reduce(1 << 15), options);
  EXPECT_THAT(ring.algorithm, HasSubstr("ring"));
  EXPECT_THAT(ring.too_large, Contains("direct"));
  options.network = "analytic";
  // Ranks of the last node are missing: none is like another, and there are 100 million
  // pairs.
  const CollectiveSimulation part =
      simulate_collective(test_nodes(2000), all_reduce(10001), options);
  EXPECT_THAT(part.too_large, ::testing::ElementsAre("direct"));
  // What is small is compared in full.
  EXPECT_TRUE(simulate_collective(test_nodes(4), all_reduce(31), options).too_large.empty());
}

TEST(SimulateCollective, SaysWhichLinksAreBusyAndHowMuchIsSent) {
  FlowOptions options;
  options.algorithm = "ring";
  const CollectiveSimulation ring = simulate_collective(test_ring(4), all_reduce(4), options);
  EXPECT_DOUBLE_EQ(ring.sent.value, 1.5e9);
  ASSERT_EQ(ring.busiest.size(), 4U);  // One way round.
  EXPECT_EQ(ring.busiest[0].link, "0-1");
  EXPECT_DOUBLE_EQ(ring.busiest[0].bytes.value, 1.5e9);
  // 6 turns of 5 ms, and 6 µs of latency.
  EXPECT_NEAR(ring.busiest[0].share, 0.03 / 0.030006, 1e-9);
  EXPECT_EQ(ring.rank_finish.size(), 4U);
}

TEST(SimulateCollective, OneRankAloneIsDoneAtOnce) {
  for (const char* algorithm : {"ring", "direct", "halving-doubling", "double-binary-tree"}) {
    FlowOptions options;
    options.algorithm = algorithm;
    EXPECT_EQ(simulate_collective(test_switch(8), all_reduce(1), options).time.value, 0);
    options.exact = true;
    EXPECT_EQ(simulate_collective(test_switch(8), all_reduce(1), options).time.value, 0);
  }
}

TEST(SimulateCollective, RefusesWhatCannotBe) {
  const auto run = [](const Cluster& cluster, const CollectiveCall& call, FlowOptions options) {
    simulate_collective(cluster, call, options);
  };
  FlowOptions options;
  expect_error(ErrorKind::kInfeasible, "test has 8 devices at most; a group of 9 ranks, 1 apart",
               [&] { run(test_switch(8), all_reduce(9), options); });
  expect_error(ErrorKind::kInfeasible, "a group of 2147483647 ranks",
               [&] { run(test_switch(8), all_reduce(2147483647, 2147483647), options); });
  expect_error(ErrorKind::kInfeasible, "4194304 ranks at most are simulated",
               [&] { run(test_switch(2000000000), all_reduce(2000000000), options); });
  options.algorithm = "rings";
  expect_error(ErrorKind::kUsage, "unknown collective algorithm 'rings'",
               [&] { run(test_switch(8), all_reduce(8), options); });
  options.algorithm = "halving-doubling";
  expect_error(ErrorKind::kUsage, "'halving-doubling' does not run all-reduce over 6 ranks",
               [&] { run(test_switch(8), all_reduce(6), options); });
  options.algorithm = "ring";
  options.conditions.background = 1;
  expect_error(ErrorKind::kUsage, "a share from 0 up to 1",
               [&] { run(test_switch(8), all_reduce(8), options); });
  options.conditions.background = 0;
  options.conditions.stragglers.push_back({8, Seconds(1), 1});
  expect_error(ErrorKind::kUsage, "there is no rank 8",
               [&] { run(test_switch(8), all_reduce(8), options); });
  // 8,192 ranks that are not alike, all to all: refused before memory is taken.
  FlowOptions crowd;
  crowd.algorithm = "direct";
  crowd.conditions.stragglers.push_back({1, Seconds(1e-3), 1});
  CollectiveCall call = all_reduce(8192);
  call.kind = CollectiveKind::kAllToAll;
  expect_error(ErrorKind::kInfeasible, "67 million transfers between ranks that are not alike",
               [&] { run(test_switch(8192), call, crowd); });
}

}  // namespace
}  // namespace orrery::fabric
