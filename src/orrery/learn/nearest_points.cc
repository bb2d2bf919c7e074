#include "orrery/learn/nearest_points.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "orrery/base/error.h"

namespace orrery {
namespace {

constexpr uint32_t kLeaf = 8;

}  // namespace

/// The nearest so far, in order.
struct NearestPoints::Search {
  std::span<const float> query;
  std::span<Found> found;
  uint32_t left_out;
  size_t count = 0;

  bool may_enter(float squared_distance) const {
    return count < found.size() || squared_distance <= found[count - 1].squared_distance;
  }
  void add(const Found& candidate) {
    const auto before = [](const Found& a, const Found& b) {
      return std::tie(a.squared_distance, a.point) < std::tie(b.squared_distance, b.point);
    };
    if (count == found.size()) {
      if (!before(candidate, found[count - 1])) return;
    } else {
      ++count;
    }
    size_t at = count - 1;
    for (; at > 0 && before(candidate, found[at - 1]); --at) found[at] = found[at - 1];
    found[at] = candidate;
  }
};

NearestPoints::NearestPoints(std::span<const float> points, size_t dimensions)
    : dimensions_(dimensions) {
  if (dimensions == 0 || dimensions > kMostDimensions || points.size() % dimensions != 0)
    throw_internal("points of no such dimension");
  numbers_.resize(points.size() / dimensions);
  std::iota(numbers_.begin(), numbers_.end(), uint32_t{0});
  if (numbers_.empty()) return;
  split(points, 0, static_cast<uint32_t>(numbers_.size()));
  coordinates_.reserve(points.size());
  for (uint32_t number : numbers_) {
    const auto point = points.subspan(number * dimensions, dimensions);
    coordinates_.insert(coordinates_.end(), point.begin(), point.end());
  }
}

void NearestPoints::split(std::span<const float> points, uint32_t begin, uint32_t end) {
  const auto node = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({begin, end});
  if (end - begin <= kLeaf) return;
  const auto first = numbers_.begin() + begin, last = numbers_.begin() + end;
  const auto coordinate = [&](uint32_t number, size_t d) {
    return points[number * dimensions_ + d];
  };
  size_t widest = 0;
  float width = -1;
  for (size_t d = 0; d < dimensions_; ++d) {
    float least = coordinate(*first, d), most = least;
    for (auto at = first; at != last; ++at) {
      least = std::min(least, coordinate(*at, d));
      most = std::max(most, coordinate(*at, d));
    }
    if (most - least > width) {
      width = most - least;
      widest = d;
    }
  }
  if (!(width > 0)) return;  // all in one place
  const uint32_t middle = begin + (end - begin) / 2;
  std::nth_element(first, numbers_.begin() + middle, last, [&](uint32_t a, uint32_t b) {
    return std::pair(coordinate(a, widest), a) < std::pair(coordinate(b, widest), b);
  });
  nodes_[node].dimension = static_cast<uint32_t>(widest);
  nodes_[node].border = coordinate(numbers_[middle], widest);
  split(points, begin, middle);
  nodes_[node].higher = static_cast<uint32_t>(nodes_.size());
  split(points, middle, end);
}

void NearestPoints::visit(Search& search, uint32_t node) const {
  const Node& n = nodes_[node];
  if (n.higher == 0) {
    for (uint32_t i = n.begin; i < n.end; ++i) {
      if (numbers_[i] == search.left_out) continue;
      const float* point = &coordinates_[i * dimensions_];
      float squared = 0;
      for (size_t d = 0; d < dimensions_; ++d) {
        const float apart = point[d] - search.query[d];
        squared += apart * apart;
      }
      if (search.may_enter(squared)) search.add({squared, numbers_[i]});
    }
    return;
  }
  const float apart = search.query[n.dimension] - n.border;
  visit(search, apart < 0 ? node + 1 : n.higher);
  if (search.may_enter(apart * apart)) visit(search, apart < 0 ? n.higher : node + 1);
}

size_t NearestPoints::find(std::span<const float> query, std::span<Found> found,
                           uint32_t left_out) const {
  if (nodes_.empty() || found.empty()) return 0;
  Search search{query, found, left_out};
  visit(search, 0);
  return search.count;
}

}  // namespace orrery
