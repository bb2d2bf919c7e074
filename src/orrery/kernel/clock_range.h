#pragma once

#include <string>

#include "orrery/hardware/device.h"

namespace orrery {

/// Clocks that a device may be said to run at, in MHz as tables and options give them. Held
/// low or set high, none leaves a twentieth to one and a half times its boost clock; a clock
/// in GHz or kHz does.
struct ClockRange {
  double least_mhz = 10;  ///< These two of a device whose clock is not published.
  double most_mhz = 1e5;
  std::string device;  ///< Empty: any.

  bool has(double mhz) const { return mhz >= least_mhz && mhz <= most_mhz; }
  /// Why `mhz` is none of them, and what unit it may be in.
  std::string refusal(double mhz) const;
};

ClockRange clock_range(const Device& device);

}  // namespace orrery
