#include "orrery/model/program_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "orrery/model/compiled_memory.h"
#include "orrery/model/memory_order.h"

namespace orrery {
namespace {

/// Holders that an answer shows.
constexpr size_t kMostUses = 10;

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kInput:
      return "inputs";
    case Role::kParameter:
      return "parameters";
    case Role::kOptimizerState:
      return "optimizer state";
    case Role::kCache:
      return "cache";
    case Role::kBuffer:
      return "statistics and tables";
    case Role::kUnknown:
      break;
  }
  return "arguments";
}

/// Which result takes the memory of each argument of the entry: a fixed alias
/// first, then a donated buffer goes to the first free result of its type.
std::vector<int32_t> results_of_arguments(const Workload& w) {
  const Function& entry = w.function(w.entry());
  const Region& body = w.region(entry.body);
  std::vector<int32_t> result(body.argument_count, -1);
  std::vector<bool> taken(entry.result_types.size());
  for (uint32_t i = 0; i < body.argument_count; ++i) {
    const int32_t fixed = entry.arguments[i].aliased_output;
    if (fixed < 0 || static_cast<size_t>(fixed) >= taken.size()) continue;
    const auto at = static_cast<size_t>(fixed);
    if (taken[at]) continue;
    taken[at] = true;
    result[i] = fixed;
  }
  for (uint32_t i = 0; i < body.argument_count; ++i) {
    const ArgumentInfo& info = entry.arguments[i];
    if (!info.donated || info.aliased_output >= 0) continue;
    const TypeId type = w.value(ValueId{body.first_argument + i}).type;
    for (size_t o = 0; o < taken.size(); ++o) {
      if (taken[o] || entry.result_types[o] != type) continue;
      taken[o] = true;
      result[i] = static_cast<int32_t>(o);
      break;
    }
  }
  return result;
}

std::string shape_text(const Type& type) {
  std::string text(mlir_name(type.element));
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", type.dims[i]);
  return text + ']';
}

}  // namespace

ProgramMemory::ProgramMemory(const Workload& w, const FusionRules& rules)
    : w_(w),
      rules_(rules),
      result_of_argument_(results_of_arguments(w)),
      region_bytes_(w.regions().size()),
      regions_(w.regions().size()) {}

void ProgramMemory::add_region(FunctionId function, RegionId region, const RegionGraph& graph) {
  const bool is_entry = region == w_.function(w_.entry()).body;
  const bool is_compiled = w_.format() == "hlo";
  const std::vector<int32_t> none;
  const MemoryGraph memory = is_compiled ? compiled_memory(w_, function, region_bytes_)
                                         : region_memory(w_, graph.kernels(), region_bytes_,
                                                         is_entry ? result_of_argument_ : none);
  const std::vector<uint32_t> order =
      !is_compiled && rules_.plans_memory ? order_for_memory(memory) : order_as_written(memory);
  MemoryLayout layout;
  layout.temporaries_in_results = is_entry && (is_compiled || rules_.plans_memory);
  BufferPlan plan = plan_buffers(memory, order, layout);

  region_bytes_[region.index] = plan.temporaries;
  PlannedRegion& planned = regions_[region.index];
  planned.holders = std::move(plan.holders);
  if (!order.empty()) planned.peak = OpId{memory.steps()[order[plan.peak_step]].label};
  if (!is_entry) return;
  for (uint32_t step : order) entry_steps_.push_back(OpId{memory.steps()[step].label});
  entry_ = std::move(plan);
}

RegionId ProgramMemory::neediest(OpId op) const {
  RegionId found;
  int64_t most = 0;
  for (RegionId r : w_.view(op).bodies()) {
    if (region_bytes_[r.index] <= most) continue;
    most = region_bytes_[r.index];
    found = r;
  }
  return found;
}

std::string ProgramMemory::name_of(OpId id) const {
  const OpView op = w_.view(id);
  if (const std::string_view own = w_.string(op.raw().name); !own.empty()) return std::string(own);
  std::string text(name(op.code()));
  if (op.result_count() > 0) text += ' ' + shape_text(op.result_type(0));
  return text;
}

std::string ProgramMemory::name_of(const MemoryHolder& holder) const {
  if (holder.home == MemoryGraph::Home::kArgument) {
    const auto& arguments = w_.function(w_.entry()).arguments;
    const Role role =
        holder.label < arguments.size() ? arguments[holder.label].role : Role::kUnknown;
    return std::string(role_name(role));
  }
  const std::string name = name_of(OpId{holder.label});
  if (holder.is_scratch) return "workspace of " + name;
  return holder.is_result ? "result " + name : name;
}

std::vector<MemoryUse> ProgramMemory::by_name(const std::vector<MemoryHolder>& holders) const {
  struct Sum {
    size_t count = 0;
    double bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const MemoryHolder& holder : holders) {
    Sum& sum = sums[name_of(holder)];
    ++sum.count;
    sum.bytes += static_cast<double>(holder.bytes);
  }
  std::vector<MemoryUse> uses;
  uses.reserve(sums.size());
  for (const auto& [name, sum] : sums)
    uses.push_back({sum.count == 1 ? name : fmt::format("{} ×{}", name, sum.count), sum.bytes});
  std::stable_sort(uses.begin(), uses.end(),
                   [](const MemoryUse& a, const MemoryUse& b) { return a.bytes > b.bytes; });
  if (uses.size() > kMostUses) uses.resize(kMostUses);
  return uses;
}

MemoryPlan ProgramMemory::plan() const {
  MemoryPlan plan;
  plan.arguments = static_cast<double>(entry_.arguments);
  plan.outputs = static_cast<double>(entry_.results);
  plan.aliased = static_cast<double>(entry_.aliased);
  plan.temporaries = static_cast<double>(entry_.temporaries);

  // Of a step that runs other regions, who holds memory inside.
  const RegionId body = w_.function(w_.entry()).body;
  std::vector<MemoryHolder> holders = regions_[body.index].holders;
  OpId peak = regions_[body.index].peak;
  for (;;) {
    const auto scratch =
        std::find_if(holders.begin(), holders.end(), [](const auto& h) { return h.is_scratch; });
    if (scratch == holders.end()) break;
    const RegionId inner = neediest(OpId{scratch->label});
    if (!inner.valid()) break;
    holders.erase(scratch);
    for (const MemoryHolder& holder : regions_[inner.index].holders)
      if (holder.home == MemoryGraph::Home::kTemporary && !holder.is_result)
        holders.push_back(holder);
    peak = regions_[inner.index].peak;
  }
  plan.holders = by_name(holders);
  if (peak.valid()) plan.peak_at = name_of(peak);
  plan.timeline.reserve(entry_steps_.size());
  const double always = plan.arguments + plan.outputs - plan.aliased;
  for (size_t i = 0; i < entry_steps_.size(); ++i)
    plan.timeline.push_back(
        {entry_steps_[i], always + static_cast<double>(entry_.temporaries_live[i])});
  return plan;
}

}  // namespace orrery
