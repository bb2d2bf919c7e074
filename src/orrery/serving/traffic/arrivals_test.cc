#include "orrery/serving/traffic/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "orrery/base/error.h"
#include "orrery/serving/traffic/users.h"

namespace orrery {
namespace {

std::vector<Request> all(RequestSource& source) {
  std::vector<Request> requests;
  while (source.next_arrival() != kNever) {
    const Seconds at = source.next_arrival();
    requests.push_back(source.take());
    EXPECT_EQ(requests.back().arrival, at);
  }
  return requests;
}

TEST(Arrivals, HaveTheirRateAndVariation) {
  constexpr int64_t kCount = 50000;
  for (const double variation : {0.0, 0.5, 1.0, 2.0}) {
    ArrivalProcess process;
    process.rate = 4;
    process.variation = variation;
    const std::vector<Request> requests = all(*make_arrivals(process, kCount, {{}, {}}, 5));
    ASSERT_EQ(requests.size(), static_cast<size_t>(kCount));
    double last = 0;
    double sum = 0;
    double squares = 0;
    for (const Request& r : requests) {
      const double gap = r.arrival.value - last;
      ASSERT_GE(gap, 0);
      last = r.arrival.value;
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / kCount;
    // VIDUR cuts the gaps at 3 / rate, which makes its rate 5 % too high; these are not cut.
    EXPECT_NEAR(mean, 0.25, 0.006);
    EXPECT_NEAR(std::sqrt(std::max(0.0, squares / kCount - mean * mean)) / mean, variation, 0.06);
  }
}

TEST(Arrivals, SwingWithTheDay) {
  ArrivalProcess process;
  process.rate = 10;
  process.swing = 0.8;
  process.period = Seconds(100);
  const std::vector<Request> requests = all(*make_arrivals(process, 100000, {{}, {}}, 5));
  double first_half = 0;
  for (const Request& r : requests)
    if (std::fmod(r.arrival.value, 100) < 50) ++first_half;
  // ∫ 1 + 0.8 sin over half a turn, over that of the whole: 1/2 + 0.8/π.
  EXPECT_NEAR(first_half / 100000, 0.5 + 0.8 / std::numbers::pi, 0.01);
  EXPECT_NEAR(requests.back().arrival.value, 10000, 200);
}

TEST(Arrivals, BeginWithASharedPrefix) {
  ArrivalProcess process;
  process.rate = 1;
  const std::vector<Request> requests = all(*make_arrivals(process, 1000, {{}, {}}, 5, {100, 4}));
  std::vector<int> counts(5);
  for (const Request& r : requests) {
    EXPECT_EQ(r.prompt, 101);
    EXPECT_EQ(r.prefix_tokens, 100);
    ++counts[r.prefix];
  }
  EXPECT_EQ(counts[0], 0);
  for (size_t i = 1; i < 5; ++i) EXPECT_NEAR(counts[i], 250, 60);
}

TEST(Arrivals, RefuseARateOfZero) {
  ArrivalProcess process;
  EXPECT_THROW(make_arrivals(process, 10, {{}, {}}, 0), Error);
  process.rate = 1;
  EXPECT_THROW(make_arrivals(process, 0, {{}, {}}, 0), Error);
  process.swing = 2;
  EXPECT_THROW(make_arrivals(process, 10, {{}, {}}, 0), Error);
  process.swing = 0;
  process.variation = -1;
  EXPECT_THROW(make_arrivals(process, 10, {{}, {}}, 0), Error);
}

TEST(ClosedLoop, AsksAgainWhenAnAnswerHasCome) {
  const auto source = make_closed_loop({2, 3, Seconds(4)}, {{}, {}}, 1);
  EXPECT_EQ(source->next_arrival().value, 0);
  const Request first = source->take();
  EXPECT_EQ(source->next_arrival().value, 2);
  (void)source->take();
  EXPECT_EQ(source->next_arrival(), kNever);
  source->ended(first.tag, Seconds(9));
  EXPECT_EQ(source->next_arrival().value, 9);
  source->ended(source->take().tag, Seconds(10));
  EXPECT_EQ(source->next_arrival(), kNever);
  EXPECT_THROW(make_closed_loop({0, 3, {}}, {{}, {}}, 1), Error);
  EXPECT_THROW(make_closed_loop({1, 0, {}}, {{}, {}}, 1), Error);
}

TEST(Conversations, RepeatWhatWasSaid) {
  Conversations conversations;
  conversations.begin.rate = 1;
  conversations.count = 2000;
  conversations.mean_turns = 3;
  conversations.mean_pause = Seconds(7);
  LengthLaw prompt;
  prompt.mean = 10;
  LengthLaw output;
  output.mean = 5;
  const auto source = make_conversations(conversations, {prompt, output}, 3);
  struct Said {
    int32_t tokens = 0;
    double end = 0;
  };
  std::vector<Said> said(2001);
  int64_t turns = 0;
  double pauses = 0;
  while (source->next_arrival() != kNever) {
    const Request r = source->take();
    Said& before = said[r.conversation];
    EXPECT_EQ(r.prompt, before.tokens + 10);
    if (before.tokens > 0) pauses += r.arrival.value - before.end;
    before = {r.prompt + r.output, r.arrival.value + 2};
    source->ended(r.tag, Seconds(before.end));
    ++turns;
  }
  EXPECT_NEAR(static_cast<double>(turns) / 2000, 3, 0.2);
  EXPECT_NEAR(pauses / static_cast<double>(turns - 2000), 7, 0.4);
}

TEST(Conversations, EndWhenTheyAreTooLong) {
  Conversations conversations;
  conversations.begin.rate = 1;
  conversations.mean_turns = 1000;
  conversations.longest = 100;
  LengthLaw ten;
  ten.mean = 10;
  const auto source = make_conversations(conversations, {ten, ten}, 3);
  int turns = 0;
  while (source->next_arrival() != kNever) {
    const Request r = source->take();
    source->ended(r.tag, r.arrival);
    ++turns;
  }
  EXPECT_EQ(turns, 5);
  conversations.mean_turns = 0;
  EXPECT_THROW(make_conversations(conversations, {ten, ten}, 3), Error);
}

}  // namespace
}  // namespace orrery
