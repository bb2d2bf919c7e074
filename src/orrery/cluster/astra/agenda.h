#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "orrery/cluster/astra/transport.h"

namespace orrery::astra {

/// What a rank does by itself.
struct RankEvent {
  enum class Kind : uint8_t {
    kArrivedAtEndpoint,  ///< Bytes that stream `a` handed over and that are yet to be reduced.
    kReleased,           ///< Bytes that stream `a` handed over.
    kNodeDone,           ///< Node `a` of the trace.
    kCustomDone,         ///< Node `b` of the custom collective that stream `a` runs.
  };
  Kind kind = Kind::kNodeDone;
  uint32_t a = 0;
  uint32_t b = 0;
  uint64_t bytes = 0;
};

/// A rank's own events. Those of one time are one event of the simulation, placed where the
/// first of them was: ASTRA-sim keeps them so, and what happens at one time depends on it.
class Agenda {
 public:
  Agenda(EventQueue<Event>& events, uint32_t rank) : events_(&events), rank_(rank) {}

  void schedule(uint64_t delay, const RankEvent& event) {
    const uint64_t time = events_->now() + delay;
    for (const auto& [open_time, slot] : open_)
      if (open_time == time) {
        batches_[slot].push_back(event);
        return;
      }
    uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(batches_.size());
      batches_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    batches_[slot].push_back(event);
    open_.emplace_back(time, slot);
    events_->schedule(time, {Event::Kind::kRank, rank_, slot});
  }

  /// Runs a batch; what is added to it meanwhile too.
  template <class Run>
  void run(uint32_t slot, Run run_one) {
    size_t next = 0;
    while (next < batches_[slot].size()) {
      const RankEvent event = batches_[slot][next++];
      run_one(event);
    }
    batches_[slot].clear();
    free_.push_back(slot);
    for (auto at = open_.begin(); at != open_.end(); ++at)
      if (at->second == slot) {
        open_.erase(at);
        break;
      }
  }

 private:
  EventQueue<Event>* events_;
  uint32_t rank_;
  std::vector<std::vector<RankEvent>> batches_;
  std::vector<uint32_t> free_;
  std::vector<std::pair<uint64_t, uint32_t>> open_;  ///< Time and batch.
};

}  // namespace orrery::astra
