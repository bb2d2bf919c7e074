#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>

#include "orrery/serving/adapter_slots.h"
#include "orrery/serving/sequence.h"

namespace orrery {

/// Sequences that are not running, first come first served or by priority and then by arrival.
/// Whoever has an adapter for which there is no slot is passed over, as vLLM does: the first is the
/// first who could run.
class WaitingQueue {
 public:
  /// `adapters` outlives it; null: nobody is passed over.
  explicit WaitingQueue(bool by_priority = false, const AdapterSlots* adapters = nullptr)
      : by_priority_(by_priority), adapters_(adapters) {}

  /// Whether there is nobody who could run.
  bool empty() const {
    if (adapters_ == nullptr) return size() == 0;
    return by_priority_ ? first_sorted() == sorted_.end() : first_in_line() == line_.end();
  }
  size_t size() const { return by_priority_ ? sorted_.size() : line_.size(); }
  uint32_t front() const {
    return by_priority_ ? first_sorted()->second.slot : first_in_line()->slot;
  }
  void pop_front() {
    if (by_priority_)
      sorted_.erase(first_sorted());
    else if (adapters_ == nullptr)
      line_.pop_front();
    else
      line_.erase(first_in_line());
  }
  void arrive(uint32_t slot, const Sequence& sequence) {
    if (by_priority_)
      sorted_.emplace(std::pair(sequence.priority, sequence.id), Place{slot, sequence.adapter});
    else
      line_.push_back({slot, sequence.adapter});
  }
  /// Of one that had begun: before all who have not.
  void come_back(uint32_t slot, const Sequence& sequence) {
    if (by_priority_)
      arrive(slot, sequence);
    else
      line_.push_front({slot, sequence.adapter});
  }
  /// Calls `visit(slot)` from the first to the last who could run, until it gives false.
  template <class Visit>
  void for_each(Visit visit) const {
    if (by_priority_) {
      for (const auto& [key, place] : sorted_)
        if (can_run(place) && !visit(place.slot)) return;
    } else {
      for (const Place& place : line_)
        if (can_run(place) && !visit(place.slot)) return;
    }
  }

 private:
  struct Place {
    uint32_t slot = 0;
    uint32_t adapter = 0;
  };
  using Line = std::deque<Place>;
  using Sorted = std::map<std::pair<int32_t, uint32_t>, Place>;

  bool can_run(const Place& place) const {
    return adapters_ == nullptr || adapters_->admits(place.adapter);
  }
  Line::const_iterator first_in_line() const {
    return std::find_if(line_.begin(), line_.end(), [&](const Place& p) { return can_run(p); });
  }
  Sorted::const_iterator first_sorted() const {
    return std::find_if(sorted_.begin(), sorted_.end(),
                        [&](const auto& item) { return can_run(item.second); });
  }

  bool by_priority_;
  const AdapterSlots* adapters_;
  Line line_;
  Sorted sorted_;
};

}  // namespace orrery
