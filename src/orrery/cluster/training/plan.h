#pragma once

#include <string>
#include <vector>

#include "orrery/cluster/training/step.h"

namespace orrery {

/// What a plan is made for. The strategy holds what is given: batch, length, number format and
/// what the framework decides; its parallel sizes are searched.
struct PlanQuestion {
  Strategy fixed;
  std::vector<int> gpus;  ///< Numbers of devices to try.
  int threads = 0;        ///< 0: as many as the machine has.
};

struct PlannedStep {
  Strategy strategy;
  StepEstimate estimate;
};

/// All strategies that were looked at, and the best of them.
struct Plan {
  /// The quickest variant of each layout (tp, pp, cp, dp, ep and the number of devices), quickest
  /// first.
  std::vector<PlannedStep> layouts;
  /// Those that nothing beats in time, memory and number of devices at once, quickest first.
  std::vector<PlannedStep> front;
  size_t considered = 0;   ///< Strategies whose sizes divide.
  size_t too_large = 0;    ///< … of which so many do not fit.
  double least_bytes = 0;  ///< The least that any of them needs of a device.
  Strategy smallest;       ///< The strategy that needs it.
};

/// Complete search over tensor, pipeline, context and expert parallel sizes, chunks a stage,
/// micro-batches, recomputation and ZeRO, within what real systems do: tensor groups inside a
/// node; pipelines of at most one stage a layer; context ranks of 2,048 tokens at least.
/// Recomputation is of nothing, experts' activations, latent attention's projections, experts or
/// layers. The same question gives the same plan on any number of threads.
Plan make_plan(const TrainingModel& model, const PlanQuestion& question);

/// Why `other` takes longer than `best`, in words: the largest differences of their breakdowns.
std::string why_slower(const PlannedStep& other, const PlannedStep& best);

}  // namespace orrery
