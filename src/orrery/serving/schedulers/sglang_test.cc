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

TEST(Sglang, DecodesBesidePromptsWhenMixed) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 1000, 1, "sglang");
  options.pool.replicas[0].options.scheduler.mixed = true;
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 6.75}, {5.25, 6.75}}));
}

TEST(Sglang, LooksForRequestsAfterSomeDecodes) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 1000, 1, "sglang");
  options.pool.replicas[0].options.scheduler.poll_steps = 4;
  for (const bool step_by_step : {false, true}) {
    options.pool.replicas[0].options.step_by_step = step_by_step;
    // After A's prompt at 1 s, and after its four decodes at 5 s; A waits for B's prompt then.
    EXPECT_EQ(times_of(run({request(0, 4, 10), request(1.5, 4, 2)}, options)),
              (Times{{1, 11}, {6, 7}}));
    EXPECT_EQ(times_of(run({request(0, 4, 10), request(1, 4, 2)}, options)),
              (Times{{1, 11}, {2, 3}}));
  }
}

}  // namespace
}  // namespace orrery
