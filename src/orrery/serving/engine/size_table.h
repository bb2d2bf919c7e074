#pragma once

#include <atomic>
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

 private:
  struct Place {
    size_t low = 0;
    double share = 0;  ///< Of the point after `low`.
  };
  static Place place(const SizeGrid& grid, double x);
  double cell(size_t i, size_t j) const;
  double along(size_t i, const Place& second) const;

  SizeGrid first_, second_;
  int64_t padded_;
  Function function_;
  std::vector<uint16_t> quick_;  ///< Of whole sizes up to a few thousand: the point at or below.
  std::unique_ptr<std::atomic<double>[]> cells_;  ///< Not a number: not yet worked out.
};

}  // namespace orrery
