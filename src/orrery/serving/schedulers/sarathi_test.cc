#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(Sarathi, FillsAStepOfDecodesWithAChunk) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  FleetOptions options = one_replica(times, 100, 4, "sarathi");
  options.pool.replicas[0].options.scheduler.chunk_size = 10;
  // A's 8 tokens; A's next and 9 of B's; A's last and 7 of B's; B's last.
  const ServingRun r = run({request(0, 8, 3), request(1.5, 16, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{2, 6.5}, {6.5, 7.75}}));
}

TEST(Sarathi, TakesNoPromptWhereDecodesFillTheStep) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "sarathi");
  options.pool.replicas[0].options.scheduler.chunk_size = 2;
  const ServingRun r = run({request(0, 1, 3), request(0, 1, 3), request(0, 1, 3)}, options);
  EXPECT_EQ(times_of(r), (Times{{1, 3}, {1, 3}, {4, 6}}));
}

TEST(Sarathi, TakesAPromptsBlocksAtOnce) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 10, 4, "sarathi");
  options.pool.replicas[0].options.scheduler.chunk_size = 4;
  const ServingRun r = run({request(0, 32, 1)}, options);
  EXPECT_EQ(r.requests[0].end.value, 8);
  // Eight blocks from the first of the eight steps on.
  EXPECT_DOUBLE_EQ(r.kv_mean_use, 0.8);
}

}  // namespace
}  // namespace orrery
