#pragma once

#include <map>
#include <utility>
#include <vector>

#include "orrery/model/fusion_passes.h"
#include "orrery/model/library_launches.h"
#include "orrery/model/region_memory.h"
#include "orrery/model/stack.h"
#include "orrery/workload/cost.h"

namespace orrery {

/// The operations directly in one region, grouped into kernels by a stack's
/// rules: passes rewrite its `FusionGraph`, then `fuse` spreads it over kernels.
class RegionGraph {
 public:
  RegionGraph(const Workload& workload, const Device& device, const FusionRules& rules,
              const SmallFunctions& small, RegionId region,
              const LibraryLaunches* library = nullptr);

  /// Appends this region's kernels, each run `count` times a step.
  void emit(double count, std::vector<Launch>& launches) const;

  /// What the kernels read and leave in memory.
  RegionKernels kernels() const;

  double constant_bytes() const { return graph_.constant_bytes; }
  bool has_collectives() const { return graph_.has_collectives; }

 private:
  using Node = FusionNode;
  using Value = FusionValue;
  using Kind = FusionKind;

  /// Values that a kernel makes for one node alone: by that node and the value.
  using Copies = std::map<std::pair<uint32_t, uint32_t>, uint32_t>;

  /// What the methods below note while they look at one kernel.
  class Scratch;

  void add_step(uint32_t group, const Copies& copies, Scratch& scratch, std::vector<bool>& written,
                RegionKernels& kernels) const;
  /// Whether a library runs the product with what follows it, scales and biases, at no further
  /// work.
  bool runs_with_epilogue(const FusionGroup& group) const;
  Kernel kernel_of_group(uint32_t group, Scratch& scratch, OpId* named, uint32_t* fused) const;
  Launch copy_of(const Value& value, double count) const;
  /// Results of a kernel that belong into buffers it reads but are copied there: one that turns
  /// what it reads and has several such results overwrites none of them.
  std::vector<uint32_t> copied_updates(uint32_t group, Scratch& scratch) const;
  /// What a kernel reads, in the order in which XLA's fusion puts it: what a node reads itself
  /// before what the nodes it takes in read, of those the last first.
  IdList reads_of_group(uint32_t group, Scratch& scratch) const;
  /// How XLA runs a product or a convolution.
  LibraryCall call_of(const Node& node) const;
  /// Whether some kernel that holds no copy of `producer` reads `value`.
  bool is_read_outside(const Node& producer, uint32_t value) const;
  /// Whether a kernel reads of `operand` only the element of `result` that it writes.
  bool is_read_where_written(uint32_t group, uint32_t operand, uint32_t result,
                             Scratch& scratch) const;
  /// Whether `group` is the one of its groups in which a node's results reach memory.
  bool is_stored_by(uint32_t node, uint32_t group) const;

  const Workload& w_;
  const Device& device_;
  const FusionRules& rules_;
  const LibraryLaunches* library_;
  FusionGraph graph_;
  std::vector<FusionGroup> groups_;  ///< In the order they run.
  std::vector<bool> is_needed_;      ///< By value: in memory, whoever may store it.
};

}  // namespace orrery
