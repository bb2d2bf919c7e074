#include "orrery/serving/sampled_times.h"

namespace orrery {

StepTime SampledTimes::of(const StepShape& shape) const {
  const StepTime time = times_.of(shape);
  if (asked_++ % every_ != 0) return time;
  if (steps_.size() == kMost) {
    for (size_t i = 1; i < kMost / 2; ++i) steps_[i] = std::move(steps_[2 * i]);
    steps_.resize(kMost / 2);
    every_ *= 2;
    if ((asked_ - 1) % every_ != 0) return time;
  }
  SampledStep& kept = steps_.emplace_back();
  kept.shape = shape;
  kept.shape.prefills = {};
  kept.chunks.assign(shape.prefills.begin(), shape.prefills.end());
  kept.time = time;
  return time;
}

}  // namespace orrery
