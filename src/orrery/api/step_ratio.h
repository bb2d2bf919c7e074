#pragma once

#include "orrery/api/step_detail.h"

namespace orrery {

/// How many times as long one step takes as another, with its 90 % interval.
struct StepRatio {
  double value = 1, low = 1, high = 1;
};

/// The step time of `second` over that of `first`. What errs alike in both leaves their ratio
/// alone, so the interval is narrower than those of the times suggest. Of the causes of error
/// (KernelErrors, LaunchCosts; docs/error_composition.md) the two steps are taken to share
///
///   the family's        where the same kernel model answers for the same stack's kernels: it
///   leaves
///                       out the same of both;
///   the kernel's own    and, on the same device with other figures, for the same kernel too
///                       (match_launches); on different devices these are independent;
///   device, calibration on the same device;
///   structure           under the same stack, which is lowered by the same rules;
///   the host's          always: the same machine stands beside each device.
///
/// With K the middle of the kernels' sum, ln K₁ and ln K₂ are normal, with the covariance
/// Σ s₁·s₂ / (K₁·K₂) over the shared causes, s the seconds of one standard deviation; ln host is a
/// third normal. Each time is max(K + gaps, host), as composed, and low and high are the quantiles
/// 0.05 and 0.95 of T₂ / T₁ over a fixed lattice of points of the three normals (Korobov's),
/// widened to hold the ratio itself.
///
/// What this cannot say is how well a model follows a figure that is changed: between what-ifs of
/// one device nearly everything is shared.
StepRatio step_ratio(const StepDetail& first, const StepDetail& second);

}  // namespace orrery
