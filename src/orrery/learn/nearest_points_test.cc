#include "orrery/learn/nearest_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "orrery/base/error.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

TEST(NearestPoints, OnALine) {
  const std::vector<float> points = {0, 1, 2, 4, 8, 16};
  const NearestPoints tree(points, 1);
  std::array<NearestPoints::Found, 3> found;
  const float query = 5;
  ASSERT_EQ(tree.find({&query, 1}, found), 3u);
  EXPECT_EQ(found[0].point, 3u);  // 4 is 1 away,
  EXPECT_EQ(found[0].squared_distance, 1);
  EXPECT_EQ(found[1].point, 2u);  // 2 and 8 are 3 away: the lower number first.
  EXPECT_EQ(found[2].point, 4u);
  ASSERT_EQ(tree.find({&query, 1}, found, 3), 3u);
  EXPECT_EQ(found[0].point, 2u);
}

TEST(NearestPoints, FewerThanAskedFor) {
  std::array<NearestPoints::Found, 4> found;
  const std::array<float, 2> query = {1, 1};
  EXPECT_EQ(NearestPoints().find(query, found), 0u);
  EXPECT_EQ(NearestPoints(std::vector<float>{}, 2).find(query, found), 0u);
  EXPECT_EQ(NearestPoints(std::vector<float>{3, 4}, 2).find(query, found), 1u);
  EXPECT_EQ(NearestPoints(std::vector<float>{3, 4}, 2).find(query, found, 0), 0u);
  EXPECT_THROW(NearestPoints(std::vector<float>{3, 4, 5}, 2), Error);
}

/// The same as looking at all of them, with many that coincide.
TEST(NearestPoints, AsByLookingAtAll) {
  SplitMix64 random(7);
  constexpr size_t kCount = 700, kDimensions = 3, kAsked = 9;
  std::vector<float> points;
  for (size_t i = 0; i < kCount * kDimensions; ++i)
    points.push_back(static_cast<float>(random.below(12)));
  const NearestPoints tree(points, kDimensions);
  for (int trial = 0; trial < 300; ++trial) {
    std::array<float, kDimensions> query;
    for (float& q : query) q = static_cast<float>(random.uniform() * 16 - 2);
    const auto left_out = static_cast<uint32_t>(random.below(kCount));
    std::vector<std::pair<float, uint32_t>> all;
    for (uint32_t i = 0; i < kCount; ++i) {
      float squared = 0;
      for (size_t d = 0; d < kDimensions; ++d) {
        const float apart = points[i * kDimensions + d] - query[d];
        squared += apart * apart;
      }
      if (i != left_out) all.emplace_back(squared, i);
    }
    std::sort(all.begin(), all.end());
    std::array<NearestPoints::Found, kAsked> found;
    ASSERT_EQ(tree.find(query, found, left_out), kAsked);
    for (size_t i = 0; i < kAsked; ++i) {
      EXPECT_EQ(found[i].point, all[i].second);
      EXPECT_EQ(found[i].squared_distance, all[i].first);
    }
  }
}

TEST(NearestPoints, AllInOnePlace) {
  const std::vector<float> points(200, 1.5f);
  std::array<NearestPoints::Found, 3> found;
  const std::array<float, 2> query = {0, 0};
  ASSERT_EQ(NearestPoints(points, 2).find(query, found), 3u);
  EXPECT_EQ(found[2].point, 2u);
}

}  // namespace
}  // namespace orrery
