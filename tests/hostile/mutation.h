#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::hostile {

/// One way of damaging a file.
struct Mutation {
  enum class Kind : uint8_t {
    kCut,   ///< Everything from `offset` on is gone.
    kFlip,  ///< The byte at `offset` has the bits of `mask` turned over.
  };
  Kind kind = Kind::kCut;
  size_t offset = 0;
  uint8_t mask = 0;
};

/// `cuts` and then `flips` at places drawn from `seed`, the same on every
/// machine. A file with fewer places than asked for is cut at each of them once.
std::vector<Mutation> draw_mutations(size_t file_size, size_t cuts, size_t flips, uint64_t seed);

std::string damaged(std::string_view original, const Mutation& mutation);

/// "cut at byte 120", "byte 7 xor 0x20".
std::string describe(const Mutation& mutation);

}  // namespace orrery::hostile
