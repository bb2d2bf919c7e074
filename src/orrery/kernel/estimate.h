#pragma once

#include <array>
#include <cstddef>

#include "orrery/base/units.h"

namespace orrery {

/// Causes of error that many estimates share, so that they do not average out.
enum class ErrorFactor : unsigned char { kFamily, kDevice, kCalibration };
inline constexpr size_t kErrorFactorCount = 3;

/// A predicted time and energy, and how wrong they may be. The true time is
/// taken as seconds · exp(e), where e has a spread of its own and a loading on
/// each shared factor, all in natural-log units (0.1 is about 10 %); `skew` moves
/// the middle of the interval where a model errs to one side. A sum of estimates
/// adds own spreads in quadrature and shared ones linearly (model/composition.h).
struct Estimate {
  Seconds seconds;
  Joules joules;
  float own_spread = 0;  ///< One standard deviation.
  float skew = 0;        ///< Expected ln(true / seconds).
  std::array<float, kErrorFactorCount> loadings{};
};

/// Standard deviations from the middle to either end of a 90 % interval of a
/// normal distribution.
inline constexpr double kNinetyPercent = 1.6448536269514722;

}  // namespace orrery
