#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "orrery/cluster/astra/system.h"
#include "orrery/workload/chakra/node.h"

namespace orrery::astra {

/// Ranks that work on one phase of a collective, in the order of their ring.
struct RankRing {
  int size = 0;
  int index = 0;                 ///< Of the rank itself.
  int first = 0;                 ///< Its rank …
  int stride = 1;                ///< … and the distance from one to the next,
  std::span<const int> members;  ///< unless they are listed.

  int rank_at(int i) const {
    return members.empty() ? first + i * stride : members[static_cast<size_t>(i)];
  }
};

/// One chunk's way through one dimension.
struct Phase {
  chakra::Collective kind = chakra::Collective::kAllReduce;
  Implementation implementation;
  RankRing ring;
  uint64_t bytes = 0;
  size_t queue = 0;
  bool clockwise = true;
  bool root_is_first = false;  ///< Of a double binary tree, the one whose root is rank 0.
  bool local = false;          ///< A communicator group: the endpoint takes 10 ns whatever else.

  /// What the chunk has grown or shrunk to behind it.
  uint64_t bytes_after() const;
  /// Messages that each rank sends, at most; a custom collective's are not counted.
  uint64_t messages() const;
};

/// What an algorithm may ask of the rank it runs on.
class StepPort {
 public:
  virtual ~StepPort() = default;
  /// Through the endpoint, and where `reduce` two reads and a write of memory; then `released`.
  virtual void hand_over(uint64_t bytes, bool reduce) = 0;
  /// Sends to `to` and awaits as much from `from`, then `received`.
  virtual void exchange(int to, int from, uint64_t bytes) = 0;
  virtual void send(int to, uint64_t bytes) = 0;
  virtual void receive(int from, uint64_t bytes) = 0;
  /// The phase is done; nothing is asked afterwards.
  virtual void finish() = 0;
};

/// The steps of one phase on one rank.
class StepAlgorithm {
 public:
  virtual ~StepAlgorithm() = default;
  virtual void start() = 0;
  virtual void released() = 0;  ///< What was handed over is through.
  virtual void received() = 0;  ///< A message is there.
};

/// ring: messages of S/N to the next rank; 2(N-1) steps for an all-reduce, N-1 for an
/// all-gather (of S each) and a reduce-scatter, N(N-1)/2 for an all-to-all.
/// direct: as many, to every rank in turn, `window` of them at once.
/// halvingDoubling: log2 N messages of S/2, S/4 … to ranks ever twice as far, and back.
/// doubleBinaryTree: S up a binary tree and down again; chunks take turns between two trees.
/// Reduce, gather, scatter and barrier have steps of their own (rooted_steps.h).
std::unique_ptr<StepAlgorithm> make_steps(const Phase& phase, StepPort& port);

/// A place of the binary trees over `size` ranks, a power of two: one leaf's chain of parents
/// ends in a root of one child, the last rank or, where `root_is_first`, the first.
struct TreePlace {
  int parent = -1, left = -1, right = -1;
};
TreePlace tree_place(int size, int index, bool root_is_first);

}  // namespace orrery::astra
