#include "orrery/model/region_graph.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "orrery/model/fused_kernel.h"

namespace orrery {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMostSmallOperations = 64;
/// Constants up to this size live in the kernels' code or cache.
constexpr int64_t kLargeConstantBytes = 4096;
/// A producer is copied into at most this many kernels; beyond that storing is cheaper.
constexpr size_t kMostCopies = 8;
/// Operands times operations of a kernel up to which it is asked what it may overwrite.
constexpr size_t kMostPaths = size_t{1} << 16;

bool is_sliced_read(Opcode code) {
  return code == Opcode::k_slice || code == Opcode::k_dynamic_slice || code == Opcode::k_gather ||
         code == Opcode::k_dynamic_gather || code == Opcode::k_real_dynamic_slice ||
         code == Opcode::k_torch_index_select;
}

}  // namespace

SmallFunctions::SmallFunctions(const Workload& w, bool enabled)
    : small_(w.functions().size(), false) {
  if (!enabled) return;
  for (uint32_t i = 0; i < w.functions().size(); ++i) {
    const Function& f = w.functions()[i];
    if (!f.body.valid() || FunctionId{i} == w.entry()) continue;
    const Region& body = w.region(f.body);
    if (body.end_op - body.first_op > kMostSmallOperations) continue;
    bool small = true;
    for_each_op(w, body, [&](OpId id) {
      switch (op_class(w.op(id).code)) {
        case OpClass::kVector:
        case OpClass::kTranscendental:
        case OpClass::kView:
        case OpClass::kConstant:
        case OpClass::kGenerate:
        case OpClass::kMove:
        case OpClass::kIndexed:
        case OpClass::kReduction:
          break;
        case OpClass::kControl:
          small &= w.op(id).code == Opcode::k_return;
          break;
        default:
          small = false;
      }
    });
    small_[i] = small;
  }
}

RegionGraph::RegionGraph(const Workload& w, const Device& device, const FusionRules& rules,
                         const SmallFunctions& small, RegionId region)
    : w_(w), device_(device), rules_(rules), small_(small) {
  Scope scope;
  const Function& entry = w.function(w.entry());
  const Region& body = w.region(region);
  for (uint32_t i = 0; i < body.argument_count; ++i) {
    arguments_.push_back(local(ValueId{body.first_argument + i}, scope));
    if (rules.arguments_are_immutable && region == entry.body)
      values_[arguments_.back()].borrowed = !entry.arguments[i].donated;
  }
  add_region(w.region(region), scope, nullptr);
  group();
}

uint32_t RegionGraph::add_value(const Type& type, uint32_t producer) {
  Value v;
  v.type = &type;
  v.producer = producer;
  values_.push_back(std::move(v));
  return static_cast<uint32_t>(values_.size() - 1);
}

uint32_t RegionGraph::local(ValueId value, Scope& scope) {
  const auto [at, added] = scope.emplace(value.index, 0);
  if (added) at->second = add_value(w_.type(value), kNone);
  return at->second;
}

bool RegionGraph::is_view(const OpView& op) const {
  if (op.operand_count() == 0) return false;
  if (op_class(op.code()) == OpClass::kView) return true;
  if (op.code() == Opcode::k_broadcast_in_dim || op.code() == Opcode::k_broadcast) {
    return rules_.broadcasts_are_views || op.operand_type(0).elements == op.result_type(0).elements;
  }
  if (op.code() == Opcode::k_transpose || op.code() == Opcode::k_convert ||
      op.code() == Opcode::k_dynamic_reshape)
    return cost(w_, op.id()).bytes() == 0;
  return op.code() == Opcode::k_async_done;
}

RegionGraph::Kind RegionGraph::classify(const OpView& op, bool* cheap) const {
  *cheap = false;
  switch (op_class(op.code())) {
    case OpClass::kVector:
      *cheap = true;
      return Kind::kFusible;
    case OpClass::kTranscendental:
      return Kind::kFusible;
    case OpClass::kGenerate:
      *cheap = op.code() == Opcode::k_iota;
      return *cheap ? Kind::kFusible : Kind::kHeavy;
    case OpClass::kMove:
      // A transposed read inside a loop costs more than it saves: kept apart.
      *cheap = op.code() != Opcode::k_concatenate && op.code() != Opcode::k_transpose;
      return op.code() == Opcode::k_copy ? Kind::kHeavy : Kind::kFusible;
    case OpClass::kIndexed:
      if (op.code() == Opcode::k_scatter || op.code() == Opcode::k_resize) return Kind::kHeavy;
      *cheap = is_sliced_read(op.code());
      return Kind::kFusible;
    case OpClass::kReduction:
      // Statistics are given: a scale and a shift, which XLA writes out and fuses.
      if (op.code() == Opcode::k_batch_norm_inference) return Kind::kFusible;
      return op.code() == Opcode::k_reduce ? Kind::kReduction : Kind::kHeavy;
    case OpClass::kControl:
      if (op.code() == Opcode::k_return) return Kind::kReturn;
      return op.code() == Opcode::k_fusion ? Kind::kHeavy : Kind::kControl;
    default:
      return Kind::kHeavy;
  }
}

void RegionGraph::add_region(const Region& region, Scope& scope, std::vector<uint32_t>* results) {
  // Which values are used by dots only, found in one pass for all transposes.
  std::unordered_map<uint32_t, bool> only_dots;
  if (rules_.transposes_fold_into_dots) {
    for_each_op(w_, region, [&](OpId id) {
      const OpView op = w_.view(id);
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        const bool dot = op.code() == Opcode::k_dot_general;
        const auto [at, added] = only_dots.emplace(op.operand(i).index, dot);
        if (!added) at->second &= dot;
      }
    });
  }
  for_each_op(w_, region, [&](OpId id) {
    const OpView op = w_.view(id);
    if (op_class(op.code()) == OpClass::kCollective) has_collectives_ = true;
    if (op_class(op.code()) == OpClass::kUnknown) {
      for (uint32_t i = 0; i < op.result_count(); ++i)
        scope[op.result(i).index] = add_value(op.result_type(i), kNone);
      return;
    }
    if (op_class(op.code()) == OpClass::kConstant ||
        (op_class(op.code()) == OpClass::kView && op.operand_count() == 0)) {
      for (uint32_t i = 0; i < op.result_count(); ++i) {
        const uint32_t v = add_value(op.result_type(i), kNone);
        values_[v].constant = true;
        if (op.result_type(i).bytes > kLargeConstantBytes && !op.has(Attr::kRealValue) &&
            op.integers(Attr::kValue).size() != 1)
          constant_bytes_ += static_cast<double>(op.result_type(i).bytes);
        scope[op.result(i).index] = v;
      }
      return;
    }
    const bool folded = op.code() == Opcode::k_transpose && rules_.transposes_fold_into_dots &&
                        only_dots.count(op.result(0).index) > 0 && only_dots[op.result(0).index];
    if (is_view(op) || folded) {
      const uint32_t source = local(op.operand(0), scope);
      for (uint32_t i = 0; i < op.result_count(); ++i) {
        const uint32_t seen =
            op.result_count() == op.operand_count() ? local(op.operand(i), scope) : source;
        scope[op.result(i).index] = seen;
      }
      return;
    }
    if (is_inlined_call(op.code()) && op.callee().valid() && small_.contains(op.callee())) {
      const Region& body = w_.region(w_.function(op.callee()).body);
      Scope inner;
      for (uint32_t i = 0; i < body.argument_count && i < op.operand_count(); ++i)
        inner[body.first_argument + i] = local(op.operand(i), scope);
      std::vector<uint32_t> inner_results;
      add_region(body, inner, &inner_results);
      for (uint32_t i = 0; i < op.result_count(); ++i)
        scope[op.result(i).index] =
            i < inner_results.size() ? inner_results[i] : add_value(op.result_type(i), kNone);
      return;
    }
    Node node;
    node.op = id;
    node.kind = classify(op, &node.cheap);
    const auto index = static_cast<uint32_t>(nodes_.size());
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const uint32_t v = local(op.operand(i), scope);
      node.inputs.push_back(v);
      if (node.kind == Kind::kReturn) {
        if (results != nullptr)
          results->push_back(v);
        else
          values_[v].returned = true, results_.push_back(v);
      } else if (values_[v].users.empty() || values_[v].users.back() != index) {
        values_[v].users.push_back(index);
      }
    }
    if (node.kind == Kind::kReturn) return;
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      const uint32_t v = add_value(op.result_type(i), index);
      node.outputs.push_back(v);
      scope[op.result(i).index] = v;
    }
    nodes_.push_back(std::move(node));
  });
}

void RegionGraph::group() {
  const auto takes_in = [&](const Node& user) {
    return (user.kind == Kind::kFusible && rules_.elementwise) ||
           (user.kind == Kind::kReduction && rules_.into_reductions);
  };
  for (size_t n = nodes_.size(); n-- > 0;) {
    Node& node = nodes_[n];
    if (node.kind == Kind::kControl) continue;
    std::vector<uint32_t> consumers;
    bool can_join = node.kind == Kind::kFusible && rules_.elementwise;
    bool stored = false;  // needed in memory whatever is fused
    for (uint32_t v : node.outputs) {
      stored |= values_[v].returned;
      for (uint32_t u : values_[v].users) {
        if (!takes_in(nodes_[u])) can_join = false;
        if (consumers.size() > kMostCopies) break;  // neither one nor few enough to copy into
        for (uint32_t g : nodes_[u].groups)
          if (std::find(consumers.begin(), consumers.end(), g) == consumers.end())
            consumers.push_back(g);
      }
    }
    // An update in place writes its operand's buffer: it must be the end of a kernel.
    if (w_.op(node.op).code == Opcode::k_dynamic_update_slice) can_join = false;
    const bool one = consumers.size() == 1;
    const bool copies =
        !stored && node.cheap && rules_.duplicate_cheap && consumers.size() <= kMostCopies;
    if (can_join && !consumers.empty() && (one || copies)) {
      node.groups = consumers;
    } else {
      node.groups = {static_cast<uint32_t>(groups_.size())};
      groups_.emplace_back();
      group_root_.push_back(static_cast<uint32_t>(n));
    }
  }
  for (uint32_t n = 0; n < nodes_.size(); ++n)
    for (uint32_t g : nodes_[n].groups) groups_[g].push_back(n);
}

bool RegionGraph::is_read_outside(const Node& producer, uint32_t value) const {
  for (uint32_t u : values_[value].users) {
    if (nodes_[u].kind == Kind::kControl) return true;
    for (uint32_t g : nodes_[u].groups)
      if (std::find(producer.groups.begin(), producer.groups.end(), g) == producer.groups.end())
        return true;
  }
  return false;
}

Kernel RegionGraph::kernel_of_group(const std::vector<uint32_t>& nodes, uint32_t g, OpId* named,
                                    uint32_t* fused) const {
  const Node& root = nodes_[group_root_[g]];
  *named = root.op;
  *fused = static_cast<uint32_t>(nodes.size());
  FusedGroup group;
  std::unordered_map<uint32_t, uint32_t> local;
  const auto place = [&](uint32_t value) {
    const auto [at, added] = local.emplace(value, static_cast<uint32_t>(group.values.size()));
    if (added) group.values.push_back(values_[value].type);
    return at->second;
  };
  for (uint32_t n : nodes) {
    const Node& node = nodes_[n];
    FusedGroup::Node& one = group.nodes.emplace_back();
    one.op = node.op;
    for (uint32_t v : node.inputs)
      if (!values_[v].constant) one.inputs.push_back(place(v));
    for (uint32_t v : node.outputs) {
      one.outputs.push_back(place(v));
      const bool stored = values_[v].returned || is_read_outside(node, v);
      if (stored || values_[v].users.empty()) group.stored.push_back(place(v));
    }
  }
  Kernel kernel = w_.op(root.op).code == Opcode::k_fusion
                      ? stated_fusion_kernel(w_, root.op, rules_.compiled, fused)
                      : fused_kernel(w_, group, rules_.compiled);
  // An update of a buffer that is not the program's to change works on a copy.
  for (uint32_t n : nodes) {
    const Opcode code = w_.op(nodes_[n].op).code;
    if (code != Opcode::k_dynamic_update_slice && code != Opcode::k_scatter) continue;
    const Value& updated = values_[nodes_[n].inputs[0]];
    if (!updated.borrowed) continue;
    kernel.cost.bytes_read += static_cast<double>(updated.type->bytes);
    kernel.cost.bytes_written += static_cast<double>(updated.type->bytes);
  }
  if (rules_.single_precision_as_tf32 && kernel.cost.matrix_type == ElementType::kF32 &&
      w_.view(root.op).integer(Attr::kPrecision, 0) == 0 &&
      device_.matrix[ElementType::kTF32].value > 0)
    kernel.cost.matrix_type = ElementType::kTF32;
  return kernel;
}

void RegionGraph::emit(double count, std::vector<Launch>& launches) const {
  if (count <= 0) return;
  // Groups were made from the end: their kernels run in the opposite order.
  for (size_t g = groups_.size(); g-- > 0;) {
    Launch launch;
    launch.kernel =
        kernel_of_group(groups_[g], static_cast<uint32_t>(g), &launch.op, &launch.fused);
    launch.count = count;
    const Cost& c = launch.kernel.cost;
    if (c.flops() == 0 && c.bytes() == 0) continue;  // nothing to run: empty tensors, waits
    launches.push_back(launch);
  }
  // Results that are arguments, or views of them, are copied out.
  for (const Value& value : values_) {
    if (!value.returned || !value.borrowed || value.type->bytes == 0) continue;
    Launch launch;
    launch.kernel.code = Opcode::k_copy;
    launch.kernel.family = KernelFamily::kDataMovement;
    launch.kernel.cost.bytes_read = launch.kernel.cost.bytes_written =
        static_cast<double>(value.type->bytes);
    launch.count = count;
    launches.push_back(launch);
  }
}

bool RegionGraph::is_read_where_written(uint32_t group, uint32_t operand, uint32_t result) const {
  std::unordered_set<uint32_t> reached{operand};
  bool reaches = false;
  // Nodes stand in program order: one pass follows every path.
  for (uint32_t n : groups_[group]) {
    const Node& node = nodes_[n];
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](uint32_t v) { return reached.count(v) > 0; });
    if (!reads) continue;
    const Opcode code = w_.op(node.op).code;
    if (code == Opcode::k_reduce) continue;  // it runs before anything is written
    if (!is_elementwise(code)) return false;
    reached.insert(node.outputs.begin(), node.outputs.end());
    reaches |= std::count(node.outputs.begin(), node.outputs.end(), result) > 0;
  }
  return reaches;
}

RegionKernels RegionGraph::kernels() const {
  RegionKernels kernels;
  kernels.arguments = arguments_;
  kernels.results = results_;
  for (const Value& value : values_) kernels.values.push_back({value.type, value.borrowed});
  std::vector<uint32_t> group_at(nodes_.size(), kNone);
  for (uint32_t g = 0; g < groups_.size(); ++g) group_at[group_root_[g]] = g;
  std::vector<bool> written(values_.size(), false);
  std::vector<uint32_t> read_by(values_.size(), kNone);
  for (uint32_t root = 0; root < nodes_.size(); ++root) {
    const uint32_t g = group_at[root];
    const bool runs_bodies = nodes_[root].kind == Kind::kControl;
    if (!runs_bodies && g == kNone) continue;
    RegionKernels::Step& step = kernels.steps.emplace_back();
    step.op = nodes_[root].op;
    step.runs_bodies = runs_bodies;
    if (runs_bodies) {
      step.reads = nodes_[root].inputs;
      for (uint32_t v : nodes_[root].outputs) step.writes.push_back({v, step.op, kNone, {}});
      continue;
    }
    for (uint32_t n : groups_[g]) {
      const Node& node = nodes_[n];
      const Opcode code = w_.op(node.op).code;
      if (rules_.plans_memory && op_class(code) == OpClass::kContraction)
        step.call = library_call(kernel_of(w_, node.op), device_);
      for (uint32_t v : node.inputs) {
        const uint32_t producer = values_[v].producer;
        const bool inside = producer != kNone && std::count(nodes_[producer].groups.begin(),
                                                            nodes_[producer].groups.end(), g) > 0;
        if (!inside && std::exchange(read_by[v], root) != root) step.reads.push_back(v);
      }
      const bool in_place = code == Opcode::k_dynamic_update_slice || code == Opcode::k_scatter;
      for (uint32_t v : node.outputs) {
        const bool stored =
            values_[v].returned || values_[v].users.empty() || is_read_outside(node, v);
        if (!stored || written[v]) continue;
        written[v] = true;
        step.writes.push_back({v, node.op, in_place ? node.inputs[0] : kNone, {}});
      }
    }
    if (!rules_.plans_memory || groups_[g].size() * step.reads.size() > kMostPaths) continue;
    for (RegionKernels::Write& write : step.writes) {
      const Type& type = *values_[write.value].type;
      for (uint32_t v : step.reads)
        if (values_[v].type->bytes == type.bytes && values_[v].type->elements == type.elements &&
            is_read_where_written(g, v, write.value))
          write.may_overwrite.push_back(v);
    }
  }
  return kernels;
}

}  // namespace orrery
