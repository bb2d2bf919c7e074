#include "orrery/base/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace orrery {
namespace {

constexpr int kDigits = 6;
/// Numbers from 10^kLeast up to 10^kDigits are written without an exponent.
constexpr int kLeast = -4;

/// 10^(kLeast + i).
constexpr std::array<double, kDigits - kLeast + 1> kPowers = {1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1,
                                                              1e2,  1e3,  1e4,  1e5,  1e6};
/// 10^(5 − e) for e = kLeast + i: what brings a number to six digits before its point.
constexpr std::array<double, kDigits - kLeast> kScales = {1e9, 1e8, 1e7, 1e6, 1e5,
                                                          1e4, 1e3, 1e2, 1e1, 1e0};

}  // namespace

char* write_number(char* out, double value) {
  // Just below a power of ten, rounding may carry into the next: those go the long way, too.
  if (!(value >= kPowers.front() && value < 999999)) return fmt::format_to(out, "{:.6g}", value);
  // Counted in full: how often a loop ran could not be foretold.
  int reached = 0;
  for (const double power : kPowers) reached += value >= power ? 1 : 0;
  int exponent = kLeast + reached - 1;
  auto digits =
      static_cast<uint32_t>(std::lrint(value * kScales[static_cast<size_t>(reached - 1)]));
  if (digits == 1000000) {
    digits = 100000;
    ++exponent;
  }
  // Copied with more behind them than belongs there: lengths known when compiling take one step.
  std::array<char, size_t{2} * kDigits> text{};
  for (size_t i = kDigits; i-- > 0;) {
    text[i] = static_cast<char>('0' + digits % 10);
    digits /= 10;
  }
  int used = kDigits;
  while (used > 1 && text[static_cast<size_t>(used) - 1] == '0') --used;
  if (exponent < 0) {
    constexpr std::array kZeros = {'0', '.', '0', '0', '0'};
    std::memcpy(out, kZeros.data(), kZeros.size());
    out += 1 - exponent;
    std::memcpy(out, text.data(), kDigits);
    return out + used;
  }
  const int whole = exponent + 1;
  std::memcpy(out, text.data(), kDigits);
  if (used <= whole) return out + whole;
  out[whole] = '.';
  std::memcpy(out + whole + 1, text.data() + whole, kDigits);
  return out + used + 1;
}

}  // namespace orrery
