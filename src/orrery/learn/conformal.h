#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "orrery/learn/json_value.h"

namespace orrery {

/// A row that was predicted by a model that had not seen it.
struct HeldOutRow {
  std::string group;
  double scale = 1;     ///< how wrong the row was expected to be, above 0
  double residual = 0;  ///< truth less prediction
};

/// What to multiply a prediction's scale by for the ends of its interval:
/// truth in [prediction + low · scale, prediction + high · scale].
struct IntervalMultipliers {
  double low = 0;
  double high = 0;
  size_t rows = 0;  ///< that they rest on
  bool operator==(const IntervalMultipliers&) const = default;
};

/// Split conformal prediction (Lei et al.: "Distribution-free predictive inference for
/// regression", JASA 2018; normalised residuals as in Papadopoulos et al., 2008), by
/// group. Of n ratios residual / scale, sorted, with a = (1 - coverage) / 2, `low` is the
/// ⌊(n + 1) a⌋-th and `high` the ⌈(n + 1) (1 - a)⌉-th, which holds for n + 1 exchangeable
/// rows; where there is no such ratio, the outermost one. A group of fewer than
/// `kRowsOfItsOwn` rows gets n / kRowsOfItsOwn of its own multipliers and the rest of all
/// rows' together.
class ConformalIntervals {
 public:
  static constexpr size_t kRowsOfItsOwn = 60;

  /// Knows nothing: multipliers of 0.
  ConformalIntervals() = default;
  /// Throws `kInput` when there are no rows, or a scale or residual is not a finite number
  /// (a scale above 0), and `kUsage` unless 0 < coverage < 1.
  explicit ConformalIntervals(std::span<const HeldOutRow> rows, double coverage = 0.9);

  double coverage() const { return coverage_; }
  /// The group's, or all rows' together for a group that was not seen.
  const IntervalMultipliers& of(std::string_view group) const;

  bool operator==(const ConformalIntervals&) const = default;

 private:
  friend std::string to_json(const ConformalIntervals& intervals);
  friend ConformalIntervals intervals_from_json(const JsonValue& value);

  double coverage_ = 0.9;
  IntervalMultipliers pooled_;
  std::map<std::string, IntervalMultipliers, std::less<>> groups_;
};

/// The text of a JSON object that reads back as equal intervals; multipliers are
/// [low, high, rows]:
///   {"coverage":0.9,"pooled":[-1.6,1.7,200],"groups":{
///   "gemm":[-1.5,1.5,120]}}
std::string to_json(const ConformalIntervals& intervals);
/// Throws `kInput` with the path of whatever is not as `to_json` writes it.
ConformalIntervals intervals_from_json(const JsonValue& value);

}  // namespace orrery
