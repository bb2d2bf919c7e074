#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(Sglang, ComputesPromptsBeforeDecodes) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 1000, 1, "sglang");
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 7.75}, {5, 6.5}}));
  // In two chunks, one after the other, while A waits.
  options.pool.replicas[0].options.scheduler.chunk_size = 8;
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 8.75}, {6, 7.5}}));
}

TEST(Sglang, AdmitsWhoFitsBesideWhatOthersWillGenerate) {
  const LinearTimes times;
  // A is taken to need 8 + 10 tokens, B 8 + 4, and must leave one.
  for (const int64_t tokens : {31, 30}) {
    const ServingRun r =
        run({request(0, 8, 10), request(0, 8, 4)}, one_replica(times, tokens, 1, "sglang"));
    EXPECT_EQ(times_of(r), tokens == 31 ? (Times{{1, 10}, {1, 4}}) : (Times{{1, 10}, {11, 14}}));
  }
}

TEST(Sglang, ThrowsOutWhoHasGotTheFewestTokens) {
  const LinearTimes times;
  // At 1 s A is taken to need 0.7 · 20 more of the 37 free tokens, and B's 1 + 20 fit. Both hold
  // 1 + 18 tokens after 20 s, all there are; B goes. Of its 19 tokens A's last two take two.
  const ServingRun r =
      run({request(0, 1, 21), request(0.5, 1, 20)}, one_replica(times, 38, 1, "sglang"));
  EXPECT_EQ(times_of(r), (Times{{1, 22}, {2, 23}}));
  EXPECT_EQ(r.requests[1].preemptions, 1);
  EXPECT_EQ(times.prefill_tokens, 1 + 1 + 3);
}

}  // namespace
}  // namespace orrery
