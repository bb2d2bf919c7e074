#include "orrery/serving/event_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

TEST(EventTimes, KnowTheEarliestAndWhoIsDueInOrder) {
  constexpr size_t kCount = 13;
  EventTimes times(kCount);
  EXPECT_EQ(times.earliest(), kNever);
  std::vector<Seconds> plain(kCount, kNever);
  RandomStream random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto number = static_cast<size_t>(random.integer(0, kCount - 1));
    plain[number] = random.uniform() < 0.3 ? kNever : Seconds(std::floor(8 * random.uniform()));
    times.set(number, plain[number]);
    EXPECT_EQ(times.earliest(), *std::ranges::min_element(plain));
    std::vector<size_t> due, expected;
    times.add_due(Seconds(3), due);
    for (size_t j = 0; j < kCount; ++j)
      if (plain[j] <= Seconds(3)) expected.push_back(j);
    EXPECT_EQ(due, expected);
  }
}

}  // namespace
}  // namespace orrery
