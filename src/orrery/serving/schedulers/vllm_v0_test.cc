#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(VllmV0, ComputesWholePromptsBeforeDecodes) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  // A's prompt 2 s, B's 3 s, then both 1.5 s, then A alone 1.25 s.
  const ServingRun r =
      run({request(0, 8, 3), request(1.5, 16, 2)}, one_replica(times, 100, 4, "vllm-v0"));
  EXPECT_EQ(times_of(r), (Times{{2, 7.75}, {5, 6.5}}));
}

TEST(VllmV0, LeavesBlocksFreeWhenItAdmits) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 10, 4, "vllm-v0");
  options.pool.replicas[0].options.scheduler.watermark = 0.3;
  // The second's 4 blocks would leave 2 of 10.
  const ServingRun r = run({request(0, 16, 1), request(0, 16, 1)}, options);
  EXPECT_EQ(times_of(r), (Times{{1, 1}, {2, 2}}));
}

TEST(VllmV0, StartsTheLastAdmittedAgain) {
  const LinearTimes times;
  // As with vLLM v1, but all 9 tokens are computed again.
  const ServingRun r =
      run({request(0, 4, 6), request(0, 4, 6)}, one_replica(times, 4, 4, "vllm-v0"));
  EXPECT_EQ(times_of(r), (Times{{1, 6}, {1, 7}}));
  EXPECT_EQ(r.metrics.preemptions, 1);
  EXPECT_EQ(times.prefill_tokens, 8 + 9);
}

TEST(VllmV0, GivesALongPromptAStepOfItsOwn) {
  LinearTimes times;
  times.per_prefill = 1;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v0");
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 6;
  // 4 tokens; 8 would make 12; 8 alone; 2.
  const ServingRun r = run({request(0, 4, 1), request(0, 8, 1), request(0, 2, 1)}, options);
  EXPECT_EQ(times_of(r), (Times{{5, 5}, {14, 14}, {17, 17}}));
}

}  // namespace
}  // namespace orrery
