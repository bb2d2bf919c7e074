#pragma once

#include <optional>
#include <vector>

#include "orrery/api/capacity/arrangements.h"

namespace orrery {

/// What arrangements carry, by simulation.
class Trials {
 public:
  Trials(const KnownEngines& engines, const OfferedLoad& load, const Promise& promise, int devices)
      : engines_(engines), load_(load), promise_(promise), devices_(devices) {}

  /// What users see under a load. Where a run need not go to the end and the promise is surely
  /// broken, all times are infinite.
  LoadPoint at(const Arrangement& arrangement, const std::vector<EnginePool>& pools, double load,
               const Effort& effort) const;
  LoadBracket highest(const Arrangement& arrangement, double start, const Effort& effort) const;
  /// The option with the most load that it carries, or none.
  std::optional<Option> most_load(const Option& option, const Effort& effort) const;
  /// … with the fewest copies for the load that was asked for, from those it has on.
  std::optional<Option> fewest_copies(const Option& option, const Effort& effort) const;

 private:
  const KnownEngines& engines_;
  const OfferedLoad& load_;
  const Promise& promise_;
  int devices_;
};

}  // namespace orrery
