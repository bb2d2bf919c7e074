#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "orrery/serving/sequence.h"

namespace orrery {

/// Sequences that are not running, first come first served or by priority and then by arrival.
class WaitingQueue {
 public:
  explicit WaitingQueue(bool by_priority = false) : by_priority_(by_priority) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return by_priority_ ? sorted_.size() : line_.size(); }
  uint32_t front() const { return by_priority_ ? sorted_.begin()->second : line_.front(); }
  void pop_front() {
    if (by_priority_)
      sorted_.erase(sorted_.begin());
    else
      line_.pop_front();
  }
  void arrive(uint32_t slot, const Sequence& sequence) {
    if (by_priority_)
      sorted_.emplace(std::pair(sequence.priority, sequence.id), slot);
    else
      line_.push_back(slot);
  }
  /// Of one that had begun: before all who have not.
  void come_back(uint32_t slot, const Sequence& sequence) {
    if (by_priority_)
      arrive(slot, sequence);
    else
      line_.push_front(slot);
  }
  /// Calls `visit(slot)` from the first to the last, until it gives false.
  template <class Visit>
  void for_each(Visit visit) const {
    if (by_priority_) {
      for (const auto& [key, slot] : sorted_)
        if (!visit(slot)) return;
    } else {
      for (const uint32_t slot : line_)
        if (!visit(slot)) return;
    }
  }

 private:
  bool by_priority_;
  std::deque<uint32_t> line_;
  std::map<std::pair<int32_t, uint32_t>, uint32_t> sorted_;
};

}  // namespace orrery
