#include "orrery/serving/step_log.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace orrery {
namespace {

// 2^-40 s, below a picosecond, is the first bin's end; 2^24 s, half a year, the last one's.
constexpr uint64_t kSteps = 128;
constexpr uint64_t kLowest = uint64_t{1023 - 40} * kSteps;
constexpr uint64_t kHighest = uint64_t{1023 + 24} * kSteps;

/// A double's exponent and the first seven bits behind its point.
uint64_t bin_of(double value) {
  if (!(value > 0)) return 0;
  const uint64_t index = std::bit_cast<uint64_t>(value) >> 45;
  return std::clamp(index, kLowest, kHighest) - kLowest;
}

double middle_of(uint64_t bin) {
  if (bin == 0) return 0;
  const double low = std::bit_cast<double>((bin + kLowest) << 45);
  const double high = std::bit_cast<double>((bin + kLowest + 1) << 45);
  return (low + high) / 2;
}

}  // namespace

void DurationHistogram::add(Seconds duration, int64_t count) {
  const uint64_t bin = bin_of(duration.value);
  if (bin >= bins_.size()) bins_.resize(bin + 1);
  bins_[bin] += count;
  count_ += count;
  sum_ += duration.value * static_cast<double>(count);
}

Seconds DurationHistogram::quantile(double q) const {
  const double wanted = q * static_cast<double>(count_);
  double sum = 0;
  for (uint64_t bin = 0; bin < bins_.size(); ++bin) {
    sum += static_cast<double>(bins_[bin]);
    if (bins_[bin] > 0 && sum >= wanted) return Seconds(middle_of(bin));
  }
  return {};
}

void DurationHistogram::add(const DurationHistogram& other) {
  bins_.resize(std::max(bins_.size(), other.bins_.size()));
  for (size_t i = 0; i < other.bins_.size(); ++i) bins_[i] += other.bins_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

void StepLog::Bin::add(const Bin& other) {
  decodes += other.decodes;
  prefill_tokens += other.prefill_tokens;
  used += other.used;
  waiting += other.waiting;
}

void StepLog::step(const ServingEvent& step, int64_t used_blocks, int64_t blocks, size_t waiting) {
  ++steps_;
  if (!kept_) return;
  const Seconds length = step.end - step.begin;
  busy_ += length;
  full_seconds_ += static_cast<double>(used_blocks) / static_cast<double>(blocks) * length.value;
  if (events_.size() < most_events_) events_.push_back(step);
  if (most_points_ > 0) add_to_series(step, used_blocks, waiting);
}

void StepLog::widen() {
  bin_width_ *= 2;
  for (size_t i = 0; i < bins_.size(); ++i) {
    const Bin bin = bins_[i];
    if (i % 2 == 0)
      bins_[i / 2] = bin;
    else
      bins_[i / 2].add(bin);
  }
  bins_.resize((bins_.size() + 1) / 2);
}

void StepLog::add_to_series(const ServingEvent& step, int64_t used_blocks, size_t waiting) {
  while (step.end.value >= bin_width_ * static_cast<double>(most_points_)) widen();
  const double length = (step.end - step.begin).value;
  const auto last = static_cast<size_t>(step.end.value / bin_width_);
  if (last >= bins_.size()) bins_.resize(last + 1);
  double from = step.begin.value;
  for (auto index = static_cast<size_t>(from / bin_width_); index <= last; ++index) {
    const double to = std::min(step.end.value, bin_width_ * static_cast<double>(index + 1));
    const double time = std::max(0.0, to - from);
    bins_[index].add({step.decodes * time, length > 0 ? step.prefill_tokens * time / length : 0,
                      static_cast<double>(used_blocks) * time,
                      static_cast<double>(waiting) * time});
    from = to;
  }
}

void StepLog::add(StepLog other) {
  intervals_.add(other.intervals_);
  while (bin_width_ < other.bin_width_) widen();
  while (other.bin_width_ < bin_width_) other.widen();
  bins_.resize(std::max(bins_.size(), other.bins_.size()));
  for (size_t i = 0; i < other.bins_.size(); ++i) bins_[i].add(other.bins_[i]);
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
  std::stable_sort(events_.begin(), events_.end(),
                   [](const ServingEvent& a, const ServingEvent& b) { return a.begin < b.begin; });
  events_.resize(std::min(events_.size(), most_events_));
  steps_ += other.steps_;
  busy_ += other.busy_;
  full_seconds_ += other.full_seconds_;
}

std::vector<SeriesPoint> StepLog::series() const {
  std::vector<SeriesPoint> points;
  for (size_t i = 0; i < bins_.size(); ++i) {
    SeriesPoint point;
    point.begin = Seconds(static_cast<double>(i) * bin_width_);
    point.length = Seconds(bin_width_);
    point.decodes = bins_[i].decodes / bin_width_;
    point.prefill_tokens = bins_[i].prefill_tokens / bin_width_;
    point.used_blocks = bins_[i].used / bin_width_;
    point.waiting = bins_[i].waiting / bin_width_;
    points.push_back(point);
  }
  return points;
}

}  // namespace orrery
