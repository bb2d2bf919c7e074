#include "orrery/model/compiled_memory.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace orrery {
namespace {

using Home = MemoryGraph::Home;

constexpr uint32_t kNone = UINT32_MAX;
/// A tuple is an array of pointers.
constexpr int64_t kPointerBytes = 8;
/// Results times operands times operations of a fusion up to which it is asked what it may
/// overwrite.
constexpr size_t kMostPaths = size_t{1} << 22;

/// Where the members of tuple types stand among their leaves.
class TupleLeaves {
 public:
  explicit TupleLeaves(const Workload& w) : w_(w) {}

  /// Leaves before each member, and of all at the end.
  const std::vector<uint32_t>& offsets(TypeId type) {
    const auto [at, added] = offsets_.emplace(type.index, std::vector<uint32_t>());
    if (!added) return at->second;
    std::vector<uint32_t> offsets{0};
    for (TypeId member : w_.type(type).members) offsets.push_back(offsets.back() + count(member));
    return offsets_[type.index] = std::move(offsets);
  }
  uint32_t count(TypeId type) {
    return w_.type(type).kind == Type::Kind::kTuple ? offsets(type).back() : 1;
  }
  template <class Visitor>
  void for_each(TypeId type, Visitor&& visit) {
    if (w_.type(type).kind != Type::Kind::kTuple) return visit(w_.type(type));
    for (TypeId member : w_.type(type).members) for_each(member, visit);
  }
  int64_t table_bytes(TypeId type) {
    const Type& t = w_.type(type);
    return t.kind == Type::Kind::kTuple ? kPointerBytes * static_cast<int64_t>(t.members.size())
                                        : 0;
  }

 private:
  const Workload& w_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> offsets_;
};

bool updates_in_place(Opcode code) {
  return code == Opcode::k_dynamic_update_slice || code == Opcode::k_scatter;
}

bool is_bitcast(Opcode code) {
  return code == Opcode::k_bitcast || code == Opcode::k_get_tuple_element ||
         code == Opcode::k_tuple;
}

/// What a fusion's body says about sharing memory between parameters and results.
class FusionBody {
 public:
  FusionBody(const Workload& w, const Region& body) : w_(w), body_(body) {
    OpId last;
    for_each_op(w, body, [&](OpId id) {
      const OpView op = w.view(id);
      for (uint32_t i = 0; i < op.operand_count(); ++i)
        users_[op.operand(i).index].emplace_back(id, i);
      if (op.code() == Opcode::k_return) last = id;
      if (op.code() == Opcode::k_reduce && !reduction_.valid()) reduction_ = id;
    });
    if (!last.valid() || w.op(last).operand_count != 1) return;
    const ValueId root = w.view(last).operand(0);
    const OpId definition = w.value(root).definition;
    if (definition.valid() && w.op(definition).code == Opcode::k_tuple) {
      const OpView tuple = w.view(definition);
      for (uint32_t i = 0; i < tuple.operand_count(); ++i) roots_.push_back(tuple.operand(i));
    } else {
      roots_.push_back(root);
    }
  }

  /// The parameter that result `i` updates in place; kNone where it does not.
  uint32_t updated_parameter(uint32_t i) const {
    if (i >= roots_.size()) return kNone;
    const OpId update = w_.value(past_bitcasts(roots_[i])).definition;
    if (!update.valid() || !updates_in_place(w_.op(update).code)) return kNone;
    return parameter(past_bitcasts(w_.view(update).operand(0)));
  }

  /// Whether result `i` may be written over parameter `p`: every path from the
  /// parameter reads the element that is written; a reduction runs before.
  bool may_overwrite(uint32_t i, uint32_t p) const {
    if (i >= roots_.size() || p >= body_.argument_count) return false;
    std::vector<ValueId> waiting{ValueId{body_.first_argument + p}};
    std::unordered_set<uint32_t> seen{waiting[0].index};
    bool reaches = false;
    while (!waiting.empty()) {
      const ValueId value = waiting.back();
      waiting.pop_back();
      reaches |= value == roots_[i];
      const auto found = users_.find(value.index);
      if (found == users_.end()) continue;
      for (const auto& [user, operand] : found->second) {
        const OpView op = w_.view(user);
        if (op.code() == Opcode::k_return || op.code() == Opcode::k_tuple) continue;
        if (user == reduction_) continue;
        const bool same_element = (is_elementwise(op.code()) && op.code() != Opcode::k_copy) ||
                                  op.code() == Opcode::k_bitcast ||
                                  (updates_in_place(op.code()) && operand == 0);
        if (!same_element) return false;
        if (seen.insert(op.result(0).index).second) waiting.push_back(op.result(0));
      }
    }
    return reaches;
  }

 private:
  ValueId past_bitcasts(ValueId value) const {
    for (;;) {
      const OpId definition = w_.value(value).definition;
      if (!definition.valid() || w_.op(definition).code != Opcode::k_bitcast) return value;
      value = w_.view(definition).operand(0);
    }
  }
  uint32_t parameter(ValueId value) const {
    const bool inside = value.index >= body_.first_argument &&
                        value.index < body_.first_argument + body_.argument_count;
    return inside ? value.index - body_.first_argument : kNone;
  }

  const Workload& w_;
  const Region& body_;
  std::unordered_map<uint32_t, std::vector<std::pair<OpId, uint32_t>>> users_;
  std::vector<ValueId> roots_;
  OpId reduction_;
};

class CompiledMemory {
 public:
  CompiledMemory(const Workload& w, FunctionId function, std::span<const int64_t> region_bytes)
      : w_(w), function_(w.function(function)), region_bytes_(region_bytes), leaves_(w) {}

  MemoryGraph run() {
    const Region& body = w_.region(function_.body);
    std::vector<std::vector<uint32_t>> arguments;
    for (uint32_t i = 0; i < body.argument_count; ++i) {
      const ValueId value{body.first_argument + i};
      std::vector<uint32_t>& buffers = values_[value.index];
      leaves_.for_each(w_.value(value).type, [&](const Type& type) {
        buffers.push_back(graph_.add_buffer(Home::kArgument, type.bytes, i));
      });
      arguments.push_back(buffers);
    }
    for_each_op(w_, body, [&](OpId id) { add(w_.view(id), arguments); });
    return std::move(graph_);
  }

 private:
  void add(const OpView& op, const std::vector<std::vector<uint32_t>>& arguments);
  void add_fusion(const OpView& op, const std::vector<uint32_t>& results);
  void finish(const OpView& op, const std::vector<std::vector<uint32_t>>& arguments);
  std::vector<uint32_t> new_buffers(const OpView& op, Home home);
  std::vector<uint32_t> async_start(const OpView& op);
  std::vector<uint32_t> async_done(const OpView& op);
  const std::vector<uint32_t>& of(ValueId value) { return values_[value.index]; }
  /// An operand of the size of the result that it may be written over.
  void may_overwrite(uint32_t result, ValueId value) {
    if (of(value).size() != 1) return;
    const uint32_t operand = of(value)[0];
    if (graph_.buffers()[operand].bytes != graph_.buffers()[result].bytes) return;
    const OpId definition = w_.value(value).definition;
    graph_.may_overwrite(result, operand, definition.valid() && is_bitcast(w_.op(definition).code));
  }
  void reads_operands(const OpView& op) {
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      for (uint32_t buffer : of(op.operand(i))) graph_.reads(buffer);
  }

  const Workload& w_;
  const Function& function_;
  std::span<const int64_t> region_bytes_;
  TupleLeaves leaves_;
  MemoryGraph graph_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> values_;
  std::map<uint32_t, FusionBody> fusions_;
};

std::vector<uint32_t> CompiledMemory::new_buffers(const OpView& op, Home home) {
  std::vector<uint32_t> buffers;
  leaves_.for_each(w_.value(op.result(0)).type, [&](const Type& type) {
    buffers.push_back(graph_.add_buffer(home, type.bytes, op.id().index));
  });
  return buffers;
}

/// (operands, results, …): the operands stay where they are. Of a copy: (result, operand, …).
std::vector<uint32_t> CompiledMemory::async_start(const OpView& op) {
  std::vector<uint32_t> results = new_buffers(op, Home::kTemporary);
  const TypeId type = w_.value(op.result(0)).type;
  if (w_.type(type).kind != Type::Kind::kTuple) return results;
  std::vector<uint32_t> operands;
  for (uint32_t i = 0; i < op.operand_count(); ++i)
    operands.insert(operands.end(), of(op.operand(i)).begin(), of(op.operand(i)).end());
  const auto& offsets = leaves_.offsets(type);
  const size_t member = op.code() == Opcode::k_copy ? 1 : 0;
  if (member + 1 < offsets.size() && offsets[member + 1] - offsets[member] == operands.size())
    std::copy(operands.begin(), operands.end(), results.begin() + offsets[member]);
  return results;
}

std::vector<uint32_t> CompiledMemory::async_done(const OpView& op) {
  const uint32_t count = leaves_.count(w_.value(op.result(0)).type);
  const std::vector<uint32_t>& started = of(op.operand(0));
  if (started.size() == count) return started;
  const TypeId type = w_.value(op.operand(0)).type;
  if (w_.type(type).kind == Type::Kind::kTuple) {
    const auto& offsets = leaves_.offsets(type);
    for (size_t member : {size_t{1}, size_t{0}})
      if (member + 1 < offsets.size() && offsets[member + 1] <= started.size() &&
          offsets[member + 1] - offsets[member] == count &&
          w_.type(type).members[member] == w_.value(op.result(0)).type)
        return {started.begin() + offsets[member], started.begin() + offsets[member + 1]};
  }
  return new_buffers(op, Home::kTemporary);
}

void CompiledMemory::add_fusion(const OpView& op, const std::vector<uint32_t>& results) {
  const FunctionId callee = op.callee();
  if (!callee.valid() || !w_.function(callee).body.valid()) return;
  const Region& region = w_.region(w_.function(callee).body);
  const auto body = fusions_.try_emplace(callee.index, w_, region).first;
  const bool asks =
      results.size() * op.operand_count() * (region.end_op - region.first_op) <= kMostPaths;
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (const uint32_t p = body->second.updated_parameter(i);
        p < op.operand_count() && of(op.operand(p)).size() == 1) {
      graph_.share(results[i], of(op.operand(p))[0]);
      continue;
    }
    if (!asks) continue;
    for (uint32_t p = 0; p < op.operand_count(); ++p) {
      if (w_.type(op.operand(p)).bytes == graph_.buffers()[results[i]].bytes &&
          body->second.may_overwrite(i, p))
        may_overwrite(results[i], op.operand(p));
    }
  }
}

/// The end of a computation: what it hands back, and where it wants it.
void CompiledMemory::finish(const OpView& op, const std::vector<std::vector<uint32_t>>& arguments) {
  std::vector<uint32_t> results;
  TypeId type;
  for (uint32_t i = 0; i < op.operand_count(); ++i) {
    const auto& buffers = of(op.operand(i));
    results.insert(results.end(), buffers.begin(), buffers.end());
    type = w_.value(op.operand(i)).type;
  }
  for (uint32_t buffer : results) graph_.set_result(buffer);
  if (op.operand_count() != 1) return;
  const bool tuple = w_.type(type).kind == Type::Kind::kTuple;
  for (size_t i = 0; i < function_.arguments.size() && i < arguments.size(); ++i) {
    const int32_t output = function_.arguments[i].aliased_output;
    if (output < 0) continue;
    size_t from = 0;
    size_t to = results.size();
    if (tuple) {
      const auto& offsets = leaves_.offsets(type);
      if (static_cast<size_t>(output) + 1 >= offsets.size()) continue;
      from = offsets[static_cast<size_t>(output)];
      to = offsets[static_cast<size_t>(output) + 1];
    }
    if (to > results.size() || to - from != arguments[i].size()) continue;
    for (size_t leaf = from; leaf < to; ++leaf)
      graph_.share(arguments[i][leaf - from], results[leaf]);
  }
}

void CompiledMemory::add(const OpView& op, const std::vector<std::vector<uint32_t>>& arguments) {
  if (op.code() == Opcode::k_return) return finish(op, arguments);
  if (op.result_count() != 1) return;
  std::vector<uint32_t> results;
  const bool starts = op.integer(Attr::kAsync, 0) == 1 || op.code() == Opcode::k_async_start;
  const bool is_tuple = op.code() == Opcode::k_tuple;
  if (op_class(op.code()) == OpClass::kConstant) {
    values_[op.result(0).index] = new_buffers(op, Home::kConstant);
    return;
  }
  if (op.code() == Opcode::k_get_tuple_element && op.operand_count() == 1) {
    const auto& offsets = leaves_.offsets(w_.value(op.operand(0)).type);
    const auto index = static_cast<size_t>(op.integer(Attr::kIndex, 0));
    const auto& tuple = of(op.operand(0));
    if (index < offsets.size() - 1 && offsets[index + 1] <= tuple.size()) {
      values_[op.result(0).index] = {tuple.begin() + offsets[index],
                                     tuple.begin() + offsets[index + 1]};
      return;
    }
  }
  if (op.operand_count() > 0 && (is_tuple || (is_bitcast(op.code()) && op.operand_count() == 1) ||
                                 op.code() == Opcode::k_optimization_barrier)) {
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      const auto& buffers = of(op.operand(i));
      results.insert(results.end(), buffers.begin(), buffers.end());
    }
    values_[op.result(0).index] = std::move(results);
    return;
  }
  graph_.add_step(op.id().index);
  graph_.needs_tables(leaves_.table_bytes(w_.value(op.result(0)).type));
  reads_operands(op);
  if (op.code() == Opcode::k_async_done && op.operand_count() == 1) {
    results = async_done(op);
  } else if (starts) {
    results = async_start(op);
  } else {
    results = new_buffers(op, Home::kTemporary);
  }
  for (uint32_t buffer : results) graph_.writes(buffer);
  if (starts) {
    // Its operands' and results' places are those of the pair's other half.
  } else if (op.code() == Opcode::k_fusion) {
    add_fusion(op, results);
  } else if (op.code() == Opcode::k_while) {
    if (op.operand_count() == 1 && of(op.operand(0)).size() == results.size())
      for (size_t i = 0; i < results.size(); ++i) graph_.share(results[i], of(op.operand(0))[i]);
  } else if (updates_in_place(op.code()) && op.operand_count() > 0) {
    const auto& updated = of(op.operand(0));
    if (updated.size() == 1 && results.size() == 1) graph_.share(results[0], updated[0]);
  } else if (is_elementwise(op.code()) && op.code() != Opcode::k_copy && results.size() == 1) {
    for (uint32_t i = 0; i < op.operand_count(); ++i) may_overwrite(results[0], op.operand(i));
  }
  if (op_class(op.code()) == OpClass::kControl && op.code() != Opcode::k_fusion)
    graph_.needs_scratch(bytes_of_bodies(op, region_bytes_));
  const auto aliases = op.integers(Attr::kOutputAliases);
  const TypeId type = w_.value(op.result(0)).type;
  for (size_t i = 0; i + 1 < aliases.size(); i += 2) {
    if (aliases[i] < 0 || aliases[i + 1] < 0 || aliases[i + 1] >= op.operand_count()) continue;
    auto leaf = static_cast<size_t>(aliases[i]);
    if (w_.type(type).kind == Type::Kind::kTuple) {
      const auto& offsets = leaves_.offsets(type);
      if (leaf + 1 >= offsets.size()) continue;
      leaf = offsets[leaf];
    }
    const auto& operand = of(op.operand(static_cast<uint32_t>(aliases[i + 1])));
    if (leaf < results.size() && operand.size() == 1) graph_.share(results[leaf], operand[0]);
  }
  values_[op.result(0).index] = std::move(results);
}

}  // namespace

MemoryGraph compiled_memory(const Workload& w, FunctionId function,
                            std::span<const int64_t> region_bytes) {
  return CompiledMemory(w, function, region_bytes).run();
}

}  // namespace orrery
