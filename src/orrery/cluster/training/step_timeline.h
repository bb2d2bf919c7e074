#pragma once

#include <cstdint>
#include <vector>

#include "orrery/cluster/training/pipeline_order.h"
#include "orrery/cluster/training/step.h"

namespace orrery {

/// Where a slice runs on its stage's rank.
enum class StepTrack : uint8_t { kCompute, kLayers, kPipeline, kData };
std::string_view name(StepTrack track);
inline constexpr size_t kStepTrackCount = static_cast<size_t>(StepTrack::kData) + 1;

enum class StepWork : uint8_t {
  kForward,
  kBackward,
  kWeights,  ///< Gradients of weights, where they run apart.
  kAgain,    ///< What the backward pass computes once more.
  kGaps,     ///< Between kernels, and where the host is late; all of a pass together.
  kTraffic,
  kOptimizer,
  kSkipped,  ///< Micro-batches that are not drawn.
};
std::string_view name(StepWork work);

/// Something that runs. What is part of a pass has its chunk and micro-batch.
struct StepSlice {
  StepTrack track = StepTrack::kCompute;
  StepWork work = StepWork::kForward;
  TrafficCause cause = TrafficCause::kTensor;  ///< Of traffic.
  bool exposed = true;                         ///< Of traffic: nothing computes beside it.
  int chunk = -1;
  int64_t micro_batch = -1;  ///< Of what is skipped, the first …
  int64_t count = 1;         ///< … of so many,
  Seconds compute;           ///< and what they compute.
  Seconds start, end;
};

/// One stage's representative rank, its slices by track, then time.
struct StageTimeline {
  int stage = 0;
  int first_rank = 0;  ///< Of those that share the stage for the data rank shown.
  std::vector<StepSlice> slices;
};

/// How much of a step is drawn, about: eight stages, and what fills and drains the pipeline, are
/// drawn in any case.
struct TimelineLimits {
  size_t stages = 32;
  size_t passes = 20'000;
};

/// A step drawn: one rank a stage, since ranks of a stage do the same. Of a stage's slices those
/// that compute add up to its time in the breakdown, and all ends with the step.
struct StepTimeline {
  std::vector<StageTimeline> stages;
  int stages_skipped = 0;
  int64_t micro_batches = 0, micro_batches_skipped = 0;
  size_t slowest = 0;  ///< The stage that the breakdown is of.
  Seconds pipeline;    ///< Where the last pass ends.
  Seconds step;
  /// How long passes take placed as early as possible. Where stages are unequal the step's closed
  /// form differs: waiting is drawn so that it holds.
  Seconds by_order;
};

/// `kInfeasible` where a pipeline has too many stages to be placed.
StepTimeline draw_step(const StepInDetail& step, const Strategy& strategy,
                       const TimelineLimits& limits);

}  // namespace orrery
