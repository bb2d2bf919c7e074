#include "orrery/kernel/power_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/learn/fit_trees.h"
#include "orrery/learn/ridge.h"

namespace orrery {
namespace {

/// What pulls a coefficient that rows say nothing of: matrix units that draw the limit by
/// themselves, memory and vector units about half of it, idle power of an eighth.
struct FittedCoefficient {
  double PowerCoefficients::*member;
  double prior;
};
constexpr std::array<FittedCoefficient, 10> kFitted = {{
    {&PowerCoefficients::idle, 0.125},
    {&PowerCoefficients::busy, 0.4},
    {&PowerCoefficients::matrix_byte, 1},
    {&PowerCoefficients::matrix_half, 1},
    {&PowerCoefficients::matrix_single, 1},
    {&PowerCoefficients::vector, 0.5},
    {&PowerCoefficients::memory, 0.4},
    {&PowerCoefficients::burst, 1.5},
    {&PowerCoefficients::still, 1},
    {&PowerCoefficients::stir, 0.05},
}};
using Logarithms = std::array<double, kFitted.size()>;

constexpr double kPriorDeviation = 0.5;
constexpr double kSlowdownScale = 0.03;
constexpr double kClockScale = 80e6;
constexpr double kPowerScale = 0.12;
constexpr int kMostRounds = 60;
constexpr double kDifference = 0.01;
/// Slowdowns smaller than this say nothing of how warm a fit's times are.
constexpr double kTellingSlowdown = 1.05;

/// One operator in a burst and sustained.
struct Pair {
  const MeasuredRow* burst = nullptr;
  const MeasuredRow* sustained = nullptr;
  TileDescription description;
};

PowerCoefficients coefficients_of(const Logarithms& theta) {
  PowerCoefficients c;
  for (size_t i = 0; i < kFitted.size(); ++i) c.*kFitted[i].member = std::exp(theta[i]);
  return c;
}

std::vector<Pair> pairs_of(const Device& device, std::span<const MeasuredRow> rows) {
  const TileGpu gpu(device);
  std::vector<Pair> pairs;
  for (size_t i = 1; i < rows.size(); ++i) {
    const MeasuredRow &burst = rows[i - 1], &sustained = rows[i];
    if (burst.regime != OperatingPoint::Regime::kBurst ||
        sustained.regime != OperatingPoint::Regime::kSustained || burst.key != sustained.key ||
        sustained.watts <= 0 || sustained.sm_hz <= 0)
      continue;
    Pair& pair = pairs.emplace_back();
    pair.burst = &burst;
    pair.sustained = &sustained;
    gpu.describe(burst.kernel, Hertz(0), pair.description);
  }
  return pairs;
}

class PairFit {
 public:
  PairFit(const Device& device, std::vector<Pair> pairs)
      : device_(device), pairs_(std::move(pairs)) {
    for (size_t i = 0; i < kFitted.size(); ++i) prior_[i] = std::log(kFitted[i].prior);
  }

  const Logarithms& prior() const { return prior_; }

  PowerState predict(const PowerModel& model, const Pair& pair) const {
    return model.sustained(
        model.burst_terms(pair.burst->kernel, pair.description, Seconds(pair.burst->seconds)));
  }

  PowerModel model(const PowerCoefficients& coefficients) const {
    auto fit = std::make_shared<PowerFit>();
    fit->device = device_.name;
    fit->coefficients = coefficients;
    return {device_, std::move(fit)};
  }

  std::vector<double> residuals(const Logarithms& theta) const {
    const PowerModel bound = model(coefficients_of(theta));
    std::vector<double> out;
    out.reserve(3 * pairs_.size());
    for (const Pair& pair : pairs_) {
      const PowerState s = predict(bound, pair);
      // A sustained time below the burst's is scatter: no clock rises.
      const double slowdown = std::max(1.0, pair.sustained->seconds / pair.burst->seconds);
      out.push_back(std::log(s.time.value / pair.burst->seconds / slowdown) / kSlowdownScale);
      out.push_back((s.clock.value - pair.sustained->sm_hz) / kClockScale);
      const double watts = std::min(pair.sustained->watts, device_.power_limit.value);
      out.push_back(std::log(s.power.value / watts) / kPowerScale);
    }
    return out;
  }

  double loss(const Logarithms& theta, std::span<const double> residuals) const {
    double sum = 0;
    for (const double r : residuals) sum += std::sqrt(1 + r * r) - 1;
    for (size_t i = 0; i < kFitted.size(); ++i) {
      const double off = (theta[i] - prior_[i]) / kPriorDeviation;
      sum += off * off / 2;
    }
    return sum;
  }

  Logarithms fit() const {
    Logarithms theta = prior_;
    std::vector<double> r = residuals(theta);
    double least = loss(theta, r);
    const std::vector<double> precision(kFitted.size(), 1 / (kPriorDeviation * kPriorDeviation));
    for (int round = 0; round < kMostRounds; ++round) {
      // Ridge regression around θ: its prior has mean 0, so it solves for θ_new − θ₀.
      Matrix slopes(r.size(), kFitted.size());
      for (size_t i = 0; i < kFitted.size(); ++i) {
        Logarithms moved = theta;
        moved[i] += kDifference;
        const std::vector<double> there = residuals(moved);
        for (size_t k = 0; k < r.size(); ++k)
          slopes.row(k)[i] = static_cast<float>((there[k] - r[k]) / kDifference);
      }
      std::vector<double> target(r.size()), weight(r.size());
      for (size_t k = 0; k < r.size(); ++k) {
        target[k] = -r[k];
        for (size_t i = 0; i < kFitted.size(); ++i)
          target[k] += slopes.row(k)[i] * (theta[i] - prior_[i]);
        weight[k] = 1 / std::sqrt(1 + r[k] * r[k]);
      }
      const RidgeFit step = fit_ridge(slopes, target, weight, precision);
      bool better = false;
      for (double length = 1; length > 0.01 && !better; length /= 2) {
        Logarithms tried;
        for (size_t i = 0; i < kFitted.size(); ++i)
          tried[i] = theta[i] + length * (prior_[i] + step.coefficients[i] - theta[i]);
        std::vector<double> there = residuals(tried);
        const double now = loss(tried, there);
        if (now < least) {
          better = least - now > 1e-6 * least;
          theta = tried;
          r = std::move(there);
          least = now;
          break;
        }
      }
      if (!better) break;
    }
    return theta;
  }

  PowerErrors errors(const PowerModel& model) const {
    PowerErrors e;
    e.rows = pairs_.size();
    const auto n = static_cast<double>(pairs_.size());
    for (const Pair& pair : pairs_) {
      const PowerState s = predict(model, pair);
      e.sustained_time += std::abs(s.time.value / pair.sustained->seconds - 1) / n;
      e.sustained_clock += Hertz(std::abs(s.clock.value - pair.sustained->sm_hz) / n);
      e.sustained_power += std::abs(s.power.value / pair.sustained->watts - 1) / n;
    }
    return e;
  }

  /// Least squares of ln(predicted / burst) on ln(sustained / burst), of operators that slow.
  double warmth(const TileFit& times) const {
    double both = 0, square = 0;
    for (const Pair& pair : pairs_) {
      const ClassFit* fit = times.find(pair.description.tile_class);
      const double slowdown = pair.sustained->seconds / pair.burst->seconds;
      if (fit == nullptr || slowdown < kTellingSlowdown) continue;
      const double predicted = estimate_of(*fit, pair.description).seconds.value;
      both += std::log(slowdown) * std::log(predicted / pair.burst->seconds);
      square += std::log(slowdown) * std::log(slowdown);
    }
    return square > 0 ? std::clamp(both / square, 0.0, 1.0) : 0;
  }

 private:
  const Device& device_;
  std::vector<Pair> pairs_;
  Logarithms prior_{};
};

TreeOptions correction_options(size_t rows, int threads) {
  TreeOptions o;
  o.threads = threads;
  o.learning_rate = 0.05;
  o.leaf_regularization = 1;
  o.row_sample = 0.8;
  o.feature_sample = 0.5;
  o.huber_delta = 0.3;
  o.leaf_unit = 1e-4;
  o.depth = rows < 1000 ? 4 : 6;
  o.trees = rows < 1000 ? 200 : 1000;
  return o;
}

}  // namespace

PowerFitting fit_power(const Device& device, std::span<const MeasuredRow> rows,
                       const TileFit* times) {
  if (device.power_limit.value <= 0)
    throw_input(device.name, "has no power limit, which power is measured against");
  std::vector<Pair> pairs = pairs_of(device, rows);
  if (pairs.size() < kFewestPowerPairs)
    throw_input(device.name,
                fmt::format("power is fitted to at least {} operators measured in a burst and "
                            "sustained, with clock and power: there are {}",
                            kFewestPowerPairs, pairs.size()));
  const PairFit fitter(device, std::move(pairs));
  PowerFitting result;
  result.fit.device = device.name;
  result.fit.coefficients = coefficients_of(fitter.fit());
  result.errors = fitter.errors(fitter.model(result.fit.coefficients));
  result.fit.rows = result.errors.rows;
  if (times != nullptr) result.fit.coefficients.warm = fitter.warmth(*times);
  return result;
}

void fit_power_corrections(PowerFit& fit, const Device& device, std::span<const MeasuredRow> rows,
                           TileProtocol protocol, int threads) {
  fit.corrections = {};
  const PowerModel model(device, std::make_shared<PowerFit>(fit));
  const TileGpu gpu(device, protocol);
  std::array<std::vector<uint32_t>, kTileClassCount> members;
  for (uint32_t i = 0; i < rows.size(); ++i)
    if (rows[i].watts > 0) members[static_cast<size_t>(gpu.class_of(rows[i].kernel))].push_back(i);
  for (size_t c = 0; c < kTileClassCount; ++c) {
    const size_t count = members[c].size();
    if (count < kFewestCorrectedRows) continue;
    Matrix features(count, TileGpu::feature_names(static_cast<TileClass>(c)).size());
    std::vector<float> target(count);
    TileDescription d;
    for (size_t i = 0; i < count; ++i) {
      const MeasuredRow& row = rows[members[c][i]];
      gpu.describe(row.kernel, Hertz(0), d);
      std::ranges::copy(d.values(), features.row(i).begin());
      const PowerTerms terms = model.terms(row.kernel, d, Seconds(row.seconds));
      target[i] = static_cast<float>(std::log(row.watts / model.sustained(terms).power.value));
    }
    fit.corrections[c] =
        PowerCorrection{fit_trees(features, target, {}, correction_options(count, threads)), count};
  }
}

}  // namespace orrery
