#include "orrery/serving/engine/ragged_grid.h"

#include <algorithm>

namespace orrery {

RaggedGrid::RaggedGrid(size_t sizes, std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, &Point::sizes);
  levels_.resize(sizes);
  for (size_t i = 0; i < points.size(); ++i) {
    size_t differs = 0;
    if (i > 0)
      while (differs < sizes && points[i].sizes[differs] == points[i - 1].sizes[differs]) ++differs;
    if (differs == sizes) {
      repeated_ = points[i].line;
      continue;
    }
    for (size_t l = differs; l < sizes; ++l) {
      if (l > differs || i == 0) levels_[l].begin.push_back(levels_[l].keys.size());
      levels_[l].keys.push_back(static_cast<double>(points[i].sizes[l]));
    }
    values_.push_back(points[i].value);
  }
  for (Level& level : levels_) level.begin.push_back(level.keys.size());
}

double RaggedGrid::value(size_t level, size_t parent, std::span<const double> sizes) const {
  const Level& here = levels_[level];
  const auto at = [&](size_t node) {
    return level + 1 == levels_.size() ? values_[node] : value(level + 1, node, sizes);
  };
  const double x = sizes[level];
  const double* const keys = here.keys.data();
  const size_t begin = here.begin[parent], last = here.begin[parent + 1] - 1;
  const auto above = [&](double y) {
    return static_cast<size_t>(std::upper_bound(keys + begin, keys + last + 1, y) - keys);
  };
  if (x <= keys[begin] || begin == last) return at(begin);
  if (x <= keys[last]) {
    const size_t low = above(x) - 1;
    if (keys[low] == x) return at(low);
    const double from = at(low);
    return from + (at(low + 1) - from) * (x - keys[low]) / (keys[low + 1] - keys[low]);
  }
  const size_t half = std::max(begin + 1, above(keys[last] / 2)) - 1;
  const double end = at(last);
  return end + std::max(0.0, end - at(half)) * (x - keys[last]) / (keys[last] - keys[half]);
}

double RaggedGrid::at(std::span<const double> sizes) const { return value(0, 0, sizes); }

}  // namespace orrery
