#pragma once

#include "orrery/hardware/device.h"

namespace orrery {

/// How much longer GDDR takes to be read where it holds check bits in itself: the median of
/// data/kernels/check_bits.csv. What the data sheet gives is the bandwidth without them.
inline constexpr double kCheckBits = 1.1;

/// The device as the fit of a board of the same chip describes it: fits of GDDR are of boards that
/// read check bits, and take the data sheet's bandwidth for what these leave.
inline Device seen_by_alike(Device device) {
  if (device.main_memory().name == "gddr" && !device.check_bits)
    device.memory.front().bandwidth.value *= kCheckBits;
  return device;
}

}  // namespace orrery
