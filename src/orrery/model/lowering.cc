#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "orrery/model/library_launches.h"
#include "orrery/model/program_memory.h"
#include "orrery/model/region_graph.h"
#include "orrery/model/stack.h"

namespace orrery {
namespace {

void add_gap(std::vector<std::string>& gaps, std::string gap) {
  if (std::find(gaps.begin(), gaps.end(), gap) == gaps.end()) gaps.push_back(std::move(gap));
}

/// Follows calls and loops from the entry: how often each function's body runs.
class ExecutionCounts {
 public:
  ExecutionCounts(const Workload& workload, const SmallFunctions& small,
                  std::vector<std::string>& gaps)
      : w_(workload),
        small_(small),
        gaps_(gaps),
        totals_(workload),
        counts_(workload.functions().size()) {
    order(workload.entry());
    counts_[workload.entry().index] = 1;
    std::reverse(order_.begin(), order_.end());
    for (FunctionId f : order_)
      if (w_.function(f).body.valid()) walk(w_.function(f).body, counts_[f.index], nullptr);
  }
  double of(FunctionId f) const { return counts_[f.index]; }
  /// Callers before callees.
  const std::vector<FunctionId>& functions() const { return order_; }

  /// Visits every operation below `region` that is not inside a small function,
  /// with how often it runs in one step.
  template <class Visitor>
  void for_each_region(RegionId region, double count, Visitor&& visit) const {
    visit(region, count);
    for_each_op(w_, w_.region(region), [&](OpId id) {
      const OpView op = w_.view(id);
      if (op_class(op.code()) != OpClass::kControl) return;
      const double times = count * multiplier(op);
      const auto regions = op.raw_regions();
      if (op.code() == Opcode::k_if || op.code() == Opcode::k_case) {
        if (!regions.empty()) for_each_region(costliest(regions), times, visit);
        return;
      }
      for (RegionId r : regions) for_each_region(r, times, visit);
    });
  }

 private:
  static double multiplier(const OpView& op) {
    if (op.code() != Opcode::k_while) return 1;
    return static_cast<double>(std::max<int64_t>(0, op.integer(Attr::kTripCount, 1)));
  }
  RegionId costliest(const std::vector<RegionId>& regions) const {
    RegionId best = regions.front();
    double most = -1;
    for (RegionId r : regions) {
      const auto [at, added] = region_weights_.emplace(r.index, 0);
      if (added) at->second = totals_.region(r).weight();
      if (at->second > most) {
        most = at->second;
        best = r;
      }
    }
    return best;
  }
  std::vector<FunctionId> callees(const OpView& op) const {
    std::vector<FunctionId> found;
    switch (op.code()) {
      case Opcode::k_call:
      case Opcode::k_composite:
      case Opcode::k_async_start:
      case Opcode::k_while:
      case Opcode::k_manual_computation:
        for (Attr key : {Attr::kCondition, Attr::kCallee})
          if (const FunctionId f = op.callee(key); f.valid()) found.push_back(f);
        break;
      case Opcode::k_if:
      case Opcode::k_case:
        // Of the branches that are functions, the one with the most work.
        if (const auto branches = op.integers(Attr::kBranches); !branches.empty()) {
          FunctionId best;
          double most = -1;
          for (int64_t b : branches) {
            const FunctionId f{static_cast<uint32_t>(b)};
            if (const double weight = totals_.function(f).weight(); weight > most) {
              most = weight;
              best = f;
            }
          }
          found.push_back(best);
        }
        break;
      default:
        break;
    }
    if (is_inlined_call(op.code()))
      std::erase_if(found, [&](FunctionId f) { return small_.contains(f); });
    return found;
  }
  void order(FunctionId f) {
    if (!visited_.insert(f.index).second) return;
    if (w_.function(f).body.valid())
      walk(w_.function(f).body, 0, [&](FunctionId callee) { order(callee); });
    order_.push_back(f);
  }
  template <class OnCallee>
  void walk(RegionId region, double count, OnCallee on_callee) {
    for_each_region(region, count, [&](RegionId r, double times) {
      for_each_op(w_, w_.region(r), [&](OpId id) {
        const OpView op = w_.view(id);
        if (op_class(op.code()) != OpClass::kControl) return;
        if (op.code() == Opcode::k_while && !op.has(Attr::kTripCount))
          add_gap(
              gaps_,
              "a loop whose trip count is not known is counted once; give it with --trip-count");
        if (op.code() == Opcode::k_if || op.code() == Opcode::k_case)
          add_gap(gaps_, "of the branches of a conditional, the costliest is counted");
        for (FunctionId callee : callees(op)) {
          if constexpr (std::is_same_v<OnCallee, std::nullptr_t>)
            counts_[callee.index] += times * multiplier(op);
          else
            on_callee(callee);
        }
      });
    });
  }

  const Workload& w_;
  const SmallFunctions& small_;
  std::vector<std::string>& gaps_;
  mutable CostTotals totals_;  ///< Of branches; only what was summed before is kept.
  mutable std::unordered_map<uint32_t, double> region_weights_;
  std::vector<double> counts_;
  std::set<uint32_t> visited_;
  std::vector<FunctionId> order_;  ///< Callers before callees, once it is complete.
};

void check_static(const Workload& w) {
  for (const Type& t : w.types()) {
    if (!t.dynamic) continue;
    // A type may be left over from a declaration: only values make a workload unsizeable.
    for (const Op& op : w.ops())
      for (uint32_t i = 0; i < op.result_count; ++i)
        if (w.type(ValueId{op.first_result + i}).dynamic)
          throw_input(w.name(),
                      "it has dimensions of unknown size ('?'); give them with --bind '?=SIZE', or "
                      "export with static "
                      "shapes");
    for (const Region& r : w.regions())
      for (uint32_t i = 0; i < r.argument_count; ++i)
        if (w.type(ValueId{r.first_argument + i}).dynamic)
          throw_input(w.name(),
                      "it has arguments of unknown size ('?'); give them with --bind '?=SIZE', or "
                      "export with static "
                      "shapes");
    return;
  }
}

}  // namespace

void count_arguments(const Workload& w, Program& program) {
  const auto& arguments = w.function(w.entry()).arguments;
  double donated = 0;
  for (const ArgumentInfo& a : arguments) donated += a.donated || a.aliased_output >= 0 ? 1 : 0;
  program.argument_count = static_cast<double>(arguments.size());
  if (donated > 0) program.donated_share = donated / program.argument_count;
}

void append(std::vector<Launch>&& more, std::vector<Launch>& launches) {
  if (launches.empty())
    launches = std::move(more);
  else
    launches.insert(launches.end(), more.begin(), more.end());
}

/// Gives numbers, from `next` on, to the graphs that a region's launches are captured into: runs
/// of what can be captured and runs equally often; loops are captured whatever they hold.
void capture(uint32_t fewest, std::vector<Launch>& launches, uint32_t& next) {
  const auto capturable = [](const Launch& launch) {
    return launch.kernel.family != KernelFamily::kConvolution;
  };
  for (size_t i = 0; i < launches.size();) {
    size_t end = i;
    while (end < launches.size() && capturable(launches[end]) &&
           launches[end].count == launches[i].count)
      ++end;
    const bool loops = launches[i].count > 1;
    if (fewest > 0 && end - i >= (loops ? 1 : fewest)) {
      for (size_t k = i; k < end; ++k) launches[k].graph = next;
      ++next;
    }
    i = std::max(end, i + 1);
  }
}

std::unique_ptr<LibraryLaunches> Stack::library_launches(const Workload& /*workload*/,
                                                         const Device& /*device*/,
                                                         const StackConstants& /*told*/) const {
  return nullptr;
}

LaunchCosts Stack::costs(const Workload& workload, const StackConstants& told) const {
  LaunchCosts costs = told.costs;
  if (const auto found = told.dispatch_of_library.find(workload.library());
      found != told.dispatch_of_library.end())
    costs.dispatch = found->second;
  return costs;
}

void adjust(std::span<const Launch> launches, std::span<Estimate> estimates) {
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    if (launch.times == 1 && launch.hidden.value == 0) continue;
    Estimate& e = estimates[i];
    const double alone = e.seconds.value * launch.times;
    e.seconds = Seconds(std::max(0.0, alone - launch.hidden.value));
    e.joules = e.joules * (alone > 0 ? launch.times * e.seconds.value / alone : 1);
  }
}

Program lower(const Workload& w, const Device& device, const FusionRules& stack_rules,
              const LibraryLaunches* library) {
  FusionRules rules = stack_rules;
  if (w.format() == "hlo") {
    // Compiled already: its fusions are the kernels, its copies are written out.
    rules = {.broadcasts_are_views = rules.broadcasts_are_views,
             .transposes_fold_into_dots = rules.transposes_fold_into_dots,
             .fewest_in_graph = rules.fewest_in_graph,
             .compiled = rules.compiled,
             .single_precision_as_tf32 = rules.single_precision_as_tf32};
  }
  check_static(w);
  Program program;
  for (const std::string& note : w.notes()) add_gap(program.gaps, note);
  const SmallFunctions small(w, rules.inline_small_calls);
  const ExecutionCounts counts(w, small, program.gaps);

  bool has_collectives = false;
  double constants = 0;
  // Memory of a function includes that of what it calls: callees first.
  ProgramMemory memory(w, rules);
  std::vector<FunctionId> functions = counts.functions();
  std::reverse(functions.begin(), functions.end());
  std::vector<std::vector<Launch>> launches;
  uint32_t next_graph = 1;
  for (FunctionId f : functions) {
    launches.emplace_back();
    const Function& function = w.function(f);
    if (!function.body.valid()) {
      add_gap(program.gaps,
              fmt::format("function '@{}' has no body here: calls of it are not counted",
                          w.string(function.name)));
      continue;
    }
    if (counts.of(f) <= 0 && f != w.entry()) continue;
    // Inner regions after the region that holds them: plan them in reverse.
    std::vector<std::pair<RegionId, double>> regions;
    counts.for_each_region(function.body, counts.of(f),
                           [&](RegionId r, double n) { regions.emplace_back(r, n); });
    std::vector<std::vector<Launch>> by_region(regions.size());
    for (size_t i = regions.size(); i-- > 0;) {
      RegionGraph graph(w, device, rules, small, regions[i].first, library);
      graph.emit(regions[i].second, by_region[i]);
      has_collectives |= graph.has_collectives();
      constants += graph.constant_bytes();
      memory.add_region(f, regions[i].first, graph);
    }
    for (auto& l : by_region) {
      capture(rules.fewest_in_graph, l, next_graph);
      append(std::move(l), launches.back());
    }
  }
  for (size_t i = launches.size(); i-- > 0;) append(std::move(launches[i]), program.launches);
  if (library != nullptr)
    for (const Launch& launch : library->at_the_end()) program.launches.push_back(launch);
  program.memory = memory.plan();
  program.memory.constants = constants;
  for (MemoryPoint& point : program.memory.timeline) point.bytes += constants;
  count_arguments(w, program);

  program.communicates = has_collectives;
  for (const Op& op : w.ops()) program.left_out += op.code == Opcode::k_unknown ? 1 : 0;
  if (program.left_out > 0)
    add_gap(program.gaps,
            fmt::format("{} operations of unknown kind are left out", program.left_out));
  return program;
}

}  // namespace orrery
