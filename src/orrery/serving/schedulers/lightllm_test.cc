#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(LightLlm, LooksAtNewcomersAfterTenDecodes) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  // A's prompt to 2 s, ten tokens to 14.5 s, B's prompt to 17.5 s, both to 19 s, A's last eight.
  const ServingRun r =
      run({request(0, 8, 20), request(1.5, 16, 2)}, one_replica(times, 100, 1, "lightllm"));
  EXPECT_EQ(times_of(r), (Times{{2, 29}, {17.5, 19}}));
}

TEST(LightLlm, AdmitsWhoFindsRoomToTheEnd) {
  const LinearTimes times;
  // When C ends, it and A hold 8 + 6 + 2 · 2 = 18 tokens; A alone ends with 8 + 4.
  for (const int64_t tokens : {18, 17}) {
    const ServingRun r =
        run({request(0, 8, 5), request(0, 6, 3)}, one_replica(times, tokens, 1, "lightllm"));
    EXPECT_EQ(times_of(r), tokens == 18 ? (Times{{1, 5}, {1, 3}}) : (Times{{1, 5}, {6, 8}}));
    EXPECT_EQ(r.kv_peak_blocks, tokens == 18 ? 18 : 12);
    EXPECT_EQ(r.metrics.preemptions, 0);
  }
}

}  // namespace
}  // namespace orrery
