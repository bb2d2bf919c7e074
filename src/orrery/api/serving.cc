#include "orrery/api/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "orrery/api/append_new.h"
#include "orrery/api/serving_fleet.h"
#include "orrery/api/session.h"
#include "orrery/api/traffic.h"
#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"
#include "orrery/serving/sampled_times.h"
#include "orrery/serving/traffic/trace.h"

namespace orrery {
namespace {

/// The same requests, but more or fewer of them at a time.
ServingRequest under_load(const ServingRequest& request, double times) {
  ServingRequest other = request;
  TrafficRequest& traffic = other.traffic;
  traffic.rate *= times;
  if (!traffic.requests.empty()) traffic.speed *= times;
  if (traffic.concurrency > 0)
    traffic.concurrency =
        std::max<int64_t>(1, std::llround(static_cast<double>(traffic.concurrency) * times));
  return other;
}

/// What a pool's steps were made of.
PoolAnswer describe(const EnginePool& pool, const SampledTimes& sampled, bool asynchronous) {
  PoolAnswer answer;
  answer.role = pool.role;
  answer.device = pool.request.device;
  answer.layout = pool.request.layout;
  answer.replicas = pool.replicas;
  answer.memory = pool.engine.memory;
  answer.room = pool.engine.room;
  std::array<double, kStepPartCount> parts{};
  double host = 0, launched = 0, all = 0, energy = 0, error = 0;
  for (const SampledStep& step : sampled.steps()) {
    StepShape shape = step.shape;
    shape.prefills = step.chunks;
    const StepCauses causes = pool.engine.times->detail(shape);
    double kernels = 0;
    for (size_t i = 0; i < kStepPartCount; ++i) {
      parts[i] += causes.parts[i].value;
      kernels += causes.parts[i].value;
    }
    host += (step.time.duration(asynchronous) - step.time.device).value;
    launched += std::max(0.0, step.time.launch.value - kernels);
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
    host += launched;  // which `all` holds already
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

/// What kind of deployment this is. Those that were measured ran engines of this scheduler, with
/// predicted kernels of catalogue devices and the engines' own constants.
DeploymentKind kind_of(const ServingRequest& request, const EnginePool& pool) {
  const EngineRequest& engine = request.engine;
  DeploymentKind kind;
  kind.engine = engine.engine;
  kind.device = pool.engine.cluster.device.name;
  kind.experts = pool.engine.times->work().has_experts();
  kind.disaggregated = pool.role == "prefill";
  const auto note = [&](bool unusual, std::string what) {
    if (unusual) kind.unusual.push_back(std::move(what));
  };
  note(!engine.overrides.empty(), "changes of the device");
  note(!engine.settings.empty(), "changes of the engine's constants");
  const ModelChoice usual;
  note(engine.kernel_model != usual.kernel_model || !engine.fit.empty() ||
           !engine.profile.empty() || !engine.parameters.empty(),
       "another kernel model");
  note(!engine.step_profile.empty(), "a step profile");
  const std::string own = engine.engine == "vllm" ? "vllm-v1" : engine.engine;
  note(request.scheduler.name != own, "scheduler " + request.scheduler.name);
  note(request.scheduler.first_chunk || request.scheduler.max_utilization,
       "admission by what is needed at once");
  note(request.speculation.draft_tokens > 0, "speculation");
  note(engine.host_memory > 0, "keys and values on the host");
  note(engine.lora_rank > 0, "adapters");
  note(std::ranges::any_of(request.pools,
                           [&](const PoolRequest& other) {
                             return other.engine.device != request.pools.front().engine.device;
                           }),
       "pools on different devices");
  return kind;
}

/// What each pool's engines did in the run.
void share_out(const ServingRun& run, const std::vector<EnginePool>& engines,
               const DevicePrices& prices, ServingAnswer& answer) {
  size_t next = 0;
  for (size_t i = 0; i < engines.size(); ++i) {
    PoolAnswer& pool = answer.pools[i];
    for (int r = 0; r < pool.replicas; ++r) {
      const ReplicaUse& use = run.replicas[next++];
      pool.use.requests += use.requests;
      pool.use.prompt_tokens += use.prompt_tokens;
      pool.use.output_tokens += use.output_tokens;
      pool.use.busy += use.busy;
    }
    if (run.metrics.duration.value > 0)
      pool.busy = std::min(1.0, pool.use.busy.value / pool.replicas / run.metrics.duration.value);
    const Device& device = engines[i].engine.cluster.device;
    pool.mean_power_w = pool.busy * pool.power_w + (1 - pool.busy) * device.idle_power.value;
    if (device.idle_power.value <= 0 && pool.busy < 1)
      append_new(answer.gaps,
                 {fmt::format("what {} takes while it is idle is not known: counted as nothing",
                              pool.device)});
    pool.price_per_hour = prices.of(pool.device) * pool.devices();
    answer.price_per_hour += pool.price_per_hour;
  }
  for (PoolAnswer& pool : answer.pools) {
    int64_t all = 0;
    for (const PoolAnswer& other : answer.pools)
      if (other.role == pool.role) all += other.use.requests;
    if (all > 0)
      pool.request_share = static_cast<double>(pool.use.requests) / static_cast<double>(all);
  }
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

/// Moves `at` further from `middle` by an error of ln(true / predicted) that has nothing to do with
/// the one that made it.
void widen(const Distribution& middle, double error, Distribution& at) {
  for (const auto figure :
       {&Distribution::mean, &Distribution::p50, &Distribution::p90, &Distribution::p99}) {
    const double from = (middle.*figure).value;
    double& value = (at.*figure).value;
    if (!(from > 0 && value > 0)) continue;
    const double reach = std::log(value / from);
    value = from * std::exp(std::copysign(std::hypot(reach, error), reach));
  }
}

/// Moves whole answers further from `middle` by what `first`, first tokens that were moved from
/// `before` to `after`, adds to them: as many seconds, in quadrature.
void widen_answers(const Distribution& middle, const Distribution& first,
                   const Distribution& before, const Distribution& after, Distribution& at) {
  for (const auto figure :
       {&Distribution::mean, &Distribution::p50, &Distribution::p90, &Distribution::p99}) {
    const double from = (middle.*figure).value, token = (first.*figure).value;
    double& value = (at.*figure).value;
    if (!(token > 0 && value > 0)) continue;
    const double reach = value - from, was = (before.*figure).value - token,
                 is = (after.*figure).value - token;
    const double further = std::sqrt(reach * reach + std::max(0.0, is * is - was * was));
    value = std::max(from + std::copysign(further, is), (after.*figure).value);
  }
}

/// With all steps longer or shorter by the model's error: `sign` 1 or -1.
ServingMetrics with_error(const ServingRequest& request, const std::vector<EnginePool>& pools,
                          const std::vector<PoolAnswer>& known, double sign) {
  std::vector<ScaledTimes> scaled;
  scaled.reserve(pools.size());
  std::vector<const StepTimes*> times;
  for (size_t i = 0; i < pools.size(); ++i)
    times.push_back(&scaled.emplace_back(*pools[i].engine.times,
                                         std::exp(sign * kNinetyPercent * known[i].spread)));
  return run_pools(request, pools, times, RunDetail::kMetrics).metrics;
}

/// Fills in what other runs than the answer's own tell: of the model's error, and of other loads.
void run_others(const ServingRequest& request, const std::vector<EnginePool>& pools,
                ServingAnswer& answer) {
  // How far the model's error carries shows in part of a long run.
  ServingRequest part = request;
  const ServingMetrics& all = answer.run.metrics;
  const bool whole = all.requests <= kRequestsForError;
  if (!whole) part.traffic.count = kRequestsForError;
  ServingMetrics base;
  std::vector<std::function<void()>> runs = {
      [&] { answer.fast = with_error(part, pools, answer.pools, -1); },
      [&] { answer.slow = with_error(part, pools, answer.pools, 1); }};
  if (!whole)
    runs.emplace_back(
        [&] { base = run_pools(part, pools, times_of(pools), RunDetail::kMetrics).metrics; });
  if (request.curve) answer.curve.resize(kCurveLoads.size());
  for (size_t i = 0; i < answer.curve.size(); ++i)
    runs.emplace_back([&, i] {
      answer.curve[i] = run_pools(under_load(request, kCurveLoads[i]), pools, times_of(pools),
                                  RunDetail::kMetrics)
                            .metrics;
    });
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  share_tasks(runs.size(), threads, [&](size_t i) { runs[i](); });
  for (ServingMetrics* at : {&answer.fast, &answer.slow}) {
    if (!whole) carry(base, all, *at);
    const Distribution first = at->ttft;
    widen(all.ttft, kNinetyPercent * pools[0].engine.times->costs().spread_first, at->ttft);
    widen_answers(all.e2e, all.ttft, first, at->ttft, at->e2e);
  }
}

/// Throws `kInfeasible` where every request was rejected.
void refuse_nobody(const ServingRequest& request, const std::vector<EnginePool>& pools,
                   const ServingRun& run) {
  if (std::ranges::any_of(run.requests, [](const RequestRecord& r) {
        return r.state != RequestRecord::State::kRejected;
      }))
    return;
  const RequestRecord& longest = *std::ranges::max_element(
      run.requests, {}, [](const RequestRecord& r) { return int64_t{r.prompt} + r.output; });
  std::string limits;
  for (const EnginePool& pool : pools)
    limits += fmt::format(
        "; an engine on {} has room for {} tokens of keys and values and computes {} in a step",
        pool.request.device, pool.engine.room.blocks * pool.engine.room.tokens,
        pool.request.max_batched_tokens);
  const int64_t told = request.scheduler.max_length, made_for = pools[0].engine.model.longest;
  if (told > 0)
    limits += fmt::format("; --max-length allows {} a sequence", told);
  else if (made_for > 0)
    limits += fmt::format("; {} was made for {} a sequence (--max-length says another number)",
                          pools[0].engine.model.name, made_for);
  throw_infeasible(fmt::format(
      "none of {} requests can be served: the longest has {} tokens of prompt and {} of answer{}",
      run.requests.size(), longest.prompt, longest.output, limits));
}

}  // namespace

std::string engine_of_scheduler(const std::string& scheduler) {
  return scheduler == "sglang" || scheduler == "trtllm" ? scheduler : "vllm";
}

std::string devices_text(const std::vector<PoolAnswer>& pools) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const PoolAnswer& pool : pools) {
    const auto known = std::ranges::find(kinds, pool.device, &std::pair<std::string, int>::first);
    if (known == kinds.end())
      kinds.emplace_back(pool.device, pool.devices());
    else
      known->second += pool.devices();
  }
  std::string text;
  for (const auto& [device, count] : kinds)
    text += fmt::format("{}{} × {}", text.empty() ? "" : " + ", count, device);
  return text;
}

ServingAnswer Session::serving(const ServingRequest& asked) const {
  ServingRequest request = asked;
  request.traffic.table = read_table(asked.traffic);  // once, for all runs
  const std::vector<EnginePool> pools = engine_pools(*this, request);
  std::vector<SampledTimes> sampled;
  sampled.reserve(pools.size());
  std::vector<const StepTimes*> times;
  times.reserve(pools.size());
  for (const EnginePool& pool : pools) times.push_back(&sampled.emplace_back(*pool.engine.times));

  ServingAnswer answer;
  answer.run = run_pools(request, pools, times, RunDetail::kCourse);
  refuse_nobody(request, pools, answer.run);
  for (size_t i = 0; i < pools.size(); ++i) {
    answer.pools.push_back(
        describe(pools[i], sampled[i], is_asynchronous(request, pools[i].engine)));
    answer.devices += pools[i].devices();
    append_new(answer.gaps, pools[i].engine.gaps);
  }
  if (request.speculation.draft_tokens > 0)
    append_new(answer.gaps, {"guesses cost nothing before they are checked: neither the time nor "
                             "the weights of what drafts them are counted"});
  if (const auto& table = request.traffic.table)
    append_new(answer.gaps, table->gaps(!request.traffic.requests.empty()));
  share_out(answer.run, pools, request.prices, answer);
  run_others(request, pools, answer);
  const ServingMetrics& m = answer.run.metrics;
  answer.requests_offered = request.traffic.rate;
  answer.tokens_per_s_per_device = m.output_tokens_per_s / answer.devices;
  double watts = 0;
  for (const PoolAnswer& pool : answer.pools) watts += pool.mean_power_w * pool.devices();
  if (m.output_tokens_per_s > 0) {
    answer.energy_j_per_token = watts / m.output_tokens_per_s;
    answer.price_per_million_tokens = answer.price_per_hour / 3600 / m.output_tokens_per_s * 1e6;
  }
  answer.provenance = pools[0].engine.provenance;
  answer.provenance.emplace_back("scheduler", request.scheduler.name);
  answer.provenance.emplace_back("cluster", pools[0].engine.cluster.name);
  for (size_t i = 1; i < pools.size(); ++i) {
    const auto same_device = [&](const EnginePool& pool) {
      return pool.request.device == pools[i].request.device;
    };
    if (std::any_of(pools.begin(), pools.begin() + static_cast<std::ptrdiff_t>(i), same_device))
      continue;
    for (const auto& [key, value] : pools[i].engine.provenance)
      answer.provenance.emplace_back(pools[i].request.device + "." + key, value);
    answer.provenance.emplace_back(pools[i].request.device + ".cluster",
                                   pools[i].engine.cluster.name);
  }
  answer.trust = trust_of(data_folder_, kind_of(request, pools[0]));
  if (!request.list_requests) answer.run.requests.clear();
  return answer;
}

}  // namespace orrery
