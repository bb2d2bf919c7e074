#include "orrery/workload/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "orrery/base/error.h"
#include "orrery/workload/partition/device_grid.h"
#include "orrery/workload/partition/exchange.h"
#include "orrery/workload/partition/execution.h"
#include "orrery/workload/partition/sharding_graph.h"
#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace partition {
namespace {

/// Attributes that say how the whole is shared out: nothing of one device's part.
bool describes_sharding(Attr key) {
  return key == Attr::kSharding || key == Attr::kInShardings || key == Attr::kOutShardings ||
         key == Attr::kManualAxes;
}

class Partitioner {
 public:
  explicit Partitioner(const Workload& workload)
      : w_(workload),
        grid_(workload),
        graph_(workload, grid_),
        builder_(workload.format(), workload.name()),
        exchange_(workload, grid_, builder_),
        summed_next_(workload.values().size()) {
    find_sums();
  }

  Workload run() {
    graph_.propagate();
    builder_.set_library(w_.library());
    builder_.set_partitions(grid_.devices(), w_.replicas());
    for (const Mesh& mesh : w_.meshes()) builder_.add_mesh(mesh);
    for (const std::string& note : w_.notes()) builder_.add_note(note);
    name_functions();
    const auto instances = graph_.instances();
    for (uint32_t i = 0; i < instances.size(); ++i)
      if (same_as_[i] == i) emit_function(i);
    builder_.set_entry(functions_.back());
    try {
      return builder_.finish(Source::from_memory(w_.name(), ""));
    } catch (const Error& e) {
      throw_input(w_.name(), fmt::format("the module could not be partitioned: {}{}", e.message(),
                                         kExportInstead));
    }
  }

 private:
  using Reached = std::map<std::pair<uint32_t, Layout>, ValueId>;

  // --- functions --------------------------------------------------------------

  /// Calls that share out a function in the same way share its partition.
  void name_functions() {
    std::map<std::string, uint32_t> known;
    std::map<std::string, int> used;
    const auto instances = graph_.instances();
    for (uint32_t i = 0; i < instances.size(); ++i) {
      const ShardingGraph::Instance& instance = instances[i];
      std::string key = fmt::format("{}:", instance.function.index);
      const auto add = [&](ShardingGraph::NodeId id) {
        for (const Axes& axes : layout_of(graph_.node(id).sharding)) {
          for (const Axis a : axes) key += fmt::format("{},", a);
          key += ';';
        }
        key += graph_.node(id).constant() ? 'c' : '/';
      };
      for (const auto id : instance.nodes)
        if (id != ShardingGraph::kUnset) add(id);
      for (const auto id : instance.results) add(id);
      for (const auto& [op, callee] : instance.callees) key += fmt::format("@{}", same_as_[callee]);
      const uint32_t first = known.emplace(std::move(key), i).first->second;
      same_as_.push_back(first);
      if (first != i) {
        functions_.push_back(functions_[first]);
        continue;
      }
      std::string name(w_.string(w_.function(instance.function).name));
      if (const int n = used[name]++; n > 0) name += fmt::format(".{}", n);
      functions_.push_back(builder_.declare_function(name));
    }
  }

  void emit_function(uint32_t index) {
    instance_ = &graph_.instances()[index];
    held_.clear();
    reached_.assign(1, {});
    const Function& f = w_.function(instance_->function);
    const Region& body = w_.region(f.body);
    builder_.begin_function(functions_[index], f.is_public);
    for (uint32_t i = 0; i < body.argument_count; ++i) {
      const ValueId old{body.first_argument + i};
      ArgumentInfo info = i < f.arguments.size() ? f.arguments[i] : ArgumentInfo{};
      info.sharding = {};
      if (info.name.valid()) info.name = builder_.intern(w_.string(info.name));
      const Layout layout = wanted(old);
      hold(old, {builder_.add_argument(local_type(w_.type(old), layout), info), layout});
    }
    emit_region(f.body, [&](const std::vector<ValueId>& values) {
      std::vector<Layout> layouts;
      for (size_t i = 0; i < values.size(); ++i)
        layouts.push_back(layout_of(graph_.node(instance_->results[i]).sharding));
      return layouts;
    });
    std::vector<ResultInfo> infos = f.results;
    for (ResultInfo& info : infos) {
      info.sharding = {};
      if (info.name.valid()) info.name = builder_.intern(w_.string(info.name));
    }
    builder_.set_result_infos(std::move(infos));
    builder_.end_function();
  }

  /// Values whose only use is an addition beside them: where both of its operands are summands over
  /// the same devices, XLA adds before it sums over the devices (AllReduceReassociate).
  void find_sums() {
    std::vector<uint8_t> uses(w_.values().size());
    for (const Op& op : w_.ops())
      for (const ValueId v : w_.operands(op)) uses[v.index] = std::min(2, uses[v.index] + 1);
    for (const Region& region : w_.regions()) {
      std::set<uint32_t> here;
      for_each_op(w_, region, [&](OpId id) {
        const OpView op = w_.view(id);
        if (op.result_count() == 1) here.insert(op.result(0).index);
        if (op.code() != Opcode::k_add) return;
        for (const ValueId v : w_.operands(op.raw()))
          summed_next_[v.index] = uses[v.index] == 1 && here.contains(v.index);
      });
    }
  }

  // --- values -----------------------------------------------------------------

  Layout wanted(ValueId old) const { return layout_of(graph_.node(instance_->node(old)).sharding); }
  void hold(ValueId old, Held held) { held_[old.index] = std::move(held); }

  TypeId local_type(const Type& type, const Layout& layout) {
    return exchange_.local_type(type, layout);
  }
  bool is_of(ValueId part, TypeId type) const {
    return builder_.type_of(part).dims == builder_.type(type).dims;
  }
  [[noreturn]] void refuse(std::string_view what) const { exchange_.refuse(what); }

  /// The value as `layout` shares it out, brought there if it is not.
  ValueId get(ValueId old, const Layout& layout) {
    const auto held = held_.find(old.index);
    if (held != held_.end() && !held->second.partial.empty())
      held->second = settle(std::move(held->second), w_.type(old), wanted(old));
    if (held != held_.end() && held->second.layout == layout) return held->second.value;
    const std::pair key(old.index, layout);
    for (const Reached& scope : reached_)
      if (const auto at = scope.find(key); at != scope.end()) return at->second;
    ValueId value;
    if (graph_.node(instance_->node(old)).constant()) {
      value = emit_op(w_.view(w_.value(old).definition), {layout})[0].value;
    } else {
      if (held == held_.end()) refuse("a value is used outside the computation it belongs to");
      value = exchange_.reshard(held->second, w_.type(old), layout, offset_);
    }
    reached_.back().emplace(key, value);
    return value;
  }

  /// Adds up what is partial, and brings it where it is wanted.
  Held settle(Held held, const Type& type, const Layout& layout) {
    if (!held.partial.empty()) {
      Axes partial = std::exchange(held.partial, {});
      held = exchange_.complete(std::move(held), type, std::move(partial), layout, offset_);
    }
    return {exchange_.reshard(held, type, layout, offset_), layout};
  }

  // --- operations -------------------------------------------------------------

  /// Nothing for a constant, which takes any layout.
  std::optional<Layout> held_layout(ValueId old) const {
    if (graph_.node(instance_->node(old)).constant()) return std::nullopt;
    const auto held = held_.find(old.index);
    return held != held_.end() && held->second.partial.empty() ? held->second.layout : wanted(old);
  }

  /// Emits the operation on its parts and brings its results to the layouts asked for.
  std::vector<Held> emit_op(const OpView& op, const std::vector<Layout>& results) {
    const Rule& rule = graph_.rule(op.id());
    std::vector<std::optional<Layout>> now;
    for (uint32_t i = 0; i < op.operand_count(); ++i) now.push_back(held_layout(op.operand(i)));
    const std::vector<Axes> chosen = share_out(grid_, op, rule, now, results);
    std::vector<ValueId> operands;
    operands.reserve(op.operand_count());
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const Layout layout = layout_by(rule.operands[i], chosen);
      if (now[i]) note_gather(op, rule, i, *now[i], layout);
      operands.push_back(get(op.operand(i), layout));
    }
    offset_ = op.raw().offset;
    const OpId id = builder_.begin_op(op.code(), operands, op.result_count(), offset_);
    copy_attributes(op);
    adapt_attributes(op, rule, chosen);
    copy_regions(op);
    std::vector<Held> made;
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      made.push_back({ValueId{}, layout_by(rule.results[i], chosen)});
      builder_.set_result_type(i, local_type(op.result_type(i), made.back().layout));
    }
    builder_.end_op();
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      Held& held = made[i];
      held.value = builder_.result(id, i);
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        if (!rule.factors[f].reduced || Rule::has(rule.results[i], static_cast<int>(f))) continue;
        held.partial.insert(held.partial.end(), chosen[f].begin(), chosen[f].end());
      }
      std::ranges::sort(held.partial);
      if (op_class(op.code()) != OpClass::kContraction || !summed_next_[op.result(i).index])
        held = settle(std::move(held), op.result_type(i), results[i]);
    }
    return made;
  }

  /// XLA exchanges edges or masks where this gathers.
  void note_gather(const OpView& op, const Rule& rule, uint32_t i, const Layout& now,
                   const Layout& layout) {
    for (size_t d = 0; d < now.size(); ++d) {
      if (now[d].empty() || !layout[d].empty() || !rule.operands[i][d].empty()) continue;
      const std::string_view target = op.string(Attr::kTarget);
      const std::string what = target.empty() ? std::string(name(op.code()))
                                              : fmt::format("{} {}", name(op.code()), target);
      builder_.add_note(
          rule.known ? fmt::format("{} along a dimension that devices share: it is gathered whole, "
                                   "where a partitioner may exchange only edges",
                                   what)
                     : fmt::format("how {} is partitioned is not known: its operands are gathered "
                                   "whole on every device",
                                   what));
    }
  }

  void copy_attributes(const OpView& op) {
    for (const Attribute& a : w_.attributes(op.raw())) {
      if (describes_sharding(a.key)) continue;
      switch (a.kind) {
        case Attribute::Kind::kInt:
          if (a.key != Attr::kFeatureGroups && a.key != Attr::kBatchGroups)
            builder_.set_int(a.key, a.integer);
          break;
        case Attribute::Kind::kReal:
          builder_.set_real(a.key, a.real);
          break;
        case Attribute::Kind::kInts:
          // Sizes change with the parts; so do the values of a constant that is not all one.
          if (a.key != Attr::kLimit && a.key != Attr::kSliceSizes &&
              (a.key != Attr::kValue || a.count == 1))
            builder_.set_ints(a.key, std::vector(w_.integers(a).begin(), w_.integers(a).end()));
          break;
        case Attribute::Kind::kString:
          builder_.set_string(a.key, w_.string(StringId{a.index}));
          break;
        case Attribute::Kind::kFunction:
        case Attribute::Kind::kSharding:
          break;
      }
    }
    if (op.raw().name.valid()) builder_.set_name(builder_.intern(w_.string(op.raw().name)));
  }

  /// What depends on sizes, for one device's part.
  void adapt_attributes(const OpView& op, const Rule& rule, const std::vector<Axes>& chosen) {
    const auto sizes = [&](Attr key) {
      const auto written = op.integers(key);
      if (written.empty()) return;
      std::vector<int64_t> local(written.begin(), written.end());
      const Layout layout = layout_by(rule.operands[0], chosen);
      for (size_t d = 0; d < local.size() && d < layout.size(); ++d)
        local[d] = split(local[d], grid_.ways(layout[d]));
      builder_.set_ints(key, local);
    };
    if (op.code() == Opcode::k_gather) {
      // A part of a row that is shared out; single rows stay single.
      const auto written = op.integers(Attr::kSliceSizes);
      std::vector<int64_t> local(written.begin(), written.end());
      const Layout layout = layout_by(rule.operands[0], chosen);
      for (size_t d = 0; d < local.size() && d < layout.size(); ++d)
        if (local[d] > 1) local[d] = split(local[d], grid_.ways(layout[d]));
      builder_.set_ints(Attr::kSliceSizes, local);
    } else if (op.operand_count() > 0) {
      sizes(Attr::kLimit);
      sizes(Attr::kSliceSizes);
    }
    if (const auto values = op.integers(Attr::kValue); values.size() > 1) {
      const bool whole = std::ranges::all_of(chosen, [](const Axes& a) { return a.empty(); });
      if (whole) builder_.set_ints(Attr::kValue, std::vector(values.begin(), values.end()));
    }
    if (op.code() != Opcode::k_convolution) return;
    for (const Attr key : {Attr::kFeatureGroups, Attr::kBatchGroups}) {
      const int64_t groups = op.integer(key, 1);
      // The rule's first factor is the groups, where there are any.
      if (groups != 1) builder_.set_int(key, rule.known ? groups / grid_.ways(chosen[0]) : groups);
    }
  }

  // --- regions ----------------------------------------------------------------

  /// Bodies of reductions, sorts and the like work on single elements: they stay as they are.
  void copy_regions(const OpView& op) {
    for (const RegionId r : op.raw_regions()) {
      builder_.begin_region();
      std::map<uint32_t, ValueId> inside;
      const Region& region = w_.region(r);
      for (uint32_t i = 0; i < region.argument_count; ++i) {
        const ValueId old{region.first_argument + i};
        inside[old.index] = builder_.add_region_argument(local_type(w_.type(old), {}));
      }
      for_each_op(w_, region, [&](OpId id) { copy_op(w_.view(id), inside); });
      builder_.end_region();
    }
  }

  void copy_op(const OpView& op, std::map<uint32_t, ValueId>& inside) {
    std::vector<ValueId> operands;
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const auto at = inside.find(op.operand(i).index);
      if (at == inside.end()) refuse("the body of an operation uses a value from outside");
      operands.push_back(at->second);
    }
    if (!op.raw_regions().empty() || op_class(op.code()) == OpClass::kCollective)
      refuse("the body of an operation has bodies of its own");
    if (op.callee().valid()) refuse("the body of an operation calls a function");
    const OpId id = builder_.begin_op(op.code(), operands, op.result_count(), op.raw().offset);
    copy_attributes(op);
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      builder_.set_result_type(i, local_type(op.result_type(i), {}));
      inside[op.result(i).index] = builder_.result(id, i);
    }
    builder_.end_op();
  }

  /// `layouts(values)` says how what the region returns is wanted.
  template <class Layouts>
  void emit_region(RegionId region, Layouts&& layouts) {
    for_each_op(w_, w_.region(region), [&](OpId id) {
      const OpView op = w_.view(id);
      if (op.code() == Opcode::k_return) {
        emit_return(op, layouts);
        return;
      }
      emit(op);
    });
  }
  template <class Layouts>
  void emit_return(const OpView& op, Layouts&& layouts) {
    std::vector<ValueId> values;
    for (uint32_t i = 0; i < op.operand_count(); ++i) values.push_back(op.operand(i));
    const std::vector<Layout> wanted_layouts = layouts(values);
    for (size_t i = 0; i < values.size(); ++i) values[i] = get(values[i], wanted_layouts[i]);
    builder_.emit_return(values, op.raw().offset);
  }

  void emit(const OpView& op) {
    if (op_class(op.code()) == OpClass::kControl) {
      emit_control(op);
      return;
    }
    if (op.result_count() > 0 && graph_.node(instance_->node(op.result(0))).constant())
      return;  // made where it is used
    const std::string_view target = op.string(Attr::kTarget);
    if (target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape") {
      // The same bytes by another name: what a device has of the one is all of the other.
      const ValueId part = get(op.operand(0), wanted(op.operand(0)));
      const Layout layout = wanted(op.result(0));
      if (!is_of(part, local_type(op.result_type(0), layout)))
        refuse("a device's part is not of the size that its sharding gives");
      hold(op.result(0), {part, layout});
      return;
    }
    if (op.code() == Opcode::k_sharding_constraint && op.result_count() == 0) {
      builder_.add_note("tensors of a sharding group may be shared out differently");
      return;
    }
    if (op.code() == Opcode::k_sharding_constraint && op.result_count() == 1) {
      const Layout layout = wanted(op.result(0));
      hold(op.result(0), {get(op.operand(0), layout), layout});
      return;
    }
    if (emit_partial_sum(op)) return;
    std::vector<Layout> results;
    for (uint32_t i = 0; i < op.result_count(); ++i) results.push_back(wanted(op.result(i)));
    auto made = emit_op(op, results);
    for (uint32_t i = 0; i < op.result_count(); ++i) hold(op.result(i), std::move(made[i]));
  }

  /// An addition of summands over the same devices.
  bool emit_partial_sum(const OpView& op) {
    if (op.code() != Opcode::k_add || op.operand_count() != 2) return false;
    const auto a = held_.find(op.operand(0).index);
    const auto b = held_.find(op.operand(1).index);
    if (a == held_.end() || b == held_.end() || a->second.partial.empty() ||
        a->second.partial != b->second.partial || a->second.layout != b->second.layout)
      return false;
    offset_ = op.raw().offset;
    Held sum = a->second;
    const OpId id =
        builder_.begin_op(op.code(), {{a->second.value, b->second.value}}, 1, op.raw().offset);
    copy_attributes(op);
    builder_.set_result_type(0, local_type(op.result_type(0), sum.layout));
    builder_.end_op();
    sum.value = builder_.result(id);
    if (!summed_next_[op.result(0).index])
      sum = settle(std::move(sum), op.result_type(0), wanted(op.result(0)));
    hold(op.result(0), std::move(sum));
    return true;
  }

  void emit_control(const OpView& op) {
    switch (op.code()) {
      case Opcode::k_call:
      case Opcode::k_composite:
        emit_call(op);
        return;
      case Opcode::k_manual_computation:
        emit_manual(op);
        return;
      case Opcode::k_while:
        emit_loop(op);
        return;
      default:
        emit_branches(op);
    }
  }

  void emit_call(const OpView& op) {
    const uint32_t callee = instance_->callees.at(op.id().index);
    const ShardingGraph::Instance& called = graph_.instances()[callee];
    const Region& body = w_.region(w_.function(called.function).body);
    std::vector<ValueId> operands;
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const ValueId argument{body.first_argument + i};
      operands.push_back(
          get(op.operand(i), layout_of(graph_.node(called.node(argument)).sharding)));
    }
    const OpId id = builder_.begin_op(op.code(), operands, op.result_count(), op.raw().offset);
    copy_attributes(op);
    builder_.set_function(Attr::kCallee, functions_[callee]);
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      const Layout layout = layout_of(graph_.node(called.results[i]).sharding);
      builder_.set_result_type(i, local_type(op.result_type(i), layout));
      hold(op.result(i), {builder_.result(id, i), layout});
    }
    builder_.end_op();
  }

  /// The body joins its surroundings: it is written for one device already.
  void emit_manual(const OpView& op) {
    const Region& body = w_.region(op.raw_regions()[0]);
    const auto in = op.integers(Attr::kInShardings);
    const auto out = op.integers(Attr::kOutShardings);
    const auto layout = [&](int64_t sharding, const Type& type) {
      return layout_of(grid_.sharding(ShardingId{static_cast<uint32_t>(sharding)}, type.rank()));
    };
    const auto fits = [&](ValueId part, const Type& type, const Layout& inside) {
      if (!is_of(part, local_type(type, inside)))
        refuse("a manual computation is not of the sizes that its shardings give");
    };
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const ValueId argument{body.first_argument + i};
      const ValueId part = get(op.operand(i), layout(in[i], op.operand_type(i)));
      fits(part, w_.type(argument), wanted(argument));
      hold(argument, {part, wanted(argument)});
    }
    const Axes manual = grid_.named(op.string(Attr::kManualAxes));
    for_each_op(w_, body, [&](OpId id) {
      const OpView inner = w_.view(id);
      if (inner.code() != Opcode::k_return) {
        emit(inner);
        return;
      }
      for (uint32_t i = 0; i < op.result_count() && i < inner.operand_count(); ++i) {
        const Layout whole = layout(out[i], op.result_type(i));
        Layout inside = whole;
        for (Axes& axes : inside) std::erase_if(axes, [&](Axis a) { return contains(manual, a); });
        const ValueId part = get(inner.operand(i), inside);
        fits(part, op.result_type(i), whole);
        hold(op.result(i), {part, whole});
      }
    });
  }

  void emit_loop(const OpView& op) {
    std::vector<Layout> carried;
    std::vector<ValueId> operands;
    const auto regions = op.raw_regions();
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const ValueId argument{w_.region(regions[1]).first_argument + i};
      carried.push_back(wanted(argument));
      operands.push_back(get(op.operand(i), carried.back()));
    }
    const OpId id = builder_.begin_op(op.code(), operands, op.result_count(), op.raw().offset);
    copy_attributes(op);
    for (size_t r = 0; r < regions.size(); ++r) {
      builder_.begin_region();
      reached_.emplace_back();
      const Region& region = w_.region(regions[r]);
      for (uint32_t i = 0; i < region.argument_count; ++i) {
        const ValueId argument{region.first_argument + i};
        hold(argument,
             {builder_.add_region_argument(local_type(w_.type(argument), carried[i])), carried[i]});
      }
      emit_region(regions[r], [&](const std::vector<ValueId>& values) {
        return r == 0 ? whole(values) : carried;
      });
      reached_.pop_back();
      builder_.end_region();
    }
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      builder_.set_result_type(i, local_type(op.result_type(i), carried[i]));
      hold(op.result(i), {builder_.result(id, i), carried[i]});
    }
    builder_.end_op();
  }

  std::vector<Layout> whole(const std::vector<ValueId>& values) const {
    std::vector<Layout> layouts;
    layouts.reserve(values.size());
    for (const ValueId v : values) layouts.emplace_back(w_.type(v).dims.size());
    return layouts;
  }

  void emit_branches(const OpView& op) {
    std::vector<ValueId> operands;
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      operands.push_back(get(op.operand(i), Layout(op.operand_type(i).dims.size())));
    const OpId id = builder_.begin_op(op.code(), operands, op.result_count(), op.raw().offset);
    copy_attributes(op);
    std::vector<Layout> results;
    for (uint32_t i = 0; i < op.result_count(); ++i) results.push_back(wanted(op.result(i)));
    for (const RegionId r : op.raw_regions()) {
      builder_.begin_region();
      reached_.emplace_back();
      emit_region(r, [&](const std::vector<ValueId>&) { return results; });
      reached_.pop_back();
      builder_.end_region();
    }
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      builder_.set_result_type(i, local_type(op.result_type(i), results[i]));
      hold(op.result(i), {builder_.result(id, i), results[i]});
    }
    builder_.end_op();
  }

  const Workload& w_;
  DeviceGrid grid_;
  ShardingGraph graph_;
  WorkloadBuilder builder_;
  Exchange exchange_;
  std::vector<uint32_t> same_as_;      ///< By instance: the first that is the same.
  std::vector<FunctionId> functions_;  ///< By instance.
  const ShardingGraph::Instance* instance_ = nullptr;
  std::vector<bool> summed_next_;  ///< By value.
  std::map<uint32_t, Held> held_;  ///< By value of the function.
  std::vector<Reached> reached_;   ///< Other layouts made of values, by the regions around.
  size_t offset_ = 0;
};

}  // namespace
}  // namespace partition

bool needs_partitioning(const Workload& workload) {
  if (workload.format() != "stablehlo" || workload.shardings().empty()) return false;
  if (workload.partitions() > 1) return true;
  return std::ranges::any_of(workload.meshes(), [](const Mesh& mesh) {
    return std::ranges::any_of(mesh.axes, [](const MeshAxis& a) { return a.size > 1; });
  });
}

Workload partition_module(const Workload& workload) {
  return partition::Partitioner(workload).run();
}

}  // namespace orrery
