#include "orrery/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace orrery {
namespace {

/// Longer words are cut: the table below has the product of both lengths, and a
/// hostile file may hold a key of a megabyte.
constexpr size_t kLongestWord = 64;

std::string folded(std::string_view word) {
  std::string lower;
  for (char c : word.substr(0, kLongestWord))
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into
/// `b` (optimal string alignment).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before;  // the row before `last`
  std::vector<size_t> last(b.size() + 1);
  for (size_t j = 0; j < last.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::vector<size_t> row(b.size() + 1);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most) {
  const std::string wanted = folded(word);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    const std::string offered = folded(candidate);
    const size_t distance = edit_distance(wanted, offered);
    const bool contained =
        wanted.size() >= 2 && offered.size() >= 2 &&
        (offered.find(wanted) != std::string::npos || wanted.find(offered) != std::string::npos);
    const size_t tolerated = std::max<size_t>(1, std::max(wanted.size(), offered.size()) / 3);
    if (contained || distance <= tolerated) ranked.emplace_back(distance, candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > most) ranked.resize(most);
  std::vector<std::string> result;
  result.reserve(ranked.size());
  for (auto& entry : ranked) result.push_back(std::move(entry.second));
  return result;
}

std::string did_you_mean(const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  std::string text = "; did you mean ";
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) text += i + 1 == candidates.size() ? " or " : ", ";
    text += "'" + candidates[i] + "'";
  }
  return text + "?";
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = nearest(word, candidates);
  if (!near.empty()) return did_you_mean(near);
  std::string all;
  for (const std::string& candidate : candidates) all += (all.empty() ? "" : ", ") + candidate;
  return "; there is: " + (all.empty() ? "none" : all);
}

}  // namespace orrery
