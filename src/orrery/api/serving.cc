#include "orrery/api/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/api/json_answer.h"
#include "orrery/api/session.h"
#include "orrery/api/traffic.h"
#include "orrery/base/error.h"
#include "orrery/serving/sampled_times.h"

namespace orrery {
namespace {

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

/// Engines alike.
struct Pool {
  std::string role;
  ServingEngine engine;
  EngineRequest request;
  int replicas = 1;
};

/// Between engines: the outermost tier that a pair of nodes has, one device's share of it.
BytesPerSecond between_engines(const Cluster& cluster, int devices) {
  const FabricTier& tier = cluster.tiers.back();
  const double share = cluster.tiers.size() > 1 ? cluster.node_size() : 1;
  return tier.bandwidth * (devices / share);
}

ReplicaOptions replica_options(const ServingRequest& request, const Pool& pool) {
  ReplicaOptions options;
  options.scheduler = request.scheduler;
  options.scheduler.max_batched_tokens = pool.engine.max_batched_tokens;
  options.scheduler.max_seqs = pool.engine.max_seqs;
  options.ranks = pool.request.layout.attention_data;
  options.asynchronous = request.asynchronous.value_or(pool.engine.times->costs().ahead);
  options.speculation = request.speculation;
  options.prefill_only = pool.role == "prefill";
  return options;
}

/// One run with all steps of every pool as long as `times` says.
ServingRun simulate(const ServingRequest& request, const std::vector<Pool>& pools,
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
    const Pool& from = pools[0];
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

/// What a pool's steps were made of.
PoolAnswer describe(const Pool& pool, const SampledTimes& sampled) {
  PoolAnswer answer;
  answer.role = pool.role;
  answer.layout = pool.request.layout;
  answer.replicas = pool.replicas;
  answer.memory = pool.engine.memory;
  answer.room = pool.engine.room;
  std::array<double, kStepPartCount> parts{};
  double host = 0, all = 0, energy = 0, error = 0;
  for (const SampledStep& step : sampled.steps()) {
    StepShape shape = step.shape;
    shape.prefills = step.chunks;
    const StepCauses causes = pool.engine.times->detail(shape);
    for (size_t i = 0; i < kStepPartCount; ++i) parts[i] += causes.parts[i].value;
    host += std::max(0.0, (step.time.host - step.time.device).value);
    const double seconds = step.time.device.value;
    all += seconds;
    energy += causes.energy.value;
    error += causes.spread * seconds;
    answer.mean_decodes += static_cast<double>(shape.decodes);
    answer.mean_prefill_tokens += static_cast<double>(shape.prefill_tokens());
  }
  const auto count = static_cast<double>(std::max<size_t>(1, sampled.steps().size()));
  answer.mean_decodes /= count;
  answer.mean_prefill_tokens /= count;
  answer.step_s = (all + host) / count;
  if (all > 0) {
    answer.power_w = energy / (all + host);
    answer.spread = error / all;
    double sum = host;
    for (const double part : parts) sum += part;
    for (size_t i = 0; i < kStepPartCount; ++i)
      if (parts[i] > 0) answer.step.emplace_back(name(static_cast<StepPart>(i)), parts[i] / sum);
    if (host > 0) answer.step.emplace_back("waiting for the host", host / sum);
    std::ranges::stable_sort(answer.step, std::ranges::greater(),
                             &std::pair<std::string, double>::second);
  }
  return answer;
}

/// Requests that show what the model's error does to a run.
constexpr int64_t kRequestsForError = 50000;

/// Turns `at`, of a part of a run, into what it says of the whole: by the factor that lies between
/// it and `base`, of the same part.
void carry(const ServingMetrics& base, const ServingMetrics& whole, ServingMetrics& at) {
  for (const auto which : {&ServingMetrics::ttft, &ServingMetrics::tpot, &ServingMetrics::e2e,
                           &ServingMetrics::queue, &ServingMetrics::vidur_tpot})
    for (const auto figure :
         {&Distribution::mean, &Distribution::p50, &Distribution::p90, &Distribution::p99}) {
      const double from = ((base.*which).*figure).value;
      double& value = ((at.*which).*figure).value;
      value =
          from > 0 ? ((whole.*which).*figure).value * value / from : ((whole.*which).*figure).value;
    }
}

}  // namespace

std::string engine_of_scheduler(const std::string& scheduler) {
  return scheduler == "sglang" || scheduler == "trtllm" ? scheduler : "vllm";
}

ServingAnswer Session::serving(const ServingRequest& request) const {
  std::vector<Pool> pools;
  const auto add = [&](std::string role, EngineRequest engine, int replicas) {
    engine.model = request.engine.model;
    engine.device = request.engine.device;
    engine.overrides = request.engine.overrides;
    pools.push_back({std::move(role), serving_engine(engine), engine, replicas});
  };
  if (request.disaggregation) {
    add("prefill", request.disaggregation->prefill, request.disaggregation->prefill_workers);
    add("decode", request.disaggregation->decode, request.disaggregation->decode_workers);
  } else {
    add("engines", request.engine, request.replicas);
  }
  std::vector<SampledTimes> sampled;
  sampled.reserve(pools.size());
  std::vector<const StepTimes*> times;
  for (const Pool& pool : pools) times.push_back(&sampled.emplace_back(*pool.engine.times));

  ServingAnswer answer;
  answer.run = simulate(request, pools, times, true);
  for (size_t i = 0; i < pools.size(); ++i) {
    answer.pools.push_back(describe(pools[i], sampled[i]));
    answer.devices += pools[i].request.layout.devices() * pools[i].replicas;
    times[i] = pools[i].engine.times.get();
    for (const std::string& gap : pools[i].engine.gaps) add_once(answer.gaps, gap);
  }
  // How far the model's error carries shows in part of a long run.
  ServingRequest part = request;
  const bool whole = answer.run.metrics.requests <= kRequestsForError;
  if (!whole) part.traffic.count = kRequestsForError;
  const ServingMetrics base =
      whole ? answer.run.metrics : simulate(part, pools, times, false).metrics;
  for (const bool slow : {false, true}) {
    for (size_t i = 0; i < pools.size(); ++i) {
      const double reach = kNinetyPercent * answer.pools[i].spread;
      pools[i].engine.times->scale(std::exp(slow ? reach : -reach));
    }
    ServingMetrics& at = slow ? answer.slow : answer.fast;
    at = simulate(part, pools, times, false).metrics;
    if (!whole) carry(base, answer.run.metrics, at);
  }
  const ServingMetrics& m = answer.run.metrics;
  answer.requests_offered = request.traffic.rate;
  answer.tokens_per_s_per_device = m.output_tokens_per_s / answer.devices;
  double watts = 0;
  for (size_t i = 0; i < pools.size(); ++i)
    watts += answer.pools[i].power_w * pools[i].request.layout.devices() * pools[i].replicas;
  if (m.output_tokens_per_s > 0) {
    answer.energy_j_per_token = watts / m.output_tokens_per_s;
    answer.price_per_million_tokens =
        request.price_per_hour * answer.devices / 3600 / m.output_tokens_per_s * 1e6;
  }
  answer.provenance = pools[0].engine.provenance;
  answer.provenance.emplace_back("scheduler", request.scheduler.name);
  answer.provenance.emplace_back("cluster", pools[0].engine.cluster.name);
  if (!request.list_requests) answer.run.requests.clear();
  return answer;
}

}  // namespace orrery
