#pragma once

#include <cstdint>
#include <vector>

#include "orrery/base/units.h"

namespace orrery {

/// Counts of durations in bins of a power of two's 128th part, so that a quantile is known to
/// 0.4 %.
class DurationHistogram {
 public:
  void add(Seconds duration, int64_t count);
  void add(const DurationHistogram& other);
  int64_t count() const { return count_; }
  Seconds mean() const { return Seconds(count_ == 0 ? 0 : sum_ / static_cast<double>(count_)); }
  /// The middle of the bin where the share `q` of all is reached.
  Seconds quantile(double q) const;

 private:
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
  double sum_ = 0;
};

/// The engines' state over a stretch of time, averaged over it.
struct SeriesPoint {
  Seconds begin;
  Seconds length;
  double decodes = 0;         ///< Sequences decoding.
  double prefill_tokens = 0;  ///< A second.
  double used_blocks = 0;
  double waiting = 0;
};

/// Something that happened, for a picture of the run.
struct ServingEvent {
  enum class Kind : uint8_t { kStep, kTransfer };
  Kind kind = Kind::kStep;
  uint16_t replica = 0;
  Seconds begin;
  Seconds end;
  int32_t decodes = 0;
  int32_t prefill_tokens = 0;
};

/// Takes down what an engine does.
class StepLog {
 public:
  /// At most so many points of its course and events, the first ones. One that is not `kept` takes
  /// nothing down but the number of steps.
  StepLog(size_t series_points, size_t events, bool kept = true)
      : most_points_(series_points), most_events_(events), kept_(kept) {}

  bool kept() const { return kept_; }

  /// A step with the blocks in use, of all those there are, and the requests that wait.
  void step(const ServingEvent& step, int64_t used_blocks, int64_t blocks, size_t waiting);
  void between_tokens(Seconds interval, int64_t count) {
    if (kept_) intervals_.add(interval, count);
  }
  void transfer(const ServingEvent& event) {
    if (events_.size() < most_events_) events_.push_back(event);
  }
  /// Adds what another engine did at the same time.
  void add(StepLog other);

  const DurationHistogram& intervals() const { return intervals_; }
  std::vector<SeriesPoint> series() const;
  /// In the order they began.
  const std::vector<ServingEvent>& events() const { return events_; }
  int64_t steps() const { return steps_; }
  /// Σ of the steps' lengths.
  Seconds busy() const { return busy_; }
  /// ∫ share of the blocks in use, over the steps' time.
  double full_seconds() const { return full_seconds_; }

 private:
  struct Bin {
    double decodes = 0;
    double prefill_tokens = 0;
    double used = 0;
    double waiting = 0;

    void add(const Bin& other);
  };
  void add_to_series(const ServingEvent& step, int64_t used_blocks, size_t waiting);
  void widen();

  size_t most_points_;
  size_t most_events_;
  bool kept_;
  DurationHistogram intervals_;
  std::vector<Bin> bins_;
  double bin_width_ = 1e-3;
  std::vector<ServingEvent> events_;
  int64_t steps_ = 0;
  Seconds busy_;
  double full_seconds_ = 0;
};

}  // namespace orrery
