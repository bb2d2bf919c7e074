// What must hold for every scheduler, whatever arrives.

#include <cmath>
#include <cstring>
#include <sstream>

#include "orrery/base/random_stream.h"
#include "orrery/serving/load.h"
#include "orrery/serving/router.h"
#include "orrery/serving/serving_for_test.h"
#include "orrery/serving/traffic/adapters.h"
#include "orrery/serving/traffic/arrivals.h"
#include "orrery/serving/traffic/users.h"

namespace orrery {
namespace {

struct Scenario {
  LinearTimes times;
  FleetOptions options;
  int traffic = 0;
  int32_t adapters = 0;
  uint64_t seed = 0;
};

/// A small machine under random load: sometimes idle, sometimes short of everything.
Scenario scenario(const std::string& scheduler, uint64_t seed) {
  RandomStream random(seed, 99);
  Scenario s;
  s.seed = seed;
  s.traffic = static_cast<int>(random.integer(0, 3));
  // Of few bits each, so that a line's steps have the very times that each alone has.
  const auto times = [](double n, int power) { return std::ldexp(n, power); };
  s.times.base = times(11, -10);
  s.times.per_prefill = times(7, -16);
  s.times.per_decode = times(static_cast<double>(random.integer(0, 255)), -21);
  s.times.per_context = times(1, -20);
  s.times.host = random.integer(0, 1) == 0 ? 0 : 0.012;
  if (random.integer(0, 3) == 0) {
    s.times.window_tokens = 64;
    s.times.per_windowed = times(1, -20);
  }
  if (random.integer(0, 4) == 0) s.times.stages = 3;
  s.options = one_replica(s.times, random.integer(40, 200), 8, scheduler);
  ReplicaSpec& replica = s.options.pool.replicas[0];
  if (random.integer(0, 3) == 0) {
    replica.room.windowed = 0.6;
    replica.room.window = 50;
    replica.room.fixed = 1;
  }
  replica.options.ranks = random.integer(0, 3) == 0 ? 2 : 1;
  replica.options.asynchronous = random.integer(0, 1) == 0;
  replica.options.scheduler.max_batched_tokens = random.integer(120, 600);
  replica.options.scheduler.chunk_size = random.integer(16, 64);
  replica.options.scheduler.max_seqs = random.integer(2, 40);
  replica.options.scheduler.prefix_caching = random.integer(0, 1) == 0;
  replica.options.scheduler.by_priority = random.integer(0, 3) == 0;
  if (random.integer(0, 4) == 0) {
    replica.options.speculation.draft_tokens = 3;
    replica.options.speculation.acceptance = 0.6;
  }
  const int64_t replicas = random.integer(1, 3);
  s.options.pool.replicas.assign(static_cast<size_t>(replicas), replica);
  const std::vector<std::string> routers = Registry<Router>::instance().names();
  s.options.pool.router =
      routers[static_cast<size_t>(random.integer(0, static_cast<int64_t>(routers.size()) - 1))];
  s.options.series_points = 50;
  if (random.integer(0, 4) == 0) {
    for (ReplicaSpec& replica : s.options.pool.replicas)
      replica.transfer = {Bytes(1000), BytesPerSecond(1e6), Seconds(0.01)};
    s.options.decode_pool = s.options.pool;
  }
  if (random.integer(0, 4) == 0) {
    Autoscaling& scaling = s.options.pool.autoscaling;
    scaling.target = 5;
    scaling.interval = Seconds(1);
    scaling.start_up = Seconds(2);
    scaling.patience = Seconds(3);
    s.options.decode_pool.autoscaling = scaling;
  }
  const bool ahead = random.integer(0, 1) == 0;
  const int64_t steps = random.integer(1, 6);
  const bool mixed = random.integer(0, 1) == 0;
  for (ReplicaPool* pool : {&s.options.pool, &s.options.decode_pool}) {
    for (ReplicaSpec& replica : pool->replicas) {
      replica.options.ahead = ahead;
      SchedulerOptions& told = replica.options.scheduler;
      if (told.name == "sglang") {
        told.poll_steps = steps;
        told.mixed = mixed;
      } else if (told.name == "trtllm") {
        told.wait_steps = steps - 1;
      }
    }
  }
  const bool host = random.integer(0, 3) > 0;
  if (random.integer(0, 2) == 0) s.adapters = static_cast<int32_t>(random.integer(1, 12));
  const int slots = static_cast<int>(random.integer(1, 4));
  const int64_t blocks = random.integer(1, 400);
  const BytesPerSecond bandwidth(1e4 * static_cast<double>(random.integer(1, 100)));
  for (ReplicaPool* pool : {&s.options.pool, &s.options.decode_pool}) {
    for (ReplicaSpec& r : pool->replicas) {
      if (host && *r.options.scheduler.prefix_caching) r.options.host.blocks = blocks;
      if (s.adapters > 0) r.options.adapters = {slots, Bytes(300)};
      r.options.host.block_bytes = Bytes(100);
      r.options.host.bandwidth = bandwidth;
    }
  }
  return s;
}

std::unique_ptr<RequestSource> plain_traffic(const Scenario& s) {
  LengthLaw prompt;
  prompt.kind = LengthLaw::Kind::kUniform;
  prompt.least = 1;
  prompt.most = 110;
  LengthLaw output = prompt;
  output.most = 60;
  const LengthSampler lengths(prompt, output);
  ArrivalProcess process;
  process.rate = 1 + static_cast<double>(s.seed % 40);
  process.variation = 2;
  if (s.traffic == 0) return make_arrivals(process, 300, lengths, s.seed);
  if (s.traffic == 1) return make_arrivals(process, 300, lengths, s.seed, {40, 3});
  if (s.traffic == 2)
    return make_closed_loop({1 + static_cast<int64_t>(s.seed % 30), 300, {}}, lengths, s.seed);
  prompt.most = 30;
  output.most = 20;
  Conversations conversations;
  conversations.begin = process;
  conversations.count = 80;
  conversations.mean_pause = Seconds(0.5);
  conversations.longest = 200;
  return make_conversations(conversations, {prompt, output}, s.seed, {24, 2});
}

std::unique_ptr<RequestSource> traffic(const Scenario& s) {
  std::unique_ptr<RequestSource> source = plain_traffic(s);
  if (s.adapters == 0) return source;
  return with_adapters(std::move(source), {s.adapters, 1}, s.seed);
}

ServingRun run(const Scenario& s, bool step_by_step) {
  FleetOptions options = s.options;
  for (ReplicaPool* pool : {&options.pool, &options.decode_pool}) {
    for (ReplicaSpec& replica : pool->replicas) {
      replica.times = &s.times;
      replica.options.step_by_step = step_by_step;
    }
  }
  const std::unique_ptr<RequestSource> source = traffic(s);
  return run_fleet(*source, options);
}

/// What became of each request, to the last bit.
std::string requests_of(const ServingRun& run) {
  std::ostringstream out;
  out << std::hexfloat;
  for (const RequestRecord& r : run.requests)
    out << r.arrival.value << ' ' << r.scheduled.value << ' ' << r.first_token.value << ' '
        << r.end.value << ' ' << r.prompt << ' ' << r.output << ' ' << r.cached << ' '
        << r.preemptions << ' ' << int{r.replica} << ' ' << static_cast<int>(r.state) << '\n';
  return out.str();
}

/// All that a run says, to the last bit.
std::string written(const ServingRun& run) {
  std::ostringstream out;
  out << std::hexfloat << requests_of(run);
  const ServingMetrics& m = run.metrics;
  out << m.itl_mean.value << ' ' << m.itl_p99.value << ' ' << m.tpot.p99.by_chance.low.value_or(-1)
      << ' ' << run.steps << ' ' << run.kv_peak_blocks << ' ' << run.kv_mean_use << ' '
      << run.replica_seconds << '\n';
  out << run.host.hit_tokens << ' ' << run.host.peak_blocks << ' ' << run.host.to_device.value
      << ' ' << run.host.to_host_busy.value << ' ' << run.host.adapter_loads << '\n';
  for (const SeriesPoint& p : run.series)
    out << p.decodes << ' ' << p.prefill_tokens << ' ' << p.used_blocks << ' ' << p.waiting << '\n';
  return out.str();
}

class EveryScheduler : public testing::TestWithParam<std::string> {};

TEST_P(EveryScheduler, EndsEveryRequestOnceWithItsTokens) {
  int64_t host_hits = 0, adapter_loads = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario s = scenario(GetParam(), seed);
    const ServingRun r = run(s, false);
    ASSERT_FALSE(r.requests.empty());
    double output = 0;
    double ends = 0;
    for (const RequestRecord& q : r.requests) {
      ASSERT_NE(q.state, RequestRecord::State::kPending);
      if (q.state == RequestRecord::State::kRejected) continue;
      ASSERT_LE(q.arrival, q.scheduled);
      ASSERT_LT(q.scheduled, q.first_token);
      ASSERT_LE(q.first_token, q.end);
      ASSERT_EQ(q.output == 1, q.first_token == q.end);
      output += q.output;
      ends = std::max(ends, q.end.value);
    }
    EXPECT_GT(r.metrics.requests, 0);
    EXPECT_LE(r.kv_peak_blocks, r.kv_blocks);
    EXPECT_LE(r.host.peak_blocks, r.host.blocks);
    // What comes from the host was there, and each way of a link carries one thing at a time.
    const double over_link = 100.0 / 8 * static_cast<double>(r.host.hit_tokens) +
                             300.0 * static_cast<double>(r.host.adapter_loads);
    EXPECT_DOUBLE_EQ(r.host.to_device.value, over_link);
    EXPECT_LE(r.host.to_device_busy.value, ends * static_cast<double>(r.host.links) + 1e-9);
    host_hits += r.host.hit_tokens;
    adapter_loads += r.host.adapter_loads;
    EXPECT_NEAR(r.metrics.output_tokens_per_s * r.metrics.duration.value, output, 1e-6 * output);
    EXPECT_LE(ends, 3000);
  }
  EXPECT_GT(host_hits, 0);
  EXPECT_GT(adapter_loads, 0);
}

TEST_P(EveryScheduler, ComputesEveryPromptTokenThatIsNotCached) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario s = scenario(GetParam(), seed);
    const ServingRun r = run(s, true);
    int64_t wanted = 0;
    for (const RequestRecord& q : r.requests)
      if (q.state == RequestRecord::State::kDone) wanted += q.prompt - q.cached;
    EXPECT_GE(s.times.prefill_tokens, wanted);
    if (r.metrics.preemptions == 0) {
      EXPECT_EQ(s.times.prefill_tokens, wanted);
    }
  }
}

TEST_P(EveryScheduler, GivesTheSameBytesAgainAndStepByStep) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario s = scenario(GetParam(), seed);
    const std::string once = written(run(s, false));
    EXPECT_TRUE(once == written(run(s, false)));
    EXPECT_TRUE(once == written(run(s, true)));
  }
}

/// Of a run that is not measured steps are planned further ahead, past requests of other engines.
TEST_P(EveryScheduler, GivesTheSameRequestsWhereTheyAloneAreWanted) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Scenario s = scenario(GetParam(), seed);
    const Seconds front_end(seed % 2 == 0 ? 0.01 : 0);
    for (ReplicaSpec& replica : s.options.pool.replicas) replica.options.front_end = front_end;
    const Promise promise = {{Seconds(0.5), Seconds(0.05), Seconds(0)}, 0.9};
    const ServingRun measured = run(s, false);
    s.options.measured = false;
    const ServingRun bare = run(s, false);
    EXPECT_TRUE(requests_of(measured) == requests_of(bare));
    EXPECT_EQ(measured.steps, bare.steps);
    EXPECT_EQ(measured.kv_peak_blocks, bare.kv_peak_blocks);
    // It gives up where the other does, and only where the promise is broken.
    s.options.giving_up = giving_up(promise, static_cast<int64_t>(bare.requests.size()), 0.2);
    const ServingRun cut = run(s, false);
    s.options.measured = true;
    EXPECT_EQ(cut.gave_up, run(s, false).gave_up);
    if (cut.gave_up) {
      EXPECT_FALSE(load_point(1, bare.requests, promise, 0.2).kept());
    }
    if (s.traffic > 1 || s.options.pool.replicas.size() > 1) continue;
    if (late_before_engines(*traffic(s), s.options.before_engine, front_end,
                            *s.options.giving_up)) {
      EXPECT_TRUE(cut.gave_up);
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryScheduler,
                         testing::ValuesIn(Registry<Scheduler>::instance().names()), test_name);

}  // namespace
}  // namespace orrery
