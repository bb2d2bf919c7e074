#pragma once

#include <cstdint>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/cluster/training/strategy.h"

namespace orrery {

enum class PassKind : uint8_t {
  kForward,
  kBackward,  ///< With gradients of weights, but in a schedule that takes them apart.
  kWeights,   ///< Gradients of weights alone.
};

/// One micro-batch's way through one chunk of a stage.
struct PipelinePass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int64_t micro_batch = 0;
  bool operator==(const PipelinePass&) const = default;
};

/// What a stage runs, in order: GPipe; 1F1B, with chunks interleaved as Megatron does (Narayanan
/// et al. 2021, sec. 2.2); ZB-H1, whose stage s runs gradients of weights s micro-batches late
/// (Qi et al. 2024, sec. 2.1).
std::vector<PipelinePass> pipeline_order(PipelineSchedule schedule, int stages, int chunks,
                                         int stage, int64_t micro_batches);

/// How long passes take, by stage and chunk.
struct PassLengths {
  std::vector<std::vector<Seconds>> forward, backward, weights;

  Seconds of(size_t stage, const PipelinePass& pass) const;
};

/// A pass with its time.
struct PlacedPass {
  PipelinePass pass;
  Seconds start, end;
};

/// Every pass of every stage as early as its order and the passes it waits for allow. The first
/// micro-batch's way to a stage, and the last one's way back, take `between` from stage to stage;
/// others are there when they are wanted.
std::vector<std::vector<PlacedPass>> place_passes(
    const std::vector<std::vector<PipelinePass>>& orders, const PassLengths& lengths, int chunks,
    int64_t micro_batches, Seconds between);

}  // namespace orrery
