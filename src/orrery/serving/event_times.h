#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// When each of many things happens next: a tree whose nodes hold the earliest time below them.
/// The earliest of all costs nothing to know, a change log n, and those that are due come in the
/// order of their numbers whatever was changed before.
class EventTimes {
 public:
  explicit EventTimes(size_t count)
      : leaves_(std::bit_ceil(std::max<size_t>(1, count))), earliest_(2 * leaves_, kNever) {}

  void set(size_t number, Seconds time) {
    size_t node = leaves_ + number;
    earliest_[node] = time;
    while (node > 1) {
      node /= 2;
      earliest_[node] = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
    }
  }
  Seconds earliest() const { return earliest_[1]; }
  /// Adds the numbers of those at `now` or before, in ascending order.
  void add_due(Seconds now, std::vector<size_t>& due) const { add_due(1, now, due); }

 private:
  void add_due(size_t node, Seconds now, std::vector<size_t>& due) const {
    if (earliest_[node] > now) return;
    if (node >= leaves_) {
      due.push_back(node - leaves_);
      return;
    }
    add_due(2 * node, now, due);
    add_due(2 * node + 1, now, due);
  }

  size_t leaves_;
  std::vector<Seconds> earliest_;
};

}  // namespace orrery
