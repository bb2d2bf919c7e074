#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orrery/base/error.h"

namespace orrery {

/// Events in the order of their times, those of one time in the order they were scheduled,
/// so that a simulation gives the same answer on every run.
///
/// Machines that work in step do thousands of things at one time. So events of a time share
/// a list, and only times are sorted: scheduling costs a look-up, not a heap's path.
///
///     EventQueue<Message> queue;
///     queue.schedule(100, message);
///     while (queue.next(event)) handle(event, queue.now());
template <class Event>
class EventQueue {
 public:
  using Time = uint64_t;

  /// Of the event given last; 0 before the first.
  Time now() const { return now_; }

  /// `time` is now or later. What is scheduled for now comes after all else of now.
  void schedule(Time time, Event event) {
    if (time < now_) throw_internal("an event was scheduled in the past");
    if (!(time == cached_time_ && cached_slot_ != kNone)) {
      const auto [at, added] = slots_.try_emplace(time, kNone);
      if (added) {
        at->second = take_slot();
        times_.push_back(time);
        std::push_heap(times_.begin(), times_.end(), std::greater<>());
      }
      cached_time_ = time;
      cached_slot_ = at->second;
    }
    lists_[cached_slot_].push_back(std::move(event));
    ++size_;
  }

  /// The next event; false when there is none.
  bool next(Event& event) {
    while (true) {
      if (current_ != kNone) {
        if (position_ < lists_[current_].size()) {
          event = std::move(lists_[current_][position_++]);
          --size_;
          return true;
        }
        retire();
      }
      if (times_.empty()) return false;
      std::pop_heap(times_.begin(), times_.end(), std::greater<>());
      now_ = times_.back();
      times_.pop_back();
      current_ = slots_.at(now_);
      position_ = 0;
    }
  }

  /// Events that wait.
  size_t size() const { return size_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t take_slot() {
    if (free_.empty()) {
      lists_.emplace_back();
      return static_cast<uint32_t>(lists_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void retire() {
    lists_[current_].clear();
    slots_.erase(now_);
    if (cached_time_ == now_) cached_slot_ = kNone;
    free_.push_back(current_);
    current_ = kNone;
  }

  Time now_ = 0;
  size_t size_ = 0;
  std::vector<Time> times_;  ///< A heap, earliest first: every time that has a list but now.
  std::unordered_map<Time, uint32_t> slots_;
  std::vector<std::vector<Event>> lists_;
  std::vector<uint32_t> free_;
  uint32_t current_ = kNone;  ///< The list of now.
  size_t position_ = 0;
  Time cached_time_ = 0;
  uint32_t cached_slot_ = kNone;
};

}  // namespace orrery
