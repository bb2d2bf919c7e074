#include "orrery/workload/partition/sharding_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::partition {
namespace {

using ::testing::ElementsAre;

TEST(ShardingText, ShardysDimensions) {
  const auto s = written_sharding(R"([{"x", "y":(2)4, ?}p1, {}], replicated={"z"})");
  ASSERT_TRUE(s.has_value());
  ASSERT_EQ(s->dims.size(), 2u);
  EXPECT_EQ(s->dims[0].axes[0].name, "x");
  EXPECT_EQ(s->dims[0].axes[1].pre_size, 2);
  EXPECT_EQ(s->dims[0].axes[1].size, 4);
  EXPECT_TRUE(s->dims[0].open);
  EXPECT_EQ(s->dims[0].priority, 1);
  EXPECT_FALSE(s->dims[1].open);
  EXPECT_EQ(s->replicated[0].name, "z");
}

TEST(ShardingText, WhatIsCutShortIsNothing) {
  for (const char* text :
       {"", "[", "[{", "[{\"x", "[{\"x\"", "[{\"x\":(2}]", "[{}], unreduced={\"x\"}", "[{}] more"})
    EXPECT_FALSE(written_sharding(text).has_value()) << text;
  for (const char* text : {"", "{", "{devices=[2", "{devices=[2]0,1", "{devices=[2]0,0}",
                           "{devices=[0]<=[0]}", "{devices=[4]<=[8]}", "{devices=[8]<=[2,4]T(0,0)}",
                           "{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}"})
    EXPECT_FALSE(tile_assignment(text).has_value()) << text;
}

TEST(ShardingText, ListedDevicesAreAReshapeAndAPermutation) {
  // Of 2 × 4 devices, the four columns of pairs {0,4} {1,5} {2,6} {3,7}.
  const auto t = tile_assignment("{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}");
  ASSERT_TRUE(t.has_value());
  EXPECT_TRUE(t->last_replicated);
  // As bits: tiles [2,2],[2] step 2, 1 and 4: the third is the major one.
  EXPECT_THAT(t->reshape, ElementsAre(2, 2, 2));
  EXPECT_THAT(t->permutation, ElementsAre(1, 2, 0));
  EXPECT_FALSE(tile_assignment("{devices=[4]0,1,3,2}").has_value());
}

}  // namespace
}  // namespace orrery::partition
