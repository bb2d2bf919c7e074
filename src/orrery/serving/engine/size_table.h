#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace orrery {

/// Sizes at which a function is worked out: ascending.
using SizeGrid = std::vector<int64_t>;

/// first, first·√2, first·2 … up to and past `last`, whole numbers.
SizeGrid geometric_grid(int64_t first, int64_t last);
/// Sizes that graphs are captured for (vLLM: 1, 2, 4, then every 8th up to 256, every 16th up to
/// `captured`), then every 64th up to 2048, every 256th up to 8192, and in steps of √2 to `last`.
SizeGrid step_grid(int64_t captured, int64_t last);

/// A slow function of one or two sizes, worked out at the points of a grid when first asked for
/// there, straight lines between them. Thread-safe without locks: what two threads work out at
/// once is the same number.
class SizeTable {
 public:
  using Function = std::function<double(int64_t, int64_t)>;
  /// `second` may be {0}: a function of one size. Sizes of the first grid up to `padded` are
  /// raised to the next point instead.
  SizeTable(SizeGrid first, SizeGrid second, int64_t padded, Function function);

  double at(int64_t x) const;
  double at(int64_t x, double y) const;
  /// What `at` gives from `y` on, up to where its line bends.
  struct Line {
    double value = 0, slope = 0;
    double end = 0;
  };
  Line line(int64_t x, double y) const;

 private:
  struct Place {
    size_t low = 0;
    double share = 0;  ///< Of the point after `low`.
  };
  /// Where `x` lies in the first grid, and `y` in the second.
  Place row(int64_t x) const;
  Place place(double y) const;
  double cell(size_t i, size_t j) const {
    const double value = cells_[i * second_.size() + j].load(std::memory_order_relaxed);
    return std::isnan(value) ? work_out(i, j) : value;
  }
  double along(size_t i, const Place& second) const {
    const double low = cell(i, second.low);
    return second.share == 0 ? low : low + second.share * (cell(i, second.low + 1) - low);
  }
  double rise(size_t i, size_t j) const {
    return (cell(i, j + 1) - cell(i, j)) / static_cast<double>(second_[j + 1] - second_[j]);
  }
  double work_out(size_t i, size_t j) const;

  SizeGrid first_, second_;
  int64_t padded_;
  Function function_;
  std::vector<uint16_t> quick_;  ///< Of whole sizes up to a few thousand: the point at or below.
  /// Of the second grid: the point at or below the least number of each quarter of an octave, from
  /// that of its first point on.
  std::vector<uint16_t> octaves_;
  uint64_t first_octave_ = 0;
  std::unique_ptr<std::atomic<double>[]> cells_;  ///< Not a number: not yet worked out.
};

}  // namespace orrery
