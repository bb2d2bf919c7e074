#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "orrery/workload/partition/device_grid.h"
#include "orrery/workload/partition/rule.h"
#include "orrery/workload/workload.h"

namespace orrery::partition {

/// The values of a module with their shardings, and what ties them together. A function that is
/// called more than once stands here once for each call, because each call may share it out
/// differently; arguments and results of a call are the very values of its callee.
///
/// Constants, iotas and what is computed from them alone take no part: like Shardy, which gives
/// each use a copy of its own, whoever uses one makes the part it needs.
class ShardingGraph {
 public:
  using NodeId = uint32_t;
  static constexpr NodeId kUnset = UINT32_MAX;  ///< Of values inside scalar bodies.

  struct Node {
    TypeId type;
    TensorSharding sharding;
    int constant_depth = -1;  ///< Operations behind a constant expression; -1: it is none.
    bool constant() const { return constant_depth >= 0; }
  };
  /// One use of a function.
  struct Instance {
    FunctionId function;
    uint32_t first_value = 0;
    std::vector<NodeId> nodes;             ///< By value of the function.
    std::map<uint32_t, uint32_t> callees;  ///< Instance by the index of the calling operation.
    std::vector<NodeId> results;
    /// Throws `kInput` for a value that no part of the function gives.
    NodeId node(ValueId value) const;
  };

  ShardingGraph(const Workload& workload, const DeviceGrid& grid);

  /// Shardings of arguments, results and constraints spread to all values, in the order of Shardy
  /// (openxla.org/shardy, "Sharding propagation"): by the priorities the file gives; then
  /// elementwise operations and reshapes before operations that keep their factors, and these
  /// before all; each first without and then with conflicts of other factors looked past.
  void propagate();

  const Node& node(NodeId id) const { return nodes_[id]; }
  /// Callees before callers; the entry last.
  std::span<const Instance> instances() const { return instances_; }
  const Rule& rule(OpId op) const { return rules_.at(op.index); }

 private:
  struct Step {
    Opcode code;
    const Rule* rule;
    std::vector<NodeId> operands;
    std::vector<NodeId> results;
  };
  struct Seed {
    NodeId node;
    size_t dim;
    Axes axes;
    int priority;
  };

  uint32_t instantiate(FunctionId function, std::span<const NodeId> arguments);
  void add_region(Instance& instance, RegionId region);
  void add_op(Instance& instance, OpId id);
  void add_control(Instance& instance, const OpView& op);
  [[noreturn]] void refuse_control(const OpView& op) const;
  void add_manual(Instance& instance, const OpView& op);
  NodeId add_node(TypeId type);
  void set(Instance& instance, ValueId value, NodeId node);
  void seed(NodeId node, const TensorSharding& sharding);
  void tie(NodeId from, NodeId to);
  std::vector<ValueId> returned(RegionId region) const;

  void spread(int stage, bool aggressive);
  bool spread_step(const Step& step, int stage, bool aggressive, std::vector<NodeId>& changed);

  const Workload& w_;
  const DeviceGrid& grid_;
  std::vector<Node> nodes_;
  std::vector<Step> steps_;
  std::vector<Seed> later_;  ///< Of priorities after the first.
  std::vector<Instance> instances_;
  std::map<uint32_t, Rule> rules_;           ///< By operation.
  std::map<uint32_t, Rule> identity_rules_;  ///< By type.
  size_t operations_ = 0;
};

}  // namespace orrery::partition
