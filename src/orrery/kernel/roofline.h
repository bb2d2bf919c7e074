#pragma once

#include <algorithm>
#include <array>

#include "orrery/hardware/device.h"
#include "orrery/workload/cost.h"

namespace orrery {

/// What a kernel needs of each resource were it the only one, in seconds by the data sheet.
struct RooflineTimes {
  double compute = 0;  ///< The longer of the matrix and the vector units'.
  double special = 0;
  double memory = 0;
  double floor = 0;  ///< Below which no kernel stays on such a device; 0: not known.

  double arithmetic() const { return std::max(compute, special); }
  double busy() const { return std::max(arithmetic(), memory); }
  /// max(compute, special, memory, floor): the time of the kernel model `roofline`.
  double bound() const { return std::max(busy(), floor); }
};

/// The roofline of a device: Williams, Waterman, Patterson, CACM 52(4), 2009. A rate that is
/// not published takes no time.
class RooflineBounds {
 public:
  explicit RooflineBounds(const Device& device);
  /// At `clock`; 0, or a device whose clock is not published: as the data sheet states its rates.
  RooflineTimes times(const Cost& cost, Hertz clock = {}) const;

 private:
  Hertz clock_, matrix_clock_;
  std::array<double, kElementTypeCount> seconds_per_matrix_{}, seconds_per_vector_{};
  double seconds_per_special_ = 0;
  double seconds_per_byte_ = 0;
  double floor_ = 0;
};

}  // namespace orrery
