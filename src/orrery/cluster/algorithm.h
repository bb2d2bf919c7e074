#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "orrery/base/registry.h"
#include "orrery/cluster/collective.h"
#include "orrery/cluster/group_place.h"

namespace orrery {

/// How NCCL moves data: 4 bytes of data with 4 of flag (LL), 120 with 8 (LL128), or whole
/// chunks with fences between them (Simple).
enum class Protocol : uint8_t { kLL, kLL128, kSimple };
inline constexpr size_t kProtocolCount = 3;
std::string_view name(Protocol protocol);  ///< "ll", "ll128", "simple"

/// What an algorithm does for one call: hops that must follow each other, and what goes over the
/// wires. Time = launch + hops · latency + the slower of inside and outside bytes / bandwidth.
struct CollectiveWork {
  double hops_inside = 0;
  double hops_outside = 0;
  Bytes wire_inside;   ///< That one rank sends within its node.
  Bytes wire_outside;  ///< That the group's ranks of one node send to others.
};

/// What NCCL knows of a machine when it compares algorithms.
struct NcclTopology {
  /// Rows of NCCL's tables.
  enum Generation : uint8_t { kVolta, kAmpere, kHopper, kBlackwell };
  Generation generation = kAmpere;
  bool nvlink = true;
  double bus_bandwidth = 0;  ///< Of a rank inside a node, GB/s: channels · speed of one.
  double net_bandwidth = 0;  ///< Of the group's part of a node, GB/s.
  int channels = 24;
  double ll_scale = 1;        ///< Of the share of bandwidth that LL is taken to reach.
  double nvls_bandwidth = 0;  ///< GB/s of a buffer that NVLS is taken to reduce.
};

/// One way to run collectives, registered by name in `Registry<CollectiveAlgorithm>`; its
/// description holds the equation.
class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;
  virtual bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const = 0;
  virtual CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                              Protocol protocol) const = 0;

  /// Whether NCCL has it with this protocol.
  virtual bool in_nccl(Protocol protocol) const {
    (void)protocol;
    return false;
  }
  /// The time by which NCCL chooses, in µs: latency + bytes / bandwidth of its tuning model, with
  /// its constants (tuning.h). It is not the time it takes.
  virtual double nccl_cost(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                           Protocol protocol, const NcclTopology& topology) const {
    (void)kind, (void)bytes, (void)place, (void)protocol, (void)topology;
    return INFINITY;
  }
  /// One hop over a network, µs: NCCL's tuning constants, which SimAI's measurements repeat.
  virtual double net_hop(Protocol protocol) const {
    constexpr std::array<double, kProtocolCount> kHop = {2.7, 4.0, 14.0};
    return kHop[static_cast<size_t>(protocol)];
  }
  /// Bytes of a chunk that each hop passes on whole, on each channel; 0 where chunks are too small
  /// to matter or every step moves them anyway.
  virtual Bytes chunk(Protocol protocol) const {
    (void)protocol;
    return {};
  }
  /// Of the adapters' bandwidth that it reaches: by what lines of LL and LL128 carry, and for
  /// Simple 190 of 200 GB/s that a ring over five nodes of 8 H100 was seen to take
  /// (github.com/NVIDIA/nccl/issues/1368).
  virtual double net_share(Protocol protocol) const {
    constexpr std::array<double, kProtocolCount> kShare = {0.95 / 2, 0.95 * 120 / 128, 0.95};
    return kShare[static_cast<size_t>(protocol)];
  }
};

/// Steps of a ring that must follow each other: 2(n − 1) for an all-reduce, n − 1 for an
/// all-gather or reduce-scatter, and n − 1 hops of a pipeline for a broadcast or reduce.
double ring_steps(CollectiveKind kind, int ranks);
/// Bytes that one rank of a ring sends: 2(n − 1)/n · S, (n − 1)/n · S, or S.
Bytes ring_bytes(CollectiveKind kind, Bytes bytes, int ranks);

}  // namespace orrery
