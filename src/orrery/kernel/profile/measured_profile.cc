#include "orrery/kernel/profile/measured_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/kernel/measured_table_check.h"
#include "orrery/learn/split.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

/// k, ε, the power 3 and the weight of the loss to whole waves were chosen by leaving out
/// rows of aiconfigurator's GEMM and attention tables of an A100 and an H100.
constexpr float kNearestSquared = 0.01f;
constexpr float kWaveLossWeight = 2;

/// A repeat of a measurement on the same card differs by 2.4 % in the median
/// (data/measured, kernels.csv: three passes).
constexpr double kRepeatReach = 0.03;
constexpr double kLeastRepeatReach = 0.01;

/// Kinds of fewer rows take the interval of all kinds together; a table of fewer this one.
constexpr size_t kFewestForReach = 20;
constexpr double kUnknownReach = 0.5;

/// Utilisation along one size counts for at most so much more or less than along others.
constexpr float kLeastScale = 0.2f, kMostScale = 5;
constexpr size_t kFewestForScale = 20;
constexpr size_t kMostForScale = 3000;
constexpr size_t kScaleNeighbours = 12;

constexpr double kOverheadQuantile = 0.02;

/// Clocks of repeats vary by so much; where they lie further apart somebody set them.
constexpr double kSameClock = 0.9;

/// Evenly spread numbers below `count`, at most about `most` of them.
size_t step(size_t count, size_t most) { return std::max<size_t>(1, (count + most - 1) / most); }

/// That nine in ten of n + 1 exchangeable values do not exceed.
double nine_in_ten(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  return values[static_cast<size_t>(std::clamp(std::ceil(0.9 * (n + 1)) - 1, 0.0, n - 1))];
}

/// Of repeats of a kernel at several clocks those at the highest stay: from there times are
/// scaled to any other.
void leave_low_clocks(const MeasuredTable& table, std::vector<size_t>& repeats) {
  double highest = 0;
  for (const size_t i : repeats) highest = std::max(highest, table.rows[i].sm_hz);
  std::erase_if(repeats, [&](size_t i) {
    return table.rows[i].sm_hz > 0 && table.rows[i].sm_hz < kSameClock * highest;
  });
}

}  // namespace

MeasuredProfile::MeasuredProfile(const Device& device, const std::string& file)
    : physical_(device), file_(file) {
  const MeasuredTable all = read_measured_table(std::filesystem::path(file));
  const MeasuredTable table = rows_on_device(all, device.name);
  if (table.rows.empty()) {
    std::string devices;
    for (const std::string& name : all.devices)
      devices += (devices.empty() ? "" : ", ") + catalogue_name(name);
    throw_input(file, fmt::format("no row was measured on {} but on {}", device.name, devices));
  }
  const auto problems = check_measured_table(table, physical_.roofline());
  refuse_on_problems(table, problems);
  for (const TableProblem& problem : problems)
    doubts_.push_back(fmt::format("{}:{}: {}", file, problem.line, problem.reason));
  add_rows(table);
  for (Kind& kind : kinds_) {
    std::vector<double> beyond;
    for (const Entry& entry : kind.entries)
      beyond.push_back(std::max(0.0, entry.seconds - entry.work));
    kind.overhead = quantile(std::move(beyond), kOverheadQuantile);
    index(kind);
    if (kind.entries.size() < kFewestForScale) continue;
    learn_scale(kind);
    index(kind);
  }
  leave_one_out();
}

uint64_t MeasuredProfile::key(uint64_t hash, OperatingPoint::Regime regime) {
  return mix_bits(hash + static_cast<uint64_t>(regime));
}

MeasuredProfile::Coordinates MeasuredProfile::coordinates(const KernelPlace& place,
                                                          const PhysicalTime& physical) {
  Coordinates at{};
  std::copy(place.lg.begin(), place.lg.begin() + place.count, at.begin());
  at[place.count] = kWaveLossWeight * physical.wave_loss;
  return at;
}

void MeasuredProfile::add_rows(const MeasuredTable& table) {
  rows_ = table.rows.size();
  struct Repeats {
    KernelPlace place;
    std::vector<size_t> rows;
  };
  std::vector<Repeats> kernels;
  std::unordered_map<uint64_t, size_t> number_of;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const MeasuredRow& row = table.rows[i];
    const KernelPlace place = place_of(row.kernel);
    const auto [at, added] = number_of.emplace(key(place.identity, row.regime), kernels.size());
    if (added) kernels.push_back({place, {}});
    kernels[at->second].rows.push_back(i);
    has_regime_[static_cast<size_t>(row.regime)] = true;
    has_clocks_ = has_clocks_ || row.sm_hz > 0;
    cold_ = cold_ && table.sources[row.source] == "orrery";
  }
  kernels_ = kernels.size();
  for (Repeats& repeats : kernels) {
    leave_low_clocks(table, repeats.rows);
    const MeasuredRow& first = table.rows[repeats.rows.front()];
    std::vector<double> seconds, clocks, watts;
    for (size_t i : repeats.rows) {
      seconds.push_back(table.rows[i].seconds);
      if (table.rows[i].sm_hz > 0) clocks.push_back(table.rows[i].sm_hz);
      if (table.rows[i].watts > 0) watts.push_back(table.rows[i].watts);
    }
    Entry entry;
    entry.seconds = median(seconds);
    if (!clocks.empty()) entry.clock = median(clocks);
    if (!watts.empty()) entry.watts = median(watts);
    double farthest = seconds.size() == 1 ? kRepeatReach : kLeastRepeatReach;
    for (double s : seconds) farthest = std::max(farthest, std::abs(std::log(s / entry.seconds)));
    entry.reach = static_cast<float>(farthest);
    const PhysicalTime boost = physical_.of(first.kernel, Hertz(0));
    const PhysicalTime own =
        entry.clock > 0 ? physical_.of(first.kernel, Hertz(entry.clock)) : boost;
    entry.work = boost.seconds - boost.floor_seconds;
    entry.at = coordinates(repeats.place, boost);
    entry.ln_at_boost = static_cast<float>(std::log(entry.seconds / boost.seconds));
    entry.ln_at_own_clock = static_cast<float>(std::log(entry.seconds / own.seconds));

    const auto [at, added] = kind_of_.emplace(key(repeats.place.kind, first.regime),
                                              static_cast<uint32_t>(kinds_.size()));
    if (added) {
      kinds_.emplace_back();
      kinds_.back().dimensions = size_t{repeats.place.count} + 1;
      kinds_.back().scale.fill(1);
    }
    Kind& kind = kinds_[at->second];
    measured_[key(repeats.place.identity, first.regime)] = {
        at->second, static_cast<uint32_t>(kind.entries.size())};
    kind.entries.push_back(entry);
  }
}

void MeasuredProfile::index(Kind& kind) {
  std::vector<float> points;
  points.reserve(kind.entries.size() * kind.dimensions);
  for (const Entry& entry : kind.entries)
    for (size_t c = 0; c < kind.dimensions; ++c) points.push_back(entry.at[c] * kind.scale[c]);
  kind.nearest = NearestPoints(points, kind.dimensions);
}

/// How fast utilisation changes along each coordinate: over pairs of neighbours, the change
/// of its logarithm and the distance, both weighted by how much of the distance lies along it.
void MeasuredProfile::learn_scale(Kind& kind) {
  std::array<double, kCoordinates> change{}, distance{};
  std::array<NearestPoints::Found, kScaleNeighbours> found;
  const size_t every = step(kind.entries.size(), kMostForScale);
  for (size_t i = 0; i < kind.entries.size(); i += every) {
    const Entry& entry = kind.entries[i];
    const size_t count = kind.nearest.find(std::span(entry.at).first(kind.dimensions), found,
                                           static_cast<uint32_t>(i));
    for (size_t f = 0; f < count; ++f) {
      const Entry& other = kind.entries[found[f].point];
      const double squared = found[f].squared_distance;
      if (squared <= 0) continue;
      const double changed =
          std::min(0.5, std::abs(static_cast<double>(other.ln_at_boost - entry.ln_at_boost)));
      for (size_t c = 0; c < kind.dimensions; ++c) {
        const double along = other.at[c] - entry.at[c];
        const double share = along * along / squared;
        change[c] += share * share * changed;
        distance[c] += share * share * std::sqrt(squared);
      }
    }
  }
  double sum = 0;
  int varying = 0;
  for (size_t c = 0; c < kind.dimensions; ++c) {
    if (distance[c] <= 0) continue;
    sum += change[c] / distance[c];
    ++varying;
  }
  if (!(sum > 0)) return;
  for (size_t c = 0; c < kind.dimensions; ++c)
    if (distance[c] > 0)
      kind.scale[c] = std::clamp(static_cast<float>(change[c] / distance[c] * varying / sum),
                                 kLeastScale, kMostScale);
}

std::optional<MeasuredProfile::Weighted> MeasuredProfile::weigh(const Kind& kind,
                                                                const Coordinates& at,
                                                                uint32_t left_out) {
  Coordinates query{};
  for (size_t c = 0; c < kind.dimensions; ++c) query[c] = at[c] * kind.scale[c];
  std::array<NearestPoints::Found, kNeighbours> found;
  const size_t count = kind.nearest.find(std::span(query).first(kind.dimensions), found, left_out);
  if (count == 0) return std::nullopt;
  Weighted sum;
  double weights = 0, with_watts = 0;
  for (size_t f = 0; f < count; ++f) {
    const Entry& entry = kind.entries[found[f].point];
    const double near = found[f].squared_distance + kNearestSquared;
    const double weight = 1 / (near * std::sqrt(near));
    weights += weight;
    sum.ln_at_boost += weight * entry.ln_at_boost;
    sum.ln_at_own_clock += weight * entry.ln_at_own_clock;
    if (entry.watts > 0) {
      with_watts += weight;
      sum.watts += weight * entry.watts;
    }
  }
  sum.ln_at_boost /= weights;
  sum.ln_at_own_clock /= weights;
  if (with_watts > 0) sum.watts /= with_watts;
  sum.distance = std::sqrt(static_cast<double>(found[0].squared_distance));
  return sum;
}

void MeasuredProfile::leave_one_out() {
  std::vector<double> of_all;
  std::vector<std::vector<double>> of_kind(kinds_.size());
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const Kind& kind = kinds_[k];
    const size_t every = step(kind.entries.size(), kMostLeftOut);
    for (size_t i = 0; i < kind.entries.size(); i += every) {
      const Entry& entry = kind.entries[i];
      const auto others = weigh(kind, entry.at, static_cast<uint32_t>(i));
      if (!others) continue;
      const double error = others->ln_at_boost - static_cast<double>(entry.ln_at_boost);
      of_kind[k].push_back(std::abs(error) / (1 + others->distance));
      left_out_.push_back({entry.seconds, entry.seconds * std::exp(error), 1 + others->distance,
                           static_cast<uint32_t>(k)});
    }
    of_all.insert(of_all.end(), of_kind[k].begin(), of_kind[k].end());
  }
  const double reach =
      of_all.size() < kFewestForReach ? kUnknownReach : nine_in_ten(std::move(of_all));
  for (size_t k = 0; k < kinds_.size(); ++k)
    kinds_[k].reach =
        of_kind[k].size() < kFewestForReach ? reach : nine_in_ten(std::move(of_kind[k]));
  for (LeftOut& l : left_out_) l.reach *= kinds_[l.kind].reach;
}

std::optional<MeasuredProfile::Reading> MeasuredProfile::find(const Kernel& kernel,
                                                              const OperatingPoint& point) const {
  const KernelPlace place = place_of(kernel);
  using Regime = OperatingPoint::Regime;
  const std::array regimes = {point.regime,
                              point.regime == Regime::kBurst ? Regime::kSustained : Regime::kBurst};
  Reading reading;
  for (Regime regime : regimes) {
    const auto at = measured_.find(key(place.identity, regime));
    if (at == measured_.end()) continue;
    const Entry& entry = kinds_[at->second.kind].entries[at->second.entry];
    reading.seconds = entry.seconds;
    if (point.clock.value > 0)
      reading.seconds = physical_.of(kernel, point.clock).seconds *
                        std::exp(static_cast<double>(entry.ln_at_own_clock));
    reading.watts = entry.watts;
    reading.reach = entry.reach;
    reading.overhead = kinds_[at->second.kind].overhead;
    reading.measured = true;
    return reading;
  }
  for (Regime regime : regimes) {
    const auto at = kind_of_.find(key(place.kind, regime));
    if (at == kind_of_.end()) continue;
    const Kind& kind = kinds_[at->second];
    const PhysicalTime physical = physical_.of(kernel, Hertz(0));
    const auto near = weigh(kind, coordinates(place, physical));
    if (!near) continue;
    reading.seconds = point.clock.value > 0 ? physical_.of(kernel, point.clock).seconds *
                                                  std::exp(near->ln_at_own_clock)
                                            : physical.seconds * std::exp(near->ln_at_boost);
    reading.watts = near->watts;
    reading.distance = near->distance;
    reading.overhead = kind.overhead;
    reading.reach = kind.reach * (1 + near->distance);
    return reading;
  }
  return std::nullopt;
}

std::string MeasuredProfile::accuracy() const {
  if (left_out_.empty()) return {};
  std::vector<double> errors;
  errors.reserve(left_out_.size());
  for (const LeftOut& l : left_out_) errors.push_back(std::abs(l.predicted / l.measured - 1));
  return fmt::format("median {:.1f} %, nine in ten within {:.1f} %", 100 * quantile(errors, 0.5),
                     100 * quantile(errors, 0.9));
}

}  // namespace orrery
