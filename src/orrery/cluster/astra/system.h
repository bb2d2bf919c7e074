#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/workload/chakra/node.h"

namespace orrery::astra {

enum class Algorithm : uint8_t {
  kRing,
  kDirect,
  kHalvingDoubling,
  kDoubleBinaryTree,
  kCustom,  ///< A Chakra trace of sends, receives and reductions.
};

/// How one dimension of a collective is done.
struct Implementation {
  Algorithm algorithm = Algorithm::kRing;
  bool one = false;    ///< "oneRing" …: over all ranks as one dimension.
  int window = -1;     ///< Of direct: messages in flight; -1: all.
  std::string custom;  ///< Prefix of the trace files.
};

enum class Scheduling : uint8_t { kLifo, kFifo, kExplicit };

/// ASTRA-sim's system JSON.
struct System {
  Scheduling scheduling = Scheduling::kLifo;
  uint64_t endpoint_delay_ns = 10;
  int active_chunks = 1;          ///< active-chunks-per-dimension
  uint64_t splits = 0;            ///< preferred-dataset-splits
  bool bandwidth_aware = false;   ///< collective-optimization: localBWAware, not baseline
  double memory_bytes_per_s = 0;  ///< local-mem-bw; 0: not said.
  double peak_flops = 0;          ///< peak-perf
  bool roofline = false;
  bool replay_only = false;  ///< Every node takes the time that was traced.
  /// One implementation a dimension.
  std::map<chakra::Collective, std::vector<Implementation>> implementations;
  std::map<uint64_t, Implementation> of_node;  ///< per-node-custom-implementation
  std::vector<std::string> ignored;  ///< Keys that ASTRA-sim's system layer does not read.
};

/// Throws `kInput` for what is malformed, and for `model-shared-bus`, which is not modelled.
System read_system(const Source& json);

}  // namespace orrery::astra
