#pragma once

#include <vector>

#include "orrery/hardware/device.h"
#include "orrery/model/fusion_graph.h"

namespace orrery {

/// Products of fewer rows or columns run in generated kernels, not in the library (fitted to
/// XLA's choices on the H200).
inline constexpr int64_t kLibraryProductRows = 384;
/// … as do those that sum over less.
inline constexpr int64_t kLibraryProductDepth = 128;

/// Sizes of a matrix product as its operation, or the pass that changed it, says.
ProductShape product_shape(const Workload& workload, const FusionGraph& graph,
                           const FusionNode& node);

/// Products that share an operand become one, over the others side by side, of which slices
/// are read (XLA's dot merger).
void merge_products(const Workload& workload, FusionGraph& graph);

/// Products of rows with the weights of their groups become products with all weights, of rows
/// spread over as many columns as there are groups, zeros elsewhere (XLA's ragged dot expander).
void expand_grouped_products(const Workload& workload, FusionGraph& graph);

/// Whether a product is one with a vector, better summed than multiplied.
bool is_vector_product(const Workload& workload, const FusionGraph& graph, const FusionNode& node);

/// Products with a vector that no matrix unit can fill become reductions (XLA's dot strength
/// reduction).
void reduce_vector_products(const Workload& workload, FusionGraph& graph);

/// Products of few tiles and a long sum are split along it: parts in fp32, added by whoever
/// reads the result (XLA's split-k rewriter).
void split_products(const Workload& workload, FusionGraph& graph);

/// x + scatter(0, …) is scattered into x itself (XLA's algebraic simplifier).
void scatter_into_sums(const Workload& workload, FusionGraph& graph);

/// The gradient of a pooling window finds where the largest elements lie, then scatters to them
/// (XLA's select-and-scatter expander).
void expand_window_gradients(const Workload& workload, FusionGraph& graph);

/// Reductions over dimensions apart run along the longest of them first (XLA's reduction
/// splitter), long ones over the outer dimensions in two steps (its tree reduction rewriter).
void split_reductions(const Workload& workload, FusionGraph& graph);

/// A kernel: nodes in program order.
struct FusionGroup {
  IdList nodes;
  uint32_t root = 0;  ///< The node at whose place it runs.
  /// The node whose operation gives the kernel its shape: a product, a library call, a
  /// reduction, else the last.
  uint32_t hero = 0;
  /// The only product that reads what it makes, a copy of its own; kNoNode: others do too.
  uint32_t reader = kNoNode;
};

/// Spreads nodes over groups by the rules, and tells each node its groups. Groups are in the
/// order they run.
std::vector<FusionGroup> fuse(const Workload& workload, const Device& device,
                              const FusionRules& rules, FusionGraph& graph);

}  // namespace orrery
