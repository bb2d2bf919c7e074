#include "orrery/serving/engine/size_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace orrery {
namespace {

constexpr int64_t kQuick = 8192;

void continue_grid(SizeGrid& grid, int64_t last) {
  const auto from = static_cast<double>(grid.back());
  for (int i = 1; grid.back() < last; ++i) grid.push_back(std::llround(from * std::exp2(i / 2.0)));
}

/// A positive double's exponent and the first two bits behind its point.
uint64_t quarter_octave(double x) { return std::bit_cast<uint64_t>(x) >> 50; }
double least_of(uint64_t quarter) { return std::bit_cast<double>(quarter << 50); }

/// Past the last point the last line goes on.
double share_of(const SizeGrid& grid, size_t low, double x) {
  return (x - static_cast<double>(grid[low])) / static_cast<double>(grid[low + 1] - grid[low]);
}

}  // namespace

SizeGrid geometric_grid(int64_t first, int64_t last) {
  SizeGrid grid = {first};
  continue_grid(grid, last);
  return grid;
}

SizeGrid step_grid(int64_t captured, int64_t last) {
  SizeGrid grid = {1, 2, 4};
  const auto up_to = [&](int64_t end, int64_t step) {
    for (int64_t n = (grid.back() / step + 1) * step; n <= end; n += step) grid.push_back(n);
  };
  up_to(std::min<int64_t>(captured, 256), 8);
  up_to(captured, 16);
  up_to(2048, 64);
  up_to(8192, 256);
  continue_grid(grid, last);
  return grid;
}

SizeTable::SizeTable(SizeGrid first, SizeGrid second, int64_t padded, Function function)
    : first_(std::move(first)),
      second_(std::move(second)),
      padded_(padded),
      function_(std::move(function)),
      cells_(std::make_unique<std::atomic<double>[]>(first_.size() * second_.size())) {
  for (size_t i = 0; i < first_.size() * second_.size(); ++i)
    cells_[i].store(std::numeric_limits<double>::quiet_NaN(), std::memory_order_relaxed);
  quick_.resize(static_cast<size_t>(std::min(kQuick, first_.back())) + 1);
  uint16_t at = 0;
  for (size_t x = 0; x < quick_.size(); ++x) {
    while (at + 1U < first_.size() && first_[at + 1U] <= static_cast<int64_t>(x)) ++at;
    quick_[x] = at;
  }
  // 0 has no octave: from the first point above it on.
  const SizeGrid& grid = second_;
  if (grid.size() == 1) return;
  first_octave_ = quarter_octave(std::max(1.0, static_cast<double>(grid.front())));
  const uint64_t last = quarter_octave(std::max(1.0, static_cast<double>(grid.back())));
  at = 0;
  for (uint64_t quarter = first_octave_; quarter <= last; ++quarter) {
    while (at + 1U < grid.size() && static_cast<double>(grid[at + 1U]) <= least_of(quarter)) ++at;
    octaves_.push_back(at);
  }
}

double SizeTable::work_out(size_t i, size_t j) const {
  const double value = function_(first_[i], second_[j]);
  cells_[i * second_.size() + j].store(value, std::memory_order_relaxed);
  return value;
}

inline SizeTable::Place SizeTable::place(double y) const {
  if (second_.size() == 1 || y <= static_cast<double>(second_.front())) return {0, 0};
  const uint64_t quarter = quarter_octave(y);
  size_t low = 0;
  if (quarter >= first_octave_)
    low = octaves_[std::min<size_t>(quarter - first_octave_, octaves_.size() - 1)];
  while (low + 2 < second_.size() && static_cast<double>(second_[low + 1]) <= y) ++low;
  low = std::min(low, second_.size() - 2);
  return {low, share_of(second_, low, y)};
}

double SizeTable::at(int64_t x) const { return at(x, static_cast<double>(second_.front())); }

inline SizeTable::Place SizeTable::row(int64_t x) const {
  if (static_cast<size_t>(x) < quick_.size()) {
    const size_t low = quick_[static_cast<size_t>(x)];
    if (first_[low] >= x) return {low, 0};
    if (x <= padded_) return {low + 1, 0};
    return {low, static_cast<double>(x - first_[low]) /
                     static_cast<double>(first_[low + 1] - first_[low])};
  }
  if (first_.size() == 1 || x <= first_.front()) return {0, 0};
  const auto after = std::ranges::upper_bound(first_, x);
  const size_t low = std::min(static_cast<size_t>(after - first_.begin()) - 1, first_.size() - 2);
  return {low, share_of(first_, low, static_cast<double>(x))};
}

double SizeTable::at(int64_t x, double y) const {
  const Place second = place(y), first = row(x);
  const double low = along(first.low, second);
  return first.share == 0 ? low : low + first.share * (along(first.low + 1, second) - low);
}

SizeTable::Line SizeTable::line(int64_t x, double y) const {
  constexpr double kNoEnd = std::numeric_limits<double>::infinity();
  Line found;
  found.value = at(x, y);
  found.end = second_.size() == 1 ? kNoEnd : static_cast<double>(second_.front());
  if (second_.size() == 1 || y < found.end) return found;
  const Place first = row(x);
  const size_t low = place(y).low;
  found.slope = rise(first.low, low);
  if (first.share != 0) found.slope += first.share * (rise(first.low + 1, low) - found.slope);
  found.end = low + 2 < second_.size() ? static_cast<double>(second_[low + 1]) : kNoEnd;
  return found;
}

}  // namespace orrery
