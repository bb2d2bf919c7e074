#include "orrery/learn/split.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "orrery/base/error.h"

namespace orrery {
namespace {

TEST(Split, Fnv1aGivesItsPublishedVectors) {
  // From the authors' test suite.
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
}

TEST(Split, SplitMix64GivesItsPublishedSequence) {
  SplitMix64 generator(1234567);
  const std::vector<uint64_t> expected = {6457827717110365317ULL, 3203168211198807973ULL,
                                          9817491932198370423ULL, 4593380528125082431ULL,
                                          16408922859458223821ULL};
  for (const uint64_t value : expected) EXPECT_EQ(generator.next(), value);
}

TEST(Split, UniformNumbersFillTheUnitInterval) {
  SplitMix64 generator(1);
  double sum = 0, low = 1, high = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = generator.uniform();
    sum += u;
    low = std::min(low, u);
    high = std::max(high, u);
  }
  EXPECT_GE(low, 0.0);
  EXPECT_LT(high, 1.0);
  EXPECT_LT(low, 0.001);
  EXPECT_GT(high, 0.999);
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);  // five standard errors of 1/sqrt(12 n)
}

TEST(Split, SeedZeroHashesToTheFinaliserAlone) {
  // mix_bits(0) is 0, so that seed 0 leaves FNV-1a as it is.
  EXPECT_EQ(mix_bits(0), 0u);
  EXPECT_EQ(stable_hash("a", 0), mix_bits(0xaf63dc4c8601ec8cULL));
  EXPECT_NE(stable_hash("a", 0), stable_hash("a", 1));
}

TEST(Split, FoldsAreEvenAndChangeWithTheSeed) {
  std::vector<int> count(5);
  int moved = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string key = "gemm/" + std::to_string(i);
    const int fold = fold_of(key, 5, 7);
    ++count.at(static_cast<size_t>(fold));
    moved += fold != fold_of(key, 5, 8) ? 1 : 0;
  }
  for (const int c : count) EXPECT_NEAR(c, 1000, 142);  // five standard deviations
  EXPECT_NEAR(moved, 4000, 142);
}

TEST(Split, RefusesNoFolds) { EXPECT_THROW(fold_of("a", 0, 0), Error); }

}  // namespace
}  // namespace orrery
