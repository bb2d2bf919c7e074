#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "orrery/model/library_launches.h"
#include "orrery/model/stack.h"
#include "orrery/workload/cost.h"

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

/// The operations directly in one region, grouped into kernels by a stack's
/// rules. Views are seen through, small calls are inlined; loops and calls stay
/// single nodes whose kernels belong to other regions.
class RegionGraph {
 public:
  RegionGraph(const Workload& workload, const Device& device, const FusionRules& rules,
              const SmallFunctions& small, RegionId region,
              const LibraryLaunches* library = nullptr);

  /// Appends this region's kernels, each run `count` times a step.
  void emit(double count, std::vector<Launch>& launches) const;

  /// Most bytes of values live at once that are neither arguments nor results of
  /// the region, with those of the functions and regions it runs.
  double peak_temporaries(const std::vector<double>& of_functions,
                          const std::map<uint32_t, double>& of_regions) const;

  double constant_bytes() const { return constant_bytes_; }
  bool has_collectives() const { return has_collectives_; }

 private:
  enum class Kind : uint8_t {
    kFusible,    ///< Elementwise and other work that can join a neighbour.
    kReduction,  ///< Takes producers in, ends a group.
    kHeavy,      ///< A kernel of its own.
    kControl,    ///< Runs other regions.
    kReturn,
  };
  struct Node {
    OpId op;
    Kind kind = Kind::kHeavy;
    bool cheap = false;            ///< Worth computing twice rather than storing.
    std::vector<uint32_t> inputs;  ///< Values, views seen through.
    std::vector<uint32_t> outputs;
    std::vector<uint32_t> groups;  ///< Those it is part of; several when duplicated.
  };
  struct Value {
    const Type* type = nullptr;
    uint32_t producer = UINT32_MAX;  ///< Node; none for arguments and outer values.
    std::vector<uint32_t> users;     ///< Nodes.
    bool constant = false;
    bool returned = false;
    bool borrowed = false;  ///< An argument whose buffer the caller keeps.
  };
  /// Operations of one function activation to local values.
  using Scope = std::unordered_map<uint32_t, uint32_t>;

  void add_region(const Region& region, Scope& scope, std::vector<uint32_t>* results);
  uint32_t local(ValueId value, Scope& scope);
  uint32_t add_value(const Type& type, uint32_t producer);
  Kind classify(const OpView& op, bool* cheap) const;
  bool is_view(const OpView& op) const;
  void group();
  Kernel kernel_of_group(const std::vector<uint32_t>& nodes, uint32_t group, OpId* named,
                         uint32_t* fused) const;
  /// Whether some kernel that holds no copy of `producer` reads `value`.
  bool is_read_outside(const Node& producer, uint32_t value) const;

  const Workload& w_;
  const Device& device_;
  const FusionRules& rules_;
  const SmallFunctions& small_;
  const LibraryLaunches* library_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<std::vector<uint32_t>> groups_;  ///< Nodes of each, in program order.
  std::vector<uint32_t> group_root_;           ///< The last node of each: where it runs.
  double constant_bytes_ = 0;
  bool has_collectives_ = false;
};

}  // namespace orrery
