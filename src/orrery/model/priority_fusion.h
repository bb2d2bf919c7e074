#pragma once

#include <memory>
#include <vector>

#include "orrery/hardware/device.h"
#include "orrery/model/fusion_graph.h"

namespace orrery {

/// What XLA takes one element of an operation to cost, in instructions of a vector lane: its own
/// table for Hopper (openxla/xla xla/service/gpu/model/hlo_op_profiles_data.h, sm_90), checked
/// against what its fusion says of 99 operations and types when it compiles for an H200.
double xla_work(Opcode code, ElementType element);

/// What XLA's priority fusion leaves in memory; all else is computed again wherever it is read.
///
/// Every operation starts as a kernel of its own. Whoever saves most by being computed in all its
/// readers instead is, until nobody saves anything (openxla/xla, PriorityFusion and
/// GpuPerformanceModel):
///
///     saved = launch + t(producer) + Σ_readers [t(reader) − t(producer in reader)]
///     t     = compute + memory − 0.95 min(compute, memory)
///     compute = work / lanes,  memory = first reads and writes / bandwidth
///                                       + further reads / (bandwidth × cache speed-up)
///
/// neither bandwidth more than what the kernel's blocks can ask for. How often a kernel computes
/// an element and reads an operand follows from its operations: once for all that is elementwise
/// from the same place, else as often as an operation in between asks.
class PriorityFusion {
 public:
  /// `held` are nodes whose results are needed in memory whatever happens, `closed` those that
  /// take nothing in. The graph must outlive it.
  PriorityFusion(const Workload& workload, const Device& device, const FusionGraph& graph,
                 const std::vector<bool>& held, const std::vector<bool>& closed);
  ~PriorityFusion();

  bool stored(uint32_t node) const;
  /// Whether the kernel that stores `producer` is better run inside that of `reader`, which then
  /// returns both results.
  bool pays_to_return(uint32_t producer, uint32_t reader) const;

 private:
  class Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace orrery
