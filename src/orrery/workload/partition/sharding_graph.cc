#include "orrery/workload/partition/sharding_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

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

bool contains(const Axes& axes, Axis axis) { return std::ranges::find(axes, axis) != axes.end(); }

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

ShardingGraph::NodeId ShardingGraph::add_node(TypeId type) {
  Node node;
  node.type = type;
  node.sharding.dims.resize(w_.type(type).dims.size());
  for (DimensionSharding& d : node.sharding.dims) d.open = true;
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
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
  instance.nodes.resize(end - instance.first_value);
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
      instance.callees[op.id().index] = called;
      for (uint32_t i = 0; i < op.result_count(); ++i)
        set(instance, op.result(i), instances_[called].results[i]);
      return;
    }
    case Opcode::k_while: {
      if (regions.size() != 2) break;
      std::vector<NodeId> carried;
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        carried.push_back(add_node(w_.value(op.operand(i)).type));
        tie(operand_node(i), carried[i]);
        if (i < op.result_count()) set(instance, op.result(i), carried[i]);
      }
      for (const RegionId r : regions) {
        for (uint32_t i = 0; i < w_.region(r).argument_count; ++i)
          set(instance, ValueId{w_.region(r).first_argument + i}, carried[i]);
        add_region(instance, r);
      }
      const auto last = returned(regions[1]);
      for (size_t i = 0; i < last.size() && i < carried.size(); ++i)
        tie(instance.node(last[i]), carried[i]);
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
        for (uint32_t i = 0; i < last.size() && i < op.result_count(); ++i)
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
  throw_input(w_.name(), fmt::format("the module is not partitioned: how '{}' is shared out is not "
                                     "known{}",
                                     name(op.code()), kExportInstead));
}

void ShardingGraph::add_manual(Instance& instance, const OpView& op) {
  const auto regions = op.raw_regions();
  const auto in = op.integers(Attr::kInShardings);
  const auto out = op.integers(Attr::kOutShardings);
  const Axes manual = grid_.named(op.string(Attr::kManualAxes));
  if (regions.size() != 1 || in.size() != op.operand_count() || out.size() != op.result_count() ||
      w_.region(regions[0]).argument_count != op.operand_count())
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
    if (i >= last.size()) continue;
    const NodeId boundary = add_node(w_.value(last[i]).type);
    seed(boundary, inside(sharding));
    tie(instance.node(last[i]), boundary);
  }
}

// --- propagation ------------------------------------------------------------

void ShardingGraph::propagate() {
  std::set<int> priorities = {0};
  for (const Seed& s : later_) priorities.insert(s.priority);
  for (const int priority : priorities) {
    for (const Seed& s : later_) {
      if (s.priority != priority) continue;
      // What came before may have taken its place.
      std::vector<DimensionSharding>& dims = nodes_[s.node].sharding.dims;
      const bool free = std::ranges::none_of(s.axes, [&](Axis a) {
        for (size_t d = 0; d < dims.size(); ++d)
          if (d != s.dim && contains(dims[d].axes, a)) return true;
        return false;
      });
      const Axes& now = dims[s.dim].axes;
      if (free && now.size() <= s.axes.size() && std::equal(now.begin(), now.end(), s.axes.begin()))
        dims[s.dim].axes = s.axes;
    }
    for (int stage = 0; stage < 3; ++stage)
      for (const bool aggressive : {false, true}) spread(stage, aggressive);
  }
}

void ShardingGraph::spread(int stage, bool aggressive) {
  std::vector<std::vector<uint32_t>> users(nodes_.size());
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    for (const NodeId n : steps_[i].operands) users[n].push_back(i);
    for (const NodeId n : steps_[i].results) users[n].push_back(i);
  }
  std::deque<uint32_t> waiting;
  std::vector<bool> queued(steps_.size(), true);
  for (uint32_t i = 0; i < steps_.size(); ++i) waiting.push_back(i);
  std::vector<NodeId> changed;
  while (!waiting.empty()) {
    const uint32_t at = waiting.front();
    waiting.pop_front();
    queued[at] = false;
    changed.clear();
    if (!spread_step(steps_[at], stage, aggressive, changed)) continue;
    for (const NodeId n : changed)
      for (const uint32_t user : users[n])
        if (!queued[user]) {
          queued[user] = true;
          waiting.push_back(user);
        }
  }
}

namespace {

/// A tensor's sharding seen by factors.
struct FactorSharding {
  bool present = false;
  bool closed = false;
  bool minor = true;  ///< The last factor of its dimension, which need not divide.
  Axes axes;
  Axes overflow;  ///< Axes that follow but do not divide the factor.
};
struct Projection {
  std::vector<FactorSharding> factors;
  Axes elsewhere;  ///< Axes on dimensions without factors.
};

Projection project(const DeviceGrid& grid, const Rule& rule, const Rule::Tensor& tensor,
                   const TensorSharding& sharding) {
  Projection p;
  p.factors.resize(rule.factors.size());
  for (size_t d = 0; d < tensor.size(); ++d) {
    const Axes& axes = sharding.dims[d].axes;
    size_t next = 0;
    for (size_t k = 0; k < tensor[d].size(); ++k) {
      FactorSharding& f = p.factors[static_cast<size_t>(tensor[d][k])];
      f.present = true;
      f.closed = !sharding.dims[d].open;
      f.minor = k + 1 == tensor[d].size();
      const int64_t size = rule.factors[static_cast<size_t>(tensor[d][k])].size;
      int64_t got = 1;
      while (next < axes.size() && (f.minor || size % (got * grid.size(axes[next])) == 0)) {
        f.axes.push_back(axes[next]);
        got *= grid.size(axes[next++]);
      }
      if (!f.minor && got != size) {
        f.overflow.assign(axes.begin() + static_cast<ptrdiff_t>(next), axes.end());
        next = axes.size();
      }
    }
    if (tensor[d].empty()) p.elsewhere.insert(p.elsewhere.end(), axes.begin(), axes.end());
  }
  return p;
}

enum class Direction : uint8_t { kNone, kForward, kBackward, kBoth };

Direction direction_of(Opcode code, bool reduced, int stage) {
  if (stage >= 2) return Direction::kBoth;
  if (is_elementwise(code) || code == Opcode::k_reshape || code == Opcode::k_transpose ||
      code == Opcode::k_identity || code == Opcode::k_sharding_constraint)
    return Direction::kBoth;
  if (stage == 1 && !reduced)
    return code == Opcode::k_broadcast_in_dim ? Direction::kBackward : Direction::kBoth;
  const bool slice = code == Opcode::k_dynamic_slice || code == Opcode::k_dynamic_update_slice;
  return slice ? Direction::kForward : Direction::kNone;
}

/// The axes both begin with; behind them those of the longer, where nothing conflicts.
void merge(Axes& axes, const Axes& other, bool& can_grow) {
  size_t same = 0;
  while (same < axes.size() && same < other.size() && axes[same] == other[same]) ++same;
  if (same < axes.size() && same < other.size()) {
    axes.resize(same);
    can_grow = false;
  } else if (can_grow && same < other.size()) {
    axes = other;
  }
}

}  // namespace

bool ShardingGraph::spread_step(const Step& step, int stage, bool aggressive,
                                std::vector<NodeId>& changed) {
  const Rule& rule = *step.rule;
  if (rule.factors.empty()) return false;
  struct Tensor {
    NodeId node;
    const Rule::Tensor* dims;
    Projection projection;
    bool is_result;
  };
  std::vector<Tensor> tensors;
  bool any = false;
  const auto add = [&](const std::vector<NodeId>& nodes, const std::vector<Rule::Tensor>& dims,
                       bool is_result) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (node(nodes[i]).constant()) continue;
      for (const DimensionSharding& d : node(nodes[i]).sharding.dims) any |= !d.axes.empty();
      tensors.push_back({nodes[i], &dims[i], {}, is_result});
    }
  };
  add(step.operands, rule.operands, false);
  add(step.results, rule.results, true);
  if (!any) return false;
  for (Tensor& t : tensors) t.projection = project(grid_, rule, *t.dims, node(t.node).sharding);

  const auto candidate = [&](size_t f) {
    const Direction direction = direction_of(step.code, rule.factors[f].reduced, stage);
    Axes axes;
    if (direction == Direction::kNone) return axes;
    bool can_grow = true;
    for (const bool second : {false, true}) {
      if (second && direction != Direction::kBoth) can_grow = false;
      const bool results = second != (direction == Direction::kBackward);
      for (const Tensor& t : tensors)
        if (t.is_result == results && t.projection.factors[f].present)
          merge(axes, t.projection.factors[f].axes, can_grow);
    }
    return axes;
  };
  const auto fits_factor = [&](const Tensor& t, size_t f, Axis axis, int64_t ways) {
    const FactorSharding& own = t.projection.factors[f];
    if (!own.present) return true;
    if (contains(node(t.node).sharding.replicated, axis)) return false;
    if (contains(own.axes, axis)) return true;
    return !own.closed && own.overflow.empty() && (own.minor || rule.factors[f].size % ways == 0);
  };
  /// Whether another factor of the tensor has the axis, or is about to get it.
  const auto used_elsewhere = [&](const Tensor& t, size_t f, Axis axis,
                                  const std::vector<Axes>* coming) {
    if (contains(t.projection.elsewhere, axis)) return true;
    for (size_t g = 0; g < rule.factors.size(); ++g) {
      const FactorSharding& other = t.projection.factors[g];
      if (g == f || !other.present) continue;
      if (contains(other.axes, axis) || contains(other.overflow, axis)) return true;
      if (coming != nullptr && contains((*coming)[g], axis)) return true;
    }
    return false;
  };
  const auto truncate = [&](Axes& axes, auto&& allowed) {
    int64_t ways = 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      ways *= grid_.size(axes[i]);
      if (!allowed(axes[i], ways)) {
        axes.resize(i);
        return;
      }
    }
  };
  const auto update = [&](size_t f, const Axes& axes) {
    for (Tensor& t : tensors) {
      FactorSharding& own = t.projection.factors[f];
      if (!own.present || own.axes.size() >= axes.size()) continue;
      if (!std::equal(own.axes.begin(), own.axes.end(), axes.begin())) continue;
      own.axes = axes;
    }
  };

  std::vector<Axes> found(rule.factors.size());
  if (aggressive) {
    for (size_t f = 0; f < found.size(); ++f) {
      found[f] = candidate(f);
      truncate(found[f], [&](Axis axis, int64_t ways) {
        return std::ranges::all_of(tensors,
                                   [&](const Tensor& t) { return fits_factor(t, f, axis, ways); });
      });
    }
    const std::vector<Axes> coming = found;
    for (size_t f = 0; f < found.size(); ++f) {
      truncate(found[f], [&](Axis axis, int64_t) {
        return std::ranges::none_of(tensors, [&](const Tensor& t) {
          return t.projection.factors[f].present && used_elsewhere(t, f, axis, &coming);
        });
      });
    }
    for (size_t f = 0; f < found.size(); ++f) update(f, found[f]);
  } else {
    for (size_t f = 0; f < found.size(); ++f) {
      found[f] = candidate(f);
      truncate(found[f], [&](Axis axis, int64_t ways) {
        return std::ranges::all_of(tensors, [&](const Tensor& t) {
          return fits_factor(t, f, axis, ways) && !used_elsewhere(t, f, axis, nullptr);
        });
      });
      update(f, found[f]);
    }
  }

  for (const Tensor& t : tensors) {
    TensorSharding& own = nodes_[t.node].sharding;
    bool grew = false;
    for (size_t d = 0; d < t.dims->size(); ++d) {
      if ((*t.dims)[d].empty() || !own.dims[d].open) continue;
      Axes axes;
      for (size_t k = 0; k < (*t.dims)[d].size(); ++k) {
        const auto f = static_cast<size_t>((*t.dims)[d][k]);
        const FactorSharding& part = t.projection.factors[f];
        axes.insert(axes.end(), part.axes.begin(), part.axes.end());
        axes.insert(axes.end(), part.overflow.begin(), part.overflow.end());
        // What follows a factor that is not shared out whole cannot be written.
        if (grid_.ways(part.axes) != rule.factors[f].size) break;
      }
      if (axes.size() <= own.dims[d].axes.size()) continue;
      // An operand named twice may have grown through its other place.
      const bool taken = std::ranges::any_of(axes, [&](Axis a) {
        for (size_t other = 0; other < own.dims.size(); ++other)
          if (other != d && contains(own.dims[other].axes, a)) return true;
        return false;
      });
      if (taken) continue;
      own.dims[d].axes = std::move(axes);
      grew = true;
    }
    if (grew) changed.push_back(t.node);
  }
  return !changed.empty();
}

}  // namespace orrery::partition
