#include "orrery/model/region_graph.h"

#include <algorithm>
#include <cmath>

#include "orrery/model/fused_kernel.h"

namespace orrery {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMostSmallOperations = 64;
/// Constants up to this size live in the kernels' code or cache.
constexpr int64_t kLargeConstantBytes = 4096;
/// A producer is copied into at most this many kernels; beyond that storing is cheaper.
constexpr size_t kMostCopies = 8;

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
                         const SmallFunctions& small, RegionId region,
                         const LibraryLaunches* library)
    : w_(w), device_(device), rules_(rules), small_(small), library_(library) {
  Scope scope;
  const Function& entry = w.function(w.entry());
  if (rules.arguments_are_immutable && region == entry.body) {
    const Region& body = w.region(region);
    for (uint32_t i = 0; i < body.argument_count; ++i)
      values_[local(ValueId{body.first_argument + i}, scope)].borrowed =
          !entry.arguments[i].donated;
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
  if (library_ != nullptr && op_class(op.code()) != OpClass::kControl)
    return library_->of(op.id()).empty();
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
    const bool folded = library_ == nullptr && op.code() == Opcode::k_transpose && rules_.transposes_fold_into_dots &&
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
          values_[v].returned = true;
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
    if (library_ != nullptr) {
      for (Launch launch : library_->of(nodes_[group_root_[g]].op)) {
        launch.count *= count;
        launches.push_back(launch);
      }
      continue;
    }
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

double RegionGraph::peak_temporaries(const std::vector<double>& of_functions,
                                     const std::map<uint32_t, double>& of_regions) const {
  // When each value is last needed. A value inside a fused group is needed by
  // none; one read by a group is needed until that group's last operation.
  std::vector<uint32_t> last(values_.size(), 0);
  std::vector<bool> stored(values_.size(), false);
  // Buffers shared by an in-place update and what it updates, by loops and what they carry.
  std::vector<uint32_t> buffer(values_.size());
  for (uint32_t v = 0; v < values_.size(); ++v) buffer[v] = v;
  std::vector<bool> from_outside(values_.size(), false);
  for (uint32_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    if (value.producer == kNone) {
      from_outside[v] = true;
      continue;
    }
    const Node& producer = nodes_[value.producer];
    const Opcode code = w_.op(producer.op).code;
    if (code == Opcode::k_dynamic_update_slice && !values_[producer.inputs[0]].borrowed)
      buffer[v] = buffer[producer.inputs[0]];
    if (code == Opcode::k_while && producer.inputs.size() == producer.outputs.size()) {
      const auto at =
          std::find(producer.outputs.begin(), producer.outputs.end(), v) - producer.outputs.begin();
      const uint32_t carried = producer.inputs[static_cast<size_t>(at)];
      if (!from_outside[buffer[carried]]) buffer[v] = buffer[carried];
    }
    stored[v] = value.returned || value.users.empty() || producer.kind == Kind::kControl;
    for (uint32_t u : value.users) {
      const auto in_common = [&](uint32_t g) {
        return std::find(producer.groups.begin(), producer.groups.end(), g) !=
               producer.groups.end();
      };
      if (nodes_[u].kind == Kind::kControl) {
        stored[v] = true;
        last[buffer[v]] = std::max(last[buffer[v]], u);
        continue;
      }
      for (uint32_t g : nodes_[u].groups) {
        if (in_common(g)) continue;
        stored[v] = true;
        last[buffer[v]] = std::max(last[buffer[v]], group_root_[g]);
      }
    }
  }
  std::vector<bool> is_result(values_.size(), false);
  for (uint32_t v = 0; v < values_.size(); ++v)
    if (values_[v].returned) is_result[buffer[v]] = true;

  std::vector<std::vector<uint32_t>> frees(nodes_.size());
  std::vector<bool> allocated(values_.size(), false);
  double live = 0;
  double peak = 0;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    double here = 0;
    if (node.kind == Kind::kControl) {
      const OpView op = w_.view(node.op);
      for (RegionId r : op.raw_regions())
        if (const auto found = of_regions.find(r.index); found != of_regions.end())
          here = std::max(here, found->second);
      for (Attr key : {Attr::kCondition, Attr::kCallee})
        if (const FunctionId f = op.callee(key); f.valid())
          here = std::max(here, of_functions[f.index]);
      for (int64_t b : op.integers(Attr::kBranches))
        here = std::max(here, of_functions[static_cast<size_t>(b)]);
    }
    for (uint32_t v : node.outputs) {
      const uint32_t b = buffer[v];
      if (!stored[v] || allocated[b] || is_result[b] || from_outside[b]) continue;
      // Allocated where its group runs, freed after its last reader.
      allocated[b] = true;
      const auto bytes = static_cast<double>(values_[b].type->bytes);
      live += bytes;
      frees[std::max(last[b], n)].push_back(b);
    }
    peak = std::max(peak, live + here);
    for (uint32_t b : frees[n]) live -= static_cast<double>(values_[b].type->bytes);
  }
  return peak;
}

}  // namespace orrery
