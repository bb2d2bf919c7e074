#include "orrery/api/serving_fleet.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/api/session.h"
#include "orrery/api/traffic.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

/// Between engines: the outermost tier that a pair of nodes has, its devices' share of it.
BytesPerSecond between_engines(const Cluster& cluster, int devices) {
  const FabricTier& tier = cluster.tiers.back();
  const double share = cluster.tiers.size() > 1 ? cluster.node_size() : 1;
  return tier.bandwidth * (devices / share);
}

KvTransfer transfer_of(const EnginePool& pool, BytesPerSecond given) {
  const Cluster& cluster = pool.engine.cluster;
  return {Bytes(pool.engine.kv_bytes_per_token),
          given.value > 0 ? given : between_engines(cluster, pool.request.layout.devices()),
          cluster.tiers.back().latency};
}

ReplicaOptions replica_options(const ServingRequest& request, const EnginePool& pool) {
  ReplicaOptions options;
  options.scheduler = request.scheduler;
  options.scheduler.max_batched_tokens = pool.request.max_batched_tokens;
  options.scheduler.max_seqs = pool.request.max_seqs;
  options.positions = pool.engine.model.longest;
  options.ranks = pool.request.layout.attention_data;
  options.asynchronous = is_asynchronous(request, pool.engine);
  options.ahead = options.asynchronous;
  if (request.stream_interval < 1)
    throw_usage("tokens that go to the user together must be 1 or more");
  options.stream = pool.engine.times->costs().stream / static_cast<double>(request.stream_interval);
  if (pool.role != "decode") options.front_end = pool.engine.times->costs().front_end;
  options.speculation = request.speculation;
  options.prefill_only = pool.role == "prefill";
  options.host = pool.engine.host;
  options.adapters = pool.engine.adapters;
  return options;
}

/// Those for prompts first.
std::vector<PoolRequest> ordered(std::vector<PoolRequest> pools) {
  size_t whole = 0, prefill = 0, decode = 0;
  for (const PoolRequest& pool : pools) {
    if (pool.role != "engines" && pool.role != "prefill" && pool.role != "decode")
      throw_usage(fmt::format("role '{}' is none of prefill and decode", pool.role));
    ++(pool.role == "engines" ? whole : pool.role == "prefill" ? prefill : decode);
  }
  if (whole > 0 && prefill + decode > 0)
    throw_usage("either every pool of a fleet has a role, prefill or decode, or none has");
  if ((prefill == 0) != (decode == 0))
    throw_usage(
        "prompts and answers each need a pool: give one with role=prefill and one with "
        "role=decode");
  std::stable_partition(pools.begin(), pools.end(),
                        [](const PoolRequest& pool) { return pool.role != "decode"; });
  return pools;
}

}  // namespace

bool is_asynchronous(const ServingRequest& request, const ServingEngine& engine) {
  return request.asynchronous.value_or(engine.times->costs().ahead);
}

std::vector<EnginePool> engine_pools(const Session& session, const ServingRequest& request) {
  refuse_unused(request.scheduler);
  if ((request.engine.lora_rank > 0) != (request.traffic.adapters.count > 0))
    throw_usage("adapters need both a rank (--lora-rank) and a number (--lora-adapters)");
  std::vector<PoolRequest> wanted = ordered(request.pools);
  if (wanted.empty()) wanted.push_back({"engines", request.engine, request.replicas});
  std::vector<EnginePool> pools;
  for (PoolRequest& pool : wanted) {
    if (!pool.engine.step_profile.empty() && pool.engine.device != wanted[0].engine.device)
      throw_usage("--step-profile holds the times of one device: pools on others have none");
    pool.engine.model = request.engine.model;
    const EngineRequest engine = session.with_limits(std::move(pool.engine));
    pools.push_back({pool.role, session.serving_engine(engine), engine, pool.replicas});
  }
  return pools;
}

ServingRun run_pools(const ServingRequest& request, const std::vector<EnginePool>& pools,
                     const std::vector<const StepTimes*>& times, RunDetail detail) {
  FleetOptions fleet;
  fleet.pool.router = fleet.decode_pool.router = request.router;
  for (size_t i = 0; i < pools.size(); ++i) {
    const EnginePool& pool = pools[i];
    const ReplicaSpec replica = {times[i], pool.engine.room, replica_options(request, pool),
                                 transfer_of(pool, request.transfer)};
    ReplicaPool& to = pool.role == "decode" ? fleet.decode_pool : fleet.pool;
    to.replicas.insert(to.replicas.end(), static_cast<size_t>(pool.replicas), replica);
  }
  const EngineCosts& costs = pools[0].engine.times->costs();
  fleet.before_engine = costs.before;
  fleet.after_engine = costs.after;
  fleet.seed = request.traffic.seed;
  fleet.promise = request.promise;
  fleet.trimming = request.trimming;
  fleet.giving_up = request.giving_up;
  fleet.measured = detail != RunDetail::kRequests;
  if (detail == RunDetail::kCourse) {
    fleet.series_points = request.series_points;
    fleet.events = request.events;
    fleet.progress = request.progress;
  }
  const auto source = make_traffic(request.traffic);
  return run_fleet(*source, fleet);
}

std::vector<const StepTimes*> times_of(const std::vector<EnginePool>& pools) {
  std::vector<const StepTimes*> times;
  times.reserve(pools.size());
  for (const EnginePool& pool : pools) times.push_back(pool.engine.times.get());
  return times;
}

}  // namespace orrery
