#include "orrery/api/serving_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "orrery/api/session.h"
#include "orrery/base/error.h"

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

}  // namespace

Cluster usual_cluster(const Catalogue& catalogue, const std::string& device,
                      const std::vector<Override>& overrides) {
  if (catalogue.is_cluster(device)) return catalogue.cluster(device, overrides);
  std::vector<std::string> known;
  for (const ClusterListing& listing : catalogue.list_clusters())
    if (listing.device == device) known.push_back(listing.name);
  if (!known.empty()) {
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
  memory.cache = memory.capacity - memory.weights - memory.working;
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
        "{} does not fit: {:.1f} GB of weights and {:.1f} GB of working memory on each of {} "
        "devices leave nothing of {:.1f} GB for keys and values; use more devices (--tp, --pp), "
        "narrower weights (--dtype) or a larger --memory-fraction",
        engine.model.name, memory.weights / 1e9, memory.working / 1e9, request.layout.devices(),
        memory.capacity / 1e9));
}

EngineRequest Session::with_limits(EngineRequest request) const {
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
  EngineHabits habits;
  habits.gathers_experts = costs.gathers_experts;
  habits.routing_skew = request.routing_skew;
  habits.captured_tokens = costs.captured;
  EngineWork work(engine.model, layout, request.precision, habits);

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
    for (const std::string& gap : collectives->gaps()) engine.gaps.push_back(gap);
  }

  std::shared_ptr<const StepProfile> profile;
  if (!request.step_profile.empty())
    profile = std::make_shared<StepProfile>(
        read_step_tables(request.step_profile, work.has_experts()), engine.model, layout,
        request.routing_skew, engine.cluster.device.compute_units);

  engine.kv_bytes_per_token =
      (work.cache_bytes_per_token() + work.windowed_cache_bytes_per_token()) * layout.tensor *
      layout.pipeline;
  for (const std::string& gap : work.gaps()) engine.gaps.push_back(gap);
  engine.provenance = kernels->provenance();
  engine.provenance.emplace_back("kernel_model", kernels->name());
  if (profile) engine.provenance.emplace_back("step_profile", request.step_profile);
  engine.provenance.emplace_back("engine", fmt::format("{} {}", costs.engine, costs.version));
  if (collectives)
    for (auto& item : collectives->provenance()) engine.provenance.push_back(std::move(item));
  engine.times = std::make_shared<EngineTimes>(
      std::move(work), layout, costs, std::move(kernels), std::move(collectives),
      static_cast<double>(engine.model.hidden) * 2, std::move(profile));
  divide_memory(engine, request);
  return engine;
}

}  // namespace orrery
