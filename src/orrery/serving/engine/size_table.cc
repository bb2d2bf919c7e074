#include "orrery/serving/engine/size_table.h"

#include <algorithm>
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
}

double SizeTable::cell(size_t i, size_t j) const {
  std::atomic<double>& kept = cells_[i * second_.size() + j];
  double value = kept.load(std::memory_order_relaxed);
  if (std::isnan(value)) {
    value = function_(first_[i], second_[j]);
    kept.store(value, std::memory_order_relaxed);
  }
  return value;
}

SizeTable::Place SizeTable::place(const SizeGrid& grid, double x) {
  if (x <= static_cast<double>(grid.front()) || grid.size() == 1) return {0, 0};
  const auto after = std::upper_bound(grid.begin(), grid.end(), x, [](double value, int64_t point) {
    return value < static_cast<double>(point);
  });
  const auto low = std::min(static_cast<size_t>(after - grid.begin()) - 1, grid.size() - 2);
  // Past the last point the last line goes on.
  return {low,
          (x - static_cast<double>(grid[low])) / static_cast<double>(grid[low + 1] - grid[low])};
}

double SizeTable::along(size_t i, const Place& second) const {
  const double low = cell(i, second.low);
  return second.share == 0 ? low : low + second.share * (cell(i, second.low + 1) - low);
}

double SizeTable::at(int64_t x) const { return at(x, static_cast<double>(second_.front())); }

double SizeTable::at(int64_t x, double y) const {
  const Place second = place(second_, y);
  Place first;
  if (static_cast<size_t>(x) < quick_.size()) {
    const size_t low = quick_[static_cast<size_t>(x)];
    if (first_[low] >= x) return along(low, second);
    if (x <= padded_) return along(low + 1, second);
    first = {low, static_cast<double>(x - first_[low]) /
                      static_cast<double>(first_[low + 1] - first_[low])};
  } else {
    first = place(first_, static_cast<double>(x));
  }
  const double low = along(first.low, second);
  return first.share == 0 ? low : low + first.share * (along(first.low + 1, second) - low);
}

}  // namespace orrery
