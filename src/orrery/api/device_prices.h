#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery {

/// What an hour of a device costs, in whatever currency.
struct DevicePrices {
  double otherwise = 0;  ///< Of devices that are not named; 0: unknown.
  std::vector<std::pair<std::string, double>> named;  ///< By kind of device.

  bool given() const { return otherwise > 0 || !named.empty(); }
  /// Throws `kUsage` where prices are given, but not this one's; 0 where there are none.
  double of(const std::string& device) const;
};

}  // namespace orrery
