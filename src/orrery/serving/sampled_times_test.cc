#include "orrery/serving/sampled_times.h"

#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

// Steps are as likely to be kept whether they were asked for one by one or ahead: tokens of prompts
// stand to further ones as in the requests, 64 to 39.
TEST(SampledTimes, KeepsStepsOfEveryKindAlike) {
  for (const int ranks : {1, 3}) {
    LinearTimes times;
    times.base = 0.25;
    times.longest_line = 1000;
    const SampledTimes sampled(times);
    FleetOptions options = one_replica(sampled, 4000, 16, "vllm-v1");
    options.pool.replicas[0].options.ranks = ranks;
    std::vector<Request> requests;
    // At no multiple of the steps that are kept.
    double arrival = 0;
    for (int i = 0; i < 600; ++i)
      requests.push_back(request(arrival += 1 + 0.37 * (i * 7 % 11), 64, 40));
    const ServingRun r = run(requests, options);
    ASSERT_GT(r.steps, 2000);
    double prompts = 0, decodes = 0;
    for (const SampledStep& step : sampled.steps()) {
      for (const PrefillChunk& chunk : step.chunks) prompts += static_cast<double>(chunk.tokens);
      decodes += static_cast<double>(step.shape.decodes);
    }
    EXPECT_GT(sampled.steps().size(), 200);
    EXPECT_NEAR(prompts / decodes, 64.0 / 39, 0.3) << ranks;
  }
}

}  // namespace
}  // namespace orrery
