#include "orrery/learn/feature_bins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace orrery {
namespace {

std::vector<float> thresholds_of(std::vector<float> values, size_t bins) {
  std::ranges::sort(values);
  std::vector<float> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());

  std::vector<float> thresholds;
  if (distinct.size() <= bins) {
    for (size_t i = 1; i < distinct.size(); ++i)
      thresholds.push_back(short_decimal_between(distinct[i - 1], distinct[i]));
    return thresholds;
  }
  for (size_t b = 1; b < bins; ++b) {
    // Below the first value of the b-th part; ties that reach over it all go above.
    const float high = values[b * values.size() / bins];
    const auto above = std::ranges::lower_bound(distinct, high);
    if (above == distinct.begin()) continue;
    const float threshold = short_decimal_between(*(above - 1), high);
    if (thresholds.empty() || threshold > thresholds.back()) thresholds.push_back(threshold);
  }
  return thresholds;
}

}  // namespace

float short_decimal_between(float low, float high) {
  const double middle = (double{low} + double{high}) / 2;
  const double tolerance = (double{high} - double{low}) / 4;
  constexpr int kFloatDigits = 9;
  for (int digits = 2; digits <= kFloatDigits; ++digits) {
    const auto candidate =
        static_cast<float>(std::strtod(fmt::format("{:.{}g}", middle, digits).c_str(), nullptr));
    // Adding 0 turns -0 into 0.
    if (std::abs(double{candidate} - middle) <= tolerance) return candidate + 0.0f;
  }
  return low + 0.0f;
}

FeatureBins::FeatureBins(const Matrix& features, int bins)
    : rows_(features.rows()),
      thresholds_(features.columns()),
      bins_(features.rows() * features.columns()) {
  std::vector<float> values(rows_);
  for (size_t f = 0; f < features.columns(); ++f) {
    for (size_t r = 0; r < rows_; ++r) values[r] = features.row(r)[f];
    thresholds_[f] = thresholds_of(values, static_cast<size_t>(bins));
    for (size_t r = 0; r < rows_; ++r)
      bins_[f * rows_ + r] = static_cast<uint8_t>(
          std::ranges::lower_bound(thresholds_[f], values[r]) - thresholds_[f].begin());
  }
}

}  // namespace orrery
