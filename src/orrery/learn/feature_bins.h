#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "orrery/learn/matrix.h"

namespace orrery {

/// Each feature's values told apart by at most `bins` - 1 thresholds: value x is in
/// bin #{threshold < x}. Where there are more distinct values than bins, the
/// thresholds part the rows as evenly as ties allow.
class FeatureBins {
 public:
  /// `bins` is 2 to 256. Features must be finite.
  FeatureBins(const Matrix& features, int bins);

  size_t features() const { return thresholds_.size(); }
  std::span<const float> thresholds(size_t feature) const { return thresholds_[feature]; }
  /// The bin of each row.
  std::span<const uint8_t> column(size_t feature) const {
    return {bins_.data() + feature * rows_, rows_};
  }

 private:
  size_t rows_;
  std::vector<std::vector<float>> thresholds_;
  std::vector<uint8_t> bins_;
};

/// A decimal of few digits t near the middle of two numbers, low <= t < high, for low < high.
float short_decimal_between(float low, float high);

}  // namespace orrery
