#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "orrery/api/capacity.h"
#include "orrery/api/json_answer.h"

namespace orrery {
namespace {

/// JSON has no infinity: null for what never came.
JsonAnswer seconds_json(Seconds seconds) {
  return std::isfinite(seconds.value) ? JsonAnswer(seconds.value) : JsonAnswer();
}

JsonAnswer point_json(const LoadPoint& p) {
  return {{"load", p.load},
          {"requests_per_s", p.rate},
          {"ttft_s", seconds_json(p.ttft)},
          {"tpot_s", seconds_json(p.tpot)},
          {"e2e_s", seconds_json(p.e2e)},
          {"output_tokens_per_s", p.output_tokens_per_s},
          {"kept", p.kept()},
          {"tightest", name(p.tightest)}};
}

JsonAnswer candidate_json(const CapacityCandidate& c, const CapacityRequest& request) {
  JsonAnswer json;
  json["devices"] = c.arrangement.devices();
  JsonAnswer pools = JsonAnswer::array();
  for (const ArrangedPool& pool : c.arrangement.pools) {
    JsonAnswer& of_pool = pools.emplace_back(JsonAnswer{{"role", pool.role},
                                                        {"device", pool.device},
                                                        {"replicas", pool.replicas},
                                                        {"layout", layout_json(pool.layout)}});
    if (pool.max_batched_tokens > 0) of_pool["max_batched_tokens"] = pool.max_batched_tokens;
    if (pool.chunk_size > 0) of_pool["chunk_size"] = pool.chunk_size;
  }
  json["pools"] = std::move(pools);
  json["requests_per_s_per_device"] = c.rate_per_device();
  if (request.serving.prices.given()) json["price_per_hour"] = c.price_per_hour;
  json["load"] = point_json(c.kept);
  json["breaks"] = c.broken ? point_json(*c.broken) : JsonAnswer();
  return json;
}

template <class Range, class Write>
JsonAnswer list_json(const Range& range, Write&& write) {
  JsonAnswer list = JsonAnswer::array();
  for (const auto& each : range) list.push_back(write(each));
  return list;
}

}  // namespace

std::string to_json(const CapacityAnswer& a, const CapacityRequest& request) {
  const auto candidate = [&](const CapacityCandidate& c) { return candidate_json(c, request); };
  const ServiceLevel& level = request.promise.level;
  JsonAnswer json;
  json["schema"] = schema("capacity");
  json["model"] = request.serving.engine.model;
  json["device"] = fmt::format("{}", fmt::join(request.kinds(), ","));
  json["cluster"] = a.cluster;
  json["devices"] = a.devices;
  json["promise"] = {{"ttft_s", level.ttft.value},
                     {"tpot_s", level.tpot.value},
                     {"e2e_s", level.e2e.value},
                     {"quantile", request.promise.quantile}};
  json["load_unit"] = name(request.unit());
  json["asked_load"] = request.asked();
  json["best"] = candidate(a.best);
  json["most"] = point_json(a.most);
  json["most_low_load"] = a.most_low;
  json["most_high_load"] = a.most_high;
  if (request.serving.prices.given())
    json["price_per_million_tokens"] = a.run.price_per_million_tokens;
  json["energy_j_per_token"] = a.run.energy_j_per_token;
  json["others"] = list_json(a.others, candidate);
  json["frontier"] = list_json(a.frontier, candidate);
  json["curve"] = list_json(a.curve, point_json);
  json["left_out"] = list_json(a.left_out, [](const ImpossibleLayout& out) {
    return JsonAnswer{
        {"device", out.device}, {"layout", layout_json(out.layout)}, {"why", out.why}};
  });
  json["trust"] = {{"verdict", a.run.trust.verdict}, {"detail", a.run.trust.detail}};
  json["gaps"] = a.run.gaps;
  JsonAnswer provenance = JsonAnswer::object();
  for (const auto& [key, value] : a.run.provenance) provenance[key] = value;
  json["provenance"] = std::move(provenance);
  return write(json);
}

}  // namespace orrery
