#pragma once

#include <span>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/cluster/nccl/nccl_library.h"

namespace orrery {

/// One row of a table of measured collectives.
struct MeasuredCollective {
  CollectiveCall call;
  Seconds time;
  std::string key;     ///< "all-reduce fp16 8 1048576": what the split goes by.
  bool eager = false;  ///< Launched by the host one by one (backend vllm_eager), not in a graph.
  int64_t line = 0;    ///< In its table.
};

/// Reads the columns kind, bytes, ranks, perhaps dtype, and us; or op_name, nccl_dtype or
/// allreduce_dtype, num_gpus, message_size (elements), latency (ms) and perhaps backend, as
/// aiconfigurator writes them. Throws `kInput` with
/// line and column.
std::vector<MeasuredCollective> read_collectives(const Source& table);

/// Rows of one cluster, all in one node.
struct LinkTable {
  Cluster cluster;
  std::vector<MeasuredCollective> rows;
};

/// Whether a row is held out of fits: one in three, by a hash of its key (learn/split.h, seed 1).
bool is_held_out(const MeasuredCollective& row);

/// Fits constants and corrections to the rows that are not held out:
///   1. NCCL's tuning says which algorithm and protocol ran. How much LL is taken to reach there,
///      and of PCIe the bus, are what explains the rows best.
///   2. For each kind, algorithm and protocol launch, hop ≥ 0 and share > 0 by least squares of
///      relative errors with Huber's weights, drawn a little to NCCL's constants.
///   3. What is left of ln(time), by kind and ranks, is smoothed over octaves; how much, and
///      whether at all, is what predicts rows best that were left out in turn.
/// Intervals are of rows left out in turn; `held_out` are the errors on the third that was held
/// out of it all. Eager rows give what the host adds, the others all else. Several tables give one
/// fit, "generic", of shares of their links.
LinkFit fit_links(std::span<const LinkTable> tables, CustomKernels custom = nullptr);

}  // namespace orrery
