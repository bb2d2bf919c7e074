#include "orrery/kernel/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "orrery/kernel/peak_rate.h"

namespace orrery {
namespace {

/// Below any clock that a board in the catalogue works at, over its boost clock.
constexpr double kLowestRatio = 0.25;

/// Matrix units draw for zeros next to nothing: in proportion to the share that is filled, times
/// this, up to all. Three programs of experts whose products XLA fills with zeros (1 / 32 and twice
/// 1 / 8 of their rows stand) draw 0.05 and 0.27 to 0.39 of what full ones do
/// (data/measured/h200_jax_models.csv, h200_jax_samples.csv).
constexpr double kDrawOfFilled = 2.6;

}  // namespace

PowerTerms operator*(const PowerTerms& t, double times) {
  return {t.time * times, t.core_time * times, t.busy * times, t.core * times, t.memory * times};
}

PowerTerms& PowerTerms::operator+=(const PowerTerms& other) {
  time += other.time;
  core_time += other.core_time;
  busy += other.busy;
  core += other.core;
  memory += other.memory;
  return *this;
}

PowerModel::PowerModel(const Device& device, std::shared_ptr<const PowerFit> fit)
    : device_(device),
      gpu_(device),
      limit_(device.power_limit.value),
      rated_(device.rated_power.value > 0 ? device.rated_power.value : limit_),
      scale_(device.reference_power.value > 0 ? device.reference_power.value : rated_),
      boost_(gpu_.boost_clock()),
      fit_(std::move(fit)) {
  const double measured = fit_->coefficients.idle * scale_;
  idle_ = measured;
  if (device.as_described && device.as_described->idle_power.value != device.idle_power.value) {
    const double described = device.as_described->idle_power.value;
    const double added = device.idle_power.value - (described > 0 ? described : measured);
    idle_ = std::max(0.0, measured + added);
  }
  added_idle_ = idle_ - measured;
}

PowerModel::CoreWork PowerModel::core_work(const Kernel& kernel, TileClass tile_class) const {
  const PowerCoefficients& c = fit_->coefficients;
  const Cost& cost = kernel.cost;
  const auto seconds = [](double flops, double rate) { return rate > 0 ? flops / rate : 0; };
  if (cost.matrix_flops > 0 && tile_class != TileClass::kDepthwise) {
    const Rate rate = product_rate(device_, cost.matrix_type);
    const bool matrix = rate.flops_per_second == device_.matrix[rate.used].value;
    const int bits = bit_width(cost.matrix_type);
    const double share = !matrix      ? c.vector
                         : bits <= 8  ? c.matrix_byte
                         : bits <= 16 ? c.matrix_half
                                      : c.matrix_single;
    const auto* product = std::get_if<ProductShape>(&kernel.shape);
    const double drawing = product != nullptr
                               ? std::min(1.0, kDrawOfFilled * static_cast<double>(product->filled))
                               : 1;
    return {seconds(cost.matrix_flops, gpu_.products_per_second(cost.matrix_type, boost_)),
            share * scale_ * drawing};
  }
  const double rate = find_rate(device_.vector, cost.vector_type).flops_per_second;
  const double single = device_.vector[ElementType::kF32].value;
  const double special = device_.special.value > 0 ? device_.special.value : single / 4;
  return {std::max(seconds(cost.vector_flops, rate), seconds(cost.transcendental_flops, special)) +
              seconds(cost.matrix_flops, single),
          c.vector * scale_};
}

PowerTerms PowerModel::burst_terms(const Kernel& kernel, const TileDescription& description,
                                   Seconds time) const {
  const PowerCoefficients& c = fit_->coefficients;
  PowerTerms terms;
  if (time.value <= 0) return terms;
  const CoreWork work = core_work(kernel, description.tile_class);
  const double core = std::min(1.0, work.seconds / time.value);
  const double memory = std::min(1.0, description.memory_seconds / time.value);
  const double most = std::max(core, memory);
  const double moving = std::clamp(1 - c.still * description.floor_seconds / time.value, 0.0, 1.0);
  const bool all_core = description.tile_class == TileClass::kAttention;
  const double core_share = all_core ? 1 : core + memory > 0 ? core / (core + memory) : 0;
  const double stirred = most > 0 ? most / (most + c.stir) : 0;
  terms.time = time;
  terms.core_time = time * core_share;
  terms.busy = Watts(c.busy * scale_ * moving * stirred) * time;
  terms.core = Watts(work.watts * core) * time;
  terms.memory = Watts(c.memory * scale_ * memory) * time;
  return terms;
}

PowerTerms PowerModel::terms(const Kernel& kernel, const TileDescription& description,
                             Seconds time) const {
  // The burst is what, slowed by its own share, gives the time: a contraction, as the
  // slowdown falls when a burst gets longer.
  constexpr int kRounds = 6;
  PowerTerms found = burst_terms(kernel, description, time);
  for (int i = 0; i < kRounds; ++i) {
    const double slowdown = held_to(rated_ + added_idle_, found).time / found.time;
    if (!(slowdown > 1)) break;
    found = burst_terms(kernel, description, time / std::pow(slowdown, fit_->coefficients.warm));
  }
  return found;
}

ClockOfFit PowerModel::clock_of_fit(const Kernel& kernel, const TileDescription& description,
                                    Seconds time) const {
  const PowerTerms found = terms(kernel, description, time);
  ClockOfFit at;
  if (found.time.value <= 0) return at;
  const double warm = fit_->coefficients.warm;
  at.measured = Hertz(std::pow(burst(found).clock.value, 1 - warm) *
                      std::pow(held_to(rated_ + added_idle_, found).clock.value, warm));
  at.core_share = found.core_time / found.time;
  return at;
}

double PowerModel::power_at(const PowerTerms& terms, double burst_ratio, double ratio) const {
  if (terms.time.value <= 0) return idle_;
  const double time =
      terms.core_time.value * burst_ratio / ratio + terms.time.value - terms.core_time.value;
  return idle_ + terms.busy.value / terms.time.value * ratio * ratio +
         (terms.core.value * ratio + terms.memory.value) / time;
}

double PowerModel::highest_ratio(const PowerTerms& terms, double burst_ratio,
                                 double most_watts) const {
  const auto power = [&](double ratio) {
    return power_at(terms, burst_ratio > 0 ? burst_ratio : ratio, ratio);
  };
  double high = burst_ratio > 0 ? burst_ratio : 1;
  if (limit_ <= 0 || power(high) <= most_watts) return high;
  double low = kLowestRatio;
  if (power(low) > most_watts) return low;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (power(middle) <= most_watts ? low : high) = middle;
  }
  return low;
}

double PowerModel::burst_limit() const {
  // A burst is over before a limit that somebody set takes hold, and was measured as it is.
  return fit_->coefficients.burst * rated_ + added_idle_;
}

double PowerModel::burst_ratio(const PowerTerms& terms) const {
  // The burst's own time is what was given, at whichever clock it ran.
  return highest_ratio(terms, 0, burst_limit());
}

PowerState PowerModel::state(const PowerTerms& terms, double burst_ratio, double ratio) const {
  PowerState s;
  s.clock = Hertz(boost_ * ratio);
  s.time = terms.core_time * (burst_ratio / ratio) + (terms.time - terms.core_time);
  s.power = Watts(power_at(terms, burst_ratio, ratio));
  return s;
}

PowerState PowerModel::burst(const PowerTerms& terms) const {
  // As most do: no need to look for the clock.
  const PowerState boosted = state(terms, 1, 1);
  if (limit_ <= 0 || boosted.power.value <= burst_limit()) return boosted;
  const double ratio = burst_ratio(terms);
  return state(terms, ratio, ratio);
}

PowerState PowerModel::held_to(double watts, const PowerTerms& terms) const {
  const double burst = burst_ratio(terms);
  return state(terms, burst, highest_ratio(terms, burst, watts));
}

PowerState PowerModel::sustained(const PowerTerms& terms) const { return held_to(limit_, terms); }

PowerState PowerModel::settled(const PowerTerms& terms, double draw) const {
  return state(terms, 1, highest_ratio(terms, 1, limit_ / draw));
}

Watts PowerModel::waiting_for(const PowerTerms& terms, const PowerState& slowest) const {
  if (slowest.time.value <= 0) return slowest.power;
  const PowerState own = settled(terms);
  PowerTerms rest;
  rest.time = slowest.time - own.time;
  return Watts((own.energy() + settled(rest).energy()).value / slowest.time.value);
}

PowerState PowerModel::at(const PowerTerms& terms, Hertz clock) const {
  return state(terms, 1, clock.value / boost_);
}

PowerState PowerModel::taken_at(const PowerTerms& terms, Hertz clock) const {
  return state(terms, clock.value / boost_, clock.value / boost_);
}

double PowerModel::correction(const TileDescription& description) const {
  const auto& found = fit_->corrections[static_cast<size_t>(description.tile_class)];
  return found ? std::exp(static_cast<double>(found->trees.predict(description.values()))) : 1;
}

std::string PowerModel::gap(const PowerState& state, double draw) const {
  constexpr double kRounding = 1 + 1e-9;
  if (limit_ <= 0 || state.power.value * draw <= limit_ * kRounding) return "";
  return fmt::format("the power limit of {:.0f} W is exceeded: {} draws more at {:.0f} MHz{}",
                     limit_, device_.name, state.clock.value / 1e6,
                     state.clock.value > kLowestRatio * boost_
                         ? ""
                         : ", the lowest clock that work is taken to fall to");
}

std::vector<std::string> PowerModel::gaps() const {
  std::vector<std::string> found;
  if (limit_ <= 0)
    found.push_back(
        fmt::format("the power limit of {} is not published: no power is known and no clock falls",
                    device_.name));
  else if (fit_->device != device_.name)
    found.push_back(
        fmt::format("the power of {} was not measured: shares of {} as on {}", device_.name,
                    scale_ == rated_ ? "the power limit" : "its reference power", fit_->device));
  return found;
}

}  // namespace orrery
