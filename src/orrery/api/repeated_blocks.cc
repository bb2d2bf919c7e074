#include "orrery/api/repeated_blocks.h"

#include <algorithm>

namespace orrery {
namespace {

constexpr size_t kShortestBlock = 4;
constexpr size_t kLongestBlock = 4096;
constexpr size_t kFewestTimes = 3;
/// Each search takes items × block lengths; programs have few stretches that repeat.
constexpr int kMostSearches = 16;

RepeatedBlocks most_covering(std::span<const uint32_t> items) {
  RepeatedBlocks best;
  const size_t longest = std::min(kLongestBlock, items.size() / kFewestTimes);
  for (size_t length = kShortestBlock; length <= longest; ++length) {
    size_t run = 0;  // items up to here that are as those a block later
    for (size_t i = 0; i + length <= items.size(); ++i) {
      const bool alike = i + length < items.size() && items[i] == items[i + length];
      if (alike) {
        ++run;
        continue;
      }
      const size_t times = run / length + 1;
      if (times >= kFewestTimes && times * length > best.times * best.length) {
        const size_t first = i - run;
        const auto block = items.subspan(first, length);
        if (std::any_of(block.begin(), block.end(), [&](uint32_t k) { return k != block[0]; }))
          best = {first, length, times};
      }
      run = 0;
    }
  }
  return best;
}

void search(std::span<const uint32_t> items, size_t offset, int& searches,
            std::vector<RepeatedBlocks>& found) {
  if (searches-- <= 0) return;
  RepeatedBlocks best = most_covering(items);
  if (best.times == 0) return;
  search(items.first(best.first), offset, searches, found);
  const size_t end = best.end();
  best.first += offset;
  found.push_back(best);
  search(items.subspan(end), offset + end, searches, found);
}

}  // namespace

std::vector<RepeatedBlocks> find_repeated_blocks(std::span<const uint32_t> items) {
  std::vector<RepeatedBlocks> found;
  int searches = kMostSearches;
  search(items, 0, searches, found);
  return found;
}

}  // namespace orrery
