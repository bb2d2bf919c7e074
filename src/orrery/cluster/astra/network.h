#pragma once

#include <cstdint>
#include <vector>

#include "orrery/base/source.h"

/// ASTRA-sim 2's model of a cluster, from its own inputs to its own answers.
/// Sources: https://github.com/astra-sim/astra-sim (system layer, analytical front end) and
/// https://github.com/astra-sim/astra-network-analytical (the two networks).
namespace orrery::astra {

/// How the ranks of one dimension are joined.
enum class Block : uint8_t {
  kRing,            ///< To both neighbours; a message takes the shorter way.
  kFullyConnected,  ///< A link to each: one hop.
  kSwitch,          ///< Through one switch: two hops.
};

struct Dimension {
  Block block = Block::kRing;
  int ranks = 0;
  double bytes_per_ns = 0;
  double latency_ns = 0;  ///< Of one hop.
};

/// Ranks count up the first dimension, then the second and so on.
struct Network {
  std::vector<Dimension> dimensions;

  int ranks() const;
  /// The rank's place in a dimension.
  int place(int rank, size_t dimension) const;
  /// Hops between two places of a dimension, which differ.
  static int hops(const Dimension& dimension, int from, int to);
  /// Without congestion: hops · latency + bytes / bandwidth, whole nanoseconds, in the first
  /// dimension in which the two ranks differ, as if they were alike in all others.
  uint64_t delay_ns(int from, int to, uint64_t bytes) const;
};

/// Whole nanoseconds, cut off; throws `kInput` for what takes more than 10^15, over eleven
/// days, so that no sum of times runs over.
uint64_t whole_ns(double nanoseconds);

/// ASTRA-sim's network YAML: `topology` (Ring | FullyConnected | Switch), `npus_count`,
/// `bandwidth` (GB/s of 2^30 bytes) and `latency` (ns), each with one element a dimension.
/// Throws `kInput` with line and column for anything else.
Network read_network(const Source& yaml);

/// The network with its last dimension grown or shrunk so that it has `ranks` in all;
/// `kUsage` where that cannot be.
Network resized(Network network, int ranks);

}  // namespace orrery::astra
