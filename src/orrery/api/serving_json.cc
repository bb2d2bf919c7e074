#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "orrery/api/json_answer.h"
#include "orrery/api/serving.h"

namespace orrery {
namespace {

using Figure = Measured Distribution::*;
constexpr std::array<std::pair<const char*, Figure>, 4> kFigures = {
    {{"mean_s", &Distribution::mean},
     {"p50_s", &Distribution::p50},
     {"p90_s", &Distribution::p90},
     {"p99_s", &Distribution::p99}}};

/// An end that nobody can tell is null, and so is an interval without ends.
JsonAnswer interval_json(const SamplingInterval& interval) {
  if (!interval.low && !interval.high) return nullptr;
  const auto end = [](const std::optional<double>& value) {
    return value ? JsonAnswer(*value) : JsonAnswer(nullptr);
  };
  return JsonAnswer::array({end(interval.low), end(interval.high)});
}

/// A distribution with both kinds of doubt.
JsonAnswer distribution_json(const ServingAnswer& a, Distribution ServingMetrics::*which) {
  const Distribution& d = a.run.metrics.*which;
  JsonAnswer json;
  json["count"] = d.count;
  for (const auto& [name, figure] : kFigures) json[name] = (d.*figure).value;
  JsonAnswer model, sampling;
  for (const auto& [name, figure] : kFigures) {
    const double value = (d.*figure).value;
    model[name] = {std::min(value, ((a.fast.*which).*figure).value),
                   std::max(value, ((a.slow.*which).*figure).value)};
    sampling[name] = interval_json((d.*figure).by_chance);
  }
  json["model_interval"] = std::move(model);
  json["sampling_interval"] = std::move(sampling);
  return json;
}

/// "h100-sxm", "h100-sxm,l40s"
std::string device_names(const std::vector<PoolAnswer>& pools) {
  std::vector<std::string> names;
  for (const PoolAnswer& pool : pools)
    if (std::ranges::find(names, pool.device) == names.end()) names.push_back(pool.device);
  return fmt::format("{}", fmt::join(names, ","));
}

JsonAnswer pool_json(const PoolAnswer& pool) {
  JsonAnswer json;
  json["role"] = pool.role;
  json["device"] = pool.device;
  json["devices"] = pool.devices();
  json["replicas"] = pool.replicas;
  json["layout"] = layout_json(pool.layout);
  json["kv_blocks"] = pool.room.blocks;
  json["kv_block_tokens"] = pool.room.tokens;
  json["memory"] = {{"capacity_bytes", pool.memory.capacity},
                    {"weights_bytes", pool.memory.weights},
                    {"working_bytes", pool.memory.working},
                    {"cache_bytes", pool.memory.cache}};
  if (pool.memory.adapters > 0) json["memory"]["adapters_bytes"] = pool.memory.adapters;
  json["step_s"] = pool.step_s;
  json["step_decodes"] = pool.mean_decodes;
  json["step_prefill_tokens"] = pool.mean_prefill_tokens;
  JsonAnswer shares = JsonAnswer::object();
  for (const auto& [cause, share] : pool.step) shares[cause] = share;
  json["step_shares"] = std::move(shares);
  json["requests"] = pool.use.requests;
  json["request_share"] = pool.request_share;
  json["prompt_tokens"] = pool.use.prompt_tokens;
  json["output_tokens"] = pool.use.output_tokens;
  json["busy"] = pool.busy;
  json["power_w"] = pool.power_w;
  json["mean_power_w"] = pool.mean_power_w;
  if (pool.price_per_hour > 0) json["price_per_hour"] = pool.price_per_hour;
  return json;
}

JsonAnswer host_json(const ServingRun& run) {
  const HostUse& host = run.host;
  JsonAnswer json;
  if (host.blocks > 0) {
    json["kv_blocks"] = host.blocks;
    json["kv_peak_use"] = static_cast<double>(host.peak_blocks) / static_cast<double>(host.blocks);
    json["hit_tokens"] = host.hit_tokens;
  }
  json["adapter_loads"] = host.adapter_loads;
  json["to_device_bytes"] = host.to_device.value;
  json["to_host_bytes"] = host.to_host.value;
  json["to_device_busy_share"] = run.link_share(host.to_device_busy);
  json["to_host_busy_share"] = run.link_share(host.to_host_busy);
  return json;
}

}  // namespace

JsonAnswer layout_json(const ServingLayout& layout) {
  return {{"tp", layout.tensor},
          {"pp", layout.pipeline},
          {"attention_dp", layout.attention_data},
          {"moe_tp", layout.expert_tensor > 0 ? layout.expert_tensor
                                              : layout.stage_devices() / layout.expert},
          {"moe_ep", layout.expert}};
}

std::string to_json(const ServingAnswer& a, const ServingRequest& request) {
  const ServingMetrics& m = a.run.metrics;
  JsonAnswer json;
  json["schema"] = schema("serving");
  json["model"] = request.engine.model;
  json["device"] = device_names(a.pools);
  json["engine"] = request.engine.engine;
  json["scheduler"] = request.scheduler.name;
  json["devices"] = a.devices;
  json["ttft"] = distribution_json(a, &ServingMetrics::ttft);
  json["tpot"] = distribution_json(a, &ServingMetrics::tpot);
  json["e2e"] = distribution_json(a, &ServingMetrics::e2e);
  json["queue"] = distribution_json(a, &ServingMetrics::queue);
  json["vidur_tpot"] = distribution_json(a, &ServingMetrics::vidur_tpot);
  json["inter_token"] = {{"mean_s", m.itl_mean.value},
                         {"p50_s", m.itl_p50.value},
                         {"p90_s", m.itl_p90.value},
                         {"p99_s", m.itl_p99.value}};
  json["throughput"] = {{"requests_per_s", m.requests_per_s},
                        {"output_tokens_per_s", m.output_tokens_per_s},
                        {"input_tokens_per_s", m.input_tokens_per_s},
                        {"output_tokens_per_s_per_device", a.tokens_per_s_per_device}};
  json["goodput"] = {{"requests_per_s", m.goodput}, {"share", m.goodput_share}};
  json["kv"] = {{"blocks", a.run.kv_blocks},
                {"peak_use", a.run.kv_blocks > 0 ? static_cast<double>(a.run.kv_peak_blocks) /
                                                       static_cast<double>(a.run.kv_blocks)
                                                 : 0},
                {"mean_use", a.run.kv_mean_use},
                {"cached_share", m.cached_share}};
  if (a.run.host.links > 0) json["host"] = host_json(a.run);
  json["requests"] = {{"ended", m.requests}, {"rejected", m.rejected}};
  json["preemptions"] = m.preemptions;
  json["mean_waiting"] = m.mean_waiting;
  json["duration_s"] = m.duration.value;
  json["steps"] = a.run.steps;
  json["energy_j_per_token"] = a.energy_j_per_token;
  if (a.price_per_hour > 0) {
    json["price_per_hour"] = a.price_per_hour;
    json["price_per_million_tokens"] = a.price_per_million_tokens;
  }
  JsonAnswer pools = JsonAnswer::array();
  for (const PoolAnswer& pool : a.pools) pools.push_back(pool_json(pool));
  json["pools"] = std::move(pools);
  json["trust"] = {{"verdict", a.trust.verdict}, {"detail", a.trust.detail}};
  json["gaps"] = a.gaps;
  JsonAnswer provenance = JsonAnswer::object();
  for (const auto& [key, value] : a.provenance) provenance[key] = value;
  json["provenance"] = std::move(provenance);
  return write(json);
}

}  // namespace orrery
