#include "orrery/api/difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "orrery/kernel/roofline.h"

namespace orrery {
namespace {

/// What of the first step is replaced by that of the second, as bits of a set.
enum Replaced : unsigned { kWork = 1, kRates = 2, kMemory = 4, kFloor = 8 };
constexpr unsigned kPlayers = 4, kSets = 1U << kPlayers;

/// One launch: its times as run, and by the rooflines of both devices.
struct Part {
  double seconds = 0, cool_seconds = 0;
  double count = 1;
  std::array<RooflineTimes, 2> on;
};

/// Kernels that are compared with each other, by step.
using Group = std::array<std::vector<Part>, 2>;

double logarithmic_mean(double a, double b) {
  const double ratio = std::log(a / b);
  return ratio == 0 ? a : (a - b) / ratio;
}

double sum(const std::vector<Part>& parts, double Part::*of) {
  double total = 0;
  for (const Part& p : parts) total += p.*of;
  return total;
}

double roofline(const Group& group, unsigned replaced) {
  double total = 0;
  for (const Part& p : group[(replaced & kWork) != 0 ? 1 : 0])
    total += p.count * std::max({p.on[(replaced & kRates) != 0 ? 1 : 0].arithmetic(),
                                 p.on[(replaced & kMemory) != 0 ? 1 : 0].memory,
                                 p.on[(replaced & kFloor) != 0 ? 1 : 0].floor});
  return total;
}

/// Shapley values of a function of sets of the four: |S|!·(3 − |S|)! / 4! over all sets without it.
std::array<double, kPlayers> shapley(const std::array<double, kSets>& value) {
  static constexpr std::array kWeight = {1.0 / 4, 1.0 / 12, 1.0 / 12, 1.0 / 4};
  std::array<double, kPlayers> shares{};
  for (unsigned player = 0; player < kPlayers; ++player)
    for (unsigned set = 0; set < kSets; ++set)
      if ((set >> player & 1U) == 0)
        shares[player] += kWeight[static_cast<size_t>(std::popcount(set))] *
                          (value[set | 1U << player] - value[set]);
  return shares;
}

void add(Difference& difference, Cause cause, double seconds) {
  difference[static_cast<size_t>(cause)] += seconds;
}

void add(Difference& difference, const Group& group) {
  const double first = sum(group[0], &Part::seconds), second = sum(group[1], &Part::seconds);
  const double cool_first = sum(group[0], &Part::cool_seconds),
               cool_second = sum(group[1], &Part::cool_seconds);
  if (std::min({first, second, cool_first, cool_second}) <= 0) {
    add(difference, Cause::kKernels, second - first);
    return;
  }
  const double mean = logarithmic_mean(second, first);
  std::array<double, kSets> logarithms{};
  bool bounded = true;
  for (unsigned set = 0; set < kSets; ++set) {
    const double seconds = roofline(group, set);
    bounded &= seconds > 0;
    logarithms[set] = seconds > 0 ? std::log(seconds) : 0;
  }
  double of_roofline = 0;
  if (bounded) {
    static constexpr std::array kCauses = {Cause::kKernels, Cause::kArithmetic, Cause::kBandwidth,
                                           Cause::kLaunches};
    const auto shares = shapley(logarithms);
    for (size_t i = 0; i < kPlayers; ++i) add(difference, kCauses[i], mean * shares[i]);
    of_roofline = logarithms[kSets - 1] - logarithms[0];
  }
  const double of_clock = std::log(second / cool_second) - std::log(first / cool_first);
  add(difference, Cause::kClock, mean * of_clock);
  add(difference, Cause::kEfficiency, mean * (std::log(cool_second / cool_first) - of_roofline));
}

double waiting(const Composition& total) {
  return std::max(0.0, total.host.value - total.device().value);
}

}  // namespace

std::string_view name(Cause cause) {
  static constexpr std::array<std::string_view, kCauseCount> kNames = {
      "arithmetic rate", "memory bandwidth", "clock under load",    "kernel efficiency",
      "other kernels",   "launches",         "waiting for the host"};
  return kNames[static_cast<size_t>(cause)];
}

Difference difference(const StepDetail& first, const StepDetail& second) {
  const std::array<const StepDetail*, 2> steps = {&first, &second};
  const std::array<RooflineBounds, 2> rooflines = {RooflineBounds(first.device),
                                                   RooflineBounds(second.device)};
  const auto part = [&](size_t step, size_t i) {
    const StepDetail& s = *steps[step];
    const Launch& launch = s.launches[i];
    Part p{launch.count * s.estimates[i].seconds.value,
           launch.count * s.cool[i].seconds.value,
           launch.count,
           {}};
    for (size_t d = 0; d < 2; ++d)
      p.on[d] = rooflines[d].times(launch.kernel.cost, steps[d]->fixed_clock);
    return p;
  };

  Difference parts{};
  const LaunchMatch match = match_launches(first, second);
  for (const auto& [a, b] : match.pairs) add(parts, Group{{{part(0, a)}, {part(1, b)}}});
  std::array<Group, kKernelFamilyCount> rest;
  for (size_t i : match.only_first)
    rest[static_cast<size_t>(first.launches[i].kernel.family)][0].push_back(part(0, i));
  for (size_t i : match.only_second)
    rest[static_cast<size_t>(second.launches[i].kernel.family)][1].push_back(part(1, i));
  for (const Group& group : rest) add(parts, group);
  add(parts, Cause::kLaunches, (second.total.gaps - first.total.gaps).value);
  add(parts, Cause::kHost, waiting(second.total) - waiting(first.total));
  return parts;
}

}  // namespace orrery
