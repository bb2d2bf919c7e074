#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/network/cluster_for_test.h"
#include "orrery/cluster/network/simulate_collective.h"

namespace orrery::fabric {
namespace {

CollectiveCall call(CollectiveKind kind, double bytes, int ranks) {
  return {kind, Bytes(bytes), {ranks, 1}, ElementType::kBF16};
}

double seconds(const Cluster& cluster, const CollectiveCall& call, const std::string& algorithm,
               const std::string& network, const FabricConditions& conditions = {}) {
  FlowOptions options;
  options.network = network;
  options.algorithm = algorithm;
  options.conditions = conditions;
  return simulate_collective(cluster, call, options).time.value;
}

#ifdef ORRERY_NS3

// A chunk of 128 packets over two links, 4 KiB behind the flow's time.
TEST(Packet, RingIsItsClosedFormAndAPacketMoreAHop) {
  const int n = 8;
  const double chunk = 128 * 4096.0;
  const double expected = 2 * (n - 1) * (chunk / 100e9 + 1e-6 + 4096 / 100e9);
  EXPECT_NEAR(
      seconds(test_switch(n), call(CollectiveKind::kAllReduce, chunk * n, n), "ring", "packet"),
      expected, 1e-9);
}

// Flows differ from packets by what a packet takes a hop, and by how FIFO links share.
TEST(Packet, AgreesWithFlowOnSmallCases) {
  using K = CollectiveKind;
  const auto compare = [](const Cluster& cluster, const CollectiveCall& c,
                          const std::string& algorithm, double within,
                          const FabricConditions& conditions = {}) {
    const double packet = seconds(cluster, c, algorithm, "packet", conditions);
    const double flow = seconds(cluster, c, algorithm, "flow", conditions);
    EXPECT_NEAR(packet / flow, 1, within) << algorithm;
    EXPECT_GE(packet, flow * (1 - 1e-6)) << algorithm;
  };
  compare(test_ring(8), call(K::kAllReduce, 32e6, 8), "ring", 0.01);
  compare(test_ring(8), call(K::kAllReduce, 32e6, 8), "bidirectional-ring", 0.01);
  compare(test_torus({4, 4}), call(K::kAllReduce, 32e6, 16), "torus", 0.02);
  compare(test_switch(16), call(K::kAllReduce, 32e6, 16), "halving-doubling", 0.01);
  compare(test_switch(16), call(K::kAllToAll, 32e6, 16), "direct", 0.02);
  compare(test_nodes(2), call(K::kAllReduce, 32e6, 16), "hierarchical", 0.02);
  FabricConditions slow;
  slow.links.push_back({"2", "3", 0.25});
  compare(test_ring(8), call(K::kAllReduce, 32e6, 8), "ring", 0.01, slow);
}

#else

TEST(Packet, SaysWhatItNeeds) {
  try {
    seconds(test_switch(4), call(CollectiveKind::kAllReduce, 1e6, 4), "ring", "packet");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("built without (ORRERY_NS3)"), std::string::npos);
  }
}

#endif

}  // namespace
}  // namespace orrery::fabric
