#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace orrery {

/// Adds what `list` does not have yet.
inline void append_new(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const std::string& text : more)
    if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

}  // namespace orrery
