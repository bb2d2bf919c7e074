#include "orrery/serving/traffic/vidur_requests.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace orrery {
namespace {

// Python: random.seed(42); random.random() gives 0.6394267984578837, 0.025010755222666936,
// 0.27502931836911926, 0.22321073814882275. Gaps −ln(1 − u) / 2 of the first and third, totals
// 128 + 384·u of the second and fourth, of which one in 21 is output.
TEST(VidurRequests, AreThoseOfPythonsGenerator) {
  const auto source = make_vidur_requests(
      {.rate = 2, .count = 2, .least = 128, .most = 512, .ratio = 20, .seed = 42});
  const Request first = source->take();
  EXPECT_NEAR(first.arrival.value, 0.5100301, 1e-6);
  EXPECT_EQ(first.output, 7);    // ceil(137.604 / 21)
  EXPECT_EQ(first.prompt, 130);  // floor(137.604 − 7)
  const Request second = source->take();
  EXPECT_NEAR(second.arrival.value, 0.5100301 + 0.1608120, 1e-6);
  EXPECT_EQ(second.output, 11);  // ceil(213.713 / 21)
  EXPECT_EQ(second.prompt, 202);
  EXPECT_EQ(source->next_arrival().value, kNever.value);
}

TEST(VidurRequests, CutLongGaps) {
  const auto source =
      make_vidur_requests({.rate = 4, .count = 5000, .least = 1, .most = 2, .ratio = 1, .seed = 1});
  Seconds last;
  double longest = 0;
  for (int i = 0; i < 5000; ++i) {
    const Request request = source->take();
    longest = std::max(longest, (request.arrival - last).value);
    last = request.arrival;
  }
  EXPECT_DOUBLE_EQ(longest, 0.75);
}

}  // namespace
}  // namespace orrery
