#include "orrery/api/serving_fleet.h"

#include "orrery/api/session.h"
#include "orrery/api/traffic.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

/// Between engines: the outermost tier that a pair of nodes has, one device's share of it.
BytesPerSecond between_engines(const Cluster& cluster, int devices) {
  const FabricTier& tier = cluster.tiers.back();
  const double share = cluster.tiers.size() > 1 ? cluster.node_size() : 1;
  return tier.bandwidth * (devices / share);
}

ReplicaOptions replica_options(const ServingRequest& request, const EnginePool& pool) {
  ReplicaOptions options;
  options.scheduler = request.scheduler;
  options.scheduler.max_batched_tokens = pool.request.max_batched_tokens;
  options.scheduler.max_seqs = pool.request.max_seqs;
  options.ranks = pool.request.layout.attention_data;
  options.asynchronous = request.asynchronous.value_or(pool.engine.times->costs().ahead);
  options.ahead = options.asynchronous;
  options.speculation = request.speculation;
  options.prefill_only = pool.role == "prefill";
  options.host = pool.engine.host;
  options.adapters = pool.engine.adapters;
  return options;
}

}  // namespace

std::vector<EnginePool> engine_pools(const Session& session, const ServingRequest& request) {
  refuse_unused(request.scheduler);
  if ((request.engine.lora_rank > 0) != (request.traffic.adapters.count > 0))
    throw_usage("adapters need both a rank (--lora-rank) and a number (--lora-adapters)");
  std::vector<EnginePool> pools;
  const auto add = [&](std::string role, EngineRequest engine, int replicas) {
    engine.model = request.engine.model;
    engine.device = request.engine.device;
    engine.overrides = request.engine.overrides;
    engine = session.with_limits(std::move(engine));
    pools.push_back({std::move(role), session.serving_engine(engine), engine, replicas});
  };
  if (request.disaggregation) {
    add("prefill", request.disaggregation->prefill, request.disaggregation->prefill_workers);
    add("decode", request.disaggregation->decode, request.disaggregation->decode_workers);
  } else {
    add("engines", request.engine, request.replicas);
  }
  return pools;
}

ServingRun run_pools(const ServingRequest& request, const std::vector<EnginePool>& pools,
                     const std::vector<const StepTimes*>& times, bool whole) {
  FleetOptions fleet;
  const auto fill = [&](size_t i, ReplicaPool& to) {
    to.router = request.router;
    for (int r = 0; r < pools[i].replicas; ++r)
      to.replicas.push_back({times[i], pools[i].engine.room, replica_options(request, pools[i])});
  };
  fill(0, fleet.pool);
  if (pools.size() > 1) {
    fill(1, fleet.decode_pool);
    const Disaggregation& d = *request.disaggregation;
    const EnginePool& from = pools[0];
    fleet.transfer.bytes_per_token = Bytes(from.engine.kv_bytes_per_token);
    fleet.transfer.bandwidth =
        d.bandwidth.value > 0 ? d.bandwidth
                              : between_engines(from.engine.cluster, from.request.layout.devices());
    fleet.transfer.latency = from.engine.cluster.tiers.back().latency;
  }
  const EngineCosts& costs = pools[0].engine.times->costs();
  fleet.before_engine = costs.before;
  fleet.front_end = costs.front_end;
  fleet.after_engine = costs.after;
  fleet.seed = request.traffic.seed;
  fleet.promise = request.promise;
  fleet.trimming = request.trimming;
  if (whole) {
    fleet.series_points = request.series_points;
    fleet.events = request.events;
    fleet.progress = request.progress;
  }
  const auto source = make_traffic(request.traffic);
  return run_fleet(*source, fleet);
}

ServingRun run_pools(const ServingRequest& request, const std::vector<EnginePool>& pools) {
  std::vector<const StepTimes*> times;
  times.reserve(pools.size());
  for (const EnginePool& pool : pools) times.push_back(pool.engine.times.get());
  return run_pools(request, pools, times, false);
}

}  // namespace orrery
