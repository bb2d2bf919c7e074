#pragma once

#include <span>
#include <string>
#include <vector>

#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/power.h"
#include "orrery/kernel/tile/fit.h"

namespace orrery {

/// How far a fit is from the rows it was made from: mean |predicted / measured - 1| or, for
/// clocks, mean difference.
struct PowerErrors {
  size_t rows = 0;
  double sustained_time = 0;  ///< From the measured time of the burst.
  Hertz sustained_clock;
  double sustained_power = 0;
};

struct PowerFitting {
  PowerFit fit;
  PowerErrors errors;
};

/// Fits the coefficients to operators that were measured in a burst and sustained, with
/// power and clock (MeasuredRow pairs of one key, as kernels.py --sustained writes them):
/// the logarithms θ that minimise
///
///   Σ ρ(ln slowdown / 0.03) + ρ(clock / 80 MHz) + ρ(ln power / 0.12) + Σ (θ − θ₀)² / (2 · 0.5²)
///
/// of predicted less measured, with ρ(r) = √(1 + r²) − 1 and a stated prior θ₀, by
/// iterated ridge regression. Power above the limit counts as the limit: boards hold it.
/// Where the terms will be given times that `times` predicts, the pairs also say how warm
/// those are. Throws `kInput` where there are fewer than kFewestPowerPairs pairs or the
/// device has no limit.
PowerFitting fit_power(const Device& device, std::span<const MeasuredRow> rows,
                       const TileFit* times);
inline constexpr size_t kFewestPowerPairs = 20;

/// Fits corrections to rows with power, for each class that has kFewestCorrectedRows of
/// them: for tables that state a mean power without a clock. What such a table has taken
/// for power is what its corrections give; keep them with the fit of that stack.
void fit_power_corrections(PowerFit& fit, const Device& device, std::span<const MeasuredRow> rows,
                           TileProtocol protocol, int threads);
inline constexpr size_t kFewestCorrectedRows = 200;

}  // namespace orrery
