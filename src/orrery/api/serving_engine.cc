#include "orrery/api/serving_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/api/append_new.h"
#include "orrery/api/session.h"
#include "orrery/base/error.h"
#include "orrery/serving/engine/measured_collectives.h"

namespace orrery {
namespace {

/// The most that a step holds beside weights and cache: activations of the widest layer, or what
/// choosing the next tokens takes. The logits of every sequence: 16 bits, 32 bits, sorted with
/// their 64-bit places, and probabilities (vLLM's sampler, which its profiling run includes).
double working_bytes(const EngineRequest& request, const TransformerDescription& model) {
  int64_t widest = 4 * model.hidden;
  for (const Layer& layer : model.layers)
    if (const auto* dense = std::get_if<DenseFeedForward>(&layer.feed_forward))
      widest = std::max(widest, 3 * dense->inner / request.layout.tensor);
  const double activations = static_cast<double>(request.max_batched_tokens) *
                             static_cast<double>(widest + 2 * model.hidden) * 2;
  const double sampling =
      static_cast<double>(request.max_seqs) * static_cast<double>(model.vocabulary) * 22;
  return std::max(activations, sampling);
}

/// Parts of a step as large and as small as they come.
std::vector<EnginePass> usual_passes(const EngineWork& work, const EngineRequest& request,
                                     bool counts_ends) {
  std::vector<EnginePass> passes;
  for (const int64_t tokens : {int64_t{1}, request.max_seqs, request.max_batched_tokens}) {
    passes.push_back(work.tokens(tokens));
    passes.push_back(work.experts(tokens));
    passes.push_back(work.exchange(tokens));
    if (!counts_ends) continue;
    passes.push_back(work.embedding(tokens));
    passes.push_back(work.head(std::min(tokens, request.max_seqs)));
  }
  passes.push_back(work.prefill(1, request.max_batched_tokens, 0));
  constexpr int64_t kContext = 4096;
  passes.push_back(work.prefill(1, request.max_batched_tokens, kContext));
  for (const bool windowed : {false, true})
    for (const int64_t sequences : {int64_t{1}, request.max_seqs})
      passes.push_back(work.decode(windowed, sequences, kContext));
  return passes;
}

/// "softmax kernels were not measured" and "lookup kernels were not measured" in one sentence.
std::vector<std::string> together(const std::vector<std::string>& gaps) {
  constexpr std::string_view kKernels = " kernels ";
  std::vector<std::pair<std::string, std::string>> parts;  // families, and what is said of them
  for (const std::string& gap : gaps) {
    const size_t at = gap.find(kKernels);
    if (at == std::string::npos) {
      parts.emplace_back(gap, "");
      continue;
    }
    const std::string said = gap.substr(at);
    const auto same = std::ranges::find(parts, said, &std::pair<std::string, std::string>::second);
    if (same == parts.end())
      parts.emplace_back(gap.substr(0, at), said);
    else
      same->first += ", " + gap.substr(0, at);
  }
  std::vector<std::string> joined;
  joined.reserve(parts.size());
  for (const auto& [families, said] : parts) joined.push_back(families + said);
  return joined;
}

/// What `kernels` lacks for the launches that no profile times, and what a profile leaves to it.
std::vector<std::string> kernel_gaps(const std::vector<EnginePass>& passes,
                                     const Predictor& kernels, const StepProfile* profile) {
  std::vector<std::string> gaps;
  std::array<bool, kEngineOperatorCount> lacking{};
  for (const EnginePass& pass : passes)
    for (size_t i = 0; i < pass.launches.size(); ++i) {
      if (profile != nullptr && profile->has(pass.operators[i])) continue;
      lacking[static_cast<size_t>(pass.operators[i])] = true;
      append_new(gaps, kernels.gaps(pass.launches[i].kernel));
    }
  OperatingPoint point;
  point.queued = true;
  append_new(gaps, kernels.gaps(point));
  gaps = together(gaps);
  if (profile == nullptr) return gaps;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kEngineOperatorCount; ++i)
    if (lacking[i]) names.push_back(name(static_cast<EngineOperator>(i)));
  if (!names.empty())
    gaps.push_back(fmt::format("not in the step profile, so predicted by {}: {}", kernels.name(),
                               fmt::join(names, "; ")));
  return gaps;
}

/// With measured times where `tables` have them for this layout.
std::shared_ptr<const CollectivePredictor> with_tables(
    std::shared_ptr<const CollectivePredictor> collectives, std::vector<CollectiveTimes> tables,
    const std::vector<EnginePass>& passes, const ServingLayout& layout, const Cluster& cluster,
    std::vector<std::string>& gaps) {
  if (tables.empty() || collectives == nullptr) return collectives;
  auto measured = std::make_shared<MeasuredCollectives>(std::move(collectives), std::move(tables),
                                                        cluster.node_size());
  std::vector<std::string_view> names;
  const auto check = [&](const CollectiveCall& call) {
    if (!measured->has(call) && std::ranges::find(names, name(call.kind)) == names.end())
      names.push_back(name(call.kind));
  };
  for (const EnginePass& pass : passes)
    for (const EngineTraffic& traffic : pass.traffic) check(traffic.call);
  if (layout.pipeline > 1)
    check({CollectiveKind::kSendReceive, Bytes(0), {layout.pipeline, layout.stage_devices()}});
  if (!names.empty())
    gaps.push_back(
        fmt::format("not in the tables of collectives, so predicted: {}", fmt::join(names, ", ")));
  return measured;
}

/// What a copy between the device and its host reaches.
BytesPerSecond host_bandwidth(const Device& device, const EngineCosts& costs) {
  for (const std::string_view name : {"nvlink_c2c", "pcie"})
    for (const Link& link : device.links)
      if (link.name == name && link.bandwidth.value > 0) return link.bandwidth * costs.host_link;
  throw_usage(fmt::format(
      "the description of {} states no link to its host: give one with --host-link, e.g. 50GB/s",
      device.name));
}

/// More blocks than any host has room for.
constexpr double kMostBlocks = 1e15;

/// What the host keeps for the engine, and the link to it.
void attach_host(ServingEngine& engine, const EngineRequest& request) {
  if (request.host_memory == 0 && request.lora_rank == 0) {
    if (request.host_link.value > 0)
      throw_usage("--host-link has no use without --kv-host-memory or --lora-rank");
    return;
  }
  const EngineWork& work = engine.times->work();
  HostOptions& host = engine.host;
  host.bandwidth = request.host_link.value > 0
                       ? request.host_link
                       : host_bandwidth(engine.cluster.device, engine.times->costs());
  if (request.lora_rank > 0) {
    if (request.lora_slots < 1) throw_usage("adapters need one slot at least (--lora-slots)");
    engine.adapters = {request.lora_slots, Bytes(work.adapter_bytes())};
    engine.gaps.emplace_back("adapters lie in the host's memory: none is read from a disk");
    engine.gaps.emplace_back(
        "adapters' kernels are timed as grouped products of their sizes: none was measured");
  }
  if (request.host_memory == 0) return;
  if (engine.kv_bytes_per_token == 0)
    throw_usage(
        fmt::format("--kv-host-memory has no use: {} keeps no keys and values", engine.model.name));
  const auto block_tokens = static_cast<double>(request.block_tokens);
  host.block_bytes =
      Bytes((work.cache_bytes_per_token() + work.windowed_cache_bytes_per_token()) * block_tokens);
  const double of_rank = request.host_memory / request.layout.attention_data;
  host.blocks = static_cast<int64_t>(
      std::min(of_rank / (engine.kv_bytes_per_token * block_tokens), kMostBlocks));
  if (host.blocks == 0)
    throw_infeasible(
        fmt::format("--kv-host-memory: {:.3g} MB for each of {} ranks hold no block of {:.3g} MB",
                    of_rank / 1e6, request.layout.attention_data,
                    engine.kv_bytes_per_token * block_tokens / 1e6));
  if (engine.room.fixed > 0)
    engine.gaps.emplace_back("the state of linear attention is not kept on the host");
}

}  // namespace

Cluster usual_cluster(const Catalogue& catalogue, const std::string& device,
                      const std::vector<Override>& overrides) {
  if (catalogue.is_cluster(device)) return catalogue.cluster(device, overrides);
  if (const std::vector<std::string> known = catalogue.clusters_of(device); !known.empty()) {
    const auto vendors_own = std::ranges::find_if(
        known, [](const std::string& name) { return name.starts_with("dgx-"); });
    std::vector<Override> of_device;
    of_device.reserve(overrides.size());
    for (const auto& [path, value] : overrides) of_device.emplace_back("device." + path, value);
    return catalogue.cluster(vendors_own == known.end() ? known.front() : *vendors_own, of_device);
  }
  Cluster alone;
  alone.name = device;
  alone.device = catalogue.device(device, overrides);
  alone.tiers.emplace_back().name = "none";
  return alone;
}

void divide_memory(ServingEngine& engine, const EngineRequest& request) {
  const EngineWork& work = engine.times->work();
  EngineMemory& memory = engine.memory;
  memory.capacity = engine.cluster.device.usable_memory.value * request.memory_fraction;
  memory.weights = work.weight_bytes();
  memory.working = working_bytes(request, engine.model) + engine.times->costs().runtime.value;
  if (request.lora_rank > 0) memory.adapters = work.adapter_bytes() * request.lora_slots;
  memory.cache = memory.capacity - memory.weights - memory.working - memory.adapters;
  KvRoom& room = engine.room;
  room.tokens = request.block_tokens;
  // Where no layer looks at all tokens, windowed ones set the size of a block.
  const double full = work.cache_bytes_per_token(),
               windowed = work.windowed_cache_bytes_per_token();
  const double block =
      (full > 0 ? full : std::max(windowed, 1.0)) * static_cast<double>(room.tokens);
  room.window = work.window();
  room.windowed = full > 0 ? windowed / full : 0;
  room.fixed = static_cast<int64_t>(std::ceil(work.state_bytes_per_sequence() / block));
  room.blocks = request.kv_blocks > 0 ? request.kv_blocks
                                      : static_cast<int64_t>(std::max(0.0, memory.cache) / block);
  if (room.blocks == 0)
    throw_infeasible(fmt::format(
        "{} does not fit: {:.1f} GB of weights{} and {:.1f} GB of working memory on each of {} "
        "devices leave nothing of {:.1f} GB for keys and values; use more devices (--tp, --pp), "
        "narrower weights (--dtype) or a larger --memory-fraction",
        engine.model.name, memory.weights / 1e9,
        memory.adapters > 0 ? fmt::format(", {:.1f} GB of adapters", memory.adapters / 1e9) : "",
        memory.working / 1e9, request.layout.devices(), memory.capacity / 1e9));
}

EngineRequest Session::with_limits(EngineRequest request) const {
  if (request.max_batched_tokens > 0 && request.max_seqs > 0) return request;
  // As vLLM tells small devices, in EngineArgs.get_batch_defaults: by memory, and A100s by name.
  constexpr double kLargeDevice = 70.0 * (1 << 30);
  const EngineCosts costs = load_engine_costs(data_folder_, request.engine, request.settings);
  const Device device = usual_cluster(catalogue_, request.device, request.overrides).device;
  const bool small = device.usable_memory.value < kLargeDevice || device.name.starts_with("a100");
  if (request.max_batched_tokens == 0)
    request.max_batched_tokens = small ? costs.few_tokens : costs.batched_tokens;
  if (request.max_seqs == 0) request.max_seqs = small ? costs.few_sequences : costs.sequences;
  return request;
}

ServingEngine Session::serving_engine(const EngineRequest& given) const {
  const EngineRequest request = with_limits(given);
  ServingEngine engine;
  engine.cluster = usual_cluster(catalogue_, request.device, request.overrides);
  engine.model = load_language_model(request.model);
  if (const auto found = faults(request.layout, engine.model); !found.empty())
    throw_infeasible(fmt::format("{}", fmt::join(found, "; ")));
  const ServingLayout& layout = request.layout;
  if (layout.devices() > engine.cluster.largest())
    throw_infeasible(fmt::format("{} has {:.0f} devices at most, not {}", engine.cluster.name,
                                 engine.cluster.largest(), layout.devices()));
  const EngineCosts costs = load_engine_costs(data_folder_, request.engine, request.settings);
  EngineWork work(engine.model, layout, request.precision, costs.habits,
                  {request.routing_skew, request.lora_rank});

  std::shared_ptr<const Predictor> kernels =
      bind_choice(request, engine.cluster.device, "vllm", data_folder_, catalogue_);
  std::shared_ptr<const CollectivePredictor> collectives;
  if (layout.devices() > 1) {
    const std::string library = default_library(engine.cluster) == "nccl" && costs.custom_all_reduce
                                    ? "vllm-custom"
                                    : std::string(default_library(engine.cluster));
    collectives = Registry<CollectiveLibrary>::instance()
                      .at(library, "library of collectives")
                      .create()
                      ->bind(engine.cluster, data_folder_);
    append_new(engine.gaps, collectives->gaps());
    append_new(engine.gaps, engine.cluster.gaps);
  }

  const std::vector<EnginePass> passes = usual_passes(work, request, costs.counts_ends);
  std::shared_ptr<const StepProfile> profile;
  if (!request.step_profile.empty()) {
    StepTables tables = read_step_tables(request.step_profile, {engine.model, layout});
    profile = std::make_shared<StepProfile>(tables, engine.model, layout, request.routing_skew,
                                            engine.cluster.device.compute_units, costs.counts_ends);
    collectives = with_tables(std::move(collectives), std::move(tables.collectives), passes, layout,
                              engine.cluster, engine.gaps);
  }

  engine.kv_bytes_per_token =
      (work.cache_bytes_per_token() + work.windowed_cache_bytes_per_token()) * layout.tensor *
      layout.pipeline;
  append_new(engine.gaps, work.gaps());
  append_new(engine.gaps, engine.cluster.device.gaps);
  append_new(engine.gaps, kernel_gaps(passes, *kernels, profile.get()));
  engine.provenance = kernels->provenance();
  engine.provenance.emplace_back("kernel_model", kernels->name());
  if (profile)
    engine.provenance.emplace_back("step_profile",
                                   fmt::format("{}", fmt::join(request.step_profile, ", ")));
  engine.provenance.emplace_back("engine", fmt::format("{} {}", costs.engine, costs.version));
  if (collectives)
    for (auto& item : collectives->provenance()) engine.provenance.push_back(std::move(item));
  engine.times = std::make_shared<EngineTimes>(
      std::move(work), layout, costs, std::move(kernels), std::move(collectives),
      static_cast<double>(engine.model.hidden) * 2, std::move(profile));
  divide_memory(engine, request);
  attach_host(engine, request);
  return engine;
}

}  // namespace orrery
