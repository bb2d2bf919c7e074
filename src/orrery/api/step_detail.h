#pragma once

#include <string>
#include <vector>

#include "orrery/hardware/device.h"
#include "orrery/kernel/estimate.h"
#include "orrery/model/composition.h"
#include "orrery/model/stack.h"
#include "orrery/workload/reader.h"

namespace orrery {

/// How much of what its users count one step of a workload handles.
struct StepSize {
  double samples = 0;  ///< Sequences or images; 0: not known.
  double tokens = 0;   ///< New ones; 0: it has none, or none that are known.
};

/// An argument called `input_ids` tells both; without one, a model description its batch.
StepSize step_size(const Workload& workload, const BuildOptions& build);

/// What a prediction was made of, for those that look further than its answer.
struct StepDetail {
  Device device;
  std::string stack;
  std::string kernels_of;  ///< The stack whose kernels run (Stack::kernels).
  std::string kernel_model;
  Hertz fixed_clock;  ///< 0: not fixed.
  Hertz clock;        ///< Fixed, or what the step's power leaves; 0: not known.
  std::vector<Launch> launches;
  std::vector<Estimate> estimates;  ///< Of each launch.
  std::vector<Estimate> cool;       ///< The same in a burst, before power takes from the clock.
  LaunchCosts costs;
  Composition total;
  StepSize size;
};

/// Launches of two steps that run the same kernel: same operation, FLOPs, bytes and loops, the
/// first of one with the first of the other. Element types may differ (TF32 for fp32).
struct LaunchMatch {
  std::vector<std::pair<size_t, size_t>> pairs;  ///< In the order of the first step.
  std::vector<size_t> only_first, only_second;
};
LaunchMatch match_launches(const StepDetail& first, const StepDetail& second);

}  // namespace orrery
