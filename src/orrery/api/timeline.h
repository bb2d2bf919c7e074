#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orrery/api/program_order.h"
#include "orrery/hardware/device.h"
#include "orrery/kernel/estimate.h"
#include "orrery/model/stack.h"

namespace orrery {

/// Launches alike in every respect run the same kernel.
struct TimelineKernel {
  std::string name;                          ///< "dot_general bf16 512×11008×4096"
  std::string kind;                          ///< The kernel's family.
  std::string operation;                     ///< "dot_general"
  std::string bound;                         ///< "compute", "memory", …
  double time_s = 0, low_s = 0, high_s = 0;  ///< Of one, with its 90 % interval.
  double flops = 0, bytes = 0;               ///< Of one.
  uint32_t fused = 1;                        ///< Operations in one.
  bool operator==(const TimelineKernel&) const = default;
};

/// One launch of the step, or `count` alike where the timeline is folded.
struct TimelineLaunch {
  uint32_t kernel = 0;
  uint32_t part = 0;
  double count = 1;
  double start_s = 0, end_s = 0;            ///< On the stream; of several, with the gaps between.
  double host_start_s = 0, host_end_s = 0;  ///< Its dispatch.
};

/// What is held from `time_s` on, until the next.
struct HeldMemory {
  double time_s = 0;
  double bytes = 0;
};

/// A rate no kernel exceeds.
struct Roof {
  std::string name;  ///< "bf16 matrix"
  double flops_per_s = 0;
};

/// A step in the steady state, launch by launch: what reports draw. Times count from the
/// moment the host begins to queue the step; the stream begins it at `step_start_s`.
struct Timeline {
  std::vector<TimelineKernel> kernels;
  std::vector<PartTree::Part> parts;  ///< Of the model: a tree, the whole first.
  std::vector<TimelineLaunch> launches;
  bool folded = false;  ///< Loops and calls are shown once, with counts.
  double step_start_s = 0, step_end_s = 0;
  std::vector<HeldMemory> memory;  ///< In order of time; empty where it was not planned.
  std::vector<Roof> roofs;         ///< Of the units that its kernels use, highest first.
  double bandwidth = 0;            ///< Of main memory, bytes a second.
  bool empty() const { return launches.empty(); }
};

/// A step of more launches is folded.
inline constexpr double kMostTimelineLaunches = 100'000;

/// What a timeline is made from; the spans have one entry a launch of `program`.
struct TimelineInput {
  const Workload& workload;
  const Program& program;
  std::span<const Estimate> estimates;
  std::span<const std::string> names;   ///< Of kernels.
  std::span<const std::string> bounds;  ///< What each waits for.
  /// In the order the memory planner runs them; empty where none plans. Each is given the
  /// time of the launches that belong to it.
  std::span<const MemoryPoint> held;
  LaunchCosts costs;
  double step_s = 0;
  const Device& device;
};

Timeline make_timeline(const TimelineInput& input);

}  // namespace orrery
