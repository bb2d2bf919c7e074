#include "orrery/kernel/clock_range.h"

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr double kLeastOfBoost = 0.05;
constexpr double kMostOfBoost = 1.5;

}  // namespace

ClockRange clock_range(const Device& device) {
  ClockRange range;
  range.device = device.name;
  if (device.clock.value <= 0) return range;
  range.least_mhz = kLeastOfBoost * device.clock.value / 1e6;
  range.most_mhz = kMostOfBoost * device.clock.value / 1e6;
  return range;
}

std::string ClockRange::refusal(double mhz) const {
  const char* unit = has(mhz * 1e3)   ? " (is it in GHz?)"
                     : has(mhz / 1e3) ? " (is it in kHz?)"
                     : has(mhz / 1e6) ? " (is it in Hz?)"
                                      : "";
  return fmt::format("{:g} is not a clock in MHz{}{}{}: expected {:.0f} to {:.0f} MHz", mhz,
                     device.empty() ? "" : " of ", device, unit, least_mhz, most_mhz);
}

}  // namespace orrery
