#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// `times` blocks of `length` items each, alike, one after the other.
struct RepeatedBlocks {
  size_t first = 0;
  size_t length = 0;
  size_t times = 0;
  size_t end() const { return first + length * times; }
};

/// The layers of a program that does not name them: the stretch of `items` that repeats
/// and covers the most, the same in what lies before and after it, in order. A stretch
/// counts from three times, and a block from four items that are not all the same; blocks
/// of more than 4,096 items are not looked for.
std::vector<RepeatedBlocks> find_repeated_blocks(std::span<const uint32_t> items);

}  // namespace orrery
