#include "orrery/api/repeated_blocks.h"

#include <gtest/gtest.h>

#include <string_view>

namespace orrery {
namespace {

std::vector<RepeatedBlocks> blocks_of(std::string_view letters) {
  const std::vector<uint32_t> items(letters.begin(), letters.end());
  return find_repeated_blocks(items);
}

TEST(RepeatedBlocksTest, FindsLayersBetweenWhatIsOnlyOnce) {
  const auto found = blocks_of("xyABCDABCDABCDz");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, 2u);
  EXPECT_EQ(found[0].length, 4u);
  EXPECT_EQ(found[0].times, 3u);
}

TEST(RepeatedBlocksTest, FindsTheLayersOfBothPasses) {
  const auto found = blocks_of("eABCDABCDABCDABCDlEFGHIEFGHIEFGHIo");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, 1u);
  EXPECT_EQ(found[0].times, 4u);
  EXPECT_EQ(found[1].first, 18u);
  EXPECT_EQ(found[1].length, 5u);
  EXPECT_EQ(found[1].times, 3u);
}

TEST(RepeatedBlocksTest, TheShortestBlockOfTheSameStretchIsTaken) {
  const auto found = blocks_of("ABCDABCDABCDABCDABCDABCD");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].length, 4u);
  EXPECT_EQ(found[0].times, 6u);
}

TEST(RepeatedBlocksTest, TwoTimesOneKernelAndNothingAreNoLayers) {
  EXPECT_TRUE(blocks_of("ABCDABCD").empty());
  EXPECT_TRUE(blocks_of("AAAAAAAAAAAAAAAAAAAA").empty());
  EXPECT_TRUE(blocks_of("ABCABCABC").empty());
  EXPECT_TRUE(blocks_of("").empty());
}

}  // namespace
}  // namespace orrery
