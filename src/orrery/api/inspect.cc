#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orrery/api/inspect_trace.h"
#include "orrery/api/session.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/partition/partition.h"

namespace orrery {
namespace {

/// How often each operation of the file runs in one step: calls and loops
/// followed from the entry, every branch counted.
std::vector<double> executions(const Workload& w) {
  std::vector<double> runs(w.ops().size(), 0);
  std::vector<double> of_function(w.functions().size(), 0);
  std::vector<FunctionId> order;
  std::vector<bool> seen(w.functions().size(), false);
  // Callees before callers, by depth-first search; verify() bounds the depth.
  const auto visit = [&](auto&& self, FunctionId f) -> void {
    if (seen[f.index]) return;
    seen[f.index] = true;
    if (w.function(f).body.valid()) {
      const Region& body = w.region(w.function(f).body);
      for (uint32_t i = body.first_op; i < body.end_op; ++i) {
        const OpView op = w.view(OpId{i});
        for (Attr key : {Attr::kCallee, Attr::kCondition})
          if (const FunctionId c = op.callee(key); c.valid()) self(self, c);
        for (int64_t b : op.integers(Attr::kBranches))
          self(self, FunctionId{static_cast<uint32_t>(b)});
      }
    }
    order.push_back(f);
  };
  visit(visit, w.entry());
  of_function[w.entry().index] = 1;
  const auto walk = [&](auto&& self, const Region& region, double count) -> void {
    for_each_op(w, region, [&](OpId id) {
      const OpView op = w.view(id);
      runs[id.index] += count;
      const double times =
          op.code() == Opcode::k_while
              ? count * static_cast<double>(std::max<int64_t>(0, op.integer(Attr::kTripCount, 1)))
              : count;
      const bool control = op_class(op.code()) == OpClass::kControl;
      if (control)
        for (RegionId r : op.raw_regions()) self(self, w.region(r), times);
      for (Attr key : {Attr::kCallee, Attr::kCondition})
        if (const FunctionId c = op.callee(key); c.valid() && control)
          of_function[c.index] += times;
      for (int64_t b : op.integers(Attr::kBranches)) of_function[static_cast<size_t>(b)] += times;
    });
  };
  std::reverse(order.begin(), order.end());
  for (FunctionId f : order)
    if (w.function(f).body.valid() && of_function[f.index] > 0)
      walk(walk, w.region(w.function(f).body), of_function[f.index]);
  return runs;
}

/// What the devices exchange in one run.
std::vector<InspectAnswer::CollectiveUse> collectives_of(const Workload& w,
                                                         const std::vector<double>& runs) {
  std::map<std::tuple<std::string, double, int64_t>, double> counts;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op_class(op.code()) != OpClass::kCollective || op.integer(Attr::kAsync, 0) == 2 ||
        runs[i] <= 0)
      continue;
    double bytes = 0;
    for (uint32_t o = 0; o < op.operand_count(); ++o)
      bytes += static_cast<double>(op.operand_type(o).bytes);
    counts[{std::string(name(op.code())), bytes, op.integer(Attr::kReplicaGroupSize, 0)}] +=
        runs[i];
  }
  std::vector<InspectAnswer::CollectiveUse> found;
  found.reserve(counts.size());
  for (const auto& [key, n] : counts)
    found.push_back({std::get<0>(key), n, std::get<1>(key), std::get<2>(key)});
  return found;
}

/// The collectives of a module that shardings alone share out are those its partitioning puts in.
void add_collectives(const Workload& w, const std::vector<double>& runs, InspectAnswer& a) {
  if (!needs_partitioning(w)) {
    a.collectives = collectives_of(w, runs);
    return;
  }
  try {
    const Workload part = partition_module(w);
    a.collectives = collectives_of(part, executions(part));
    a.notes.emplace_back(
        "arguments, outputs and work outside manual computations are those of all devices "
        "together; "
        "the collectives are those of one device's part, as the shardings partition it");
    for (const std::string& note : part.notes())
      if (std::ranges::find(a.notes, note) == a.notes.end()) a.notes.push_back(note);
  } catch (const Error& e) {
    a.collectives = collectives_of(w, runs);
    a.notes.push_back(e.message());
  }
}

}  // namespace

InspectAnswer Session::inspect(const std::string& path, const ReadOptions& options) const {
  if (path.ends_with(".et")) return inspect_trace(Source::from_file(path));
  const Workload w = load_workload(path, options);
  InspectAnswer a;
  a.name = w.name();
  a.format = w.format();
  a.partitions = w.partitions();
  a.replicas = w.replicas();
  a.operations = w.ops().size();
  a.functions = w.functions().size();
  a.shardings = w.shardings().size();
  a.notes.assign(w.notes().begin(), w.notes().end());
  for (const Mesh& mesh : w.meshes()) {
    std::string text = mesh.name + ":";
    for (const MeshAxis& axis : mesh.axes) text += fmt::format(" {}={}", axis.name, axis.size);
    a.meshes.push_back(std::move(text));
  }

  const Function& entry = w.function(w.entry());
  const Region& body = w.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count; ++i) {
    const Type& type = w.type(ValueId{body.first_argument + i});
    a.arguments_bytes += static_cast<double>(type.bytes);
    if (i < entry.arguments.size() && entry.arguments[i].role == Role::kParameter) {
      a.parameters += static_cast<double>(type.elements);
      a.parameter_bytes += static_cast<double>(type.bytes);
    }
  }
  for (TypeId t : entry.result_types) a.outputs_bytes += static_cast<double>(w.type(t).bytes);

  const TotalCost total = total_cost(w, w.entry());
  a.total_flops = total.flops();
  a.bytes_read = total.bytes_read;
  a.bytes_written = total.bytes_written;
  a.executed = total.operations;
  static constexpr std::string_view kUnits[] = {"matrix", "vector", "transcendental"};
  for (size_t unit = 0; unit < 3; ++unit)
    for (size_t type = 0; type < kElementTypeCount; ++type)
      if (const double f = total.flops_by_unit_and_type[unit][type]; f > 0)
        a.flops.emplace_back(
            fmt::format("{} {}", kUnits[unit], mlir_name(static_cast<ElementType>(type))), f);
  if (total.unknown_trip_counts > 0)
    a.notes.emplace_back(
        "a loop whose trip count is not known is counted once; give it with --trip-count");

  for (const Op& op : w.ops()) {
    if (op.code != Opcode::k_if && op.code != Opcode::k_case) continue;
    a.notes.emplace_back(
        "of the branches of a conditional the totals count the costliest, the table all");
    break;
  }
  bool dynamic = false;
  for (const Type& t : w.types()) dynamic |= t.dynamic;
  if (dynamic)
    a.dynamic.emplace_back(
        "some dimensions are open ('?') and counted as 1; give them with --bind '?=SIZE'");

  const std::vector<double> runs = executions(w);
  std::map<std::string, InspectAnswer::OpCount> by_name;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op.code() == Opcode::k_unknown) ++a.unknown_operations;
    const std::string name(orrery::name(op.code()));
    InspectAnswer::OpCount& count = by_name[name];
    count.name = name;
    ++count.count;
    count.executed += runs[i];
    const Cost c = cost(w, OpId{i});
    count.flops += runs[i] * c.flops();
    count.bytes += runs[i] * c.bytes();
  }
  for (auto& [name, count] : by_name) a.by_operation.push_back(std::move(count));
  std::stable_sort(a.by_operation.begin(), a.by_operation.end(), [](const auto& x, const auto& y) {
    return x.flops != y.flops ? x.flops > y.flops : x.bytes > y.bytes;
  });
  add_collectives(w, runs, a);
  return a;
}

}  // namespace orrery
