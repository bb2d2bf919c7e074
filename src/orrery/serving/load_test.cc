#include "orrery/serving/load.h"

#include <cmath>

#include "orrery/serving/serving_for_test.h"
#include "orrery/serving/traffic/arrivals.h"

namespace orrery {
namespace {

RequestRecord record(double arrival, double first, double end, int32_t output) {
  RequestRecord r;
  r.arrival = Seconds(arrival);
  r.first_token = Seconds(first);
  r.end = Seconds(end);
  r.output = output;
  r.state = RequestRecord::State::kDone;
  return r;
}

Promise promise(double ttft, double tpot, double e2e, double quantile) {
  return {{Seconds(ttft), Seconds(tpot), Seconds(e2e)}, quantile};
}

TEST(Load, QuantilesAndTightestTerm) {
  // First tokens after 1, 2, 3 s; then 4 tokens in 2, 4, 6 s.
  const std::vector<RequestRecord> records = {record(0, 1, 3, 5), record(50, 52, 56, 5),
                                              record(100, 103, 109, 5)};
  const LoadPoint point = load_point(0.02, records, promise(4, 2, 20, 0.5), 0);
  EXPECT_DOUBLE_EQ(point.ttft.value, 2);
  EXPECT_DOUBLE_EQ(point.tpot.value, 1);
  EXPECT_DOUBLE_EQ(point.e2e.value, 6);
  EXPECT_DOUBLE_EQ(point.strain, 0.5);
  EXPECT_TRUE(point.kept());
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 15.0 / 109);
  const LoadPoint broken = load_point(0.02, records, promise(4, 0.75, 0, 0.5), 0);
  EXPECT_EQ(broken.tightest, PromiseTerm::kTpot);
  EXPECT_DOUBLE_EQ(broken.strain, 1 / 0.75);
  EXPECT_FALSE(broken.kept());
}

TEST(Load, RequestsAreLateBeforeTheEngines) {
  // Every 0.1 s one comes (a metronome) and every 0.2 s one gets through: request i, from 0, waits
  // i · 0.1 s, so that of 50 those from number 21 on wait more than 2 s.
  const auto late = [](Seconds front_end, const GivingUp& limit) {
    LengthLaw one;
    one.mean = 1;
    ArrivalProcess process;
    process.rate = 10;
    process.variation = 0;
    return late_before_engines(*make_arrivals(process, 50, {one, one}, 1), Seconds(0.05), front_end,
                               limit);
  };
  const ServiceLevel level = {Seconds(2.06), Seconds(0), Seconds(0)};
  EXPECT_TRUE(late(Seconds(0.2), {level, 0, 28}));
  EXPECT_FALSE(late(Seconds(0.2), {level, 0, 29}));
  EXPECT_TRUE(late(Seconds(0.2), {level, 30, 19}));
  EXPECT_FALSE(late(Seconds(0.2), {level, 30, 20}));
  EXPECT_FALSE(late(Seconds(0.1), {level, 0, 0}));
  EXPECT_FALSE(late(Seconds(0.2), {{Seconds(0), Seconds(1), Seconds(1)}, 0, 0}));
}

TEST(Load, WhoWarmsUpDoesNotCount) {
  const std::vector<RequestRecord> records = {record(0, 99, 99, 1), record(50, 51, 51, 1),
                                              record(100, 101, 101, 1), record(150, 151, 151, 1)};
  EXPECT_DOUBLE_EQ(load_point(1, records, promise(1, 0, 0, 0.99), 0.25).ttft.value, 1);
}

TEST(Load, WhoIsTurnedAwayWaitsForEver) {
  std::vector<RequestRecord> records = {record(0, 1, 1, 1), record(50, 51, 51, 1),
                                        record(100, 101, 101, 1)};
  records[1].state = RequestRecord::State::kRejected;
  EXPECT_TRUE(load_point(1, records, promise(2, 0, 0, 0.5), 0).kept());
  EXPECT_FALSE(load_point(1, records, promise(2, 0, 0, 0.9), 0).kept());
}

TEST(Load, APromiseLongerThanTheRunIsNotShown) {
  // Requests came for 8 s: a queue of 3 s is longer than a quarter of that.
  const std::vector<RequestRecord> records = {record(0, 3, 3, 1), record(8, 11, 11, 1)};
  EXPECT_DOUBLE_EQ(load_point(1, records, promise(1000, 0, 0, 0.5), 0).strain, 1.5);
}

TEST(Load, FindsTheRateOfACurve) {
  int trials = 0;
  const auto trial = [&](double load) {
    ++trials;
    LoadPoint point;
    point.load = load;
    point.strain = load / 37;
    return point;
  };
  for (const double start : {1.0, 37.0, 1000.0}) {
    trials = 0;
    const LoadBracket found = highest_load(trial, {start, 1e-3, 0.01});
    EXPECT_LE(found.kept->load, 37);
    EXPECT_GT(found.broken->load, 37);
    EXPECT_LE(found.broken->load / found.kept->load, 1.01);
    EXPECT_LE(trials, 17);
  }
  EXPECT_FALSE(highest_load(trial, {1000, 64, 0.01}).kept);
}

TEST(Load, WholeLoadsEndNextToEachOther) {
  for (const double limit : {1.5, 3.0, 37.2, 1234.5})
    for (const double start : {1.0, 40.0, 5000.0}) {
      const auto trial = [&](double load) {
        EXPECT_EQ(load, std::round(load));
        LoadPoint point;
        point.load = load;
        point.strain = load / limit;
        return point;
      };
      const LoadBracket found = highest_load(trial, {start, 1, 1e-6, true});
      EXPECT_EQ(found.kept->load, std::floor(limit));
      EXPECT_EQ(found.broken->load, std::floor(limit) + 1);
    }
}

TEST(Load, ARunGivesUpOnlyWhereItsQuantileIsBroken) {
  // Of 1000 requests 200 do not count; the 99 % quantile of 800 lies between the values of numbers
  // 791 and 792 of 0 … 799, so that eight may be late, and nine make it late.
  const GivingUp limit = giving_up(promise(1, 0, 0, 0.99), 1000, 0.2);
  EXPECT_EQ(limit.first, 200U);
  EXPECT_EQ(limit.tolerated, 8U);
  for (const int late : {8, 9}) {
    std::vector<RequestRecord> records;
    for (int i = 0; i < 1000; ++i) {
      const double wait = i >= 1000 - late ? 2 : 0.5;
      records.push_back(record(i, i + wait, i + wait, 1));
    }
    // With eight, the quantile lies a hundredth past the last that is in time: between the two.
    const LoadPoint point = load_point(1, records, promise(1, 0, 0, 0.99), 0.2);
    EXPECT_EQ(point.kept(), late == 8) << late;
  }
}

TEST(Load, ARunThatGaveUpHadSurelyBrokenThePromise) {
  LinearTimes times;
  int gave_up = 0;
  for (const double rate : {0.2, 0.6, 0.9, 1.1, 2.0, 5.0})
    for (const double ttft : {1.5, 4.0, 20.0}) {
      FleetOptions fleet = one_replica(times, 1000, 16, "vllm-v1");
      fleet.pool.replicas[0].options.scheduler.max_seqs = 1;
      LengthLaw prompt, answer;
      prompt.mean = 16;
      answer.mean = 2;
      const Promise promised = promise(ttft, 1.5, 0, 0.95);
      const auto run = [&] {
        const auto source =
            make_arrivals({rate, 1, 0, Seconds(86400)}, 500, {prompt, answer}, 1, SharedPrefixes());
        return run_fleet(*source, fleet);
      };
      const bool kept = load_point(rate, run().requests, promised, 0.2).kept();
      fleet.giving_up = giving_up(promised, 500, 0.2);
      const ServingRun cut = run();
      gave_up += cut.gave_up;
      EXPECT_FALSE(cut.gave_up && kept) << rate << " " << ttft;
      EXPECT_TRUE(cut.gave_up || load_point(rate, cut.requests, promised, 0.2).kept() == kept);
    }
  EXPECT_GT(gave_up, 5);
}

/// Requests of one step each, one at a time: Poisson arrivals, service of D = 1 s.
LoadBracket single_server(double ttft, double quantile) {
  LinearTimes times;
  const auto trial = [&](double rate) {
    FleetOptions fleet = one_replica(times, 1000, 16, "vllm-v1");
    fleet.pool.replicas[0].options.scheduler.max_seqs = 1;
    LengthLaw prompt, answer;
    prompt.mean = 16;
    answer.mean = 1;
    const auto source =
        make_arrivals({rate, 1, 0, Seconds(86400)}, 40000, {prompt, answer}, 1, SharedPrefixes());
    return load_point(rate, run_fleet(*source, fleet).requests, promise(ttft, 0, 0, quantile), 0.1);
  };
  return highest_load(trial, {0.1, 1e-3, 0.005});
}

TEST(Load, SingleServerWithDeterministicService) {
  // M/D/1 (Erlang): P(no wait) = 1 - rho, P(wait <= D) = (1 - rho) e^rho.
  EXPECT_NEAR(single_server(1 + 1e-6, 0.7).kept->load, 0.3, 0.01);
  const double rho = 0.3915;
  ASSERT_NEAR((1 - rho) * std::exp(rho), 0.9, 1e-3);
  EXPECT_NEAR(single_server(2, 0.9).kept->load, rho, 0.012);
}

}  // namespace
}  // namespace orrery
