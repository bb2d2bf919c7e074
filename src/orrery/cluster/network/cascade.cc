#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "orrery/base/error.h"
#include "orrery/cluster/network/flow_system.h"

namespace orrery::fabric {
namespace {

/// Values that differ by less, relatively, lie on one line.
constexpr double kSameValue = 1e-12;

/// Slopes that differ by less, relatively, are one: they come from differences of values.
constexpr double kSameSlope = 1e-10;

/// Bends that are walked, for each flow and at least, before going turn by turn is cheaper.
constexpr int64_t kBendsPerFlow = 64, kBendsAtLeast = 1000000;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// x_i(k) of every flow, as a line from some turn on.
class Cascade {
 public:
  Cascade(const FlowSystem& system, FlowWork& work)
      : s_(system), work_(work), duration_(system.bytes.size()), own_wait_(system.bytes.size()) {
    for (int i = 0; i < s_.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      duration_[at] = s_.bytes[at] == 0 ? 0 : s_.bytes[at] / s_.rate_alone(i);
      for (auto w = static_cast<size_t>(s_.first_wait[at]);
           w < static_cast<size_t>(s_.first_wait[at + 1]); ++w)
        if (s_.wait_on[w] == i) own_wait_[at] = s_.latency[at];
    }
    order();
  }

  SentTimes run(int64_t most_bends) {
    SentTimes sent;
    if (walk_bends(most_bends, sent)) return sent;
    double turns = 0;
    for (const int64_t repeat : s_.repeat) turns += static_cast<double>(repeat);
    check_work(turns);
    work_.events += static_cast<int64_t>(turns);
    if (find_rings()) return walk_rings();
    return walk_turns();
  }

 private:
  struct Line {
    int64_t from = 0;
    double value = 0, slope = 0;
    double at(int64_t turn) const { return value + static_cast<double>(turn - from) * slope; }
  };
  struct Visit {
    int64_t turn = 0;
    int rank = 0;  ///< In `order_`, so that what a turn waits for is known before it.
    bool operator>(const Visit& o) const { return turn != o.turn ? turn > o.turn : rank > o.rank; }
  };

  /// Flows after those they wait for in the same turn; and who waits for whom.
  void order() {
    const size_t n = s_.bytes.size();
    std::vector<int> open(n, 0);
    first_dependent_.assign(n + 1, 0);
    for (const int on : s_.wait_on) ++first_dependent_[static_cast<size_t>(on) + 1];
    for (size_t i = 1; i <= n; ++i) first_dependent_[i] += first_dependent_[i - 1];
    dependent_.resize(s_.wait_on.size());
    std::vector<int> next(first_dependent_.begin(), first_dependent_.end() - 1);
    for (size_t i = 0; i < n; ++i)
      for (auto w = static_cast<size_t>(s_.first_wait[i]);
           w < static_cast<size_t>(s_.first_wait[i + 1]); ++w) {
        if (s_.wait[w] == Wait::kSameTurn) ++open[i];
        dependent_[static_cast<size_t>(next[static_cast<size_t>(s_.wait_on[w])]++)] = {
            static_cast<int>(i), s_.wait[w] == Wait::kSameTurn ? 0 : 1};
      }
    for (size_t i = 0; i < n; ++i)
      if (open[i] == 0) order_.push_back(static_cast<int>(i));
    for (size_t q = 0; q < order_.size(); ++q)
      for (const Dependent& d : dependents(order_[q]))
        if (d.later == 0 && --open[static_cast<size_t>(d.flow)] == 0) order_.push_back(d.flow);
    if (order_.size() != n) throw_internal("transfers of a phase wait for each other in a circle");
    rank_.resize(n);
    for (size_t q = 0; q < n; ++q) rank_[static_cast<size_t>(order_[q])] = static_cast<int>(q);
  }

  struct Dependent {
    int flow = 0;
    int later = 0;  ///< Turns after the one waited for.
  };
  std::span<const Dependent> dependents(int flow) const {
    const auto at = static_cast<size_t>(flow);
    return std::span(dependent_)
        .subspan(static_cast<size_t>(first_dependent_[at]),
                 static_cast<size_t>(first_dependent_[at + 1] - first_dependent_[at]));
  }

  double value(int flow, int64_t turn) const {
    const auto at = static_cast<size_t>(flow);
    return turn >= line_[at].from ? line_[at].at(turn) : before_[at].at(turn);
  }

  /// When everything from elsewhere that a turn waits for has arrived.
  double arrived(size_t flow, int64_t turn) const {
    double latest = s_.start[flow];
    for (auto w = static_cast<size_t>(s_.first_wait[flow]);
         w < static_cast<size_t>(s_.first_wait[flow + 1]); ++w) {
      const int64_t waited = turn - (s_.wait[w] == Wait::kSameTurn ? 0 : 1);
      const int on = s_.wait_on[w];
      if (waited < 0 || on == static_cast<int>(flow)) continue;
      latest = std::max(latest, value(on, waited) + s_.latency[static_cast<size_t>(on)]);
    }
    return latest;
  }

  static bool near(double a, double b) { return std::abs(a - b) <= kSameValue * std::abs(b); }
  static bool alike(double a, double b) { return std::abs(a - b) <= kSameSlope * std::abs(b); }

  void visit_later(int flow, int64_t turn) {
    if (turn >= s_.repeat[static_cast<size_t>(flow)]) return;
    visits_.push_back({turn, rank_[static_cast<size_t>(flow)]});
    std::push_heap(visits_.begin(), visits_.end(), std::greater<>());
  }

  /// What a flow follows at a turn: whoever arrives last, or its own turn before.
  struct Followed {
    double value = 0, slope = 0;
  };
  Followed followed(size_t flow, int64_t turn, double own_before) const {
    Followed best{own_before + own_wait_[flow], duration_[flow] + own_wait_[flow]};
    for (auto w = static_cast<size_t>(s_.first_wait[flow]);
         w < static_cast<size_t>(s_.first_wait[flow + 1]); ++w) {
      const auto on = static_cast<size_t>(s_.wait_on[w]);
      if (on == flow) continue;
      const int64_t waited = turn - (s_.wait[w] == Wait::kSameTurn ? 0 : 1);
      const double arrival = value(static_cast<int>(on), waited) + s_.latency[on];
      const bool level = near(arrival, best.value);
      if ((!level && arrival > best.value) || (level && line_[on].slope > best.slope))
        best = {arrival, line_[on].slope};
    }
    best.value += duration_[flow];
    return best;
  }

  /// The first turn after `turn` + 1 at which the flow leaves its line, as all lines stand.
  int64_t next_bend(size_t flow, int64_t turn) const {
    const Line& line = line_[flow];
    const Followed then = followed(flow, turn + 2, line.at(turn + 1));
    if (!near(then.value, line.at(turn + 2)) || !alike(then.slope, line.slope)) return turn + 2;
    int64_t first = std::numeric_limits<int64_t>::max();
    for (auto w = static_cast<size_t>(s_.first_wait[flow]);
         w < static_cast<size_t>(s_.first_wait[flow + 1]); ++w) {
      const auto on = static_cast<size_t>(s_.wait_on[w]);
      const int64_t waited = turn + 2 - (s_.wait[w] == Wait::kSameTurn ? 0 : 1);
      const double gain = line_[on].slope - line.slope;
      if (on == flow || gain <= 0 || alike(line_[on].slope, line.slope)) continue;
      const double gap = line.at(turn + 2) -
                         (value(static_cast<int>(on), waited) + s_.latency[on] + duration_[flow]);
      const double turns = std::max(0.0, gap) / gain;
      if (turns < 1e15) first = std::min(first, turn + 2 + static_cast<int64_t>(turns));
    }
    return first;
  }

  bool walk_bends(int64_t most_bends, SentTimes& sent) {
    const size_t n = s_.bytes.size();
    line_.assign(n, {});
    before_.assign(n, {});
    for (const int flow : order_) {
      const auto at = static_cast<size_t>(flow);
      line_[at] = {0, arrived(at, 0) + duration_[at], duration_[at] + own_wait_[at]};
      before_[at] = line_[at];
    }
    for (const int flow : order_) visit_later(flow, 1);
    for (int64_t walked = 0; !visits_.empty(); ++walked) {
      if (walked == most_bends) return false;
      const Visit visit = visits_.front();
      while (!visits_.empty() && visits_.front().turn == visit.turn &&
             visits_.front().rank == visit.rank) {
        std::pop_heap(visits_.begin(), visits_.end(), std::greater<>());
        visits_.pop_back();
      }
      bend(order_[static_cast<size_t>(visit.rank)], visit.turn);
      ++work_.events;
    }
    for (size_t i = 0; i < n; ++i) {
      sent.push_back(line_[i].at(s_.repeat[i] - 1));
      work_.skipped += s_.repeat[i];
    }
    return true;
  }

  void bend(int flow, int64_t turn) {
    const auto at = static_cast<size_t>(flow);
    const double x =
        duration_[at] + std::max(value(flow, turn - 1) + own_wait_[at], arrived(at, turn));
    const Followed next = followed(at, turn + 1, x);
    const bool stays = near(x, line_[at].at(turn)) && near(next.value, line_[at].at(turn + 1));
    if (!stays) {
      if (line_[at].from < turn) before_[at] = line_[at];
      const double slope = next.value - x;
      line_[at] = {turn, x, alike(slope, next.slope) ? next.slope : slope};
      for (const Dependent& d : dependents(flow)) visit_later(d.flow, turn + d.later);
    }
    const int64_t later = next_bend(at, turn);
    if (later < s_.repeat[at]) visit_later(flow, later);
  }

  SentTimes walk_turns() const {
    const size_t n = s_.bytes.size();
    std::vector<double> now(n, kNever), then(n, kNever);
    const int64_t turns = *std::max_element(s_.repeat.begin(), s_.repeat.end());
    for (int64_t k = 0; k < turns; ++k) {
      now.swap(then);
      for (const int flow : order_) {
        const auto at = static_cast<size_t>(flow);
        double ready = std::max(then[at], s_.start[at]);
        for (auto w = static_cast<size_t>(s_.first_wait[at]);
             w < static_cast<size_t>(s_.first_wait[at + 1]); ++w) {
          const auto on = static_cast<size_t>(s_.wait_on[w]);
          const double other = s_.wait[w] == Wait::kSameTurn ? now[on] : then[on];
          ready = std::max(ready, other + s_.latency[on]);
        }
        now[at] = k < s_.repeat[at] ? ready + duration_[at] : then[at];
      }
    }
    return now;
  }

  /// Whether the flows are rings, each waiting for the turn before of one other; lays them one
  /// after another in `ring_` so that a turn is a pass over neighbours.
  bool find_rings() {
    const size_t n = s_.bytes.size();
    std::vector<char> followed(n, 0);
    for (size_t i = 0; i < n; ++i) {
      if (s_.first_wait[i + 1] != static_cast<int>(i) + 1 || s_.wait[i] != Wait::kPreviousTurn ||
          s_.repeat[i] != s_.repeat[0] || followed[static_cast<size_t>(s_.wait_on[i])] != 0)
        return false;
      followed[static_cast<size_t>(s_.wait_on[i])] = 1;
    }
    std::vector<char> laid(n, 0);
    for (size_t i = 0; i < n; ++i) {
      if (laid[i] != 0) continue;
      ring_start_.push_back(ring_.size());
      for (size_t at = i; laid[at] == 0; at = static_cast<size_t>(s_.wait_on[at])) {
        laid[at] = 1;
        ring_.push_back(at);
      }
    }
    ring_start_.push_back(n);
    return true;
  }

  SentTimes walk_rings() const {
    const size_t n = ring_.size();
    std::vector<double> duration(n), lag(n), now(n), then(n);
    for (size_t j = 0; j < n; ++j) {
      const size_t flow = ring_[j];
      duration[j] = duration_[flow];
      lag[j] = s_.latency[static_cast<size_t>(s_.wait_on[flow])];
      now[j] = s_.start[flow] + duration_[flow];
    }
    for (int64_t k = 1; k < s_.repeat[0]; ++k) {
      now.swap(then);
      for (size_t r = 0; r + 1 < ring_start_.size(); ++r) {
        const size_t first = ring_start_[r], last = ring_start_[r + 1] - 1;
        pass(duration.data(), lag.data(), then.data(), now.data(), first, last);
        now[last] = duration[last] + std::max(then[last], then[first] + lag[last]);
      }
    }
    SentTimes sent(n);
    for (size_t j = 0; j < n; ++j) sent[ring_[j]] = now[j];
    return sent;
  }

  static void pass(const double* __restrict duration, const double* __restrict lag,
                   const double* __restrict then, double* __restrict now, size_t first,
                   size_t last) {
    for (size_t j = first; j < last; ++j) {
      const double arrival = then[j + 1] + lag[j];
      now[j] = duration[j] + (arrival > then[j] ? arrival : then[j]);
    }
  }

  const FlowSystem& s_;
  FlowWork& work_;
  std::vector<double> duration_;
  std::vector<double> own_wait_;  ///< Of a class of flows that wait for each other: the latency.
  std::vector<int> order_, rank_, first_dependent_;
  std::vector<Dependent> dependent_;
  std::vector<Line> line_, before_;
  std::vector<Visit> visits_;
  std::vector<size_t> ring_, ring_start_;
};

}  // namespace

SentTimes run_cascade(const FlowSystem& system, FlowWork& work, int64_t most_bends) {
  work.flows += system.size();
  if (system.size() == 0) return {};
  if (most_bends < 0) most_bends = kBendsPerFlow * system.size() + kBendsAtLeast;
  return Cascade(system, work).run(most_bends);
}

}  // namespace orrery::fabric
