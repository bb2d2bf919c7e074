#pragma once

#include <array>
#include <numeric>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/cluster/training/rank_work.h"

namespace orrery {

inline constexpr size_t kTrafficCauseCount = static_cast<size_t>(TrafficCause::kParameters) + 1;

/// What a pass takes for one micro-batch: of a layer, or of all layers of a chunk.
struct PassTime {
  Seconds kernels;
  Seconds gaps;  ///< Between kernels, and where the host is late.
  std::array<Seconds, kTrafficCauseCount> exposed{}, traffic{};

  Seconds total() const { return std::accumulate(exposed.begin(), exposed.end(), kernels + gaps); }
  void add(const PassTime& other, double count);
};

/// One chunk of one stage.
struct ChunkTimes {
  PassTime forward, backward, again;
  Seconds weights;  ///< Of the backward pass's kernels, those that give gradients of weights.
};

/// What a step is put together from, in the pipeline that finishes last.
struct StepCosts {
  std::vector<std::vector<ChunkTimes>> stages;  ///< By stage, then chunk.
  size_t slowest = 0;                           ///< The stage that has most to do.
  int data_rank = 0;                            ///< Whose pipeline it is.
  Seconds send;                                 ///< From one stage to the next.
  bool sends_hide = false;                      ///< … but while the pipeline fills and drains.
  /// Traffic of data ranks once a step.
  struct OnceAStep {
    TrafficCause cause = TrafficCause::kGradients;
    Seconds traffic, exposed;
  };
  std::vector<OnceAStep> data;
  Seconds optimizer;
};

}  // namespace orrery
