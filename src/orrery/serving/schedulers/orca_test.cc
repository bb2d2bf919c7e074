#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

TEST(Orca, ComputesWholePromptsBesideDecodes) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  // A's prompt 2 s; A's token with all of B's prompt 3.25 s; both 1.5 s.
  const ServingRun r =
      run({request(0, 8, 3), request(1.5, 16, 2)}, one_replica(times, 100, 4, "orca"));
  EXPECT_EQ(times_of(r), (Times{{2, 6.75}, {5.25, 6.75}}));
}

TEST(Orca, ReservesTheLongestThatARequestMayBecome) {
  LinearTimes times;
  times.per_prefill = 0.125;
  times.per_decode = 0.25;
  // A reserves ceil(10/4) = 3 of 6 blocks, B needs ceil(17/4) = 5.
  const ServingRun r =
      run({request(0, 8, 3), request(1.5, 16, 2)}, one_replica(times, 6, 4, "orca"));
  EXPECT_EQ(times_of(r), (Times{{2, 4.5}, {7.5, 8.75}}));
  FleetOptions options = one_replica(times, 6, 4, "orca");
  options.pool.replicas[0].options.scheduler.max_length = 20;
  // Now each takes 5.
  EXPECT_EQ(times_of(run({request(0, 8, 3), request(0, 1, 1)}, options)),
            (Times{{2, 4.5}, {5.625, 5.625}}));
}

}  // namespace
}  // namespace orrery
