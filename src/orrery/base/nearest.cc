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

/// Levenshtein's distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
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

}  // namespace orrery
