#pragma once

#include <cstdint>

namespace orrery {

/// Random numbers that are the same bytes on every machine, which the standard library's
/// distributions and mathematical functions are not: xoshiro256++ (Blackman and Vigna, 2021) seeded
/// by splitmix64, and distributions made of additions, multiplications and square roots alone.
class RandomStream {
 public:
  /// Streams of one seed and different names are independent of each other.
  explicit RandomStream(uint64_t seed, uint64_t name = 0);

  uint64_t bits();
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Each of `low` … `high` alike.
  int64_t integer(int64_t low, int64_t high);
  /// Of mean 1.
  double exponential();
  /// Of mean 0 and standard deviation 1 (Marsaglia's polar method).
  double normal();
  /// Of mean `shape` and variance `shape` (Marsaglia and Tsang, ACM TOMS 2000); `shape` > 0.
  double gamma(double shape);

 private:
  uint64_t state_[4];
};

/// A number made of others by splitmix64's finaliser: a draw that needs no stream.
uint64_t mixed_bits(uint64_t a, uint64_t b);

/// As in <cmath>, within a few units of the last place, and alike on every machine.
double portable_log(double x);  ///< x > 0 and normal.
double portable_exp(double x);  ///< |x| < 700.
double portable_sin(double x);  ///< |x| < 1e6.

}  // namespace orrery
