#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "orrery/cluster/network/flow_system.h"
#include "orrery/cluster/network/max_min.h"
#include "orrery/cluster/network/turns.h"

namespace orrery::fabric {
namespace {

/// Events this close, relative to the clock, are one: their sums differ by rounding alone.
constexpr double kSameTime = 4e-15;

/// Two turns whose states differ by less, relative to a turn, repeat.
constexpr double kSameState = 1e-11;

class EventRun {
 public:
  EventRun(const FlowSystem& system, bool skip, FlowWork& work)
      : s_(system), shares_(system), turns_(system), work_(work), flows_(system.bytes.size()) {
    if (skip) choose_reference();
  }

  SentTimes run() {
    for (int i = 0; i < s_.size(); ++i) {
      const double start = s_.start[static_cast<size_t>(i)];
      if (start > 0) {
        push({start, i, Event::kStart, 0});
      } else {
        queue_.push_back(i);
      }
    }
    settle();
    while (!events_.empty()) {
      now_ = events_.front().time;
      const double until = now_ + now_ * kSameTime;
      while (!events_.empty() && events_.front().time <= until) {
        const Event event = pop();
        handle(event);
      }
      settle();
      if (reference_ >= 0) look_for_repetition();
    }
    SentTimes sent;
    for (const State& flow : flows_) sent.push_back(flow.last_sent);
    return sent;
  }

 private:
  struct State {
    double left = 0, rate = 0, since = 0, last_sent = 0;
    uint32_t version = 0;
    bool runs = false;
  };
  struct Event {
    enum Type : uint8_t { kStart, kEnd, kArrival };
    double time = 0;
    int flow = 0;
    Type type = kStart;
    uint32_t version = 0;
    bool operator>(const Event& o) const {
      if (time != o.time) return time > o.time;
      return type != o.type ? type > o.type : flow > o.flow;
    }
  };
  /// A flow at the end of the reference's turn, relative to it.
  struct Snapshot {
    int64_t sent = 0, arrived = 0;
    double left = 0, since_sent = 0;
  };

  State& at(int flow) { return flows_[static_cast<size_t>(flow)]; }
  void push(const Event& event) {
    events_.push_back(event);
    std::push_heap(events_.begin(), events_.end(), std::greater<>());
  }
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }

  /// The flow whose turns mark time, when all flows take equally many turns.
  void choose_reference() {
    const int64_t turns = s_.repeat.empty() ? 0 : s_.repeat.front();
    const bool alike = std::all_of(s_.repeat.begin(), s_.repeat.end(),
                                   [&](int64_t repeat) { return repeat == turns; });
    if (alike && turns > 8) reference_ = 0;
  }

  bool may_start(int flow) {
    return !at(flow).runs && s_.start[static_cast<size_t>(flow)] <= now_ + now_ * kSameTime &&
           turns_.may_start(flow);
  }

  void end_turn(int flow) {
    ++work_.events;
    at(flow).last_sent = now_;
    turns_.send(flow, queue_);
    const double latency = s_.latency[static_cast<size_t>(flow)];
    if (latency > 0) {
      push({now_ + latency, flow, Event::kArrival, 0});
    } else {
      turns_.arrive(flow, queue_);
    }
  }

  void handle(const Event& event) {
    State& state = at(event.flow);
    switch (event.type) {
      case Event::kStart:
        queue_.push_back(event.flow);
        break;
      case Event::kEnd:
        if (event.version != state.version || !state.runs) return;
        state.runs = false;
        ++state.version;
        shares_.stop(event.flow);
        end_turn(event.flow);
        break;
      case Event::kArrival:
        turns_.arrive(event.flow, queue_);
        break;
    }
  }

  /// Starts what may start, then shares the links anew.
  void settle() {
    size_t next = 0;
    while (next < queue_.size()) {
      const int flow = queue_[next++];
      if (!may_start(flow)) continue;
      State& state = at(flow);
      const auto i = static_cast<size_t>(flow);
      if (s_.bytes[i] == 0 || s_.first_link[i] == s_.first_link[i + 1]) {
        end_turn(flow);
        continue;
      }
      state.runs = true;
      state.left = s_.bytes[i];
      state.rate = 0;
      state.since = now_;
      shares_.start(flow);
    }
    queue_.clear();
    for (const int flow : shares_.update()) {
      State& state = at(flow);
      const double rate = shares_.rate(flow);
      if (rate == state.rate) continue;
      state.left = std::max(0.0, state.left - state.rate * (now_ - state.since));
      state.since = now_;
      state.rate = rate;
      ++state.version;
      push({now_ + state.left / rate, flow, Event::kEnd, state.version});
    }
  }

  void look_for_repetition() {
    const int64_t marked = turns_.sent(reference_);
    if (marked == seen_turns_) return;
    const int64_t turns = s_.repeat[static_cast<size_t>(reference_)];
    const bool next_turn = marked == seen_turns_ + 1;
    seen_turns_ = marked;
    const double period = now_ - seen_at_;
    seen_at_ = now_;
    std::vector<Snapshot> taken;
    taken.reserve(flows_.size());
    int64_t furthest = 0, in_flight = 0;
    bool all_started = true;
    for (int i = 0; i < s_.size(); ++i) {
      const State& flow = at(i);
      const int64_t sent = turns_.sent(i), arrived = turns_.arrived(i);
      taken.push_back({sent - marked, arrived - marked,
                       flow.runs ? flow.left - flow.rate * (now_ - flow.since) : -1,
                       now_ - flow.last_sent});
      furthest = std::max(furthest, sent);
      in_flight = std::max(in_flight, sent - arrived);
      all_started = all_started && sent > 0;
    }
    const bool same =
        next_turn && all_started && taken.size() == snapshot_.size() &&
        std::abs(period - period_) <= kSameState * period &&
        std::equal(taken.begin(), taken.end(), snapshot_.begin(),
                   [&](const Snapshot& a, const Snapshot& b) {
                     return a.sent == b.sent && a.arrived == b.arrived &&
                            std::abs(a.left - b.left) <= kSameState * std::max(a.left, 1.0) &&
                            std::abs(a.since_sent - b.since_sent) <= kSameState * period;
                   });
    repeated_ = same ? repeated_ + 1 : 0;
    snapshot_.swap(taken);
    period_ = period;
    const int64_t skipped = turns - furthest - 2;
    if (repeated_ < in_flight + 2 || skipped < 1) return;
    const double ahead = period * static_cast<double>(skipped);
    turns_.skip(skipped);
    for (State& flow : flows_) {
      flow.since += ahead;
      flow.last_sent += ahead;
    }
    for (Event& event : events_) event.time += ahead;
    std::make_heap(events_.begin(), events_.end(), std::greater<>());
    now_ += ahead;
    work_.skipped += skipped * s_.size();
    reference_ = -1;
  }

  const FlowSystem& s_;
  MaxMinShares shares_;
  Turns turns_;
  FlowWork& work_;
  std::vector<State> flows_;
  std::vector<Event> events_;  ///< A heap, the earliest first.
  std::vector<int> queue_;
  double now_ = 0;

  int reference_ = -1;
  int64_t seen_turns_ = 0, repeated_ = 0;
  double seen_at_ = 0, period_ = 0;
  std::vector<Snapshot> snapshot_;
};

}  // namespace

SentTimes run_events(const FlowSystem& system, bool skip, FlowWork& work) {
  work.flows += system.size();
  return EventRun(system, skip, work).run();
}

}  // namespace orrery::fabric
