#include "orrery/serving/load.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/serving/traffic/source.h"

namespace orrery {
namespace {

/// A run must be so many times longer than a queue that it can tell of.
constexpr double kRunOverQueue = 4;
/// No engine serves more; where a promise asks for nothing, the search ends here.
constexpr double kMostRate = 1e9;
constexpr double kLargestStep = 16;

}  // namespace

std::string_view name(PromiseTerm term) {
  switch (term) {
    case PromiseTerm::kTtft:
      return "ttft";
    case PromiseTerm::kTpot:
      return "tpot";
    case PromiseTerm::kE2e:
      return "e2e";
  }
  return "";
}

LoadPoint load_point(double rate, std::span<const RequestRecord> records, const Promise& promise,
                     double warm_up) {
  LoadPoint point;
  point.rate = rate;
  const auto skipped = static_cast<size_t>(warm_up * static_cast<double>(records.size()));
  const std::span<const RequestRecord> counted = records.subspan(skipped);
  if (counted.empty()) return point;
  std::vector<double> ttft, tpot, e2e;
  double tokens = 0, last = 0;
  for (const RequestRecord& r : counted) {
    const bool done = r.state == RequestRecord::State::kDone;
    ttft.push_back(done ? r.ttft().value : kNever.value);
    e2e.push_back(done ? r.e2e().value : kNever.value);
    if (!done) continue;
    if (r.output > 1) tpot.push_back(r.tpot().value);
    tokens += r.output;
    last = std::max(last, r.end.value);
  }
  const auto at = [&](std::vector<double>& values) {
    if (values.empty()) return Seconds(0);
    const double value = quantile_of(values, promise.quantile);
    return std::isnan(value) ? kNever : Seconds(value);  // between two that wait for ever
  };
  point.ttft = at(ttft);
  point.tpot = at(tpot);
  point.e2e = at(e2e);
  const double came = (records.back().arrival - records.front().arrival).value;
  const double longest = came / kRunOverQueue;
  if (last > counted.front().arrival.value)
    point.output_tokens_per_s = tokens / (last - counted.front().arrival.value);
  point.strain = -1;
  const auto consider = [&](PromiseTerm term, Seconds promised) {
    if (promised.value <= 0) return;
    const double strain = point.of(term).value / promised.value;
    if (strain > point.strain) {
      point.strain = strain;
      point.tightest = term;
    }
  };
  const auto bounded = [&](Seconds promised) { return Seconds(std::min(promised.value, longest)); };
  consider(PromiseTerm::kTtft, bounded(promise.level.ttft));
  consider(PromiseTerm::kTpot, promise.level.tpot);
  consider(PromiseTerm::kE2e, bounded(promise.level.e2e));
  return point;
}

RateBracket highest_rate(const std::function<LoadPoint(double)>& trial, double start, double least,
                         double precision) {
  RateBracket bracket;
  double rate = std::clamp(start, least, kMostRate);
  double step = 1 + 4 * precision;
  while (!bracket.kept || !bracket.broken) {
    const LoadPoint point = trial(rate);
    (point.kept() ? bracket.kept : bracket.broken) = point;
    if (point.kept() ? rate >= kMostRate : rate <= least) return bracket;
    rate = point.kept() ? std::min(kMostRate, rate * step) : std::max(least, rate / step);
    step = std::min(step * step, kLargestStep);
  }
  while (bracket.broken->rate > bracket.kept->rate * (1 + precision)) {
    const LoadPoint point = trial(std::sqrt(bracket.kept->rate * bracket.broken->rate));
    (point.kept() ? bracket.kept : bracket.broken) = point;
  }
  return bracket;
}

}  // namespace orrery
