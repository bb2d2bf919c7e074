#include "orrery/api/capacity/known_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/api/session.h"
#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"
#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

/// Engines of so many times the devices of the smallest that keeps the promise are large enough.
constexpr int kLargeEnough = 2;

}  // namespace

KnownEngines::KnownEngines(const Session& session, const CapacityRequest& request,
                           const OfferedLoad& load, int threads)
    : session_(session), request_(request), load_(load), threads_(threads) {
  for (const std::string& device : request.kinds()) {
    EngineRequest engine = request.serving.engine;
    engine.device = device;
    kinds_.push_back({session.with_limits(engine),
                      usual_cluster(session.catalogue(), device, engine.overrides)});
  }
}

void KnownEngines::build(int devices) {
  const TransformerDescription model = load_language_model(request_.serving.engine.model);
  for (const DeviceKind& kind : kinds_) {
    if (request_.layout) {
      add(kind, {*request_.layout}, devices);
      continue;
    }
    const double largest = std::min<double>(devices, kind.cluster.largest());
    const int node = kind.cluster.node_size();
    int enough = 0;
    for (int size = 1; size <= largest && (enough == 0 || size <= enough); size *= 2) {
      const size_t before = engines_.size();
      add(kind, serving_layouts(model, size, node), devices);
      if (enough == 0 &&
          std::any_of(engines_.begin() + static_cast<std::ptrdiff_t>(before), engines_.end(),
                      [](const KnownEngine& e) { return e.keeps(); }))
        enough = std::max(node, kLargeEnough * size);
    }
  }
}

void KnownEngines::add(const DeviceKind& kind, const std::vector<ServingLayout>& layouts,
                       int devices) {
  const size_t before = engines_.size();
  for (const ServingLayout& layout : layouts)
    engines_.push_back({kind.engine.device, layout, {}, {}, {}, {}});
  share_tasks(layouts.size(), threads_, [&](size_t i) {
    KnownEngine& e = engines_[before + i];
    try {
      EngineRequest wanted = kind.engine;
      wanted.layout = e.layout;
      if (e.layout.devices() > devices)
        throw_infeasible(fmt::format("it needs {} devices", e.layout.devices()));
      e.engine = session_.serving_engine(wanted);
      const Arrangement alone = {{pool("engines", e.device, e.layout, 1)}};
      const int64_t chunk = alone.pools.front().chunk_size;
      const std::vector<EnginePool> one = pools(alone);
      const ServingRun run =
          run_pools(serving(alone, load_.trickle()), one, times_of(one), RunDetail::kRequests);
      e.trickle = load_point(kTrickle, run.requests, request_.promise, 0);
      if (!std::isfinite(e.trickle.ttft.value))
        throw_infeasible(
            fmt::format("{:.1f} GB for keys and values do not hold the longest requests",
                        e.engine->memory.cache / 1e9));
      e.pace = pace_of(
          *e.engine, e.layout,
          {load_.mean_prompt(), load_.mean_output(), chunk > 0 ? chunk : wanted.max_batched_tokens,
           wanted.max_seqs, is_asynchronous(request_.serving, *e.engine), request_.promise.level});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
      e.engine.reset();
      e.fault = error.message();
    }
  });
}

const DeviceKind& KnownEngines::kind(const std::string& device) const {
  const auto found = std::ranges::find_if(
      kinds_, [&](const DeviceKind& kind) { return kind.engine.device == device; });
  if (found == kinds_.end()) throw_internal("a kind of device that nobody asked for");
  return *found;
}

const KnownEngine& KnownEngines::of(const std::string& device, const ServingLayout& layout) const {
  const auto found = std::ranges::find_if(
      engines_, [&](const KnownEngine& e) { return e.device == device && e.layout == layout; });
  if (found == engines_.end()) throw_internal("a layout without an engine");
  return *found;
}

ArrangedPool KnownEngines::pool(const std::string& role, const std::string& device,
                                const ServingLayout& layout, int replicas) const {
  const SchedulerOptions& scheduler = request_.serving.scheduler;
  const auto& parameters =
      Registry<Scheduler>::instance().at(scheduler.name, "scheduler").description.parameters;
  const auto known = [&](std::string_view name) {
    return std::ranges::find(parameters, name, &Parameter::name);
  };
  ArrangedPool pool = {role, device, layout, replicas};
  if (known("max_batched_tokens") != parameters.end())
    pool.max_batched_tokens = kind(device).engine.max_batched_tokens;
  else if (const auto chunk = known("chunk_size"); chunk != parameters.end())
    pool.chunk_size = scheduler.chunk_size > 0 ? scheduler.chunk_size
                                               : static_cast<int64_t>(chunk->default_value);
  return pool;
}

int64_t* KnownEngines::variable_limit(ArrangedPool& pool) const {
  if (pool.chunk_size > 0)
    return request_.serving.scheduler.chunk_size > 0 ? nullptr : &pool.chunk_size;
  return pool.max_batched_tokens == 0 || request_.fixed_tokens ? nullptr : &pool.max_batched_tokens;
}

std::vector<EnginePool> KnownEngines::pools(const Arrangement& arrangement) const {
  std::vector<EnginePool> pools;
  for (const ArrangedPool& arranged : arrangement.pools) {
    EnginePool pool = {arranged.role, *of(arranged.device, arranged.layout).engine,
                       kind(arranged.device).engine, arranged.replicas};
    pool.request.layout = arranged.layout;
    if (arranged.max_batched_tokens > 0)
      pool.request.max_batched_tokens = arranged.max_batched_tokens;
    divide_memory(pool.engine, pool.request);
    pools.push_back(std::move(pool));
  }
  return pools;
}

ServingRequest KnownEngines::serving(const Arrangement& arrangement,
                                     const TrafficRequest& traffic) const {
  ServingRequest serving = request_.serving;
  serving.traffic = traffic;
  serving.promise = request_.promise.level;
  serving.pools.clear();
  for (const ArrangedPool& arranged : arrangement.pools) {
    PoolRequest pool = {arranged.role, kind(arranged.device).engine, arranged.replicas};
    pool.engine.layout = arranged.layout;
    if (arranged.max_batched_tokens > 0)
      pool.engine.max_batched_tokens = arranged.max_batched_tokens;
    if (arranged.chunk_size > 0 && arranged.role != "decode")
      serving.scheduler.chunk_size = arranged.chunk_size;
    serving.pools.push_back(std::move(pool));
  }
  return serving;
}

}  // namespace orrery
