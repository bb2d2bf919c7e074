#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

inline constexpr int kMostReplayRanks = 1 << 20;

/// Chakra traces with ASTRA-sim's own inputs.
struct ReplayRequest {
  std::string prefix;      ///< Traces are PREFIX.0.et, PREFIX.1.et …
  std::string network;     ///< YAML of its analytical networks.
  std::string system;      ///< JSON of its system layer.
  std::string groups;      ///< JSON of communicator groups; may be empty.
  bool congestion = true;  ///< Links carry one message at a time.
  /// How many ranks to play; 0: those of the network. Others than were traced must all have
  /// the same to do, up to whom they send to; the network's last dimension is fitted to them.
  int ranks = 0;
  bool exact = false;     ///< Simulate every rank, even where one would tell of all.
  std::string write;      ///< Prefix to write the traces played to; may be empty.
  bool timeline = false;  ///< Whether the answer's timeline is wanted.
};

struct ReplayRank {
  uint64_t finish_ns = 0;
  uint64_t compute_ns = 0;  ///< Nodes on the compute units.
  uint64_t host_ns = 0;     ///< Nodes on the host.
  /// Time in which the compute units rest, as ASTRA-sim reports it.
  uint64_t exposed_communication_ns() const { return finish_ns - compute_ns; }
  bool operator==(const ReplayRank&) const = default;
};

/// A node of a trace, as it ran.
struct ReplayedNode {
  uint32_t rank = 0;
  uint64_t id = 0;
  std::string name;
  std::string kind;  ///< "COMP_NODE" …; of a collective "all-reduce" …
  bool host = false;
  uint64_t bytes = 0;  ///< Of a communication.
  uint64_t start_ns = 0, end_ns = 0;
};

struct ReplayAnswer {
  uint64_t total_ns = 0;          ///< When the last rank is done.
  std::vector<ReplayRank> ranks;  ///< By rank.
  int traced_ranks = 0;           ///< For how many there are files.
  uint64_t nodes = 0;             ///< Of all ranks together.
  /// One rank was simulated for all, which do the same at the same time.
  bool folded = false;
  uint64_t messages = 0;               ///< That were simulated.
  std::vector<ReplayedNode> timeline;  ///< By rank and start; if folded, of rank 0 alone.
  std::vector<std::string> notes;
};

/// Answers as ASTRA-sim 2 would, to the nanosecond. Throws `kInput` for malformed files, for
/// what they ask that is not modelled and for ranks that wait for each other for ever.
ReplayAnswer replay(const ReplayRequest& request);

}  // namespace orrery
