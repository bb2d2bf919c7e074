#pragma once

#include <vector>

#include "orrery/base/small_vector.h"
#include "orrery/kernel/kernel.h"

namespace orrery {

/// Elements side by side in a tensor: of its innermost dimension that has more than one.
int64_t row_length(const Type& type);

/// Operations that run in one kernel.
struct FusedGroup {
  struct Node {
    OpId op;
    Opcode code = Opcode::k_unknown;  ///< What it does: `op`'s, unless a pass made it.
    bool inserted = false;  ///< Not `op` itself but a move or sum that a pass put beside it.
    const KernelShape* shape = nullptr;  ///< Of what a pass made or changed.
    IdList inputs, outputs;              ///< Into `values`.
  };
  std::vector<Node> nodes;          ///< In program order; the last one is the kernel's root.
  std::vector<const Type*> values;  ///< Those no node gives are read from memory.
  std::vector<uint32_t> stored;     ///< Values that are written to memory.
};

/// The kernel of a group. A contraction, a convolution or a library's call among the operations
/// gives it its shape, with the group's traffic and work. Of the rest, `compiled` kernels get a
/// FusionShape; others are described by their root, or their reduction where there is one.
/// Traffic and work are those of the elements that are needed: a slice of a long chain computes
/// no more than the slice.
Kernel fused_kernel(const Workload& workload, const FusedGroup& group, bool compiled);

/// The kernel of a fusion that the file states; `fused` is how many operations it holds.
Kernel stated_fusion_kernel(const Workload& workload, OpId fusion, bool compiled, uint32_t* fused);

}  // namespace orrery
