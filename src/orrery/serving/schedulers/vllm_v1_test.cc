#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(VllmV1, ChunksPromptsBehindDecodesWithinOneBudget) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 10;
  // A: 8 prompt tokens in 1 + 8/8 = 2 s. Then A's token with 9 of B's 16: 2.375 s. Then A's last
  // with B's other 7: 2.125 s. Then B alone: 1.25 s.
  const ServingRun r = run({request(0, 8, 3), request(1.5, 16, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{2, 6.5}, {6.5, 7.75}}));
  EXPECT_EQ(r.requests[1].scheduled.value, 2);
  EXPECT_EQ(r.steps, 4);
  // A holds ceil(10/4) blocks and B ceil(16/4) in the third step.
  EXPECT_EQ(r.kv_peak_blocks, 3 + 4);
  // 2.375 and 2.125 of A, 1.25 of B.
  EXPECT_DOUBLE_EQ(r.metrics.itl_mean.value, (2.375 + 2.125 + 1.25) / 3);
}

TEST(VllmV1, ThrowsOutTheLastAdmittedAndComputesItAgain) {
  const LinearTimes times;
  // Each needs 3 blocks of 4 tokens for its ninth token, in the sixth step; there are 4. B, thrown
  // out then, computes its 4 + 5 tokens again when A has ended after 6 s.
  for (const bool caching : {false, true}) {
    FleetOptions options = one_replica(times, 4, 4, "vllm-v1");
    options.pool.replicas[0].options.scheduler.prefix_caching = caching;
    times.prefill_tokens = 0;
    const ServingRun r = run({request(0, 4, 6), request(0, 4, 6)}, options);
    EXPECT_EQ(times_of(r), (Times{{1, 6}, {1, 7}}));
    EXPECT_EQ(r.metrics.preemptions, 1);
    EXPECT_EQ(r.requests[1].preemptions, 1);
    EXPECT_EQ(r.kv_peak_blocks, 4);
    // Of B's two full blocks A took the second; the first is found again.
    EXPECT_EQ(times.prefill_tokens, 8 + (caching ? 5 : 9));
  }
}

TEST(VllmV1, AdmitsWhoHasRoomForAllOfItsTokens) {
  const LinearTimes times;
  // A's 8 tokens leave 2 of 4 blocks, too few for B's 12 tokens, and 2 of 10 tokens of the step. A
  // chunk of those 2 would fit, and be thrown out when A needs its third block.
  for (const bool first_chunk : {false, true}) {
    FleetOptions options = one_replica(times, 4, 4, "vllm-v1");
    options.pool.replicas[0].options.scheduler.max_batched_tokens = 10;
    options.pool.replicas[0].options.scheduler.first_chunk = first_chunk;
    const ServingRun r = run({request(0, 8, 2), request(0, 12, 1)}, options);
    EXPECT_EQ(times_of(r), (Times{{1, 2}, {4, 4}}));
    EXPECT_EQ(r.metrics.preemptions, first_chunk ? 1 : 0);
    EXPECT_EQ(r.requests[1].scheduled.value, first_chunk ? 0 : 2);
  }
}

TEST(VllmV1, ThrowsOutTheLowestPriority) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 4, 4, "vllm-v1");
  options.pool.replicas[0].options.scheduler.by_priority = true;
  std::vector<Request> requests{request(0, 4, 6), request(0, 4, 6)};
  requests[0].priority = 1;
  const ServingRun r = run(requests, options);
  EXPECT_EQ(times_of(r), (Times{{1, 7}, {1, 6}}));
  EXPECT_EQ(r.requests[0].preemptions, 1);
}

TEST(VllmV1, LetsNoMoreRunThanItMay) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  options.pool.replicas[0].options.scheduler.max_seqs = 1;
  const ServingRun r = run({request(0, 4, 3), request(0, 4, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{1, 3}, {4, 5}}));
}

TEST(VllmV1, FindsASharedPrefixAlreadyInTheSameStep) {
  LinearTimes times;
  times.per_prefill = 0.125;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  std::vector<Request> requests{request(0, 12, 1), request(0, 12, 1), request(10, 8, 1)};
  for (Request& r : requests) {
    r.prefix = 7;
    r.prefix_tokens = 9;
  }
  // Two full blocks, 8 tokens, are shared: 12 + 4 tokens are computed in 1 + 2 s. The third's 8
  // tokens are all cached, but its last must be computed, and with it its block.
  const ServingRun r = run(requests, options);
  EXPECT_EQ(times_of(r), (Times{{3, 3}, {3, 3}, {11.5, 11.5}}));
  EXPECT_EQ(r.requests[1].cached, 8);
  EXPECT_EQ(r.requests[2].cached, 4);
  EXPECT_EQ(r.kv_peak_blocks, 2 + 1 + 1);
}

TEST(VllmV1, CountsARequestThatCanNeverRunAndGoesOn) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 4, 4, "vllm-v1");
  // 13 + 5 − 1 tokens need 5 blocks.
  const ServingRun r = run({request(0, 13, 5), request(0, 13, 4)}, options);
  EXPECT_EQ(r.metrics.rejected, 1);
  EXPECT_EQ(r.metrics.requests, 1);
  EXPECT_EQ(r.requests[0].state, RequestRecord::State::kRejected);
  EXPECT_EQ(r.requests[1].end.value, 4);
}

}  // namespace
}  // namespace orrery
