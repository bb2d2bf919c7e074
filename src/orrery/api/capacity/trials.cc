#include "orrery/api/capacity/trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "orrery/api/traffic.h"

namespace orrery {
namespace {

/// Of what step times allow, the share that a promise to nearly everybody usually leaves.
constexpr double kUsualShare = 0.85;

/// Where so many times the copies that share the load by what one carries do not keep the promise,
/// more do not either: what is in the way is not theirs.
constexpr int kMostOver = 4;
constexpr int kMostEngines = 10000;  ///< As run_fleet.

/// The same, but without what users see where the promise is broken.
Effort until_broken(Effort effort) {
  effort.to_the_end = false;
  return effort;
}

bool gave_up(const LoadPoint& point) { return !std::isfinite(point.strain); }

}  // namespace

Fielded::Fielded(const KnownEngines& engines, Arrangement arrangement,
                 const std::vector<double>& factors)
    : arrangement_(std::move(arrangement)), pools_(engines.pools(arrangement_)) {
  scaled_.reserve(factors.size());
  for (size_t i = 0; i < factors.size(); ++i)
    scaled_.emplace_back(*pools_[i].engine.times, factors[i]);
}

std::vector<const StepTimes*> Fielded::times() const {
  if (scaled_.empty()) return times_of(pools_);
  std::vector<const StepTimes*> times;
  for (const ScaledTimes& scaled : scaled_) times.push_back(&scaled);
  return times;
}

bool Trials::late_already(const TrafficRequest& traffic, const Fielded& engines,
                          const GivingUp& limit) const {
  const EngineCosts& costs = engines.costs();
  int taking = 0;
  for (const EnginePool& pool : engines.pools())
    if (pool.role != "decode") taking += pool.replicas;
  if (taking > 1) return false;
  if (load_.unit() == LoadUnit::kUsers || load_.unit() == LoadUnit::kConversations) return false;
  // A queue before the engines grows only where more come than get through.
  if (load_.rate_of(traffic) * costs.front_end.value <= 1) return false;
  return late_before_engines(*make_traffic(traffic), costs.before, costs.front_end, limit);
}

LoadPoint Trials::at(const Fielded& engines, double load, const Effort& effort) const {
  const TrafficRequest traffic = load_.at(load, effort);
  ServingRequest serving = engines_.serving(engines.arrangement(), traffic);
  const int64_t count = load_.requests_of(traffic);
  if (!effort.to_the_end && count > 0) serving.giving_up = giving_up(promise_, count, kWarmUp);
  LoadPoint point;
  point.load = load;
  point.ttft = point.tpot = point.e2e = kNever;
  point.strain = std::numeric_limits<double>::infinity();
  if (!serving.giving_up || !late_already(traffic, engines, *serving.giving_up)) {
    const ServingRun run =
        run_pools(serving, engines.pools(), engines.times(), RunDetail::kRequests);
    if (!run.gave_up) point = load_point(load, run.requests, promise_, kWarmUp);
  }
  if (load_.unit() == LoadUnit::kRequests) point.rate = load;
  return point;
}

LoadBracket Trials::highest(const Fielded& engines, double start, const Effort& effort) const {
  LoadBracket bracket =
      highest_load([&](double load) { return at(engines, load, until_broken(effort)); },
                   load_.search(start, effort));
  if (effort.to_the_end && bracket.broken && gave_up(*bracket.broken))
    bracket.broken = at(engines, bracket.broken->load, effort);
  return bracket;
}

std::optional<Option> Trials::most_load(const Option& option, const Effort& effort) const {
  Option found = option;
  const double start =
      option.kept.load > 0 ? option.kept.load : kUsualShare * option.allowed(load_);
  const LoadBracket bracket = highest(field(option.arrangement()), start, effort);
  if (!bracket.kept) return std::nullopt;
  found.kept = *bracket.kept;
  found.broken = bracket.broken;
  return found;
}

int Trials::most_copies(const Option& option, int by_load) const {
  int engines = 0;
  for (const ArrangedPool& pool : option.unit.pools) engines += pool.replicas;
  return std::min({devices_ / option.unit.devices(), kMostEngines / engines, kMostOver * by_load});
}

std::optional<Option> Trials::fewest_copies(const Option& option, const Effort& effort) const {
  Option found = option;
  const int most = most_copies(option, option.copies);
  std::optional<LoadPoint> kept, broken;
  int breaks = 0, keeps = most + 1, step = 1;
  while (keeps - breaks > 1) {
    found.copies = std::clamp(found.copies, breaks + 1, keeps - 1);
    const LoadPoint point = at(field(found.arrangement()), load_.asked(), until_broken(effort));
    (point.kept() ? kept : broken) = point;
    (point.kept() ? keeps : breaks) = found.copies;
    if (kept && broken) {
      found.copies = (breaks + keeps) / 2;
    } else {
      found.copies = point.kept() ? keeps - step : breaks + step;
      step *= 2;
    }
  }
  if (!kept) return std::nullopt;
  if (effort.to_the_end && broken && gave_up(*broken)) {
    found.copies = breaks;
    broken = at(field(found.arrangement()), load_.asked(), effort);
  }
  found.copies = keeps;
  found.kept = *kept;
  found.broken = broken;
  return found;
}

}  // namespace orrery
