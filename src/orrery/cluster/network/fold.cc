#include <algorithm>
#include <bit>
#include <unordered_map>

#include "orrery/cluster/network/flow_system.h"

namespace orrery::fabric {
namespace {

/// Beyond this many rounds symmetry is taken for broken: folding would then save little.
constexpr int kMostRounds = 64;

/// The finaliser of SplitMix64: colours are hashes, equal by chance once in 10^19 pairs.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}
uint64_t mix(uint64_t a, uint64_t b) { return mix(a ^ mix(b)); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }

size_t distinct(std::vector<uint64_t> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

class Refinement {
 public:
  explicit Refinement(const FlowSystem& system) : s_(system) {
    for (int i = 0; i < s_.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      flow_.push_back(mix(mix(bits(s_.bytes[at]), bits(s_.latency[at])),
                          mix(bits(s_.start[at]), static_cast<uint64_t>(s_.repeat[at]))));
    }
    for (const double c : s_.capacity) link_.push_back(mix(bits(c)));
  }

  /// Whether the partition became stable and is worth having.
  bool run() {
    size_t before = distinct(flow_);
    int rounds = 0;
    for (int until = 1; until <= kMostRounds; until *= 2) {
      for (; rounds < until; ++rounds) round();
      const size_t now = distinct(flow_);
      if (now > flow_.size() / 2) return false;
      if (now == before && until > 1) return true;
      before = now;
    }
    return false;
  }

  const std::vector<uint64_t>& flows() const { return flow_; }
  const std::vector<uint64_t>& links() const { return link_; }

 private:
  void round() {
    carried_.assign(link_.size(), 0);
    for (size_t i = 0; i < flow_.size(); ++i)
      for (const int l : s_.links_of(static_cast<int>(i)))
        carried_[static_cast<size_t>(l)] += mix(flow_[i]);
    for (size_t l = 0; l < link_.size(); ++l) link_[l] = mix(link_[l], carried_[l]);
    next_ = flow_;
    for (size_t i = 0; i < flow_.size(); ++i) {
      uint64_t met = 0;
      for (const int l : s_.links_of(static_cast<int>(i)))
        met += mix(link_[static_cast<size_t>(l)]);
      for (auto w = static_cast<size_t>(s_.first_wait[i]);
           w < static_cast<size_t>(s_.first_wait[i + 1]); ++w)
        met +=
            mix(flow_[static_cast<size_t>(s_.wait_on[w])], 1 + static_cast<uint64_t>(s_.wait[w]));
      next_[i] = mix(flow_[i], met);
    }
    flow_.swap(next_);
  }

  const FlowSystem& s_;
  std::vector<uint64_t> flow_, link_, carried_, next_;
};

/// Numbers colours in the order they appear, and says who had each first.
std::vector<int> number_classes(const std::vector<uint64_t>& colours, std::vector<int>& first) {
  std::unordered_map<uint64_t, int> seen;
  std::vector<int> class_of;
  class_of.reserve(colours.size());
  for (size_t i = 0; i < colours.size(); ++i) {
    const auto [it, fresh] = seen.try_emplace(colours[i], static_cast<int>(first.size()));
    if (fresh) first.push_back(static_cast<int>(i));
    class_of.push_back(it->second);
  }
  return class_of;
}

}  // namespace

FoldedSystem fold(FlowSystem&& whole) {
  FoldedSystem folded;
  Refinement refinement(whole);
  if (!refinement.run()) {
    folded.class_of.resize(static_cast<size_t>(whole.size()));
    for (int i = 0; i < whole.size(); ++i) folded.class_of[static_cast<size_t>(i)] = i;
    folded.system = std::move(whole);
    return folded;
  }
  std::vector<int> flow, link;
  folded.class_of = number_classes(refinement.flows(), flow);
  const std::vector<int> link_class = number_classes(refinement.links(), link);

  FlowSystem& s = folded.system;
  std::vector<std::unordered_map<int, double>> carried(link.size());
  for (int i = 0; i < whole.size(); ++i)
    for (const int l : whole.links_of(i)) {
      const int c = link_class[static_cast<size_t>(l)];
      if (link[static_cast<size_t>(c)] == l)
        carried[static_cast<size_t>(c)][folded.class_of[static_cast<size_t>(i)]] += 1;
    }
  for (const int l : link) s.capacity.push_back(whole.capacity[static_cast<size_t>(l)]);
  for (size_t c = 0; c < flow.size(); ++c) {
    const auto i = static_cast<size_t>(flow[c]);
    s.bytes.push_back(whole.bytes[i]);
    s.latency.push_back(whole.latency[i]);
    s.start.push_back(whole.start[i]);
    s.repeat.push_back(whole.repeat[i]);
    std::vector<int> crossed;
    for (const int l : whole.links_of(flow[c]))
      crossed.push_back(link_class[static_cast<size_t>(l)]);
    std::sort(crossed.begin(), crossed.end());
    crossed.erase(std::unique(crossed.begin(), crossed.end()), crossed.end());
    for (const int l : crossed) {
      s.link.push_back(l);
      s.crossing.push_back(carried[static_cast<size_t>(l)].at(static_cast<int>(c)));
    }
    s.first_link.push_back(static_cast<int>(s.link.size()));
    std::vector<std::pair<int, Wait>> waits;
    for (auto w = static_cast<size_t>(whole.first_wait[i]);
         w < static_cast<size_t>(whole.first_wait[i + 1]); ++w)
      waits.emplace_back(folded.class_of[static_cast<size_t>(whole.wait_on[w])], whole.wait[w]);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    for (const auto& [on, wait] : waits) {
      s.wait_on.push_back(on);
      s.wait.push_back(wait);
    }
    s.first_wait.push_back(static_cast<int>(s.wait_on.size()));
  }
  return folded;
}

}  // namespace orrery::fabric
