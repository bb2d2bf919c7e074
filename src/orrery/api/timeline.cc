#include "orrery/api/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "orrery/api/placement.h"
#include "orrery/api/repeated_blocks.h"
#include "orrery/kernel/peak_rate.h"
#include "orrery/model/composition.h"

namespace orrery {
namespace {

/// Launches beyond this are not searched for repeated blocks.
constexpr size_t kMostSearched = 50'000;

/// Which kernel each launch of the program runs.
std::vector<uint32_t> collect_kernels(const TimelineInput& in, Timeline& timeline) {
  std::vector<uint32_t> kernel_of;
  std::map<std::tuple<std::string_view, std::string_view, double, double, double, uint32_t>,
           uint32_t>
      known;
  for (size_t i = 0; i < in.program.launches.size(); ++i) {
    const Launch& launch = in.program.launches[i];
    const TimeInterval time = interval(in.estimates[i]);
    const double flops = launch.kernel.cost.flops();
    const double bytes = launch.kernel.cost.bytes();
    const auto [at, added] =
        known.emplace(std::tuple(std::string_view(in.names[i]), std::string_view(in.bounds[i]),
                                 flops, bytes, time.value.value, launch.fused),
                      static_cast<uint32_t>(timeline.kernels.size()));
    if (added)
      timeline.kernels.push_back({in.names[i], std::string(name(launch.kernel.family)),
                                  std::string(name(launch.kernel.code)), in.bounds[i],
                                  time.value.value, time.low.value, time.high.value, flops, bytes,
                                  launch.fused});
    kernel_of.push_back(at->second);
  }
  return kernel_of;
}

void add_roofs(const TimelineInput& in, Timeline& timeline) {
  timeline.bandwidth = in.device.main_memory().bandwidth.value;
  std::map<std::string, double> roofs;
  for (const Launch& launch : in.program.launches) {
    const Cost& cost = launch.kernel.cost;
    if (cost.matrix_flops > 0) {
      const Rate rate = product_rate(in.device, cost.matrix_type);
      roofs[fmt::format("{} products", mlir_name(rate.used))] = rate.flops_per_second;
    }
    if (cost.vector_flops > 0) {
      const Rate rate = find_rate(in.device.vector, cost.vector_type);
      roofs[fmt::format("{} vectors", mlir_name(rate.used))] = rate.flops_per_second;
    }
  }
  for (const auto& [roof, rate] : roofs)
    if (rate > 0) timeline.roofs.push_back({roof, rate});
  std::stable_sort(timeline.roofs.begin(), timeline.roofs.end(),
                   [](const Roof& a, const Roof& b) { return a.flops_per_s > b.flops_per_s; });
}

/// Where most of the time lies in one part, the file names no layers: stretches of
/// kernels that repeat take their place.
void name_repeated_blocks(ProgramOrder& order, std::span<const uint32_t> kernel_of,
                          std::span<const TimelineKernel> kernels) {
  if (order.launches.empty() || order.launches.size() > kMostSearched) return;
  std::vector<double> own(order.parts.parts().size());
  double total = 0;
  for (const OrderedLaunch& l : order.launches) {
    const double seconds = l.count * kernels[kernel_of[l.launch]].time_s;
    own[l.part] += seconds;
    total += seconds;
  }
  const auto trunk = static_cast<uint32_t>(std::max_element(own.begin(), own.end()) - own.begin());
  if (own[trunk] < total / 2) return;
  std::vector<uint32_t> items;
  items.reserve(order.launches.size());
  for (const OrderedLaunch& l : order.launches) items.push_back(kernel_of[l.launch]);
  const std::vector<RepeatedBlocks> found = find_repeated_blocks(items);
  for (size_t f = 0; f < found.size(); ++f) {
    const RepeatedBlocks& blocks = found[f];
    const uint32_t stretch = order.parts.child(
        trunk, fmt::format("{} blocks of {} kernels{}", blocks.times, blocks.length,
                           f == 0 ? "" : fmt::format(" #{}", f + 1)));
    for (size_t i = blocks.first; i < blocks.end(); ++i) {
      uint32_t& part = order.launches[i].part;
      // What lies below the trunk keeps its way from there.
      std::vector<uint32_t> way;
      uint32_t at = part;
      for (; at != trunk && at != 0; at = order.parts.parts()[at].parent) way.push_back(at);
      if (at != trunk) continue;
      uint32_t placed = order.parts.child(
          stretch, fmt::format("block {}", (i - blocks.first) / blocks.length + 1));
      for (size_t w = way.size(); w-- > 0;) {
        const std::string part_name = order.parts.parts()[way[w]].name;
        placed = order.parts.child(placed, part_name);
      }
      part = placed;
    }
  }
}

/// Leaves out parts in which nothing is launched.
std::vector<PartTree::Part> used_parts(ProgramOrder& order) {
  const auto& all = order.parts.parts();
  std::vector<uint32_t> number(all.size());
  std::vector<bool> used(all.size());
  used[0] = true;
  for (const OrderedLaunch& l : order.launches) used[l.part] = true;
  for (size_t i = all.size(); i-- > 1;)
    if (used[i]) used[all[i].parent] = true;
  std::vector<PartTree::Part> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!used[i]) continue;
    number[i] = static_cast<uint32_t>(kept.size());
    kept.push_back({all[i].name, number[all[i].parent]});
  }
  for (OrderedLaunch& l : order.launches) l.part = number[l.part];
  return kept;
}

void add_memory(const TimelineInput& in, const ProgramOrder& order, Timeline& timeline) {
  if (in.held.empty()) return;
  std::vector<std::pair<uint32_t, size_t>> by_op;  // the steps, as the file writes them
  for (size_t s = 0; s < in.held.size(); ++s) by_op.emplace_back(in.held[s].op.index, s);
  std::sort(by_op.begin(), by_op.end());
  std::vector<double> seconds(in.held.size());
  for (size_t i = 0; i < timeline.launches.size(); ++i) {
    const double next =
        i + 1 < timeline.launches.size() ? timeline.launches[i + 1].start_s : timeline.step_end_s;
    // A kernel is part of the step that ends with it or next after it.
    const auto at = std::lower_bound(by_op.begin(), by_op.end(),
                                     std::pair(order.launches[i].step.index, size_t{0}));
    seconds[at == by_op.end() ? by_op.back().second : at->second] +=
        next - timeline.launches[i].start_s;
  }
  double time = timeline.step_start_s;
  for (size_t s = 0; s < in.held.size(); ++s) {
    std::vector<HeldMemory>& memory = timeline.memory;
    if (!memory.empty() && memory.back().time_s == time)
      memory.back().bytes = std::max(memory.back().bytes, in.held[s].bytes);
    else
      memory.push_back({time, in.held[s].bytes});
    time += seconds[s];
  }
}

}  // namespace

Timeline make_timeline(const TimelineInput& in) {
  Timeline timeline;
  const std::vector<uint32_t> kernel_of = collect_kernels(in, timeline);
  ProgramOrder order = order_program(in.workload, in.program.launches, kMostTimelineLaunches);
  name_repeated_blocks(order, kernel_of, timeline.kernels);
  timeline.folded = order.folded;
  timeline.parts = used_parts(order);

  std::vector<QueuedWork> work;
  work.reserve(order.launches.size());
  const std::vector<LaunchOverhead> overheads = launch_overheads(in.program, in.costs);
  for (const OrderedLaunch& l : order.launches)
    work.push_back({l.count, in.estimates[l.launch].seconds.value, overheads[l.launch].gap.value,
                    overheads[l.launch].host.value});
  std::vector<PlacedWork> placed(work.size());
  timeline.step_start_s = place_step(work, in.step_s, placed);
  timeline.step_end_s = timeline.step_start_s + in.step_s;
  timeline.launches.reserve(order.launches.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const OrderedLaunch& l = order.launches[i];
    timeline.launches.push_back({kernel_of[l.launch], l.part, l.count, placed[i].start_s,
                                 placed[i].end_s, placed[i].host_start_s, placed[i].host_end_s});
  }
  add_roofs(in, timeline);
  add_memory(in, order, timeline);
  return timeline;
}

}  // namespace orrery
