#include "orrery/serving/replica.h"

#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(Replica, HidesTheHostWhereItSchedulesAhead) {
  LinearTimes times;
  times.host = 3;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  EXPECT_EQ(times_of(run({request(0, 4, 2)}, options)), (Times{{3, 6}}));
  options.pool.replicas[0].options.asynchronous = false;
  EXPECT_EQ(times_of(run({request(0, 4, 2)}, options)), (Times{{4, 8}}));
}

TEST(Replica, PutsAStepTogetherWhenTheOneBeforeBegins) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  // The step that begins at 2 s was put together at 1 s.
  for (const bool ahead : {false, true}) {
    options.pool.replicas[0].options.ahead = ahead;
    for (const bool step_by_step : {false, true}) {
      options.pool.replicas[0].options.step_by_step = step_by_step;
      EXPECT_EQ(times_of(run({request(0, 4, 6), request(1.5, 4, 2)}, options)),
                ahead ? (Times{{1, 6}, {4, 5}}) : (Times{{1, 6}, {3, 4}}));
      EXPECT_EQ(times_of(run({request(0, 4, 6), request(1, 4, 2)}, options)),
                ahead ? (Times{{1, 6}, {3, 4}}) : (Times{{1, 6}, {2, 3}}));
      EXPECT_EQ(times_of(run({request(0, 4, 2), request(1.5, 4, 2)}, options)),
                (Times{{1, 2}, {3, 4}}));
    }
  }
}

TEST(Replica, WaitsForAHostThatLaunchesKernelByKernel) {
  LinearTimes times;
  times.host = 0.5;
  times.launch = 0.75;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  EXPECT_EQ(times_of(run({request(0, 4, 2)}, options)), (Times{{1.25, 2.5}}));
  options.pool.replicas[0].options.asynchronous = false;
  EXPECT_EQ(times_of(run({request(0, 4, 2)}, options)), (Times{{1.5, 3}}));
}

TEST(Replica, HandsTokensOutOneAfterTheOther) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  options.pool.replicas[0].options.stream = Seconds(0.25);
  for (const bool step_by_step : {false, true}) {
    options.pool.replicas[0].options.step_by_step = step_by_step;
    // Beside the engine: the steps still end at 1, 2 and 3 s.
    EXPECT_EQ(times_of(run({request(0, 4, 3)}, options)), (Times{{1.25, 3.25}}));
    EXPECT_EQ(times_of(run({request(0, 4, 3), request(0, 4, 3)}, options)),
              (Times{{1.5, 3.5}, {1.5, 3.5}}));
    // Four sequences a second are what it can pass on; of six each step waits half a second more:
    // those of steps that end at 1, 2 and 3 s are through at 2.5, 4 and 5.5 s.
    const std::vector<Request> six(6, request(0, 4, 3));
    const ServingRun queued = run(six, options);
    EXPECT_EQ(times_of(queued), Times(6, {2.5, 5.5}));
    EXPECT_DOUBLE_EQ(queued.metrics.itl_mean.value, 1.5);
  }
  options.pool.replicas[0].options.stream = Seconds(-1);
  EXPECT_THROW(run({request(0, 4, 1)}, options), Error);
}

TEST(Replica, KeepsABatchInEachStageOfAPipeline) {
  LinearTimes times;
  times.stages = 2;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  options.pool.replicas[0].options.scheduler.max_batched_tokens = 4;
  // A passes the stages at 0 and 1 s, B at 1 and 2 s; then A's token at 2 and 3 s, B's behind it.
  const ServingRun r = run({request(0, 4, 2), request(0, 4, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{2, 4}, {3, 5}}));
  EXPECT_DOUBLE_EQ(r.metrics.itl_mean.value, 2);
}

TEST(Replica, StepsAllRanksAsLongAsTheSlowest) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_group = 0.125;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  options.pool.replicas[0].options.ranks = 2;
  // A's 8 tokens on one rank, B's 16 on the other: 1 + 16/8 s and (8 + 16)/8 s for the experts.
  const ServingRun r = run({request(0, 8, 1), request(0, 16, 1)}, options);
  EXPECT_EQ(times_of(r), (Times{{6, 6}, {6, 6}}));
  EXPECT_EQ(r.kv_blocks, 200);
}

TEST(Replica, AsksForEachStepWithItsContext) {
  LinearTimes times;
  times.base = 0;
  times.per_context = 1;
  times.per_windowed = 100;
  times.per_prefill = 1;
  times.window_tokens = 6;
  // 4 prompt tokens; then contexts 5, 6, 7, 8 of which the window sees 5, 6, 6, 6.
  const ServingRun r = run({request(0, 4, 5)}, one_replica(times, 100, 16, "vllm-v1"));
  EXPECT_EQ(times_of(r), (Times{{4, 4 + 26 + 2300}}));
}

TEST(Replica, GivesSeveralTokensAStepWithRightDrafts) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
  options.pool.replicas[0].options.speculation = {3, 1.0, 0};
  EXPECT_EQ(times_of(run({request(0, 4, 9)}, options)), (Times{{1, 3}}));
  options.pool.replicas[0].options.speculation.acceptance = 0;
  EXPECT_EQ(times_of(run({request(0, 4, 9)}, options)), (Times{{1, 9}}));
  // (1 − a⁴) / (1 − a) = 2.176 tokens a step.
  options.pool.replicas[0].options.speculation.acceptance = 0.6;
  const ServingRun r = run({request(0, 4, 1201)}, options);
  EXPECT_NEAR(1200 / (r.requests[0].end.value - 1), 2.176, 0.1);
}

TEST(Replica, RefusesWhatCannotWork) {
  const LinearTimes times;
  const auto kind = [&](auto change) {
    FleetOptions options = one_replica(times, 100, 16, "vllm-v1");
    change(options.pool.replicas[0]);
    try {
      run({request(0, 4, 1)}, options);
    } catch (const Error& e) {
      return e.exit_code();
    }
    return 0;
  };
  EXPECT_EQ(kind([](ReplicaSpec&) {}), 0);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.room.blocks = 0; }), 4);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.options.ranks = 0; }), 2);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.options.scheduler.name = "vllm"; }), 2);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.options.scheduler.max_seqs = -1; }), 2);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.options.speculation.draft_tokens = -1; }), 2);
  EXPECT_EQ(kind([](ReplicaSpec& r) { r.options.speculation.acceptance = 2; }), 2);
}

}  // namespace
}  // namespace orrery
