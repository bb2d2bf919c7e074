#include "orrery/api/step_detail.h"

#include <fmt/format.h>

#include <unordered_map>

namespace orrery {
namespace {

std::string kernel_key(const Kernel& k) {
  std::string key = fmt::format("{} {} {}", name(k.code), k.cost.flops(), k.cost.bytes());
  for (size_t i = 0; i < k.loop_count; ++i) key += fmt::format(" {}", k.loops[i].extent);
  return key;
}

}  // namespace

StepSize step_size(const Workload& w, const BuildOptions& build) {
  StepSize size;
  if (w.format() == "zoo" || w.format() == "huggingface")
    size.samples = static_cast<double>(build.batch);
  if (!w.entry().valid()) return size;
  const Function& entry = w.function(w.entry());
  const Region& body = w.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count && i < entry.arguments.size(); ++i) {
    const Type& type = w.type(ValueId{body.first_argument + i});
    if (w.string(entry.arguments[i].name) != "input_ids" || type.dims.size() != 2) continue;
    size.samples = static_cast<double>(type.dims[0]);
    size.tokens = static_cast<double>(type.elements);
    break;
  }
  return size;
}

LaunchMatch match_launches(const StepDetail& first, const StepDetail& second) {
  // The second's launches by kernel, each list from its last to its first.
  std::unordered_map<std::string, std::vector<size_t>> open;
  for (size_t i = second.launches.size(); i-- > 0;)
    open[kernel_key(second.launches[i].kernel)].push_back(i);
  LaunchMatch match;
  std::vector<bool> taken(second.launches.size(), false);
  for (size_t i = 0; i < first.launches.size(); ++i) {
    const auto found = open.find(kernel_key(first.launches[i].kernel));
    if (found == open.end() || found->second.empty()) {
      match.only_first.push_back(i);
      continue;
    }
    match.pairs.emplace_back(i, found->second.back());
    taken[found->second.back()] = true;
    found->second.pop_back();
  }
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i]) match.only_second.push_back(i);
  return match;
}

}  // namespace orrery
