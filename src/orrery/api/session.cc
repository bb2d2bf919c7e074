#include "orrery/api/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "orrery/api/append_new.h"
#include "orrery/api/model_choice.h"
#include "orrery/api/module_collectives.h"
#include "orrery/api/step_detail.h"
#include "orrery/api/trust.h"
#include "orrery/base/data_folder.h"
#include "orrery/cluster/algorithm.h"
#include "orrery/cluster/network/network.h"
#include "orrery/kernel/operator_text.h"
#include "orrery/model/composition.h"
#include "orrery/model/distinct_kernels.h"
#include "orrery/model/library_launches.h"
#include "orrery/model/stack.h"
#include "orrery/serving/router.h"
#include "orrery/serving/scheduler.h"
#include "orrery/workload/partition/partition.h"

namespace orrery {
namespace {

/// Those of the device, and those of the stack ("stack.dispatch") by the rest of their names.
std::pair<std::vector<Override>, std::vector<Override>> split_overrides(
    const std::vector<Override>& all) {
  constexpr std::string_view kStack = "stack.";
  std::pair<std::vector<Override>, std::vector<Override>> parts;
  for (const auto& [path, value] : all)
    if (path.starts_with(kStack))
      parts.second.emplace_back(path.substr(kStack.size()), value);
    else
      parts.first.emplace_back(path, value);
  return parts;
}

/// "dot_general bf16 512×11008×4096": the operation, what it computes in, and its loops.
std::string kernel_name(const Launch& launch) {
  const Kernel& k = launch.kernel;
  std::string name(orrery::name(k.code));
  if (launch.fused > 1) name = fmt::format("{} fused with {}", name, launch.fused - 1);
  const ElementType type = k.cost.matrix_flops > 0 ? k.cost.matrix_type
                           : k.tensor_count > 0    ? k.tensors[k.tensor_count - 1u].element
                                                   : k.cost.vector_type;
  name += fmt::format(" {}", mlir_name(type));
  std::string sizes;
  const bool product = k.family == KernelFamily::kGemm || k.family == KernelFamily::kConvolution;
  for (size_t i = 0; i < k.loop_count; ++i) {
    if (product && i == 0 && k.loops[i].extent == 1) continue;
    sizes += (sizes.empty() ? "" : "×") + std::to_string(k.loops[i].extent);
  }
  return sizes.empty() ? name : name + " " + sizes;
}

void list_launches(const Workload& workload, const Program& program,
                   std::span<const Estimate> estimates, PredictAnswer& answer) {
  answer.launch_rows.reserve(program.launches.size());
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = program.launches[i];
    LaunchRow row;
    if (launch.op.valid()) row.name = workload.string(workload.op(launch.op).name);
    if (row.name.empty()) row.name = name(launch.kernel.code);
    if (auto text = operator_text(launch.kernel)) {
      row.op = std::move(text->op);
      row.dtype = std::move(text->dtype);
      row.params = std::move(text->params);
    }
    row.count = launch.count;
    const TimeInterval time = interval(estimates[i]);
    row.predicted_us = time.value.value * 1e6;
    row.low_us = time.low.value * 1e6;
    row.high_us = time.high.value * 1e6;
    answer.launch_rows.push_back(std::move(row));
  }
}

/// What the caller asked for beyond the file, so that a saved answer says what it answers.
std::vector<std::pair<std::string, std::string>> settings_of(const ReadOptions& read) {
  std::vector<std::pair<std::string, std::string>> settings;
  const BuildOptions plain;
  const BuildOptions& b = read.build;
  if (b.phase != plain.phase) settings.emplace_back("phase", b.phase);
  if (b.batch != plain.batch) settings.emplace_back("batch", std::to_string(b.batch));
  if (b.sequence != plain.sequence) settings.emplace_back("seq", std::to_string(b.sequence));
  if (b.context != plain.context) settings.emplace_back("context", std::to_string(b.context));
  if (!b.dtype.empty()) settings.emplace_back("dtype", b.dtype);
  for (const auto& [name, value] : b.choices) settings.emplace_back("choose " + name, value);
  for (const auto& [name, size] : read.bindings)
    settings.emplace_back("bind " + name, std::to_string(size));
  if (read.trip_count > 0) settings.emplace_back("trip_count", std::to_string(read.trip_count));
  return settings;
}

/// A module whose shapes are those of all devices together is shared out as its shardings say.
Workload one_device_of(Workload workload) {
  return needs_partitioning(workload) ? partition_module(workload) : std::move(workload);
}

}  // namespace

Session::Session() : Session(hardware_folder().string(), fitted_data_folder().string()) {}

Session::Session(std::string hardware_folder, std::string data_folder)
    : catalogue_(std::move(hardware_folder)), data_folder_(std::move(data_folder)) {}

PredictAnswer Session::predict(const PredictRequest& request) const {
  return predict(request, nullptr);
}

PredictAnswer Session::predict(const PredictRequest& request, StepDetail* detail) const {
  const auto& stack_entry = Registry<Stack>::instance().at(request.stack, "stack");
  Registry<KernelModel>::instance().at(request.kernel_model, "kernel model");  // before reading
  const auto [of_device, of_stack] = split_overrides(request.overrides);
  std::optional<Cluster> cluster;
  if (catalogue_.is_cluster(request.device))
    cluster = catalogue_.cluster(request.device, of_device);
  const Device device = cluster ? cluster->device : catalogue_.device(request.device, of_device);
  require_clock(request.point, device);
  const Workload workload = one_device_of(load_workload(request.workload, request.read));
  const auto stack = stack_entry.create();
  const StackConstants constants = load_stack_constants(data_folder_, stack->name(), of_stack);
  const LaunchCosts costs = stack->costs(workload, constants);
  const auto library = stack->library_launches(workload, device, constants);
  Program program = lower(workload, device, stack->rules(), library.get());
  const auto predictor = bind_choice(request, device, stack->kernels(), data_folder_, catalogue_);

  std::optional<ModuleCollectives> network;
  if (cluster) {
    const auto library = Registry<CollectiveLibrary>::instance()
                             .at(default_library(*cluster), "library of collectives")
                             .create()
                             ->bind(*cluster, data_folder_);
    // Optimised HLO holds what the compiler combined already.
    network.emplace(workload, program, *library, workload.format() != "hlo");
  }
  // What the network times is not its kernel's alone: each by itself.
  const DistinctKernels distinct(program.launches,
                                 [&](size_t i) { return network && network->holds(i); });
  std::vector<Estimate> each(distinct.kernels().size());
  const bool steady = request.point.regime == OperatingPoint::Regime::kSustained;
  const bool fixed = request.point.clock.value > 0;
  OperatingPoint cool;
  cool.queued = true;
  predictor->predict(distinct.kernels(), cool, each);
  std::vector<Estimate> estimates = distinct.spread(each);
  std::vector<Estimate> alone = estimates;  // as if no kernel waited for the network
  if (network) {
    network->put(estimates);
    each = distinct.gathered(estimates);
  }
  const auto adjusted = [&](std::vector<Estimate> times) {
    adjust(program.launches, times);
    return times;
  };
  const auto composed = [&](const std::vector<Estimate>& times) {
    return compose(program, adjusted(times), costs);
  };
  const Composition burst = composed(estimates);
  OperatingPoint asked = cool;
  asked.clock = request.point.clock;
  const auto busy = [&](const std::vector<Estimate>& kernels) {
    Seconds sum;
    for (size_t i = 0; i < kernels.size(); ++i) sum += kernels[i].seconds * distinct.counts()[i];
    return sum;
  };
  // Queued back to back, or one call and a wait after the other: each at its own mean power, for as
  // long as it waits for the network and, at a clock that moved, for the host.
  const auto settle = [&](Seconds step, std::vector<Estimate>& launches) {
    const Seconds idle = step - burst.kernels;
    std::vector<Estimate> at = each;
    StepState state = predictor->settle(distinct.kernels(), distinct.counts(), idle, asked, at);
    const Seconds unconnected = idle + busy(at);
    launches = distinct.spread(at);
    if (network) {
      network->put(launches);
      at = distinct.gathered(launches);
    }
    const Composition settled = composed(launches);
    const Seconds unhurried = idle + settled.kernels;
    if (unconnected.value > 0 && unhurried.value > 0)
      state.energy =
          state.energy * ((idle + busy(at)) / unconnected * (settled.step.value / unhurried));
    return std::pair(state, settled);
  };
  const std::vector<Estimate> cool_times =
      detail != nullptr ? adjusted(estimates) : std::vector<Estimate>();
  Composition total = burst;
  Seconds single_call = burst.single_call.value;
  StepState state;
  if (steady || fixed) {
    std::vector<Estimate> waiting;
    single_call = settle(single_call, waiting).second.single_call.value;
    std::tie(state, total) = settle(burst.step.value, estimates);
  } else {
    // Nothing settles: what each kernel draws, and a board at rest beside them.
    alone = adjusted(std::move(alone));
    Seconds working;
    Joules drawn;
    for (size_t i = 0; i < alone.size(); ++i) {
      working += alone[i].seconds * program.launches[i].count;
      drawn += alone[i].joules * program.launches[i].count;
    }
    const Seconds rest = std::max(Seconds(), burst.step.value - working);
    state.energy = drawn + predictor->settle({}, {}, rest, cool, {}).energy;
  }
  estimates = adjusted(std::move(estimates));

  PredictAnswer answer;
  answer.kernel_model = predictor->name();
  answer.latency_s = total.step.value.value;
  answer.latency_low_s = total.step.low.value;
  answer.latency_high_s = total.step.high.value;
  answer.single_call_s = single_call.value;
  answer.energy_known = device.power_limit.value > 0;
  answer.energy_j = answer.energy_known ? state.energy.value : 0;
  answer.launches = total.launches;
  answer.composition = {total.kernels.value, total.gaps.value, total.host.value,
                        total.kernels.value > 0 ? total.step.value / total.kernels - 1 : 0};

  answer.gaps = program.gaps;
  std::map<std::string, size_t> by_name;
  std::map<std::string, double> seconds_by_cause;
  /// What is said of a kernel, whichever launch it is.
  struct Said {
    std::string name, bound;
    double* cause = nullptr;  ///< Seconds of its family and bound; map elements stay in place.
    size_t summary = 0;
  };
  std::vector<Said> said(distinct.kernels().size());
  std::vector<std::string> launch_names;  // and bounds, for the timeline
  std::vector<std::string> launch_bounds;
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = program.launches[i];
    Said& kernel = said[distinct.of(i)];
    if (kernel.cause == nullptr) {
      const bool waits = network && network->holds(i);
      kernel.bound = waits ? "network" : predictor->explain(launch.kernel, request.point).bound;
      kernel.name = kernel_name(launch);
      kernel.cause =
          &seconds_by_cause[fmt::format("{}, {} bound", name(launch.kernel.family), kernel.bound)];
      const auto [at, added] =
          by_name.emplace(fmt::format("{}/{}/{}/{}", kernel.name, launch.kernel.cost.flops(),
                                      launch.kernel.cost.bytes(), kernel.bound),
                          answer.kernels.size());
      kernel.summary = at->second;
      if (added) {
        KernelSummary summary;
        summary.name = kernel.name;
        summary.kind = name(launch.kernel.family);
        summary.bound = kernel.bound;
        summary.flops = launch.kernel.cost.flops();
        summary.bytes = launch.kernel.cost.bytes();
        summary.fused = launch.fused;
        answer.kernels.push_back(std::move(summary));
        append_new(answer.gaps, predictor->gaps(launch.kernel));
      }
    }
    const double seconds = launch.count * estimates[i].seconds.value;
    answer.flops += launch.count * launch.kernel.cost.flops();
    answer.bytes += launch.count * launch.kernel.cost.bytes();
    *kernel.cause += seconds;
    if (request.timeline) {
      launch_names.push_back(kernel.name);
      launch_bounds.push_back(kernel.bound);
    }
    KernelSummary& summary = answer.kernels[kernel.summary];
    summary.count += launch.count;
    summary.time_s += seconds;
  }
  std::stable_sort(
      answer.kernels.begin(), answer.kernels.end(),
      [](const KernelSummary& a, const KernelSummary& b) { return a.time_s > b.time_s; });
  if (total.host > total.device())
    seconds_by_cause["waiting for the host"] = (total.host - total.device()).value;
  seconds_by_cause["launch gaps"] = total.gaps.value;
  answer.breakdown.assign(seconds_by_cause.begin(), seconds_by_cause.end());
  std::stable_sort(answer.breakdown.begin(), answer.breakdown.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });

  if (request.list_launches) list_launches(workload, program, estimates, answer);
  if (request.timeline)
    answer.timeline = make_timeline({.workload = workload,
                                     .program = program,
                                     .estimates = estimates,
                                     .names = launch_names,
                                     .bounds = launch_bounds,
                                     .held = program.memory.timeline,
                                     .costs = costs,
                                     .step_s = answer.latency_s,
                                     .device = device});

  MemoryPlan& m = program.memory;
  answer.memory = {m.peak(),
                   m.arguments,
                   m.outputs,
                   m.temporaries,
                   m.constants,
                   m.aliased,
                   device.usable_memory.value > 0 ? device.usable_memory.value
                                                  : device.main_memory().capacity.value,
                   true,
                   std::move(m.peak_at),
                   std::move(m.holders)};
  answer.memory.fits = answer.memory.peak_bytes <= answer.memory.capacity_bytes;
  if (network) {
    append_new(answer.gaps, network->gaps());
    append_new(answer.gaps, cluster->gaps);
  } else if (program.communicates) {
    append_new(answer.gaps,
               {"collectives are timed by their local memory traffic only: on a cluster "
                "(--on dgx-h100) they run over its network"});
  }
  append_new(answer.gaps, device.gaps);
  append_new(answer.gaps, predictor->gaps(request.point));
  if (steady && !state.gap.empty()) append_new(answer.gaps, {state.gap});
  if (device.name != constants.measured_on)
    append_new(answer.gaps, {fmt::format("launch costs of {} were measured on {} and taken for {}",
                                         request.stack, constants.measured_on, device.name)});
  answer.provenance = {
      {"workload", request.workload},
      {"format", workload.format()},
      {"device", cluster ? fmt::format("{} of {}", device.name, cluster->name) : device.name},
      {"stack",
       constants.version.empty() ? request.stack : request.stack + " " + constants.version},
      {"kernel_model", answer.kernel_model},
      {"regime", request.point.regime == OperatingPoint::Regime::kBurst ? "burst" : "sustained"}};
  if (steady && state.clock.value > 0 && request.point.clock.value <= 0)
    answer.provenance.emplace_back("step_mhz", fmt::format("{:.0f}", state.clock.value / 1e6));
  if (request.point.clock.value > 0)
    answer.provenance.emplace_back("sm_mhz", fmt::format("{}", request.point.clock.value / 1e6));
  if (!request.fit.empty()) answer.provenance.emplace_back("fit", request.fit);
  for (auto& basis : predictor->provenance()) answer.provenance.push_back(std::move(basis));
  for (const auto& [name, value] : request.parameters)
    answer.provenance.emplace_back("parameter " + name, fmt::format("{}", value));
  for (const auto& [path, value] : request.overrides)
    answer.provenance.emplace_back("set " + path, value);
  for (auto& setting : settings_of(request.read)) answer.provenance.push_back(std::move(setting));
  // What was checked are single-device programs that fit, on catalogue devices as they are.
  const auto names = catalogue_.names();
  const bool as_catalogued =
      of_device.empty() && std::find(names.begin(), names.end(), request.device) != names.end();
  if (program.communicates || workload.partitions() * workload.replicas() > 1)
    answer.trust.detail = "no program of several devices was compared with measurements";
  else if (program.left_out > 0)
    answer.trust.detail = "operations of unknown kind are left out: it takes longer than this";
  else if (!answer.memory.fits)
    answer.trust.detail = "it does not fit, so nothing like it was measured";
  else
    answer.trust = trust_of(data_folder_, as_catalogued ? device.name : device.name + ", changed",
                            request.stack, answer.kernel_model);
  if (detail != nullptr) {
    detail->device = device;
    detail->stack = request.stack;
    detail->kernels_of = stack->kernels();
    detail->kernel_model = answer.kernel_model;
    detail->fixed_clock = request.point.clock;
    detail->clock = request.point.clock.value > 0 ? request.point.clock
                    : steady                      ? state.clock
                                                  : Hertz();
    detail->launches = std::move(program.launches);
    detail->estimates = std::move(estimates);
    detail->cool = fixed ? detail->estimates : cool_times;
    detail->costs = constants.costs;
    detail->total = total;
    detail->size = step_size(workload, request.read.build);
  }
  return answer;
}

std::vector<std::pair<std::string, std::vector<Description>>> Session::models() const {
  std::vector<std::pair<std::string, std::vector<Description>>> all;
  const auto collect = [&](const std::string& kind, const auto& registry) {
    std::vector<Description> descriptions;
    for (const auto& entry : registry.entries()) descriptions.push_back(entry.description);
    all.emplace_back(kind, std::move(descriptions));
  };
  collect("readers", Registry<Reader>::instance());
  collect("kernel models", Registry<KernelModel>::instance());
  collect("stacks", Registry<Stack>::instance());
  collect("collective libraries", Registry<CollectiveLibrary>::instance());
  collect("collective algorithms", Registry<CollectiveAlgorithm>::instance());
  collect("networks", Registry<fabric::Network>::instance());
  collect("network schedules", Registry<fabric::ScheduleAlgorithm>::instance());
  collect("schedulers", Registry<Scheduler>::instance());
  collect("routers", Registry<Router>::instance());
  return all;
}

}  // namespace orrery
