#include "mutation.h"

#include <fmt/format.h>

#include <random>

namespace orrery::hostile {

std::vector<Mutation> draw_mutations(size_t file_size, size_t cuts, size_t flips, uint64_t seed) {
  std::vector<Mutation> mutations;
  if (file_size == 0) return mutations;
  // The engine's sequence is fixed by the standard; std's distributions are not.
  std::mt19937_64 random(seed);
  if (cuts >= file_size) {
    for (size_t at = 0; at < file_size; ++at) mutations.push_back({Mutation::Kind::kCut, at, 0});
  } else {
    for (size_t i = 0; i < cuts; ++i)
      mutations.push_back({Mutation::Kind::kCut, random() % file_size, 0});
  }
  for (size_t i = 0; i < flips; ++i) {
    const size_t at = random() % file_size;
    mutations.push_back({Mutation::Kind::kFlip, at, static_cast<uint8_t>(1 + random() % 255)});
  }
  return mutations;
}

std::string damaged(std::string_view original, const Mutation& mutation) {
  if (mutation.kind == Mutation::Kind::kCut)
    return std::string(original.substr(0, mutation.offset));
  std::string bytes(original);
  bytes.at(mutation.offset) = static_cast<char>(bytes.at(mutation.offset) ^ mutation.mask);
  return bytes;
}

std::string describe(const Mutation& mutation) {
  if (mutation.kind == Mutation::Kind::kCut) return fmt::format("cut at byte {}", mutation.offset);
  return fmt::format("byte {} xor {:#04x}", mutation.offset, mutation.mask);
}

}  // namespace orrery::hostile
