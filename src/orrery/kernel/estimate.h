#pragma once

#include <algorithm>
#include <array>
#include <cmath>
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

/// A time with its 90 % interval.
struct TimeInterval {
  Seconds value, low, high;
};

/// The interval of one kernel that runs once, as `compose` gives it: from
/// t·exp(skew − z·σ) to t·exp(skew + z·σ) with σ² = own² + Σ loading², widened to
/// hold t itself.
inline TimeInterval interval(const Estimate& e) {
  double variance = static_cast<double>(e.own_spread) * e.own_spread;
  for (float loading : e.loadings) variance += static_cast<double>(loading) * loading;
  const double reach = kNinetyPercent * std::sqrt(variance);
  return {e.seconds, e.seconds * std::min(1.0, std::exp(e.skew - reach)),
          e.seconds * std::max(1.0, std::exp(e.skew + reach))};
}

}  // namespace orrery
