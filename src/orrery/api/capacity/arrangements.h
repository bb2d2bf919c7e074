#pragma once

#include <optional>
#include <vector>

#include "orrery/api/capacity/known_engines.h"

namespace orrery {

/// Copies of the smallest fleet of a kind, and what they carry.
struct Option {
  Arrangement unit;
  int copies = 1;
  EnginePace pace;  ///< Of a unit, `requests` and `under_way` alone: what its step times allow.
  LoadPoint kept;   ///< Of no load: not yet known.
  std::optional<LoadPoint> broken;
  bool exact = false;  ///< By whole runs.

  Arrangement arrangement() const;
  int devices() const { return unit.devices() * copies; }
  /// The load that its step times allow.
  double allowed(const OfferedLoad& load) const {
    return load.equal_to(copies * pace.requests, copies * pace.under_way);
  }
};

/// An hour's price; where there are no prices, the number of devices.
double cost(const Arrangement& arrangement, const DevicePrices& prices);

/// Same layouts on the same devices, whatever the number of engines and the tokens of a step.
bool alike(const Arrangement& a, const Arrangement& b);

/// One engine of each that keeps the promise.
std::vector<Option> single_engines(const KnownEngines& engines);

/// Engines for prompts and engines for answers on up to `devices` devices, in the numbers that
/// balance them, the ones with the best pace first (for a given load: the best pace for its cost).
/// That ranks them; what they carry is simulated.
std::vector<Option> pairs(const KnownEngines& engines, const OfferedLoad& load,
                          const DevicePrices& prices, int devices);

/// The same with steps filled up to other numbers of tokens, where the scheduler knows such a limit
/// and none was given.
std::vector<Option> with_other_limits(const std::vector<Option>& options,
                                      const KnownEngines& engines);

}  // namespace orrery
