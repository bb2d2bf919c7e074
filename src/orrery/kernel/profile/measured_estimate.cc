#include "orrery/kernel/profile/measured_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

constexpr double kShared = 0.1;
/// From here on an answer says that nothing like the kernel was measured.
constexpr double kFarOctaves = 1.5;

/// "dot_general bf16"
std::string kind_name(const Kernel& kernel) {
  const ElementType type = kernel.cost.matrix_flops > 0 ? kernel.cost.matrix_type
                           : kernel.tensor_count > 0
                               ? kernel.tensors[kernel.tensor_count - 1u].element
                               : kernel.cost.vector_type;
  return fmt::format("{} {}", name(kernel.code), mlir_name(type));
}

}  // namespace

std::unique_ptr<Predictor> without_profile(const Device& device, const Binding& binding) {
  Binding rest;
  rest.stack = binding.stack;
  rest.fit = binding.fit;
  rest.data = binding.data;
  return Registry<KernelModel>::instance().at("auto", "kernel model").create()->bind(device, rest);
}

Estimate measured_estimate(const MeasuredProfile::Reading& reading, const Estimate& otherwise,
                           Watts idle) {
  Estimate e;
  e.seconds = Seconds(reading.seconds);
  if (reading.watts > 0) {
    e.joules = Watts(reading.watts) * e.seconds;
  } else {
    const Seconds busy = std::min(otherwise.seconds, e.seconds);
    e.joules =
        otherwise.seconds.value > 0 ? otherwise.joules * (busy / otherwise.seconds) : Joules();
    e.joules += idle * (e.seconds - busy);
  }
  const double deviation = reading.reach / kNinetyPercent;
  e.own_spread = static_cast<float>(deviation * std::sqrt(1 - kShared));
  e.loadings[static_cast<size_t>(ErrorFactor::kFamily)] =
      static_cast<float>(deviation * std::sqrt(kShared));
  return e;
}

std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const Kernel& kernel,
                                      const Predictor& otherwise) {
  const auto reading = profile.find(kernel, {});
  if (!reading) {
    std::vector<std::string> found = {fmt::format("{} has no {} of this kind: predicted by {}",
                                                  profile.file(), kind_name(kernel),
                                                  otherwise.name())};
    for (std::string& gap : otherwise.gaps(kernel)) found.push_back(std::move(gap));
    return found;
  }
  if (reading->distance > kFarOctaves)
    return {
        fmt::format("{} has no {} within a factor of {:.3g} in size of some here: their "
                    "utilisation is that of the nearest",
                    profile.file(), kind_name(kernel), std::exp2(kFarOctaves))};
  return {};
}

std::vector<std::string> profile_gaps(const MeasuredProfile& profile, const OperatingPoint& point) {
  std::vector<std::string> found;
  if (!profile.has(point.regime))
    found.push_back(fmt::format(
        "{} was not measured {}: taken as it was", profile.file(),
        point.regime == OperatingPoint::Regime::kBurst ? "in bursts" : "under sustained load"));
  if (point.clock.value > 0 && !profile.has_clocks())
    found.push_back(
        fmt::format("{} does not say at which clock it was measured: taken for the "
                    "boost clock",
                    profile.file()));
  constexpr size_t kMostDoubts = 3;
  for (size_t i = 0; i < std::min(kMostDoubts, profile.doubts().size()); ++i)
    found.push_back(profile.doubts()[i]);
  if (profile.doubts().size() > kMostDoubts)
    found.push_back(fmt::format("{} has {} more rows that are hard to believe", profile.file(),
                                profile.doubts().size() - kMostDoubts));
  return found;
}

std::vector<std::pair<std::string, std::string>> profile_provenance(
    const MeasuredProfile& profile) {
  std::vector<std::pair<std::string, std::string>> found = {
      {"profile", fmt::format("{}, {} rows of {} kernels", profile.file(), profile.rows(),
                              profile.kernels())}};
  if (const std::string accuracy = profile.accuracy(); !accuracy.empty())
    found.emplace_back("profile_error", "each kernel from the others: " + accuracy);
  return found;
}

}  // namespace orrery
