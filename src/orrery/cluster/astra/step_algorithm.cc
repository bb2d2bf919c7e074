#include "orrery/cluster/astra/step_algorithm.h"

#include <algorithm>
#include <bit>

#include "orrery/base/error.h"
#include "orrery/cluster/astra/rooted_steps.h"

namespace orrery::astra {
namespace {

using chakra::Collective;

/// Messages that wait until the endpoint has let them through.
class PacketQueue {
 public:
  struct Packet {
    int to, from;
    uint64_t bytes;
  };
  bool empty() const { return first_ == packets_.size(); }
  void push(const Packet& packet) { packets_.push_back(packet); }
  Packet pop() {
    const Packet packet = packets_[first_++];
    if (first_ == packets_.size()) {
      packets_.clear();
      first_ = 0;
    }
    return packet;
  }

 private:
  std::vector<Packet> packets_;
  size_t first_ = 0;
};

/// What ring, direct and halving-doubling have in common: rounds that begin with `parallel`
/// messages from memory and go on with what was received, reduced in the first round of an
/// all-reduce and in all of a reduce-scatter.
class Rounds : public StepAlgorithm {
 public:
  Rounds(const Phase& phase, StepPort& port) : phase_(phase), port_(port) {}

  void start() override {
    for (int i = 0; i < parallel_; ++i) insert();
  }
  void received() override {
    ++messages_received_;
    insert();
  }
  void released() override {
    ++free_;
    send_next();
    finish_if_done();
  }

 protected:
  /// Messages of a round behind its first.
  virtual int round_length() const = 0;
  /// The next message; called once for each, in order.
  virtual PacketQueue::Packet next_packet() = 0;

  void send_next() {
    if (packets_.empty() || steps_left_ == 0 || free_ == 0) return;
    const PacketQueue::Packet packet = packets_.pop();
    port_.exchange(packet.to, packet.from, packet.bytes);
    --steps_left_;
    --free_;
  }
  void finish_if_done() {
    if (steps_left_ == 0 && free_ == parallel_) port_.finish();
  }

  const Phase phase_;
  StepPort& port_;
  int64_t steps_left_ = 0;
  int parallel_ = 1;
  int messages_received_ = 0;
  int free_ = 0;  ///< Messages that the endpoint has let through and that wait to be sent.

 private:
  void insert() {
    if (fresh_ == 0 && passed_on_ == 0) {
      fresh_ = parallel_;
      passed_on_ = round_length();
      first_half_ = !first_half_;
    }
    bool reduce = false;
    if (fresh_ > 0) {
      --fresh_;
    } else {
      --passed_on_;
      reduce = phase_.kind == Collective::kReduceScatter ||
               (phase_.kind == Collective::kAllReduce && first_half_);
    }
    const PacketQueue::Packet packet = next_packet();
    packets_.push(packet);
    port_.hand_over(packet.bytes, reduce);
  }

  PacketQueue packets_;
  int fresh_ = 0;
  int passed_on_ = 0;
  bool first_half_ = false;
};

class RingSteps : public Rounds {
 public:
  RingSteps(const Phase& phase, StepPort& port) : Rounds(phase, port) {
    const int step = phase.clockwise ? 1 : phase.ring.size - 1;
    to_ = (phase.ring.index + step) % phase.ring.size;
    from_ = (phase.ring.index + phase.ring.size - step) % phase.ring.size;
    bytes_ = phase.kind == Collective::kAllGather
                 ? phase.bytes
                 : phase.bytes / static_cast<uint64_t>(phase.ring.size);
    steps_left_ = static_cast<int64_t>(phase.messages());
  }

 protected:
  int round_length() const override { return phase_.ring.size - 1; }
  PacketQueue::Packet next_packet() override {
    return {phase_.ring.rank_at(to_), phase_.ring.rank_at(from_), bytes_};
  }

  int to_ = 0, from_ = 0;  ///< Indices in the ring.
  uint64_t bytes_ = 0;
};

class DirectSteps final : public RingSteps {
 public:
  DirectSteps(const Phase& phase, StepPort& port) : RingSteps(phase, port) {
    const int others = phase.ring.size - 1;
    const int window = phase.implementation.window;
    parallel_ = window < 0 ? others : std::min(window, others);
  }

  void released() override {
    if (phase_.kind != Collective::kAllReduce || steps_left_ > phase_.ring.size - 1)
      return Rounds::released();
    // The second half of an all-reduce begins when all of the first have come.
    ++free_;
    if (messages_received_ < phase_.ring.size - 1) return;
    for (int i = 0; i < parallel_; ++i) send_next();
    finish_if_done();
  }

 protected:
  int round_length() const override { return parallel_; }
  PacketQueue::Packet next_packet() override {
    const PacketQueue::Packet packet = RingSteps::next_packet();
    const int step = phase_.clockwise ? 1 : phase_.ring.size - 1;
    to_ = advanced(to_, step);
    from_ = advanced(from_, phase_.ring.size - step);
    return packet;
  }

 private:
  int advanced(int index, int step) const {
    index = (index + step) % phase_.ring.size;
    return index == phase_.ring.index ? (index + step) % phase_.ring.size : index;
  }
};

class HalvingDoublingSteps final : public Rounds {
 public:
  HalvingDoublingSteps(const Phase& phase, StepPort& port) : Rounds(phase, port) {
    while (1 << (rounds_ + 1) <= phase.ring.size) ++rounds_;
    steps_left_ = static_cast<int64_t>(phase.messages());
    growing_ = phase.kind != Collective::kAllGather;
    distance_ = growing_ ? 1 : phase.ring.size / 2;
    bytes_ = growing_ ? phase.bytes / 2 : phase.bytes;
  }

 protected:
  int round_length() const override { return rounds_ - 1; }
  PacketQueue::Packet next_packet() override {
    const int partner = distance_ == 0 ? phase_.ring.index : phase_.ring.index ^ distance_;
    const int rank = phase_.ring.rank_at(partner);
    const PacketQueue::Packet packet = {rank, rank, bytes_};
    advance();
    if (distance_ == phase_.ring.size && phase_.kind == Collective::kAllReduce) {
      growing_ = false;
      advance();
    }
    return packet;
  }

 private:
  void advance() {
    distance_ = growing_ ? distance_ * 2 : distance_ / 2;
    bytes_ = growing_ ? bytes_ / 2 : bytes_ * 2;
  }

  int rounds_ = 0;
  int distance_ = 1;
  uint64_t bytes_ = 0;
  bool growing_ = true;  ///< Distances grow and messages shrink.
};

class TreeSteps final : public StepAlgorithm {
 public:
  TreeSteps(const Phase& phase, StepPort& port) : port_(port), bytes_(phase.bytes) {
    const TreePlace place = tree_place(phase.ring.size, phase.ring.index, phase.root_is_first);
    const auto rank = [&](int index) { return index < 0 ? -1 : phase.ring.rank_at(index); };
    parent_ = rank(place.parent);
    left_ = rank(place.left);
    right_ = rank(place.right);
  }

  void start() override {
    if (is_leaf()) {
      port_.hand_over(bytes_, false);
    } else if (is_root()) {
      port_.receive(only_child(), bytes_);
    } else {
      port_.receive(left_, bytes_);
      port_.receive(right_, bytes_);
    }
  }

  void received() override {
    // What comes from the parent is handed over too, and to pass it on it is read again.
    port_.hand_over(bytes_, !is_leaf());
  }

  void released() override {
    ++releases_;
    if (is_leaf()) {
      if (releases_ == 1) {
        port_.send(parent_, bytes_);
        port_.receive(parent_, bytes_);
      } else {
        port_.finish();
      }
    } else if (is_root()) {
      port_.send(only_child(), bytes_);
      port_.finish();
    } else if (releases_ == 2) {
      port_.send(parent_, bytes_);
      port_.receive(parent_, bytes_);
    } else if (releases_ == 3) {
      port_.send(left_, bytes_);
      port_.send(right_, bytes_);
      port_.finish();
    }
  }

 private:
  bool is_leaf() const { return left_ < 0 && right_ < 0; }
  bool is_root() const { return parent_ < 0; }
  int only_child() const { return left_ >= 0 ? left_ : right_; }

  StepPort& port_;
  uint64_t bytes_;
  int parent_ = -1, left_ = -1, right_ = -1;
  int releases_ = 0;
};

}  // namespace

uint64_t Phase::bytes_after() const {
  if (implementation.algorithm == Algorithm::kDoubleBinaryTree) return bytes;
  if (kind == Collective::kAllGather) return bytes * static_cast<uint64_t>(ring.size);
  if (kind == Collective::kReduceScatter) return bytes / static_cast<uint64_t>(ring.size);
  return bytes;
}

uint64_t Phase::messages() const {
  if (has_steps_of_its_own(kind)) return messages_of_its_own(*this);
  const auto n = static_cast<uint64_t>(ring.size);
  const uint64_t halves = kind == Collective::kAllReduce ? 2 : 1;
  switch (implementation.algorithm) {
    case Algorithm::kRing:
      return kind == Collective::kAllToAll ? n * (n - 1) / 2 : halves * (n - 1);
    case Algorithm::kDirect:
      return halves * (n - 1);
    case Algorithm::kHalvingDoubling:
      return halves * static_cast<uint64_t>(std::countr_zero(n));
    case Algorithm::kDoubleBinaryTree:
      return 3;
    case Algorithm::kCustom:
      break;
  }
  return 0;
}

std::unique_ptr<StepAlgorithm> make_steps(const Phase& phase, StepPort& port) {
  if (has_steps_of_its_own(phase.kind)) return make_steps_of_its_own(phase, port);
  switch (phase.implementation.algorithm) {
    case Algorithm::kRing:
      return std::make_unique<RingSteps>(phase, port);
    case Algorithm::kDirect:
      return std::make_unique<DirectSteps>(phase, port);
    case Algorithm::kHalvingDoubling:
      return std::make_unique<HalvingDoublingSteps>(phase, port);
    case Algorithm::kDoubleBinaryTree:
      return std::make_unique<TreeSteps>(phase, port);
    case Algorithm::kCustom:
      break;
  }
  throw_internal("a custom collective has no steps of its own");
}

TreePlace tree_place(int size, int index, bool root_is_first) {
  // Numbered in order, the tree below the root is the complete one over 2^k - 1 places: a
  // place's height is that of its lowest set bit, counted from 1.
  const int root = root_is_first ? 0 : size - 1;
  const int base = root_is_first ? 0 : -1;  // index of place 0, the one before the first
  const int top = size / 2;                 // place of the root's child
  TreePlace p;
  if (index == root) {
    (root_is_first ? p.right : p.left) = base + top;
    return p;
  }
  const int place = index - base;
  const int step = place & -place;
  if (place == top)
    p.parent = root;
  else
    p.parent = base + ((place & (2 * step)) != 0 ? place - step : place + step);
  if (step > 1) {
    p.left = base + place - step / 2;
    p.right = base + place + step / 2;
  }
  return p;
}

}  // namespace orrery::astra
