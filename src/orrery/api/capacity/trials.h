#pragma once

#include <optional>
#include <vector>

#include "orrery/api/capacity/arrangements.h"

namespace orrery {

/// An arrangement with its engines, ready for runs.
class Fielded {
 public:
  /// All steps of pool i are multiplied by `factors[i]`; empty: none is.
  Fielded(const KnownEngines& engines, Arrangement arrangement, const std::vector<double>& factors);

  const Arrangement& arrangement() const { return arrangement_; }
  const std::vector<EnginePool>& pools() const { return pools_; }
  const EngineCosts& costs() const { return pools_[0].engine.times->costs(); }
  std::vector<const StepTimes*> times() const;

 private:
  Arrangement arrangement_;
  std::vector<EnginePool> pools_;
  std::vector<ScaledTimes> scaled_;
};

/// What arrangements carry, by simulation.
class Trials {
 public:
  Trials(const KnownEngines& engines, const OfferedLoad& load, const Promise& promise, int devices)
      : engines_(engines), load_(load), promise_(promise), devices_(devices) {}

  Fielded field(const Arrangement& arrangement, const std::vector<double>& factors = {}) const {
    return {engines_, arrangement, factors};
  }
  /// What users see under a load. Where a run need not go to the end and the promise is surely
  /// broken, all times are infinite.
  LoadPoint at(const Fielded& engines, double load, const Effort& effort) const;
  /// Of the loads that break the promise, the lowest one alone is run to the end where the effort
  /// asks for that: of the others nothing is told.
  LoadBracket highest(const Fielded& engines, double start, const Effort& effort) const;
  /// The option with the most load that it carries, or none.
  std::optional<Option> most_load(const Option& option, const Effort& effort) const;
  /// … with the fewest copies for the load that was asked for, or none: from those it has on, which
  /// are what the load takes by what one carries.
  std::optional<Option> fewest_copies(const Option& option, const Effort& effort) const;
  /// Of copies that are worth a try where the load takes `by_load` by what one carries.
  int most_copies(const Option& option, int by_load) const;

 private:
  /// Whether more requests than may are late before the only engine that takes them sees them. (Of
  /// several it depends on the router.)
  bool late_already(const TrafficRequest& traffic, const Fielded& engines,
                    const GivingUp& limit) const;

  const KnownEngines& engines_;
  const OfferedLoad& load_;
  const Promise& promise_;
  int devices_;
};

}  // namespace orrery
