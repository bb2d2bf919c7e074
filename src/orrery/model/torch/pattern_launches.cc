#include "orrery/model/torch/pattern_launches.h"

#include <algorithm>

#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

using enum Opcode;

bool is_plumbing(Opcode code) {
  return code == k_reshape || code == k_broadcast_in_dim || code == k_broadcast ||
         code == k_convert || code == k_transpose || code == k_bitcast;
}

}  // namespace

PatternLaunches::PatternLaunches(const Workload& workload) : w_(workload) {
  for (uint32_t i = 0; i < w_.ops().size(); ++i)
    for (const ValueId v : w_.operands(w_.ops()[i])) users_[v.index].push_back(OpId{i});
  if (!w_.entry().valid() || !w_.function(w_.entry()).body.valid()) return;
  const Function& entry = w_.function(w_.entry());
  const Region& body = w_.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count && i < entry.arguments.size(); ++i)
    if (entry.arguments[i].role == Role::kParameter) parameters_.insert(body.first_argument + i);
  for (const OpView& call : operations(w_.entry())) {
    const FunctionId callee = call.code() == k_call ? call.callee() : FunctionId();
    if (!callee.valid() || !w_.function(callee).body.valid()) continue;
    const Region& inner = w_.region(w_.function(callee).body);
    for (uint32_t i = 0; i < call.operand_count() && i < inner.argument_count; ++i)
      if (parameters_.contains(call.operand(i).index)) parameters_.insert(inner.first_argument + i);
  }
}

std::span<const Launch> PatternLaunches::of(OpId op) const {
  const auto found = launches_.find(op.index);
  return found == launches_.end() ? std::span<const Launch>() : found->second;
}

std::optional<OpView> PatternLaunches::maker(ValueId v) const {
  const OpId id = w_.value(v).definition;
  if (!id.valid()) return std::nullopt;
  return w_.view(id);
}

const std::vector<OpId>& PatternLaunches::users(ValueId v) const {
  static const std::vector<OpId> kNobody;
  const auto found = users_.find(v.index);
  return found == users_.end() ? kNobody : found->second;
}

ValueId PatternLaunches::origin(ValueId v) const {
  while (const auto op = maker(v)) {
    if (!is_plumbing(op->code()) || op->operand_count() != 1) break;
    v = op->operand(0);
  }
  return v;
}

bool PatternLaunches::is_parameter(ValueId v) const {
  return parameters_.contains(origin(v).index);
}

std::vector<OpView> PatternLaunches::operations(FunctionId id) const {
  std::vector<OpView> ops;
  for_each_op(w_, w_.region(w_.function(id).body), [&](OpId op) { ops.push_back(w_.view(op)); });
  return ops;
}

void PatternLaunches::add(OpId op, const Kernel& kernel) {
  Launch launch;
  launch.kernel = kernel;
  launch.op = op;
  launches_[op.index].push_back(launch);
}

void PatternLaunches::add_at_the_end(OpId op, const Kernel& kernel) {
  Launch launch;
  launch.kernel = kernel;
  launch.op = op;
  at_the_end_.push_back(launch);
}

void PatternLaunches::absorb_between(std::initializer_list<ValueId> from, ValueId to) {
  std::vector<ValueId> open = {to};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (std::ranges::find(from, v) != from.end() || !seen.insert(v.index).second) continue;
    const auto op = maker(v);
    if (!op || decides(op->id())) continue;
    absorb(op->id());
    for (const ValueId operand : w_.operands(op->raw())) open.push_back(operand);
  }
}

bool PatternLaunches::absorb_bias(const OpView& product) {
  const std::vector<OpId>& readers = users(product.result(0));
  if (readers.size() != 1) return false;
  const OpView sum = w_.view(readers.front());
  // What is absorbed stands for its first operand.
  if (sum.code() != k_add || sum.operand(0) != product.result(0)) return false;
  if (!is_parameter(sum.operand(1))) return false;
  absorb(sum.id());
  return true;
}

bool PatternLaunches::is_residual_sum(const OpView& op) const {
  return op.code() == k_add && op.operand_type(0).elements == op.operand_type(1).elements &&
         op.result_type(0).elements == op.operand_type(0).elements &&
         !is_parameter(op.operand(0)) && !is_parameter(op.operand(1));
}

bool PatternLaunches::is_hidden_state(ValueId v) const {
  constexpr int kRank = 3;  // batch, tokens, hidden
  return !maker(v) && !is_parameter(v) && w_.type(v).rank() == kRank;
}

void PatternLaunches::norm(const OpView& op, bool is_layer) {
  const Type& type = op.operand_type(0);
  if (type.dims.empty() || type.elements <= 0) return;
  const auto before = maker(op.operand(0));
  const bool sums = before ? is_residual_sum(*before) : is_layer && is_hidden_state(op.operand(0));
  if (before && sums) absorb(before->id());
  const int64_t columns = type.dims.back();
  Kernel kernel = torch_kernels::over_rows(op.code(), type.element, type.elements / columns,
                                           columns, sums ? 2 : 1);
  // The sum is kept where something else reads it: the next sum, mostly.
  if (sums && users(op.operand(0)).size() > 1)
    kernel.cost.bytes_written += static_cast<double>(type.bytes);
  add(op.id(), kernel);
}

void PatternLaunches::join_sums_with_norms(FunctionId id, std::span<const OpView> ops) {
  const bool is_layer = id != w_.entry();
  bool begins_with_norm = false;
  for (const OpView& op : ops) {
    if (decides(op.id()) || (op.code() != k_rms_norm && op.code() != k_layer_norm)) continue;
    begins_with_norm |= is_layer && is_hidden_state(op.operand(0));
    norm(op, is_layer);
  }
  if (!begins_with_norm) return;
  for (const OpView& end : ops) {
    if (end.code() != k_return || end.operand_count() == 0) continue;
    const auto sum = maker(end.operand(0));
    if (sum && is_residual_sum(*sum)) absorb(sum->id());
  }
}

void PatternLaunches::drop_numbers(std::span<const OpView> ops) {
  for (size_t i = ops.size(); i-- > 0;) {
    const OpView& op = ops[i];
    if (decides(op.id()) || op.result_count() != 1) continue;
    if (op_class(op.code()) == OpClass::kControl) continue;
    const bool number = op_class(op.code()) == OpClass::kGenerate ||
                        op.result_type(0).elements <= 1 ||
                        (op.operand_count() == 1 && op.operand_type(0).elements <= 1);
    if (!number) continue;
    const bool unread = std::ranges::all_of(users(op.result(0)),
                                            [&](OpId r) { return decides(r) && of(r).empty(); });
    if (unread) absorb(op.id());
  }
}

}  // namespace orrery
