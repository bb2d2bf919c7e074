#include "orrery/workload/partition/sharding_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/error.h"

namespace orrery::partition {
namespace {

/// Calls are followed one by one; a module that has more operations than this then is refused.
constexpr size_t kMaxOperations = size_t{1} << 22;
/// Longer constant expressions are partitioned like any other operation.
constexpr int kMaxConstantDepth = 64;

/// What Shardy splits off as a constant expression where all operands are constant.
bool may_be_constant(Opcode code) {
  return is_elementwise(code) || code == Opcode::k_broadcast_in_dim || code == Opcode::k_reshape ||
         code == Opcode::k_slice || code == Opcode::k_transpose || code == Opcode::k_constant ||
         code == Opcode::k_iota;
}

}  // namespace

ShardingGraph::ShardingGraph(const Workload& workload, const DeviceGrid& grid)
    : w_(workload), grid_(grid) {
  const Function& entry = w_.function(w_.entry());
  const Region& body = w_.region(entry.body);
  std::vector<NodeId> arguments;
  for (uint32_t i = 0; i < body.argument_count; ++i) {
    const TypeId type = w_.value(ValueId{body.first_argument + i}).type;
    arguments.push_back(add_node(type));
    if (i < entry.arguments.size() && entry.arguments[i].sharding.valid())
      seed(arguments.back(), grid_.sharding(entry.arguments[i].sharding, w_.type(type).rank()));
  }
  Instance& main = instances_[instantiate(w_.entry(), arguments)];
  for (size_t i = 0; i < main.results.size(); ++i) {
    if (i >= entry.results.size() || !entry.results[i].sharding.valid()) continue;
    const NodeId given = main.results[i];
    const NodeId result = add_node(node(given).type);
    seed(result, grid_.sharding(entry.results[i].sharding, w_.type(node(given).type).rank()));
    tie(given, result);
    main.results[i] = result;
  }
}

ShardingGraph::NodeId ShardingGraph::Instance::node(ValueId value) const {
  const size_t at = value.index - first_value;
  if (at >= nodes.size() || nodes[at] == kUnset)
    throw Error(
        ErrorKind::kInput,
        fmt::format("the module is not partitioned: a value is used outside the computation "
                    "it belongs to{}",
                    kExportInstead));
  return nodes[at];
}

ShardingGraph::NodeId ShardingGraph::add_node(TypeId type) {
  Node node;
  node.type = type;
  node.sharding.dims.resize(w_.type(type).dims.size());
  for (DimensionSharding& d : node.sharding.dims) d.open = true;
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

void ShardingGraph::set(Instance& instance, ValueId value, NodeId id) {
  if (w_.type(value).rank() != w_.type(node(id).type).rank())
    throw_input(w_.name(),
                fmt::format("the module is not partitioned: a call or a loop changes the "
                            "shape of a value{}",
                            kExportInstead));
  instance.nodes[value.index - instance.first_value] = id;
}

void ShardingGraph::seed(NodeId id, const TensorSharding& sharding) {
  TensorSharding& own = nodes_[id].sharding;
  own = sharding;
  for (size_t d = 0; d < own.dims.size(); ++d) {
    if (own.dims[d].priority == 0) continue;
    later_.push_back({id, d, own.dims[d].axes, own.dims[d].priority});
    own.dims[d].axes.clear();
  }
}

void ShardingGraph::tie(NodeId from, NodeId to) {
  const TypeId type = nodes_[from].type;
  const auto [at, added] = identity_rules_.try_emplace(type.index);
  if (added) at->second = identity_rule(w_.type(type));
  if (w_.type(type).dims.size() != w_.type(nodes_[to].type).dims.size()) return;
  steps_.push_back({Opcode::k_identity, &at->second, {from}, {to}});
}

std::vector<ValueId> ShardingGraph::returned(RegionId region) const {
  std::vector<ValueId> values;
  for_each_op(w_, w_.region(region), [&](OpId id) {
    if (w_.op(id).code != Opcode::k_return) return;
    const auto operands = w_.operands(w_.op(id));
    values.assign(operands.begin(), operands.end());
  });
  return values;
}

uint32_t ShardingGraph::instantiate(FunctionId function, std::span<const NodeId> arguments) {
  const Function& f = w_.function(function);
  const Region& body = w_.region(f.body);
  Instance instance;
  instance.function = function;
  // Arguments come first, then the results and region arguments of the operations in order.
  instance.first_value = body.first_argument;
  uint32_t end = body.first_argument + body.argument_count;
  const auto cover = [&](uint32_t first, uint32_t count) {
    if (count == 0) return;
    instance.first_value = std::min(instance.first_value, first);
    end = std::max(end, first + count);
  };
  if (body.argument_count == 0 && body.first_op < body.end_op) {
    instance.first_value = UINT32_MAX;
    end = 0;
  }
  for (uint32_t i = body.first_op; i < body.end_op; ++i) {
    const Op& op = w_.ops()[i];
    cover(op.first_result, op.result_count);
    for (RegionId r = op.first_region; r.valid(); r = w_.region(r).next)
      cover(w_.region(r).first_argument, w_.region(r).argument_count);
  }
  if (instance.first_value > end) instance.first_value = end;
  instance.nodes.resize(end - instance.first_value, kUnset);
  for (uint32_t i = 0; i < body.argument_count; ++i)
    set(instance, ValueId{body.first_argument + i}, arguments[i]);
  add_region(instance, f.body);
  for (const ValueId v : returned(f.body)) {
    NodeId id = instance.node(v);
    if (node(id).constant()) id = add_node(node(id).type);
    instance.results.push_back(id);
  }
  instances_.push_back(std::move(instance));
  return static_cast<uint32_t>(instances_.size() - 1);
}

void ShardingGraph::add_region(Instance& instance, RegionId region) {
  for_each_op(w_, w_.region(region), [&](OpId id) { add_op(instance, id); });
}

void ShardingGraph::add_op(Instance& instance, OpId id) {
  if (++operations_ > kMaxOperations)
    throw_input(w_.name(), fmt::format("the module is not partitioned: with every call followed it "
                                       "has more than {} operations{}",
                                       kMaxOperations, kExportInstead));
  const OpView op = w_.view(id);
  if (op.code() == Opcode::k_return) return;
  if (op_class(op.code()) == OpClass::kControl) {
    add_control(instance, op);
    return;
  }
  const Attribute* const written = op.find(Attr::kSharding);
  int depth = may_be_constant(op.code()) && written == nullptr ? 0 : -1;
  std::vector<NodeId> operands;
  for (uint32_t i = 0; i < op.operand_count(); ++i) {
    operands.push_back(instance.node(op.operand(i)));
    const int behind = node(operands.back()).constant_depth;
    depth =
        depth < 0 || behind < 0 || behind >= kMaxConstantDepth ? -1 : std::max(depth, behind + 1);
  }
  std::vector<NodeId> results;
  for (uint32_t i = 0; i < op.result_count(); ++i) {
    results.push_back(add_node(w_.value(op.result(i)).type));
    set(instance, op.result(i), results.back());
    nodes_[results.back()].constant_depth = depth;
  }
  const auto [at, added] = rules_.try_emplace(id.index);
  if (added) at->second = rule_of(op);
  if (written != nullptr && written->kind == Attribute::Kind::kSharding && !results.empty())
    seed(results[0], grid_.sharding(ShardingId{written->index}, op.result_type(0).rank()));
  // Between a tensor and one device's own part of it nothing spreads.
  const std::string_view target = op.string(Attr::kTarget);
  if (op.code() == Opcode::k_sharding_constraint &&
      (target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape"))
    return;
  if (depth < 0)
    steps_.push_back({op.code(), &at->second, std::move(operands), std::move(results)});
}

void ShardingGraph::refuse_control(const OpView& op) const {
  throw_input(w_.name(), fmt::format("the module is not partitioned: how '{}' is shared out is not "
                                     "known{}",
                                     name(op.code()), kExportInstead));
}

void ShardingGraph::add_control(Instance& instance, const OpView& op) {
  const auto operand_node = [&](uint32_t i) { return instance.node(op.operand(i)); };
  const auto regions = op.raw_regions();
  switch (op.code()) {
    case Opcode::k_call:
    case Opcode::k_composite: {
      const FunctionId callee = op.callee();
      if (!callee.valid() || !w_.function(callee).body.valid() ||
          w_.region(w_.function(callee).body).argument_count != op.operand_count())
        break;
      std::vector<NodeId> arguments;
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        NodeId id = operand_node(i);
        if (node(id).constant()) id = add_node(node(id).type);
        arguments.push_back(id);
      }
      const uint32_t called = instantiate(callee, arguments);
      if (instances_[called].results.size() != op.result_count()) break;
      instance.callees[op.id().index] = called;
      for (uint32_t i = 0; i < op.result_count(); ++i)
        set(instance, op.result(i), instances_[called].results[i]);
      return;
    }
    case Opcode::k_while: {
      if (regions.size() != 2 || op.result_count() != op.operand_count() ||
          returned(regions[1]).size() != op.operand_count())
        break;
      std::vector<NodeId> carried;
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        carried.push_back(add_node(w_.value(op.operand(i)).type));
        tie(operand_node(i), carried[i]);
        set(instance, op.result(i), carried[i]);
      }
      for (const RegionId r : regions) {
        for (uint32_t i = 0; i < w_.region(r).argument_count; ++i)
          set(instance, ValueId{w_.region(r).first_argument + i}, carried[i]);
        add_region(instance, r);
      }
      const auto last = returned(regions[1]);
      for (size_t i = 0; i < carried.size(); ++i) tie(instance.node(last[i]), carried[i]);
      return;
    }
    case Opcode::k_if:
    case Opcode::k_case: {
      if (regions.empty()) break;
      for (uint32_t i = 0; i < op.result_count(); ++i)
        set(instance, op.result(i), add_node(w_.value(op.result(i)).type));
      for (const RegionId r : regions) {
        add_region(instance, r);
        const auto last = returned(r);
        if (last.size() != op.result_count() || w_.region(r).argument_count > 0) refuse_control(op);
        for (uint32_t i = 0; i < op.result_count(); ++i)
          tie(instance.node(last[i]), instance.node(op.result(i)));
      }
      return;
    }
    case Opcode::k_manual_computation:
      add_manual(instance, op);
      return;
    default:
      break;
  }
  refuse_control(op);
}

void ShardingGraph::add_manual(Instance& instance, const OpView& op) {
  const auto regions = op.raw_regions();
  const auto in = op.integers(Attr::kInShardings);
  const auto out = op.integers(Attr::kOutShardings);
  const Axes manual = grid_.named(op.string(Attr::kManualAxes));
  if (regions.size() != 1 || in.size() != op.operand_count() || out.size() != op.result_count() ||
      w_.region(regions[0]).argument_count != op.operand_count() ||
      returned(regions[0]).size() != op.result_count())
    throw_input(w_.name(), fmt::format("the module is not partitioned: a manual computation whose "
                                       "shardings are not those of its values{}",
                                       kExportInstead));
  // What the body sees is shared out by the axes that are not its own.
  const auto inside = [&](TensorSharding sharding) {
    for (DimensionSharding& d : sharding.dims) {
      std::erase_if(d.axes, [&](Axis a) { return contains(manual, a); });
      d.open = false;
    }
    return sharding;
  };
  const Region& body = w_.region(regions[0]);
  for (uint32_t i = 0; i < op.operand_count(); ++i) {
    const TensorSharding sharding =
        grid_.sharding(ShardingId{static_cast<uint32_t>(in[i])}, op.operand_type(i).rank());
    const NodeId boundary = add_node(w_.value(op.operand(i)).type);
    seed(boundary, sharding);
    tie(instance.node(op.operand(i)), boundary);
    const ValueId argument{body.first_argument + i};
    const NodeId own = add_node(w_.value(argument).type);
    seed(own, inside(sharding));
    set(instance, argument, own);
  }
  add_region(instance, regions[0]);
  const auto last = returned(regions[0]);
  for (uint32_t i = 0; i < op.result_count(); ++i) {
    const TensorSharding sharding =
        grid_.sharding(ShardingId{static_cast<uint32_t>(out[i])}, op.result_type(i).rank());
    const NodeId result = add_node(w_.value(op.result(i)).type);
    seed(result, sharding);
    set(instance, op.result(i), result);
    const NodeId boundary = add_node(w_.value(last[i]).type);
    seed(boundary, inside(sharding));
    tie(instance.node(last[i]), boundary);
  }
}

}  // namespace orrery::partition
