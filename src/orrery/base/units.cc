#include "orrery/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace orrery {
namespace {

struct DimensionUnits {
  std::string_view example;
  std::array<std::string_view, 4> units;  ///< Accepted base units, prefix taken off.
};

DimensionUnits units_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTime:
      return {"2 us", {"s"}};
    case Dimension::kEnergy:
      return {"20 pJ", {"J"}};
    case Dimension::kPower:
      return {"700 W", {"W"}};
    case Dimension::kFrequency:
      return {"1980 MHz", {"Hz"}};
    case Dimension::kBytes:
      return {"141 GB", {"B", "b"}};
    case Dimension::kBandwidth:
      return {"4.8 TB/s", {"B/s", "b/s"}};
    case Dimension::kRate:
      return {"989 TFLOP/s", {"FLOP/s", "OP/s", "FLOPS", "OPS"}};
    case Dimension::kPrice:
      return {"2.5 USD/h", {"USD/h"}};
    case Dimension::kCount:
      return {"132", {}};
  }
  return {};
}

/// The factor of a prefix, or 0 if there is no such prefix.
double prefix_factor(std::string_view prefix) {
  struct Prefix {
    std::string_view text;
    double factor;
  };
  static constexpr std::array<Prefix, 17> kPrefixes = {{{"", 1},
                                                        {"p", 1e-12},
                                                        {"n", 1e-9},
                                                        {"u", 1e-6},
                                                        {"µ", 1e-6},
                                                        {"m", 1e-3},
                                                        {"k", 1e3},
                                                        {"K", 1e3},
                                                        {"M", 1e6},
                                                        {"G", 1e9},
                                                        {"T", 1e12},
                                                        {"P", 1e15},
                                                        {"E", 1e18},
                                                        {"Ki", 1024.0},
                                                        {"Mi", 1048576.0},
                                                        {"Gi", 1073741824.0},
                                                        {"Ti", 1099511627776.0}}};
  for (const Prefix& p : kPrefixes)
    if (p.text == prefix) return p.factor;
  return 0;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

double parse_quantity(std::string_view text, Dimension dimension) {
  const DimensionUnits accepted = units_of(dimension);
  text = trim(text);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number))
    throw std::invalid_argument(
        fmt::format("'{}' is not a quantity; expected one like '{}'", text, accepted.example));
  const std::string_view unit = trim(text.substr(static_cast<size_t>(end - text.data())));
  if (dimension == Dimension::kCount) {
    if (!unit.empty())
      throw std::invalid_argument(fmt::format("'{}' is a count and takes no unit", text));
    return number;
  }
  if (unit.empty())
    throw std::invalid_argument(
        fmt::format("'{}' has no unit; write it out, e.g. '{}'", text, accepted.example));
  for (std::string_view base : accepted.units) {
    if (base.empty() || !unit.ends_with(base)) continue;
    const double factor = prefix_factor(unit.substr(0, unit.size() - base.size()));
    if (factor == 0) continue;
    return number * factor / (base.front() == 'b' ? 8.0 : 1.0);
  }
  throw std::invalid_argument(
      fmt::format("'{}' has the unit '{}'; expected one like '{}'", text, unit, accepted.example));
}

std::string format_si(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 11> kPrefixes = {"p", "n", "u", "m", "", "k",
                                                                 "M", "G", "T", "P", "E"};
  if (value == 0 || !std::isfinite(value)) return fmt::format("{} {}", value, unit);
  int step = static_cast<int>(std::floor(std::log10(std::abs(value)) / 3));
  step = std::min(6, std::max(-4, step));
  double scaled = value / std::pow(10.0, 3 * step);
  // 999.7 would print as "1000": move to the next prefix instead.
  if (std::abs(scaled) >= 999.5 && step < 6) {
    scaled /= 1000;
    ++step;
  }
  const int decimals = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
  const int prefix = step + 4;  // the list begins at 10⁻¹²
  return fmt::format("{:.{}f} {}{}", scaled, decimals, kPrefixes[static_cast<size_t>(prefix)],
                     unit);
}

std::string format_seconds(double seconds) { return format_si(seconds, "s"); }
std::string format_bytes(double bytes) { return format_si(bytes, "B"); }
std::string format_joules(double joules) { return format_si(joules, "J"); }

}  // namespace orrery
