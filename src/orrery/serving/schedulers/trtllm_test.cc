#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(TrtLlm, ComputesWholePromptsBesideDecodes) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 100, 4, "trtllm");
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 20;
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 6.75}, {5.25, 6.75}}));
  // With 16 tokens a step B's prompt must wait until A has ended; with 15 it is turned away.
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 16;
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 4.5}, {7.5, 8.75}}));
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 15;
  EXPECT_EQ(run({request(0, 8, 3), request(1.5, 16, 2)}, options).metrics.rejected, 1);
}

TEST(TrtLlm, ChunksPromptsWhenTold) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 100, 4, "trtllm");
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 10;
  options.pool.replicas[0].options.scheduler.chunk_size = 8;
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(1.5, 16, 2)}, options)),
            (Times{{2, 6.5}, {6.5, 7.75}}));
}

TEST(TrtLlm, EvictsNobodyUnlessItIsToUseAllBlocks) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 4, 4, "trtllm");
  // Each ends with 9 tokens, 3 of the 4 blocks.
  const ServingRun sure = run({request(0, 4, 6), request(0, 4, 6)}, options);
  EXPECT_EQ(times_of(sure), (Times{{1, 6}, {7, 12}}));
  EXPECT_EQ(sure.metrics.preemptions, 0);
  options.pool.replicas[0].options.scheduler.max_utilization = true;
  const ServingRun daring = run({request(0, 4, 6), request(0, 4, 6)}, options);
  EXPECT_EQ(times_of(daring), (Times{{1, 6}, {1, 7}}));
  EXPECT_EQ(daring.metrics.preemptions, 1);
}

TEST(TrtLlm, LetsOthersDecodeBeforeAPrompt) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "trtllm");
  SchedulerOptions& scheduler = options.pool.replicas[0].options.scheduler;
  scheduler.wait_steps = 3;
  for (const bool step_by_step : {false, true}) {
    options.pool.replicas[0].options.step_by_step = step_by_step;
    // B could begin at 2 s and waits for A's steps at 2, 3 and 4 s.
    scheduler.wait_share = -1;
    EXPECT_EQ(times_of(run({request(0, 4, 8), request(1.5, 4, 2)}, options)),
              (Times{{1, 8}, {6, 7}}));
    // A's next token and B's prompt are 5 of 8,192 tokens.
    scheduler.wait_share = 5.0 / 8192;
    EXPECT_EQ(times_of(run({request(0, 4, 8), request(1.5, 4, 2)}, options)),
              (Times{{1, 8}, {3, 4}}));
  }
}

}  // namespace
}  // namespace orrery
