#include "orrery/cluster/network/turns.h"

namespace orrery::fabric {

Turns::Turns(const FlowSystem& system)
    : s_(system),
      sent_(system.bytes.size()),
      arrived_(system.bytes.size()),
      first_dependent_(system.bytes.size() + 1),
      dependent_(system.wait_on.size()) {
  for (const int on : s_.wait_on) ++first_dependent_[static_cast<size_t>(on) + 1];
  for (size_t i = 1; i < first_dependent_.size(); ++i)
    first_dependent_[i] += first_dependent_[i - 1];
  std::vector<int> next(first_dependent_.begin(), first_dependent_.end() - 1);
  for (size_t i = 0; i < s_.bytes.size(); ++i)
    for (auto w = static_cast<size_t>(s_.first_wait[i]);
         w < static_cast<size_t>(s_.first_wait[i + 1]); ++w)
      dependent_[static_cast<size_t>(next[static_cast<size_t>(s_.wait_on[w])]++)] =
          static_cast<int>(i);
}

bool Turns::may_start(int flow) const {
  const auto i = static_cast<size_t>(flow);
  const int64_t turn = sent_[i];
  if (turn >= s_.repeat[i]) return false;
  for (auto w = static_cast<size_t>(s_.first_wait[i]);
       w < static_cast<size_t>(s_.first_wait[i + 1]); ++w) {
    const auto on = static_cast<size_t>(s_.wait_on[w]);
    switch (s_.wait[w]) {
      case Wait::kSameTurn:
        if (arrived_[on] <= turn) return false;
        break;
      case Wait::kPreviousTurn:
        if (arrived_[on] < turn) return false;
        break;
      case Wait::kAllArrived:
        if (arrived_[on] < s_.repeat[on]) return false;
        break;
      case Wait::kAllSent:
        if (sent_[on] < s_.repeat[on]) return false;
        break;
    }
  }
  return true;
}

void Turns::wake(int flow, std::vector<int>& woken) const {
  for (auto d = static_cast<size_t>(first_dependent_[static_cast<size_t>(flow)]);
       d < static_cast<size_t>(first_dependent_[static_cast<size_t>(flow) + 1]); ++d)
    woken.push_back(dependent_[d]);
}

void Turns::send(int flow, std::vector<int>& woken) {
  const auto i = static_cast<size_t>(flow);
  woken.push_back(flow);
  if (++sent_[i] == s_.repeat[i]) wake(flow, woken);
}

void Turns::arrive(int flow, std::vector<int>& woken) {
  ++arrived_[static_cast<size_t>(flow)];
  wake(flow, woken);
}

void Turns::skip(int64_t turns) {
  for (int64_t& sent : sent_) sent += turns;
  for (int64_t& arrived : arrived_) arrived += turns;
}

}  // namespace orrery::fabric
