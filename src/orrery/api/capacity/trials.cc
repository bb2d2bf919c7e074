#include "orrery/api/capacity/trials.h"

#include <algorithm>
#include <limits>

namespace orrery {
namespace {

/// Of what step times allow, the share that a promise to nearly everybody usually leaves.
constexpr double kUsualShare = 0.85;

}  // namespace

LoadPoint Trials::at(const Arrangement& arrangement, const std::vector<EnginePool>& pools,
                     double load, const Effort& effort) const {
  const TrafficRequest traffic = load_.at(load, effort);
  ServingRequest serving = engines_.serving(arrangement, traffic);
  const int64_t count = load_.requests_of(traffic);
  if (!effort.to_the_end && count > 0) serving.giving_up = giving_up(promise_, count, kWarmUp);
  const ServingRun run = run_pools(serving, pools);
  LoadPoint point;
  if (run.gave_up) {
    point.load = load;
    point.ttft = point.tpot = point.e2e = kNever;
    point.strain = std::numeric_limits<double>::infinity();
  } else {
    point = load_point(load, run.requests, promise_, kWarmUp);
  }
  if (load_.unit() == LoadUnit::kRequests) point.rate = load;
  return point;
}

LoadBracket Trials::highest(const Arrangement& arrangement, double start,
                            const Effort& effort) const {
  const std::vector<EnginePool> pools = engines_.pools(arrangement);
  return highest_load([&](double load) { return at(arrangement, pools, load, effort); },
                      load_.search(start, effort));
}

std::optional<Option> Trials::most_load(const Option& option, const Effort& effort) const {
  Option found = option;
  const double start =
      option.kept.load > 0 ? option.kept.load : kUsualShare * option.allowed(load_);
  const LoadBracket bracket = highest(option.arrangement(), start, effort);
  if (!bracket.kept) return std::nullopt;
  found.kept = *bracket.kept;
  found.broken = bracket.broken;
  return found;
}

std::optional<Option> Trials::fewest_copies(const Option& option, const Effort& effort) const {
  Option found = option;
  const int most = devices_ / option.unit.devices();
  std::optional<LoadPoint> kept, broken;
  int breaks = 0, keeps = most + 1, step = 1;
  while (keeps - breaks > 1) {
    found.copies = std::clamp(found.copies, breaks + 1, keeps - 1);
    const Arrangement arrangement = found.arrangement();
    const LoadPoint point = at(arrangement, engines_.pools(arrangement), load_.asked(), effort);
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
  found.copies = keeps;
  found.kept = *kept;
  found.broken = broken;
  return found;
}

}  // namespace orrery
