#include "orrery/serving/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "orrery/base/error.h"

namespace orrery {

double quantile_of(std::span<double> values, double q) {
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  const double low = *at;
  if (place == static_cast<double>(below)) return low;
  const double high = *std::min_element(at + 1, values.end());
  return low + (place - static_cast<double>(below)) * (high - low);
}

uint32_t Recorder::arrive(Seconds now, int32_t prompt, int32_t output) {
  if (records_.size() >= UINT32_MAX) throw_infeasible("more requests than can be counted");
  RequestRecord record;
  record.arrival = now;
  record.prompt = prompt;
  record.output = output;
  records_.push_back(record);
  return static_cast<uint32_t>(records_.size() - 1);
}

void Recorder::end(uint32_t id, Seconds now) {
  RequestRecord& record = records_[id];
  if (record.state != RequestRecord::State::kPending) throw_internal("a request ended twice");
  record.end = now + after_engine_;
  record.state = RequestRecord::State::kDone;
}

Distribution distribution(std::span<const double> values) {
  Distribution d;
  d.count = static_cast<int64_t>(values.size());
  if (values.empty()) return d;
  for (const double value : values) d.mean.value += value;
  d.mean.value /= static_cast<double>(values.size());
  d.mean.by_chance = interval_of_mean(values);
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  for (const auto& [figure, q] :
       {std::pair(&d.p50, 0.5), std::pair(&d.p90, 0.9), std::pair(&d.p99, 0.99)})
    *figure = {quantile_of_sorted(sorted, q), interval_of_quantile(values, sorted, q)};
  return d;
}

ServingMetrics measure(std::span<const RequestRecord> all, const DurationHistogram& intervals,
                       const ServiceLevel& promise, const Trimming& trimming) {
  if (!(trimming.warm_up >= 0 && trimming.cool_down >= 0 &&
        trimming.warm_up + trimming.cool_down < 1))
    throw_usage("the shares of requests left out must be 0 or more, and leave some");
  const auto count = static_cast<double>(all.size());
  const auto first = static_cast<size_t>(trimming.warm_up * count);
  const auto last = all.size() - static_cast<size_t>(trimming.cool_down * count);
  const std::span<const RequestRecord> records = all.subspan(first, last - first);

  ServingMetrics m;
  std::vector<double> values;
  values.reserve(records.size());
  const auto distribution_of = [&](auto value, auto counts) {
    values.clear();
    for (const RequestRecord& r : records)
      if (r.state == RequestRecord::State::kDone && counts(r)) values.push_back(value(r).value);
    return distribution(values);
  };
  const auto any = [](const RequestRecord&) { return true; };
  m.ttft = distribution_of([](const RequestRecord& r) { return r.ttft(); }, any);
  m.e2e = distribution_of([](const RequestRecord& r) { return r.e2e(); }, any);
  m.queue = distribution_of([](const RequestRecord& r) { return r.queue(); }, any);
  m.vidur_tpot = distribution_of([](const RequestRecord& r) { return r.vidur_tpot(); }, any);
  m.tpot = distribution_of([](const RequestRecord& r) { return r.tpot(); },
                           [](const RequestRecord& r) { return r.output > 1; });
  m.itl_mean = intervals.mean();
  m.itl_p50 = intervals.quantile(0.5);
  m.itl_p90 = intervals.quantile(0.9);
  m.itl_p99 = intervals.quantile(0.99);

  double begin = INFINITY;
  double end = 0;
  double prompts = 0;
  double cached = 0;
  double outputs = 0;
  double waited = 0;
  int64_t kept = 0;
  for (const RequestRecord& r : records) {
    m.preemptions += r.preemptions;
    if (r.state == RequestRecord::State::kRejected) ++m.rejected;
    if (r.state != RequestRecord::State::kDone) continue;
    ++m.requests;
    begin = std::min(begin, r.arrival.value);
    end = std::max(end, r.end.value);
    prompts += r.prompt;
    cached += r.cached;
    outputs += r.output;
    waited += r.queue().value;
    const auto keeps = [](Seconds value, Seconds limit) {
      return limit.value == 0 || value <= limit;
    };
    if (keeps(r.ttft(), promise.ttft) && keeps(r.e2e(), promise.e2e) &&
        (r.output == 1 || keeps(r.tpot(), promise.tpot)))
      ++kept;
  }
  if (m.requests == 0) return m;
  m.duration = Seconds(end - begin);
  m.cached_share = prompts > 0 ? cached / prompts : 0;
  m.goodput_share = static_cast<double>(kept) / static_cast<double>(m.requests + m.rejected);
  if (m.duration.value > 0) {
    m.requests_per_s = static_cast<double>(m.requests) / m.duration.value;
    m.output_tokens_per_s = outputs / m.duration.value;
    m.input_tokens_per_s = prompts / m.duration.value;
    m.mean_waiting = waited / m.duration.value;
    m.goodput = static_cast<double>(kept) / m.duration.value;
  }
  return m;
}

}  // namespace orrery
