#include "orrery/serving/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

RequestRecord done(double arrival, double scheduled, double first, double end, int32_t output) {
  RequestRecord r;
  r.arrival = Seconds(arrival);
  r.scheduled = Seconds(scheduled);
  r.first_token = Seconds(first);
  r.end = Seconds(end);
  r.prompt = 10;
  r.output = output;
  r.state = RequestRecord::State::kDone;
  return r;
}

TEST(Metrics, AreWhatTheirNamesSay) {
  std::vector<RequestRecord> records{done(1, 2, 3, 7, 5), done(2, 2, 4, 4, 1)};
  RequestRecord rejected;
  rejected.state = RequestRecord::State::kRejected;
  records.push_back(rejected);
  const ServingMetrics m = measure(records, {}, {}, {});
  EXPECT_EQ(m.requests, 2);
  EXPECT_EQ(m.rejected, 1);
  EXPECT_DOUBLE_EQ(m.ttft.mean.value, 2);
  EXPECT_DOUBLE_EQ(m.e2e.mean.value, (6 + 2) / 2.0);
  EXPECT_DOUBLE_EQ(m.queue.mean.value, 0.5);
  // One token alone has no time between tokens.
  EXPECT_EQ(m.tpot.count, 1);
  EXPECT_DOUBLE_EQ(m.tpot.mean.value, 1);
  EXPECT_DOUBLE_EQ(m.vidur_tpot.mean.value, (4.0 / 5 + 0) / 2);
  EXPECT_DOUBLE_EQ(m.duration.value, 6);
  EXPECT_DOUBLE_EQ(m.requests_per_s, 2.0 / 6);
  EXPECT_DOUBLE_EQ(m.output_tokens_per_s, 1);
  EXPECT_DOUBLE_EQ(m.mean_waiting, 1.0 / 6);
}

TEST(Metrics, CountWhatKeepsThePromise) {
  const std::vector<RequestRecord> records{done(0, 0, 1, 5, 5), done(0, 0, 2, 4, 5),
                                           done(0, 0, 1, 1, 1)};
  ServiceLevel promise;
  promise.ttft = Seconds(1);
  EXPECT_DOUBLE_EQ(measure(records, {}, promise, {}).goodput_share, 2.0 / 3);
  promise.tpot = Seconds(0.9);
  EXPECT_DOUBLE_EQ(measure(records, {}, promise, {}).goodput_share, 1.0 / 3);
  promise = {};
  promise.e2e = Seconds(4);
  EXPECT_DOUBLE_EQ(measure(records, {}, promise, {}).goodput, 2.0 / 5);
}

TEST(Metrics, LeaveOutTheFirstAndTheLast) {
  std::vector<RequestRecord> records(10);
  for (int i = 0; i < 10; ++i) records[static_cast<size_t>(i)] = done(i, i, i + 1 + i, 100, 2);
  const ServingMetrics m = measure(records, {}, {}, {0.2, 0.3});
  EXPECT_EQ(m.requests, 5);
  EXPECT_DOUBLE_EQ(m.ttft.mean.value, 5);
  EXPECT_THROW(measure(records, {}, {}, {0.5, 0.5}), Error);
}

TEST(Metrics, HaveNumPysQuantiles) {
  const std::vector<double> values{4, 1, 3, 2};
  const Distribution d = distribution(values);
  EXPECT_DOUBLE_EQ(d.p50.value, 2.5);
  EXPECT_DOUBLE_EQ(d.p90.value, 3.7);
  EXPECT_DOUBLE_EQ(d.p99.value, 3.97);
  EXPECT_EQ(distribution({}).count, 0);
}

TEST(DurationHistogram, KnowsQuantilesWithinOnePerCent) {
  DurationHistogram h;
  for (int i = 1; i <= 1000; ++i) h.add(Seconds(i * 1e-4), 2);
  EXPECT_EQ(h.count(), 2000);
  EXPECT_NEAR(h.mean().value, 0.05005, 1e-9);
  for (const double q : {0.1, 0.5, 0.9, 0.99})
    EXPECT_NEAR(h.quantile(q).value / (q * 0.1), 1, 0.005) << q;
  DurationHistogram extremes;
  extremes.add(Seconds(0), 1);
  extremes.add(Seconds(1e300), 1);
  EXPECT_EQ(extremes.quantile(0.1).value, 0);
  EXPECT_GT(extremes.quantile(1).value, 1e7);
  EXPECT_EQ(DurationHistogram().quantile(0.5).value, 0);
}

TEST(StepLog, SpreadsStepsOverAFewPoints) {
  StepLog log(4, 2);
  ServingEvent step;
  step.decodes = 10;
  step.prefill_tokens = 8;
  for (int i = 0; i < 3; ++i) {
    step.begin = Seconds(i);
    step.end = Seconds(i + 1);
    log.step(step, 50, 100, 6);
  }
  const std::vector<SeriesPoint> series = log.series();
  ASSERT_LE(series.size(), 4U);
  double decodes = 0;
  double tokens = 0;
  for (const SeriesPoint& p : series) {
    decodes += p.decodes * p.length.value;
    tokens += p.prefill_tokens * p.length.value;
    EXPECT_LE(p.decodes, 10 + 1e-9);
    EXPECT_LE(p.used_blocks, 50 + 1e-9);
  }
  EXPECT_NEAR(decodes, 30, 1e-9);
  EXPECT_NEAR(tokens, 24, 1e-9);
  EXPECT_EQ(log.events().size(), 2U);
  EXPECT_DOUBLE_EQ(log.full_seconds() / log.busy().value, 0.5);

  StepLog other(4, 2);
  step.begin = Seconds(0.5);
  step.end = Seconds(0.75);
  other.step(step, 0, 100, 0);
  other.add(log);
  EXPECT_EQ(other.steps(), 4);
  ASSERT_EQ(other.events().size(), 2U);
  EXPECT_EQ(other.events()[0].begin.value, 0);
  EXPECT_EQ(other.events()[1].begin.value, 0.5);
}

}  // namespace
}  // namespace orrery
