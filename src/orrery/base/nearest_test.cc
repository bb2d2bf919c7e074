#include "orrery/base/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Nearest, OrdersByEditDistance) {
  // One edit to b200; two to b300, more than a third of the word.
  EXPECT_THAT(nearest("bb200", {"b300", "gaudi", "b200"}), ElementsAre("b200"));
  EXPECT_THAT(nearest("v100-sxm-16", {"v100-sxm-32gb", "v100-sxm-16gb"}),
              ElementsAre("v100-sxm-16gb", "v100-sxm-32gb"));
}

TEST(Nearest, CountsASwapAsOneEdit) {
  EXPECT_THAT(nearest("titel", {"title"}), ElementsAre("title"));
  EXPECT_THAT(nearest("ttiel", {"title"}), IsEmpty());
}

TEST(Nearest, IgnoresCase) { EXPECT_THAT(nearest("H200", {"h200"}), ElementsAre("h200")); }

TEST(Nearest, TakesPartsOfNames) {
  EXPECT_THAT(nearest("a100", {"a100-sxm-80gb", "l4"}), ElementsAre("a100-sxm-80gb"));
}

TEST(Nearest, GivesNothingWhereAllAreFar) {
  EXPECT_THAT(nearest("colour", {"units", "clock"}), IsEmpty());
}

TEST(Nearest, TakesHugeWords) {
  EXPECT_THAT(nearest(std::string(1 << 20, 'x'), {"units"}), IsEmpty());
}

TEST(DidYouMean, JoinsNames) {
  EXPECT_EQ(did_you_mean({}), "");
  EXPECT_EQ(did_you_mean({"a"}), "; did you mean 'a'?");
  EXPECT_EQ(did_you_mean({"a", "b", "c"}), "; did you mean 'a', 'b' or 'c'?");
}

TEST(Suggestion, NamesTheNearestOrElseAll) {
  EXPECT_EQ(suggestion("xal", {"torch-eager", "xla"}), "; did you mean 'xla'?");
  EXPECT_EQ(suggestion("vllm", {"torch-eager", "xla"}), "; there is: torch-eager, xla");
  EXPECT_EQ(suggestion("vllm", {}), "; there is: none");
}

}  // namespace
}  // namespace orrery
