#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "orrery/base/small_vector.h"
#include "orrery/kernel/kernel.h"
#include "orrery/model/stack.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Functions light enough to be fused with the code that calls them: a few
/// elementwise operations, views and reductions, nothing that runs as a kernel
/// of its own (what JAX emits for relu, silu, where).
class SmallFunctions {
 public:
  SmallFunctions(const Workload& workload, bool enabled);
  bool contains(FunctionId f) const { return small_[f.index]; }

 private:
  std::vector<bool> small_;
};

/// Whether calls of this kind are replaced by the body of a small function.
inline bool is_inlined_call(Opcode code) {
  return code == Opcode::k_call || code == Opcode::k_composite;
}

/// Whether an operation reads of its first operand only as much as it returns.
bool is_sliced_read(Opcode code);

inline constexpr uint32_t kNoNode = UINT32_MAX;

enum class FusionKind : uint8_t {
  kFusible,    ///< Elementwise and other work that can join a neighbour.
  kReduction,  ///< Takes producers in, ends a kernel.
  kProduct,    ///< A matrix product: takes what a product kernel can compute on the way in.
  kHeavy,      ///< A kernel of its own.
  kControl,    ///< Runs other regions.
};

struct FusionNode {
  OpId op;  ///< What it stands for; of an inserted node, what it was inserted for.
  Opcode code = Opcode::k_unknown;
  FusionKind kind = FusionKind::kHeavy;
  bool inserted = false;  ///< Not in the file: a pass added it. Reads and writes its values whole.
  bool along_rows = false;  ///< A reduction over the innermost elements as they lie in memory.
  int32_t shape = -1;       ///< Of what a pass made: an index into `FusionGraph::shapes`.
  uint64_t position = 0;    ///< Where it stands among the others until `FusionGraph::order`.
  IdList inputs;            ///< Values, views seen through.
  IdList outputs;
  IdList groups;  ///< Those it is part of; several when it is computed again.
};

struct FusionValue {
  const Type* type = nullptr;
  uint32_t producer = kNoNode;  ///< Node; none for arguments and outer values.
  IdList users;                 ///< Nodes, each once.
  bool constant = false;
  bool splat = false;  ///< A constant of one number: nothing to read.
  double number = std::numeric_limits<double>::quiet_NaN();  ///< That number, where known.
  bool returned = false;
  bool borrowed = false;  ///< An argument whose buffer the caller keeps.
  /// Of a result: the argument whose buffer it is put into; none for others.
  uint32_t replaced = kNoNode;
};

/// The operations directly in one region as a graph that fusion passes rewrite. Views are
/// seen through and small calls inlined; loops and calls stay single nodes whose kernels
/// belong to other regions. Under `rules.layouts` a transposition is a view as well: each
/// value remembers in which order its dimensions lie, and nodes that need another order
/// (`product_operand`, `convolution_operand` in the builder) get an inserted transposition.
struct FusionGraph {
  std::vector<FusionNode> nodes;  ///< In program order.
  std::vector<FusionValue> values;
  std::vector<uint32_t> arguments;  ///< Values of the region's arguments.
  std::vector<uint32_t> results;    ///< Values it returns, in order.
  std::deque<Type> types;           ///< Of inserted values.
  std::vector<KernelShape> shapes;  ///< Of what passes made.
  double constant_bytes = 0;
  bool has_collectives = false;

  uint32_t add_value(const Type* type);
  /// `like` with other dimensions.
  const Type* add_type(const Type& like, std::vector<int64_t> dims, ElementType element);
  /// Appends a node that makes `output`, a position after `after`; `order` puts it there.
  FusionNode& insert(uint64_t position, OpId op, Opcode code, FusionKind kind, uint32_t output);
  /// Links producers and users again and brings nodes into the order of their positions;
  /// under `drop_dead` without those whose results nobody reads.
  void order(const Workload& workload, bool drop_dead);
};

/// Positions of two neighbours of a file differ by this much.
inline constexpr uint64_t kPositionStep = 64;

/// `library`, where there is one, says which operations launch nothing.
FusionGraph build_fusion_graph(const Workload& workload, const FusionRules& rules,
                               const SmallFunctions& small, RegionId region,
                               const LibraryLaunches* library);

}  // namespace orrery
