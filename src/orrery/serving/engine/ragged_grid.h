#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// A function of up to four sizes, measured at points that need not form a full grid: under every
/// first size lie second ones of its own, and so on. Between points it is a straight line in each
/// size, the last first; below the first point it stays as it is there; past the last it goes on
/// by the line from the point at half of it, since the last two may lie close together, and never
/// falls.
class RaggedGrid {
 public:
  static constexpr size_t kMostSizes = 4;
  struct Point {
    std::array<int64_t, kMostSizes> sizes{};  ///< As many as the grid has, in order.
    double value = 0;
    int64_t line = 0;  ///< Where it was read.
  };

  RaggedGrid() = default;
  /// Of at least one point. Points at one place: `repeated` names the line of one of them.
  RaggedGrid(size_t sizes, std::vector<Point> points);

  bool empty() const { return values_.empty(); }
  /// A line whose place another one has already; 0: none.
  int64_t repeated() const { return repeated_; }
  /// The first sizes there are, ascending.
  std::span<const double> first() const { return levels_.front().keys; }
  double at(std::span<const double> sizes) const;
  double at(double x) const { return at({&x, 1}); }
  double at(double x, double y) const { return at(std::array{x, y}); }

 private:
  struct Level {
    std::vector<double> keys;   ///< Of all nodes, those of one parent next to each other.
    std::vector<size_t> begin;  ///< Of each parent's, and the end.
  };
  double value(size_t level, size_t parent, std::span<const double> sizes) const;

  std::vector<Level> levels_;
  std::vector<double> values_;  ///< Of the last level's nodes.
  int64_t repeated_ = 0;
};

}  // namespace orrery
