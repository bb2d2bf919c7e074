#pragma once

#include <cstdint>

#include "orrery/api/capacity.h"

namespace orrery {

/// Share of the requests of a run that come while the engines fill.
inline constexpr double kWarmUp = 0.2;
/// Requests a second at which they do not meet.
inline constexpr double kTrickle = 1e-3;

/// How well a load is to be known.
struct Effort {
  double length = 1;        ///< Of a run, over one that settles.
  double precision = 0.01;  ///< Of the load.
  bool to_the_end = true;   ///< Runs go on where the promise is broken already.
  /// Requests of a run at most, of a table or of conversations: those are never over soon.
  double most_requests = 50000;
};
inline constexpr Effort kQuick = {0.5, 0.05, false, 5000};
inline constexpr Effort kThorough = {1, 0.01, true, 15000};
inline constexpr Effort kInterval = {1, 0.03, false, 15000};

/// The load of a capacity request: what there is more or less of, and the requests that are drawn
/// for it.
class OfferedLoad {
 public:
  /// Throws `kUsage` for traffic whose load cannot be varied.
  explicit OfferedLoad(const CapacityRequest& request);

  LoadUnit unit() const { return unit_; }
  double asked() const { return asked_; }  ///< 0: the most.
  double mean_prompt() const { return mean_prompt_; }
  double mean_output() const { return mean_output_; }

  /// Requests that do not meet: what a lone user sees.
  TrafficRequest trickle() const;
  TrafficRequest at(double load, const Effort& effort) const;
  /// Requests of a run of `traffic`; 0: not known before.
  int64_t requests_of(const TrafficRequest& traffic) const;
  /// Requests that come in a second, unless they wait for each other.
  double rate_of(const TrafficRequest& traffic) const;
  /// The load at which so many requests come in a second, so many of them at one time under way.
  double equal_to(double rate, double under_way) const;
  LoadSearch search(double start, const Effort& effort) const;
  /// Requests must come for so long that a run tells of a steady state: four answers one after the
  /// other; or a queue that grows by 4 % of what comes reaches the promised wait.
  void settle(const ServiceLevel& promise, Seconds longest_tpot);

 private:
  int64_t count(double load, const Effort& effort) const;

  LoadUnit unit_;
  double asked_;
  TrafficRequest traffic_;
  double mean_prompt_ = 0, mean_output_ = 0;
  double turns_ = 1;       ///< Requests of a conversation.
  double table_rate_ = 0;  ///< Requests a second of the table, as it was seen, …
  int64_t rows_ = 0;       ///< … and how many.
  Seconds settling_;
};

}  // namespace orrery
