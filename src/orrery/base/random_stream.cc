#include "orrery/base/random_stream.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace orrery {
namespace {

uint64_t finalise(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

}  // namespace

uint64_t mixed_bits(uint64_t a, uint64_t b) {
  return finalise(finalise(a + kGolden) ^ (b * kGolden + kGolden));
}

RandomStream::RandomStream(uint64_t seed, uint64_t name) {
  uint64_t at = mixed_bits(seed, name);
  for (uint64_t& word : state_) word = finalise(at += kGolden);
}

uint64_t RandomStream::bits() {
  uint64_t* s = state_;
  const uint64_t result = std::rotl(s[0] + s[3], 23) + s[0];
  const uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

int64_t RandomStream::integer(int64_t low, int64_t high) {
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (span == 0) return static_cast<int64_t>(bits());
  // Refuses what would make the first values likelier than the others.
  const uint64_t limit = (0 - span) % span;
  uint64_t draw = bits();
  while (draw < limit) draw = bits();
  return static_cast<int64_t>(static_cast<uint64_t>(low) + draw % span);
}

double RandomStream::exponential() { return -portable_log(1 - uniform()); }

double RandomStream::normal() {
  while (true) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double s = x * x + y * y;
    if (s < 1 && s > 0) return x * std::sqrt(-2 * portable_log(s) / s);
  }
}

double RandomStream::gamma(double shape) {
  if (shape < 1) {
    // Gamma(k) = Gamma(k + 1) · U^(1/k).
    const double boosted = gamma(shape + 1);
    const double power = portable_log(1 - uniform()) / shape;
    return power < -690 ? 0 : boosted * portable_exp(power);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (portable_log(1 - uniform()) < 0.5 * x * x + d - d * v + d * portable_log(v)) return d * v;
  }
}

double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 artanh((m − 1) / (m + 1)); the 12th term is below 2^-60.
  const double z = (m - 1) / (m + 1);
  const double square = z * z;
  double sum = 0;
  for (int term = 23; term >= 3; term -= 2) sum = (sum + 1.0 / term) * square;
  return 2 * z * (1 + sum) + exponent * std::numbers::ln2;
}

double portable_exp(double x) {
  const double turns = std::floor(x / std::numbers::ln2 + 0.5);
  const double r = x - turns * std::numbers::ln2;
  double sum = 1;
  for (int term = 16; term >= 1; --term) sum = 1 + sum * r / term;
  return std::ldexp(sum, static_cast<int>(turns));
}

double portable_sin(double x) {
  const double turns = std::floor(x / std::numbers::pi + 0.5);
  const double r = x - turns * std::numbers::pi;
  const double square = r * r;
  double sum = 1;
  for (int term = 23; term >= 3; term -= 2) sum = 1 - sum * square / (term * (term - 1));
  const bool odd = std::fmod(turns, 2) != 0;
  return odd ? -r * sum : r * sum;
}

}  // namespace orrery
