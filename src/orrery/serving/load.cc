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
constexpr double kMostLoad = 1e9;
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

LoadPoint load_point(double load, std::span<const RequestRecord> records, const Promise& promise,
                     double warm_up) {
  LoadPoint point;
  point.load = load;
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
  if (came > 0) point.rate = static_cast<double>(records.size() - 1) / came;
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

GivingUp giving_up(const Promise& promise, int64_t count, double warm_up) {
  GivingUp limit;
  limit.level = promise.level;
  limit.first = static_cast<size_t>(warm_up * static_cast<double>(count));
  const size_t counted = static_cast<size_t>(count) - limit.first;
  if (counted == 0) return limit;
  // The quantile lies at or above the value of this number: when that is too long, it is.
  const auto below = static_cast<size_t>(static_cast<double>(counted - 1) * promise.quantile);
  limit.tolerated = counted - below - 1;
  return limit;
}

bool late_before_engines(RequestSource& source, Seconds before_engine, Seconds front_end,
                         const GivingUp& limit) {
  if (limit.level.ttft.value <= 0) return false;
  Seconds entry(-kNever.value);
  size_t late = 0;
  for (size_t number = 0; source.next_arrival() != kNever; ++number) {
    entry = std::max(source.next_arrival() + before_engine, entry + front_end);
    const Request request = source.take();
    if (number < limit.first || !(request.arrival + limit.level.ttft < entry)) continue;
    if (++late > limit.tolerated) return true;
  }
  return false;
}

LoadBracket highest_load(const std::function<LoadPoint(double)>& trial, const LoadSearch& search) {
  LoadBracket bracket;
  const auto valid = [&](double load) {
    const double within = std::clamp(load, search.least, kMostLoad);
    return search.whole ? std::round(within) : within;
  };
  // A whole number moves by one at least.
  const auto beyond = [&](double load, double factor) {
    const double next = valid(load * factor);
    return next != load || !search.whole ? next : valid(factor > 1 ? load + 1 : load - 1);
  };
  double load = valid(search.start);
  double step = 1 + 4 * search.precision;
  while (!bracket.kept || !bracket.broken) {
    const LoadPoint point = trial(load);
    (point.kept() ? bracket.kept : bracket.broken) = point;
    if (point.kept() ? load >= kMostLoad : load <= search.least) return bracket;
    load = beyond(load, point.kept() ? step : 1 / step);
    step = std::min(step * step, kLargestStep);
  }
  while (bracket.broken->load > bracket.kept->load * (1 + search.precision)) {
    const double middle = valid(std::sqrt(bracket.kept->load * bracket.broken->load));
    if (middle <= bracket.kept->load || middle >= bracket.broken->load) break;
    const LoadPoint point = trial(middle);
    (point.kept() ? bracket.kept : bracket.broken) = point;
  }
  return bracket;
}

}  // namespace orrery
