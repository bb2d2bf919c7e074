// Would the trials notice a reader that misbehaves? Each kind of misbehaviour,
// set off by one damaged copy among many that are read well.

#include "trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

namespace orrery::hostile {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A file of 250 bytes cut at every place: three processes' worth of trials. A copy
// is known by its length.
constexpr size_t kFileSize = 250;
constexpr size_t kBad = 133;

Outcome try_with(const std::function<void()>& misbehave, Limits limits = {}) {
  const std::string original(kFileSize, 'x');
  const auto mutations = draw_mutations(kFileSize, kFileSize, 0, 1);
  return try_all("file", original, mutations, limits, [&](const Source& source) {
    if (source.text().size() == kBad) misbehave();
    if (source.text().size() % 2 == 0) source.fail(0, "even");
  });
}

void expect_one_failure(const Outcome& outcome, const std::string& what) {
  EXPECT_EQ(outcome.accepted, 124);  // Odd lengths below 250, less the one.
  EXPECT_EQ(outcome.refused, 125);
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].mutation.offset, kBad);
  EXPECT_THAT(outcome.failures[0].what, HasSubstr(what));
}

TEST(Trial, CountsWhatWasReadAndRefused) {
  const Outcome outcome = try_with([] {});
  EXPECT_EQ(outcome.accepted, 125);
  EXPECT_EQ(outcome.refused, 125);
  EXPECT_THAT(outcome.failures, IsEmpty());
}

TEST(Trial, NoticesACrash) {
  expect_one_failure(try_with([] { std::raise(SIGKILL); }), "killed by SIGKILL");
}

TEST(Trial, NoticesAHang) {
  Limits limits;
  limits.seconds = 0.2;
  expect_one_failure(try_with(
                         [] {
                           volatile bool forever = true;
                           while (forever) {
                           }
                         },
                         limits),
                     "took over 0.2 s");
}

TEST(Trial, NoticesTooMuchMemory) {
  Limits limits;
  limits.memory_bytes = 64 << 20;
  const Outcome outcome = try_with([] { std::vector<char> hoard(256 << 20, 'x'); }, limits);
  expect_one_failure(outcome, "memory");
}

TEST(Trial, NoticesAnErrorThatIsNotTheInputs) {
  expect_one_failure(try_with([] { throw_internal("oops"); }), "exit code 70");
}

TEST(Trial, NoticesAForeignException) {
  expect_one_failure(try_with([] { throw std::out_of_range("vector::at"); }), "vector::at");
}

TEST(Trial, NoticesAnExit) {
  expect_one_failure(try_with([] { ::_exit(0); }), "ended by itself");
}

TEST(Trial, StopsWhenItHasSeenEnough) {
  const std::string original(kFileSize, 'x');
  const auto mutations = draw_mutations(kFileSize, kFileSize, 0, 1);
  const Outcome outcome =
      try_all("file", original, mutations, {}, [](const Source&) { throw_internal("always"); });
  EXPECT_THAT(outcome.failures, SizeIs(kMostFailures));
}

TEST(Mutation, AreTheSameForTheSameSeedAndWithinTheFile) {
  const auto once = draw_mutations(1000, 50, 50, 7);
  const auto again = draw_mutations(1000, 50, 50, 7);
  ASSERT_THAT(once, SizeIs(100));
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(describe(once[i]), describe(again[i]));
    EXPECT_LT(once[i].offset, 1000u);
  }
  EXPECT_NE(describe(draw_mutations(1000, 50, 50, 8)[0]), describe(once[0]));
}

TEST(Mutation, ASmallFileIsCutEverywhereOnce) {
  std::set<size_t> places;
  for (const Mutation& mutation : draw_mutations(10, 1000, 0, 1)) places.insert(mutation.offset);
  EXPECT_THAT(places, SizeIs(10));
  EXPECT_THAT(draw_mutations(0, 10, 10, 1), IsEmpty());
}

TEST(Mutation, CutsAndFlips) {
  EXPECT_EQ(damaged("abcdef", {Mutation::Kind::kCut, 2, 0}), "ab");
  EXPECT_EQ(damaged("abcdef", {Mutation::Kind::kFlip, 1, 0x20}), "aBcdef");
}

}  // namespace
}  // namespace orrery::hostile
