#pragma once

#include "orrery/hardware/device.h"

namespace orrery {

/// A peak rate and the type it is published for.
struct Rate {
  double flops_per_second = 0;  ///< 0: the device has no unit for it.
  ElementType used = ElementType::kNone;
};

/// The rate for `type`, or of the next wider type that is exact for it.
Rate find_rate(const PeakRates& rates, ElementType type);

/// Of matrix products: a vector unit that is exact for the type and no slower beats
/// a stand-in on the matrix units (fp32 on GPUs).
Rate product_rate(const Device& device, ElementType type);

}  // namespace orrery
