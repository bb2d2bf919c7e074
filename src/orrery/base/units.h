#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace orrery {

/// A double with its unit in the type. Arithmetic keeps the unit; crossing
/// units goes through `value`, where the reader can see it.
template <class Tag>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  constexpr Quantity operator+(Quantity o) const { return Quantity(value + o.value); }
  constexpr Quantity operator-(Quantity o) const { return Quantity(value - o.value); }
  constexpr Quantity operator*(double f) const { return Quantity(value * f); }
  constexpr Quantity operator/(double f) const { return Quantity(value / f); }
  constexpr double operator/(Quantity o) const { return value / o.value; }
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads rewritten comparisons
  constexpr auto operator<=>(const Quantity&) const = default;
};

using Seconds = Quantity<struct SecondsTag>;
using Joules = Quantity<struct JoulesTag>;
using Watts = Quantity<struct WattsTag>;
using Hertz = Quantity<struct HertzTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  ///< Or integer operations.

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(b.value / r.value); }
constexpr Joules operator*(Watts w, Seconds s) { return Joules(w.value * s.value); }

/// What a written quantity measures.
enum class Dimension {
  kTime,
  kEnergy,
  kPower,
  kFrequency,
  kBytes,
  kBandwidth,
  kRate,
  kPrice,
  kCount
};

/// Reads "4.8 TB/s", "141 GB", "700 W", "989 TFLOP/s", "1980 MHz", "2 us" in the
/// SI base unit of `dimension`. k, M, G, T, P are powers of 1,000 and Ki, Mi, Gi,
/// Ti of 1,024; "Gb/s" is bits and "GB/s" bytes. A number without a unit, or with
/// a unit of another dimension, throws `std::invalid_argument` that says what was
/// expected. Counts (`kCount`) take no unit.
double parse_quantity(std::string_view text, Dimension dimension);

/// Short text for people: "14.2 ms", "13.4 GB", "1.98 TB/s", "6.9 TFLOP".
std::string format_seconds(double seconds);
std::string format_bytes(double bytes);
std::string format_joules(double joules);
/// With an SI prefix: format_si(6.9e12, "FLOP") is "6.90 TFLOP".
std::string format_si(double value, std::string_view unit);

}  // namespace orrery
