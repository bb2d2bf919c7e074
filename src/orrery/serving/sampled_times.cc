#include "orrery/serving/sampled_times.h"

#include <algorithm>

namespace orrery {

StepTime SampledTimes::of(const StepShape& shape) const {
  const StepTime time = times_.of(shape);
  keep(shape, time);
  ++asked_;
  return time;
}

StepLine SampledTimes::ahead(const StepShape& shape, int64_t growing) const {
  StepLine line = times_.ahead(shape, growing);
  keep(shape, line.first);
  // Up to the next one that is kept.
  line.steps = std::min(line.steps, static_cast<int64_t>(every_ - asked_ % every_));
  asked_ += static_cast<uint64_t>(line.steps);
  return line;
}

void SampledTimes::keep(const StepShape& shape, const StepTime& time) const {
  if (asked_ % every_ != 0) return;
  if (steps_.size() == kMost) {
    for (size_t i = 1; i < kMost / 2; ++i) steps_[i] = std::move(steps_[2 * i]);
    steps_.resize(kMost / 2);
    every_ *= 2;
    if (asked_ % every_ != 0) return;
  }
  SampledStep& kept = steps_.emplace_back();
  kept.shape = shape;
  kept.shape.prefills = {};
  kept.chunks.assign(shape.prefills.begin(), shape.prefills.end());
  kept.time = time;
}

}  // namespace orrery
