#include "orrery/workload/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using testing::ElementsAre;

Mesh mesh(std::vector<MeshAxis> axes, std::vector<int64_t> device_ids = {}) {
  return {"mesh", std::move(axes), std::move(device_ids)};
}

struct Groups {
  std::vector<int64_t> devices;
  int64_t size = -1;  ///< -1: could not be worked out.
};
Groups groups(const Mesh& m, const std::vector<AxisReference>& axes) {
  Groups g;
  int64_t size = 0;
  if (auto found = device_groups(m, axes, &size)) g = {std::move(*found), size};
  return g;
}

TEST(DeviceGroups, OneAxisOfThree) {
  // Device of (x, y, z) in 2×2×2 is 4x + 2y + z.
  const Mesh m = mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  EXPECT_THAT(groups(m, {{"x"}}).devices, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(groups(m, {{"y"}}).devices, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(groups(m, {{"z"}}).devices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(groups(m, {{"z"}}).size, 2);
}

TEST(DeviceGroups, SeveralAxesInTheOrderListed) {
  const Mesh m = mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  EXPECT_THAT(groups(m, {{"x"}, {"z"}}).devices, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(groups(m, {{"z"}, {"x"}}).devices, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_EQ(groups(m, {{"z"}, {"x"}}).size, 4);
}

TEST(DeviceGroups, PartsOfAnAxis) {
  // An axis of 8 as major 2, middle 2, minor 2: device 4a + 2b + c.
  const Mesh m = mesh({{"d", 8}});
  EXPECT_THAT(groups(m, {{"d", 1, 2}}).devices, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(groups(m, {{"d", 2, 2}}).devices, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(groups(m, {{"d", 4, 2}}).devices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(groups(m, {{"d", 2, 4}}).devices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(groups(m, {{"d", 2, 4}}).size, 4);
  // Minor first, then major.
  EXPECT_THAT(groups(m, {{"d", 4, 2}, {"d", 1, 2}}).devices, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
}

TEST(DeviceGroups, DeviceIdsRenumberThePlaces) {
  const Mesh m = mesh({{"x", 2}, {"y", 2}}, {0, 2, 1, 3});
  EXPECT_THAT(groups(m, {{"y"}}).devices, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(groups(m, {{"x"}}).devices, ElementsAre(0, 1, 2, 3));
}

TEST(DeviceGroups, NoAxesMeansEveryDeviceAlone) {
  const Groups g = groups(mesh({{"x", 3}}), {});
  EXPECT_THAT(g.devices, ElementsAre(0, 1, 2));
  EXPECT_EQ(g.size, 1);
  EXPECT_EQ(groups(mesh({{"x", 3}, {"one", 1}}), {{"one"}}).size, 1);
}

TEST(DeviceGroups, WhatCannotBeWorkedOut) {
  const Mesh m = mesh({{"x", 8}});
  EXPECT_EQ(groups(m, {{"y"}}).size, -1);        // no such axis
  EXPECT_EQ(groups(m, {{"x", 1, 3}}).size, -1);  // does not divide
  EXPECT_EQ(groups(m, {{"x", 3, 2}}).size, -1);
  EXPECT_EQ(groups(m, {{"x", 0, 2}}).size, -1);
  EXPECT_EQ(groups(m, {{"x", 2, -2}}).size, -1);
  EXPECT_EQ(groups(m, {{"x", int64_t{1} << 62, 4}}).size, -1);            // overflows
  EXPECT_EQ(groups(m, {{"x"}, {"x"}}).size, -1);                          // twice
  EXPECT_EQ(groups(m, {{"x", 1, 4}, {"x", 2, 2}}).size, -1);              // overlap
  EXPECT_EQ(groups(mesh({{"x", 4}}, {0, 1}), {{"x"}}).size, -1);          // too few ids
  EXPECT_EQ(groups(mesh({{"x", 1 << 20}, {"y", 2}}), {{"x"}}).size, -1);  // too many devices
  EXPECT_EQ(groups(mesh({{"x", 0}}), {{"x"}}).size, -1);
}

}  // namespace
}  // namespace orrery
