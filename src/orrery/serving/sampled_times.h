#pragma once

#include <vector>

#include "orrery/serving/step_times.h"

namespace orrery {

/// A step that an engine was asked about, with chunks of its own.
struct SampledStep {
  StepShape shape;  ///< Its `prefills` is empty: see `chunks`.
  std::vector<PrefillChunk> chunks;
  StepTime time;
};

/// Keeps every n-th step that a simulation asks about, n such that there are some hundred of them:
/// what a run was made of. For one thread.
class SampledTimes final : public StepTimes {
 public:
  explicit SampledTimes(const StepTimes& times) : times_(times) {}
  StepTime of(const StepShape& shape) const override;
  StepLine ahead(const StepShape& shape, int64_t growing) const override;
  void not_taken(int64_t steps) const override { asked_ -= static_cast<uint64_t>(steps); }
  int64_t window() const override { return times_.window(); }
  int pipeline() const override { return times_.pipeline(); }
  const std::vector<SampledStep>& steps() const { return steps_; }

 private:
  void keep(const StepShape& shape, const StepTime& time) const;

  static constexpr size_t kMost = 512;
  const StepTimes& times_;
  mutable std::vector<SampledStep> steps_;
  mutable uint64_t asked_ = 0, every_ = 1;
};

}  // namespace orrery
