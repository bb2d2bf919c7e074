#include "orrery/cluster/astra/rooted_steps.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace orrery::astra {
namespace {

using chakra::Collective;

/// A place in the binomial tree over `size` ranks.
struct BinomialPlace {
  int parent = -1;            ///< −1: the root.
  std::vector<int> children;  ///< The farthest first, which has most below it.
  int below = 1;              ///< Ranks of its subtree, itself included.
};

BinomialPlace binomial_place(int size, int index) {
  BinomialPlace place;
  const int span = index == 0 ? size : index & -index;
  if (index > 0) place.parent = index - span;
  for (int step = 1; step < span && index + step < size; step *= 2)
    place.children.push_back(index + step);
  std::ranges::reverse(place.children);
  place.below = std::min(span, size - index);
  return place;
}

/// Messages towards the root or away from it.
class TreeSteps : public StepAlgorithm {
 public:
  TreeSteps(const Phase& phase, StepPort& port)
      : phase_(phase), port_(port), place_(binomial_place(phase.ring.size, phase.ring.index)) {}

 protected:
  /// What one rank's part is.
  uint64_t part() const {
    return phase_.kind == Collective::kScatter
               ? phase_.bytes / static_cast<uint64_t>(phase_.ring.size)
               : phase_.bytes;
  }
  /// What goes between `index` and its parent.
  uint64_t bytes_of(int index) const {
    if (phase_.kind == Collective::kReduce) return part();
    return part() * static_cast<uint64_t>(binomial_place(phase_.ring.size, index).below);
  }
  int rank_at(int index) const { return phase_.ring.rank_at(index); }

  const Phase phase_;
  StepPort& port_;
  const BinomialPlace place_;
};

class TowardsRoot final : public TreeSteps {
 public:
  using TreeSteps::TreeSteps;

  void start() override {
    if (place_.children.empty()) port_.hand_over(bytes_of(phase_.ring.index), false);
    for (const int child : place_.children) port_.receive(rank_at(child), bytes_of(child));
  }
  void received() override { port_.hand_over(part(), phase_.kind == Collective::kReduce); }
  void released() override {
    if (++released_ < place_.children.size()) return;
    if (place_.parent >= 0) port_.send(rank_at(place_.parent), bytes_of(phase_.ring.index));
    port_.finish();
  }

 private:
  size_t released_ = 0;
};

class FromRoot final : public TreeSteps {
 public:
  using TreeSteps::TreeSteps;

  void start() override {
    if (place_.parent < 0)
      port_.hand_over(phase_.bytes, false);
    else
      port_.receive(rank_at(place_.parent), bytes_of(phase_.ring.index));
  }
  void received() override { port_.hand_over(bytes_of(phase_.ring.index), false); }
  void released() override {
    for (const int child : place_.children) port_.send(rank_at(child), bytes_of(child));
    port_.finish();
  }
};

class BarrierSteps final : public StepAlgorithm {
 public:
  BarrierSteps(const Phase& phase, StepPort& port) : phase_(phase), port_(port) {}

  void start() override { port_.hand_over(1, false); }
  void received() override {
    distance_ *= 2;
    port_.hand_over(1, false);
  }
  void released() override {
    const int size = phase_.ring.size, index = phase_.ring.index;
    if (distance_ >= size) return port_.finish();
    port_.exchange(phase_.ring.rank_at((index + distance_) % size),
                   phase_.ring.rank_at((index + size - distance_) % size), 1);
  }

 private:
  const Phase phase_;
  StepPort& port_;
  int distance_ = 1;
};

}  // namespace

bool has_steps_of_its_own(Collective kind) {
  return kind == Collective::kReduce || kind == Collective::kGather ||
         kind == Collective::kScatter || kind == Collective::kBarrier;
}

std::unique_ptr<StepAlgorithm> make_steps_of_its_own(const Phase& phase, StepPort& port) {
  if (phase.kind == Collective::kBarrier) return std::make_unique<BarrierSteps>(phase, port);
  if (phase.kind == Collective::kScatter) return std::make_unique<FromRoot>(phase, port);
  return std::make_unique<TowardsRoot>(phase, port);
}

uint64_t messages_of_its_own(const Phase& phase) {
  return static_cast<uint64_t>(std::bit_width(static_cast<uint32_t>(phase.ring.size - 1)));
}

}  // namespace orrery::astra
