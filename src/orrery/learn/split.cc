#include "orrery/learn/split.h"

#include "orrery/base/error.h"

namespace orrery {

uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

uint64_t stable_hash(std::string_view key, uint64_t seed) {
  return mix_bits(fnv1a(key) ^ mix_bits(seed));
}

int fold_of(std::string_view key, int folds, uint64_t seed) {
  if (folds < 1) throw_internal("a split needs at least one fold");
  return static_cast<int>(stable_hash(key, seed) % static_cast<uint64_t>(folds));
}

}  // namespace orrery
