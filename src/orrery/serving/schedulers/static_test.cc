#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(Static, RunsABatchToItsEnd) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  // A and C 3 s, A's tokens 1.25 s each, then B 3 s and 1.25 s.
  const ServingRun r = run({request(0, 8, 3), request(0, 8, 1), request(1.5, 16, 2)},
                           one_replica(times, 100, 4, "static"));
  EXPECT_EQ(times_of(r), (Times{{3, 5.5}, {3, 3}, {8.5, 9.75}}));
}

TEST(Static, HasNoUseForChunks) {
  SchedulerOptions options;
  options.name = "static";
  EXPECT_NO_THROW(refuse_unused(options));
  options.chunk_size = 512;
  EXPECT_THROW(refuse_unused(options), Error);
  options.name = "sarathi";
  EXPECT_NO_THROW(refuse_unused(options));
  options.max_utilization = true;
  EXPECT_THROW(refuse_unused(options), Error);
}

}  // namespace
}  // namespace orrery
