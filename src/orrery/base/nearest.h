#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The few of `candidates` that a person who typed `word` may have meant: by edit
/// distance without regard to case, nearest first, at most `most`. Candidates
/// that contain `word`, or that it contains, count as near.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most = 3);

/// "; did you mean 'a', 'b' or 'c'?", or "" for none.
std::string did_you_mean(const std::vector<std::string>& candidates);

/// What follows "unknown thing 'word'": the nearest candidates, or, where none is
/// near, all of them.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace orrery
