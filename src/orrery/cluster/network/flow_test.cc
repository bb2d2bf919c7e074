#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/cluster/network/cluster_for_test.h"
#include "orrery/cluster/network/simulate_collective.h"

namespace orrery::fabric {
namespace {

constexpr double kClose = 1e-9;

CollectiveCall call(CollectiveKind kind, double bytes, int ranks, int stride = 1) {
  return {kind, Bytes(bytes), {ranks, stride}, ElementType::kBF16};
}

CollectiveSimulation run(const Cluster& cluster, const CollectiveCall& call,
                         const std::string& algorithm, const FabricConditions& conditions = {},
                         bool exact = false) {
  FlowOptions options;
  options.algorithm = algorithm;
  options.conditions = conditions;
  options.exact = exact;
  return simulate_collective(cluster, call, options);
}

double seconds(const Cluster& cluster, const CollectiveCall& call, const std::string& algorithm,
               const FabricConditions& conditions = {}) {
  return run(cluster, call, algorithm, conditions).time.value;
}

NetworkAnswer run_flows(const Topology& topology, const std::vector<Job>& jobs,
                        bool exact = false) {
  return Registry<Network>::instance().at("flow", "network").create()->run(topology, jobs, {exact});
}

Job transfers(std::vector<Transfer> list) {
  Job job;
  Phase& phase = job.schedule.phases.emplace_back();
  for (const Transfer& t : list) phase.add(t);
  return job;
}

// Ring of n: 2(n − 1) steps of S/n over one direction of a link, B/2, and one hop.
TEST(Flow, RingAllReduceIsItsClosedForm) {
  for (const int n : {2, 3, 8, 64, 1024}) {
    const double link = n == 2 ? 100e9 : 50e9;
    const double expected = 2.0 * (n - 1) * (1e9 / n / link + 1e-6);
    EXPECT_NEAR(seconds(test_ring(n), call(CollectiveKind::kAllReduce, 1e9, n), "ring"), expected,
                expected * kClose)
        << n;
  }
}

TEST(Flow, RingBehindASwitchHasTheWholeBandwidth) {
  const double expected = 2.0 * 15 * (1e9 / 16 / 100e9 + 1e-6);
  EXPECT_NEAR(seconds(test_switch(16), call(CollectiveKind::kAllReduce, 1e9, 16), "ring"), expected,
              expected * kClose);
}

TEST(Flow, BothWaysRoundTakeHalfOfTheTimeOfOne) {
  const double expected = 2.0 * 15 * (1e9 / 32 / 50e9 + 1e-6);
  EXPECT_NEAR(
      seconds(test_ring(16), call(CollectiveKind::kAllReduce, 1e9, 16), "bidirectional-ring"),
      expected, expected * kClose);
}

TEST(Flow, HalvingDoublingIsItsClosedForm) {
  const double expected = 2 * (15.0 / 16) * 1e9 / 100e9 + 8 * 1e-6;
  EXPECT_NEAR(
      seconds(test_switch(16), call(CollectiveKind::kAllReduce, 1e9, 16), "halving-doubling"),
      expected, expected * kClose);
}

TEST(Flow, DirectAllToAllBehindASwitch) {
  const double expected = 15.0 / 16 * 1e9 / 100e9 + 1e-6;
  EXPECT_NEAR(seconds(test_switch(16), call(CollectiveKind::kAllToAll, 1e9, 16), "direct"),
              expected, expected * kClose);
}

// Rank 0's flows to distances 1 … 7 on a ring of 8: upwards links carry distances 1 … 4, so
// 1 + 2 + 3 + 4 = 10 flows cross each, downwards 1 + 2 + 3 = 6. All flows of S/8 share the
// upward links evenly and end together at 10 · S/8 / 50 GB/s; four hops are the longest way.
TEST(Flow, DirectAllToAllOnARing) {
  const double expected = 10 * (8e9 / 8) / 50e9 + 4e-6;
  EXPECT_NEAR(seconds(test_ring(8), call(CollectiveKind::kAllToAll, 8e9, 8), "direct"), expected,
              expected * kClose);
}

// Reduce-scatter in the node of 8, all-reduce over 4 nodes of an eighth, all-gather.
TEST(Flow, HierarchicalAllReduceIsItsClosedForm) {
  const double inside = 2 * 7 * (1e9 / 8 / 400e9 + 1e-6);
  const double outside = 2 * 3 * (1e9 / 8 / 4 / 50e9 + 5e-6);
  EXPECT_NEAR(seconds(test_nodes(4), call(CollectiveKind::kAllReduce, 1e9, 32), "hierarchical"),
              inside + outside, (inside + outside) * kClose);
}

// Eight rings of an eighth each: a step crosses an adapter of 50 GB/s, and a device's link to
// the switch carries seven of the rings, 7/8 of 400 GB/s.
TEST(Flow, RailRingsKeepEveryAdapterBusy) {
  const double adapter = 1e9 / 8 / 32 / 50e9;
  const double time =
      seconds(test_nodes(4), call(CollectiveKind::kAllReduce, 1e9, 32), "rail-rings");
  EXPECT_GT(time, 2 * 31 * adapter);
  EXPECT_NEAR(time, 2 * 31 * adapter, 62 * 2e-6);
}

// One adapter for 8 devices: eight rings across nodes share it.
TEST(Flow, GroupsThatCrossANodeShareItsAdapters) {
  const double alone = 2 * 3 * (1e9 / 4 / 50e9 + 5e-6);
  const double shared = 2 * 3 * (1e9 / 4 / (50e9 / 8) + 5e-6);
  const CollectiveCall across = call(CollectiveKind::kAllReduce, 1e9, 4, 8);
  EXPECT_NEAR(seconds(test_nodes(4), across, "ring"), alone, alone * kClose);
  EXPECT_NEAR(seconds(test_nodes(4, FabricShape::kSwitch, 0, 1, 1), across, "ring"), shared,
              shared * kClose);
}

// A ring at the pace of its slow link: it sends 2(n − 1) times without a pause, and its last
// chunk has one more hop to the next rank.
TEST(Flow, RingRunsAtThePaceOfItsSlowLink) {
  const int n = 64;
  FabricConditions slow;
  slow.links.push_back({"10", "11", 0.25});
  const double chunk = 1e9 / n, expected = 2.0 * (n - 1) * chunk / (50e9 * 0.25);
  const CollectiveSimulation ring =
      run(test_ring(n), call(CollectiveKind::kAllReduce, 1e9, n), "ring", slow);
  EXPECT_NEAR(ring.rank_finish[11].value, expected + 1e-6, expected * kClose);
  // What the slow link delivers one turn before its last one ripples no further.
  EXPECT_NEAR(ring.rank_finish[12].value,
              expected - chunk / (50e9 * 0.25) + 1e-6 + chunk / 50e9 + 1e-6, expected * kClose);
  EXPECT_NEAR(ring.time.value, expected + 1e-6, expected * kClose);
}

// All-gather of n ranks, one of them late: everyone needs its piece, the last after n − 1 hops.
TEST(Flow, StragglerDelaysEveryone) {
  const int n = 32;
  FabricConditions late;
  late.stragglers.push_back({5, Seconds(1e-2), 1});
  const double step = 1e9 / n / 50e9 + 1e-6, expected = 1e-2 + (n - 1) * step;
  EXPECT_NEAR(seconds(test_ring(n), call(CollectiveKind::kAllGather, 1e9, n), "ring", late),
              expected, expected * kClose);
}

TEST(Flow, BackgroundTrafficTakesItsShare) {
  FabricConditions busy;
  busy.background = 0.5;
  const double expected = 2.0 * 15 * (1e9 / 16 / 50e9 + 1e-6);
  EXPECT_NEAR(seconds(test_switch(16), call(CollectiveKind::kAllReduce, 1e9, 16), "ring", busy),
              expected, expected * kClose);
}

TEST(Flow, TwoFlowsShareALinkUntilOneEnds) {
  const Topology topology(test_switch(3), 3);
  const NetworkAnswer answer =
      run_flows(topology, {transfers({{0, 2, Bytes(100e9)}, {1, 2, Bytes(50e9)}})});
  // Half of 100 GB/s each: the second ends after 1 s, the first has 50 GB left for 0.5 s.
  EXPECT_NEAR(answer.rank_finish[1].value, 1.0, kClose);
  EXPECT_NEAR(answer.rank_finish[0].value, 1.5, kClose);
  EXPECT_NEAR(answer.time.value, 1.5 + 1e-6, kClose);
}

// Two jobs on disjoint ranks that meet in a leaf's one link up: 100 GB/s for both.
TEST(Flow, JobsShareTheFabric) {
  FabricTier tree = test_tier("net", FabricShape::kFatTree, 4);
  tree.group = 2;
  tree.oversubscription = 2;
  const Topology topology(test_cluster({tree}), 4);
  const Job first = transfers({{0, 2, Bytes(100e9)}}), second = transfers({{1, 3, Bytes(100e9)}});
  EXPECT_NEAR(run_flows(topology, {first}).time.value, 1 + 2e-6, kClose);
  const NetworkAnswer both = run_flows(topology, {first, second});
  EXPECT_NEAR(both.job_finish[0].value, 2 + 2e-6, kClose);
  EXPECT_NEAR(both.job_finish[1].value, 2 + 2e-6, kClose);
  Job late = second;
  late.ready.assign(4, Seconds(0.5));
  const NetworkAnswer staggered = run_flows(topology, {first, late});
  EXPECT_NEAR(staggered.job_finish[0].value, 1.5 + 2e-6, kClose);
  EXPECT_NEAR(staggered.job_finish[1].value, 2 + 2e-6, kClose);
}

TEST(Flow, TransfersWaitForWhatTheyNeed) {
  const Topology topology(test_switch(4), 4);
  Job job;
  Phase& phase = job.schedule.phases.emplace_back();
  const int first = phase.add({0, 1, Bytes(1e9)});
  phase.add({1, 2, Bytes(1e9)}, {Need{first, false}});
  EXPECT_NEAR(run_flows(topology, {job}).time.value, 2 * (0.01 + 1e-6), kClose);
}

// Every shape, algorithm and fault: folded, and each transfer by itself.
struct Compared {
  std::string name;
  Cluster cluster;
  CollectiveCall call;
  std::string algorithm;
};

std::vector<Compared> compared() {
  using K = CollectiveKind;
  FabricTier dragonfly = test_tier("slingshot", FabricShape::kDragonfly, 32);
  dragonfly.group = 8;
  FabricTier graph = test_tier("drawn", FabricShape::kGraph, 6);
  for (int i = 0; i < 6; ++i) {
    graph.drawn.push_back({i, 6 + i % 2, BytesPerSecond(25e9), Seconds(1e-6)});
    graph.drawn.push_back({i, (i + 1) % 6, BytesPerSecond(10e9), Seconds(2e-6)});
  }
  graph.drawn.push_back({6, 7, BytesPerSecond(50e9), Seconds(3e-6)});
  std::vector<Compared> cases;
  const auto add = [&](const std::string& name, const Cluster& cluster, K kind, int ranks,
                       const std::string& algorithm, int stride = 1) {
    cases.push_back({name + " " + algorithm + " " + std::string(orrery::name(kind)), cluster,
                     call(kind, 1e8, ranks, stride), algorithm});
  };
  add("ring", test_ring(512), K::kAllReduce, 512, "ring");
  add("ring", test_ring(64), K::kAllReduce, 64, "bidirectional-ring");
  add("ring", test_ring(64), K::kAllReduce, 64, "halving-doubling");
  add("ring", test_ring(16), K::kAllToAll, 16, "direct");
  add("ring", test_ring(24), K::kBroadcast, 24, "ring");
  add("ring", test_ring(24), K::kAllGather, 24, "bruck");
  add("ring", test_ring(24), K::kGather, 24, "binomial");
  add("switch", test_switch(64), K::kAllReduce, 64, "double-binary-tree");
  add("switch", test_switch(48), K::kReduce, 48, "double-binary-tree");
  add("switch", test_switch(64), K::kAllReduce, 64, "halving-doubling");
  add("switch", test_switch(33), K::kScatter, 33, "binomial");
  add("switch", test_switch(33), K::kGather, 33, "direct");
  add("switch", test_switch(32), K::kAllReduce, 32, "direct");
  add("torus", test_torus({4, 8}), K::kAllReduce, 32, "torus");
  add("torus", test_torus({4, 4, 4}), K::kAllReduce, 64, "hierarchical");
  add("torus", test_torus({4, 4, 4}), K::kAllToAll, 64, "direct");
  add("torus", test_torus({4, 4, 2}), K::kAllToAll, 32, "bruck");
  add("torus", test_torus({8, 8}), K::kAllReduce, 64, "ring");
  add("nodes", test_nodes(16), K::kAllReduce, 128, "ring");
  add("nodes", test_nodes(64), K::kAllReduce, 512, "hierarchical");
  add("nodes", test_nodes(8), K::kAllReduce, 64, "rail-rings");
  add("nodes", test_nodes(8), K::kAllToAll, 64, "direct");
  add("nodes", test_nodes(8), K::kAllToAll, 64, "hierarchical");
  add("nodes", test_nodes(8, FabricShape::kSwitch, 0, 1, 2), K::kAllReduce, 8, "ring", 8);
  add("nodes", test_nodes(8, FabricShape::kSwitch, 0, 1, 2), K::kAllToAll, 8, "direct", 8);
  add("fat tree", test_nodes(16, FabricShape::kFatTree, 4), K::kAllReduce, 128, "ring");
  add("fat tree", test_nodes(16, FabricShape::kFatTree, 4, 2), K::kAllReduce, 128, "hierarchical");
  add("fat tree", test_nodes(16, FabricShape::kFatTree, 4, 4), K::kAllReduce, 16, "ring", 8);
  add("fat tree", test_nodes(8, FabricShape::kFatTree, 4, 2), K::kAllToAll, 64, "direct");
  add("fat tree", test_nodes(8, FabricShape::kFatTree, 4, 2), K::kAllReduce, 64,
      "halving-doubling");
  add("dragonfly", test_cluster({dragonfly}), K::kAllReduce, 32, "ring");
  add("dragonfly", test_cluster({dragonfly}), K::kAllToAll, 32, "direct");
  add("graph", test_cluster({graph}), K::kAllReduce, 6, "ring");
  add("graph", test_cluster({graph}), K::kAllToAll, 6, "direct");
  return cases;
}

void expect_same(const Compared& c, const FabricConditions& conditions, const std::string& what) {
  const CollectiveSimulation folded = run(c.cluster, c.call, c.algorithm, conditions);
  const CollectiveSimulation exact = run(c.cluster, c.call, c.algorithm, conditions, true);
  ASSERT_GT(exact.time.value, 0) << c.name << what;
  EXPECT_NEAR(folded.time.value / exact.time.value, 1, kClose) << c.name << what;
  double worst = 0;
  for (size_t r = 0; r < exact.rank_finish.size(); ++r)
    worst = std::max(worst, std::abs(folded.rank_finish[r].value - exact.rank_finish[r].value));
  EXPECT_LE(worst, exact.time.value * kClose) << c.name << what;
}

TEST(FlowFolding, GivesWhatEveryTransferByItselfGives) {
  for (const Compared& c : compared()) expect_same(c, {}, "");
}

TEST(FlowFolding, HoldsWithAStraggler) {
  for (const Compared& c : compared()) {
    FabricConditions late;
    late.stragglers.push_back({3, Seconds(1e-4), 1});
    expect_same(c, late, ", rank 3 late");
    FabricConditions weak;
    weak.stragglers.push_back({2, Seconds(0), 0.6});
    expect_same(c, weak, ", rank 2 weak");
  }
}

TEST(FlowFolding, HoldsWithASlowLink) {
  for (const Compared& c : compared()) {
    FabricConditions slow;
    const Topology topology(c.cluster, c.call.group.size * c.call.group.stride);
    const NetworkLink& link = topology.links()[topology.links().size() / 3];
    slow.links.push_back({topology.vertex_name(link.from), topology.vertex_name(link.to), 0.3});
    expect_same(c, slow, ", a slow link");
  }
}

// 2(n − 1) · n transfers, of which a handful is walked.
TEST(FlowFolding, WalksFewTransfers) {
  const CollectiveSimulation ring =
      run(test_ring(4096), call(CollectiveKind::kAllReduce, 1e9, 4096), "ring");
  EXPECT_LE(ring.work.flows, 1);
  EXPECT_LE(ring.work.events, 10);
  const CollectiveSimulation nodes = run(test_nodes(512, FabricShape::kSwitch, 0, 1, 1),
                                         call(CollectiveKind::kAllReduce, 1e9, 512, 8), "ring");
  EXPECT_LE(nodes.work.flows, 8);
  EXPECT_LE(nodes.work.events, 200);
  EXPECT_GT(nodes.work.skipped, 900);
}

// Analytic and flow agree where no phase overlaps another and loads are even.
TEST(Analytic, AgreesWithFlowWhereLoadsAreEven) {
  const auto both = [](const Cluster& cluster, const CollectiveCall& c,
                       const std::string& algorithm) {
    FlowOptions options;
    options.algorithm = algorithm;
    const double flow = simulate_collective(cluster, c, options).time.value;
    options.network = "analytic";
    return simulate_collective(cluster, c, options).time.value / flow;
  };
  using K = CollectiveKind;
  EXPECT_NEAR(both(test_ring(64), call(K::kAllReduce, 1e9, 64), "ring"), 1, kClose);
  EXPECT_NEAR(both(test_switch(64), call(K::kAllReduce, 1e9, 64), "halving-doubling"), 1, kClose);
  EXPECT_NEAR(both(test_nodes(16), call(K::kAllReduce, 1e9, 128), "hierarchical"), 1, kClose);
  EXPECT_NEAR(both(test_switch(64), call(K::kAllToAll, 1e9, 64), "direct"), 1, kClose);
  EXPECT_NEAR(both(test_ring(16), call(K::kAllToAll, 1e9, 16), "direct"), 1, kClose);
  EXPECT_NEAR(both(test_ring(16), call(K::kBroadcast, 1e9, 16), "ring"), 1, kClose);
  EXPECT_NEAR(both(test_nodes(64), call(K::kAllReduce, 1e8, 512), "ring"), 1, 0.01);
  EXPECT_NEAR(both(test_nodes(64), call(K::kAllReduce, 1e8, 512), "rail-rings"), 1, 0.2);
  // Trees send up and down at once over the same adapters: the closed form is a bound.
  const double tree = both(test_switch(64), call(K::kAllReduce, 1e9, 64), "double-binary-tree");
  EXPECT_GT(tree, 0.8);
  EXPECT_LT(tree, 1.2);
}

}  // namespace
}  // namespace orrery::fabric
