#include "orrery/base/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>

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
  size_t above = 1;
  while (value >= kPowers[above]) ++above;
  int exponent = kLeast + static_cast<int>(above) - 1;
  auto digits = static_cast<uint32_t>(std::lrint(value * kScales[above - 1]));
  if (digits == 1000000) {
    digits = 100000;
    ++exponent;
  }
  std::array<char, kDigits> text{};
  for (size_t i = kDigits; i-- > 0;) {
    text[i] = static_cast<char>('0' + digits % 10);
    digits /= 10;
  }
  int used = kDigits;
  while (used > 1 && text[static_cast<size_t>(used) - 1] == '0') --used;
  const auto copy = [&](int from, int to) {
    for (int i = from; i < to; ++i) *out++ = text[static_cast<size_t>(i)];
  };
  if (exponent < 0) {
    *out++ = '0';
    *out++ = '.';
    for (int i = -1; i > exponent; --i) *out++ = '0';
    copy(0, used);
    return out;
  }
  copy(0, exponent + 1);
  if (used > exponent + 1) {
    *out++ = '.';
    copy(exponent + 1, used);
  }
  return out;
}

}  // namespace orrery
