#include "orrery/report/serving_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "orrery/api/capacity.h"
#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

/// "12.3 ms (11.9 … 12.8)".
std::string with_range(double value, double low, double high) {
  return fmt::format("{} ({} … {})", format_seconds(value), format_seconds(std::min(value, low)),
                     format_seconds(std::max(value, high)));
}

/// What each pool had of the work.
Table pools_table(const ServingAnswer& a) {
  std::vector<Table::Column> columns = {{"", Table::Align::kLeft}};
  for (const char* title :
       {"devices", "requests", "prompt tokens", "output tokens", "busy", "power, on average"})
    columns.push_back({title, Table::Align::kRight});
  const bool prices = a.price_per_hour > 0;
  if (prices) columns.push_back({"price an hour", Table::Align::kRight});
  Table table(columns);
  double prompt = 0, output = 0;
  for (const PoolAnswer& pool : a.pools) {
    prompt += static_cast<double>(pool.use.prompt_tokens);
    output += static_cast<double>(pool.use.output_tokens);
  }
  const auto percent = [](double part, double whole) {
    return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
  };
  for (const PoolAnswer& pool : a.pools) {
    std::vector<std::string> row = {pool_title(pool, a.pools),
                                    std::to_string(pool.devices()),
                                    percent(pool.request_share, 1),
                                    percent(static_cast<double>(pool.use.prompt_tokens), prompt),
                                    percent(static_cast<double>(pool.use.output_tokens), output),
                                    percent(pool.busy, 1),
                                    fmt::format("{:.0f} W", pool.mean_power_w * pool.devices())};
    if (prices) row.push_back(fmt::format("{:.4g}", pool.price_per_hour));
    table.add(row);
  }
  return table;
}

}  // namespace

std::string pool_title(const PoolAnswer& pool, const std::vector<PoolAnswer>& all) {
  const bool mixed = std::ranges::any_of(
      all, [&](const PoolAnswer& other) { return other.device != pool.device; });
  std::string name = pool.role == "engines" ? (mixed ? pool.device : "Engines") : pool.role;
  if (mixed && pool.role != "engines") name += " on " + pool.device;
  return fmt::format("{}: {} × ({})", name, pool.replicas, words(pool.layout));
}

std::string by_chance_text(const SamplingInterval& interval) {
  const auto& [low, high] = interval;
  if (low && high) return fmt::format("{} … {}", format_seconds(*low), format_seconds(*high));
  if (low) return fmt::format("{} or more", format_seconds(*low));
  return high ? fmt::format("{} or less", format_seconds(*high)) : "too few requests";
}

std::string serving_text(const ServingAnswer& a, const ServingRequest& request) {
  const ServingMetrics& m = a.run.metrics;
  std::string text =
      fmt::format("{} on {}, {} with scheduler {}\n\n", request.engine.model, devices_text(a.pools),
                  request.engine.engine, request.scheduler.name);
  Table table({{"", Table::Align::kLeft},
               {"mean (90 % by the model's error)", Table::Align::kRight},
               {"p50", Table::Align::kRight},
               {"p90", Table::Align::kRight},
               {"p99", Table::Align::kRight},
               {"mean by chance", Table::Align::kRight}});
  const auto row = [&](const char* what, Distribution ServingMetrics::*which) {
    const Distribution& d = m.*which;
    if (d.count == 0) return;
    table.add({what,
               with_range(d.mean.value, (a.fast.*which).mean.value, (a.slow.*which).mean.value),
               format_seconds(d.p50.value), format_seconds(d.p90.value),
               format_seconds(d.p99.value), by_chance_text(d.mean.by_chance)});
  };
  row("time to first token", &ServingMetrics::ttft);
  row("time per output token", &ServingMetrics::tpot);
  row("end to end", &ServingMetrics::e2e);
  row("in the queue", &ServingMetrics::queue);
  text += table.text(2);
  text += "\n";
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", what, value);
  };
  line("throughput",
       fmt::format("{:.4g} requests/s, {:.5g} output tokens/s ({:.5g} a device)", m.requests_per_s,
                   m.output_tokens_per_s, a.tokens_per_s_per_device));
  if (request.promise.ttft.value > 0 || request.promise.tpot.value > 0 ||
      request.promise.e2e.value > 0)
    line("goodput", fmt::format("{:.4g} requests/s keep the promise ({:.1f} %)", m.goodput,
                                100 * m.goodput_share));
  line("requests", fmt::format("{} ended, {} rejected, {} preemptions, in {}", m.requests,
                               m.rejected, m.preemptions, format_seconds(m.duration.value)));
  line("KV cache",
       fmt::format("{} blocks, {:.1f} % in use on average, {:.1f} % at most{}", a.run.kv_blocks,
                   100 * a.run.kv_mean_use,
                   a.run.kv_blocks > 0 ? 100.0 * static_cast<double>(a.run.kv_peak_blocks) /
                                             static_cast<double>(a.run.kv_blocks)
                                       : 0,
                   m.cached_share > 0
                       ? fmt::format("; {:.1f} % of prompts found there", 100 * m.cached_share)
                       : std::string()));
  const HostUse& host = a.run.host;
  if (host.blocks > 0)
    line("on the host",
         fmt::format(
             "{} blocks, {:.1f} % in use at most; {} tokens came from there", host.blocks,
             100.0 * static_cast<double>(host.peak_blocks) / static_cast<double>(host.blocks),
             host.hit_tokens));
  if (request.engine.lora_rank > 0)
    line("adapters", fmt::format("{} of rank {}, {} slots, {} times one came from the host",
                                 request.traffic.adapters.count, request.engine.lora_rank,
                                 request.engine.lora_slots, host.adapter_loads));
  if (host.links > 0)
    line(
        "host links",
        fmt::format("{} to devices ({:.1f} % of the time), {} to hosts ({:.1f} %)",
                    format_bytes(host.to_device.value), 100 * a.run.link_share(host.to_device_busy),
                    format_bytes(host.to_host.value), 100 * a.run.link_share(host.to_host_busy)));
  line("energy", fmt::format("{} a token", format_joules(a.energy_j_per_token)));
  if (a.price_per_million_tokens > 0)
    line("price", fmt::format("{:.4g} an hour, {:.3g} a million output tokens", a.price_per_hour,
                              a.price_per_million_tokens));
  text += hanging("  trust        ", fmt::format("{}: {}", a.trust.verdict, a.trust.detail));
  if (a.pools.size() > 1) text += "\nPools\n" + pools_table(a).text(2);
  for (const PoolAnswer& pool : a.pools) {
    text += fmt::format("\n{}\n", pool_title(pool, a.pools));
    line("memory",
         fmt::format("{} a device: weights {}, working {},{} keys and values {}",
                     format_bytes(pool.memory.capacity), format_bytes(pool.memory.weights),
                     format_bytes(pool.memory.working),
                     pool.memory.adapters > 0
                         ? fmt::format(" adapters {},", format_bytes(pool.memory.adapters))
                         : std::string(),
                     format_bytes(pool.memory.cache)));
    line("busy", fmt::format("{:.1f} % of the time, then {:.0f} W a device", 100 * pool.busy,
                             pool.power_w));
    line("a step",
         fmt::format("{} on average: {:.1f} sequences decode, {:.1f} tokens of prompts",
                     format_seconds(pool.step_s), pool.mean_decodes, pool.mean_prefill_tokens));
    std::vector<std::string> shares;
    for (const auto& [cause, share] : pool.step)
      shares.push_back(fmt::format("{} {:.1f} %", cause, 100 * share));
    line("", fmt::format("{}", fmt::join(shares, ", ")));
  }
  text += list_text("Not modelled", a.gaps);
  return text;
}

std::string requests_csv(const ServingAnswer& answer) {
  std::string text =
      "arrival_s,scheduled_s,first_token_s,end_s,prompt_tokens,output_tokens,cached_tokens,"
      "preemptions,replica,state\n";
  for (const RequestRecord& r : answer.run.requests) {
    const char* state = r.state == RequestRecord::State::kDone ? "done" : "rejected";
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", r.arrival.value, r.scheduled.value,
                        r.first_token.value, r.end.value, r.prompt, r.output, r.cached,
                        r.preemptions, r.replica, state);
  }
  return text;
}

}  // namespace orrery
