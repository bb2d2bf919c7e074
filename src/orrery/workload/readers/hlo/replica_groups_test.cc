#include "orrery/workload/readers/hlo/replica_groups.h"

#include <gtest/gtest.h>

#include "orrery/base/error.h"

namespace orrery::hlo {
namespace {

using Ranks = std::vector<int64_t>;

ReplicaGroups groups(std::string text) {
  const Source source = Source::from_memory("test.hlo", std::move(text));
  return read_replica_groups(Cursor(source));
}

std::string error_of(std::string text) {
  try {
    groups(std::move(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReplicaGroups, ListsOfLists) {
  const ReplicaGroups even = groups("{{0,2},{1,3}}");
  EXPECT_EQ(even.ranks, (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(even.sizes, (Ranks{2, 2}));
  EXPECT_FALSE(even.ragged());
  const ReplicaGroups uneven = groups("{ {0,1,2}, {3} }");
  EXPECT_TRUE(uneven.ragged());
  EXPECT_EQ(uneven.group_size(), 3);
  EXPECT_EQ(groups("{}").group_size(), 0);
}

TEST(ReplicaGroups, IotaInOrder) {
  const ReplicaGroups g = groups("[2,4]<=[8]");
  EXPECT_EQ(g.ranks, (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(g.sizes, (Ranks{4, 4}));
}

// 0 … 7 as 4 rows of 2, read column by column.
TEST(ReplicaGroups, IotaTransposed) {
  EXPECT_EQ(groups("[2,4]<=[4,2]T(1,0)").ranks, (Ranks{0, 2, 4, 6, 1, 3, 5, 7}));
  // (a,b,c) of 2×2×2 read with b slowest, then a, then c.
  EXPECT_EQ(groups("[4,2]<=[2,2,2]T(1,0,2)").ranks, (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
}

// Device (x, y) has number 4x + y.
TEST(ReplicaGroups, AxesOfAMesh) {
  EXPECT_EQ(groups("mesh['d'=8] {'d'}").sizes, (Ranks{8}));
  EXPECT_EQ(groups("mesh['x'=2,'y'=4] {'y'}").ranks, (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
  const ReplicaGroups x = groups("mesh['x'=2,'y'=4] {'x'}");
  EXPECT_EQ(x.ranks, (Ranks{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(x.sizes, (Ranks{2, 2, 2, 2}));
  EXPECT_EQ(groups("mesh[x=2,y=2] {y,x}").ranks, (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(groups("mesh['x'=2,'y'=2] {}").sizes, (Ranks{1, 1, 1, 1}));
}

// An axis of 8 is 2×2×2; (2)2 is its middle part: 0 and 2 differ there.
TEST(ReplicaGroups, PartsOfAxes) {
  EXPECT_EQ(groups("mesh['a'=8] {'a':(2)2}").ranks, (Ranks{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(groups("mesh['a'=8] {'a':(1)2,'a':(4)2}").ranks, (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(ReplicaGroups, MeshWithDeviceIds) {
  EXPECT_EQ(groups("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'x'}").ranks, (Ranks{3, 1, 2, 0}));
}

TEST(ReplicaGroups, RefusesWhatIsNoGrouping) {
  EXPECT_EQ(error_of("[2,4]<=[9]"), "test.hlo:1:11: the groups hold 8 ranks, the devices are 9");
  EXPECT_EQ(error_of("[2,4]<=[4,2]T(1,1)"),
            "test.hlo:1:18: this is not a permutation of the dimensions");
  EXPECT_EQ(error_of("mesh['x'=8] {'y'}"), "test.hlo:1:17: the mesh has no axis 'y'");
  EXPECT_EQ(error_of("mesh['x'=8] {'x','x'}"), "test.hlo:1:22: these axes overlap");
  EXPECT_EQ(error_of("mesh['x'=8] {'x':(3)2}"), "test.hlo:1:22: this is no part of an axis of 8");
  EXPECT_EQ(error_of("{{0,-1}}"), "test.hlo:1:7: a rank cannot be negative");
  EXPECT_EQ(error_of("[1,1048577]<=[1048577]"), "test.hlo:1:12: more than 1048576 devices");
  EXPECT_EQ(error_of("{{0,1},{2,3}} x"),
            "test.hlo:1:15: expected the end of the replica groups, found 'x'");
}

}  // namespace
}  // namespace orrery::hlo
