#pragma once

#include <cstdint>
#include <string_view>

namespace orrery {

/// FNV-1a of 64 bits (Fowler, Noll, Vo: isthe.com/chongo/tech/comp/fnv): from 0xcbf29ce484222325,
/// each byte is xored in and the product with 0x100000001b3 taken.
uint64_t fnv1a(std::string_view bytes);

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014, with the constants of Stafford's Mix13): a
/// bijection that spreads every input bit over all output bits.
constexpr uint64_t mix_bits(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// The SplitMix64 generator: the same numbers on every platform, which the
/// distributions of <random> do not promise.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15ULL); }
  /// In [0, 1), with 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, bound); the bias is below bound / 2^64.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

/// mix_bits(fnv1a(key) ^ mix_bits(seed)). It never changes between versions or
/// platforms, so that what was held out once stays held out.
uint64_t stable_hash(std::string_view key, uint64_t seed);

/// Which of `folds` parts (from 0) the row called `key` belongs to; rows that
/// share a key are never parted. `folds` is at least 1.
int fold_of(std::string_view key, int folds, uint64_t seed);

}  // namespace orrery
