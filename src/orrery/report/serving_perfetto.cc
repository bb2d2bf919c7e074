#include <fmt/format.h>

#include <cmath>
#include <map>
#include <vector>

#include "orrery/base/version.h"
#include "orrery/report/json_text.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/trace_events.h"

namespace orrery {
namespace {

constexpr int kFleet = 1, kFirstReplica = 2;
/// More would make a file that no viewer opens.
constexpr size_t kMostRequests = 5000;

int64_t nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

/// "engine 3", in a fleet of several pools "engine 3, decode on h100-sxm".
std::string engine_name(const std::vector<PoolAnswer>& pools, int replica) {
  std::string name = fmt::format("engine {}", replica);
  int past = 0;
  for (const PoolAnswer& pool : pools) {
    past += pool.replicas;
    if (pools.size() > 1 && replica < past)
      return fmt::format("{}, {}{}", name, pool.role == "engines" ? "" : pool.role + " on ",
                         pool.device);
  }
  return name;
}

}  // namespace

std::string perfetto_trace(const ServingAnswer& answer, const ServingRequest& request) {
  TraceEvents trace;
  trace.name_process(kFleet, "requests");
  const auto blocks = static_cast<double>(std::max<int64_t>(1, answer.run.kv_blocks));
  for (const SeriesPoint& p : answer.run.series) {
    const int64_t at = nanoseconds(p.begin);
    trace.counter(kFleet, "waiting", at, p.waiting, "requests");
    trace.counter(kFleet, "decoding", at, p.decodes, "sequences");
    trace.counter(kFleet, "KV cache", at, 100 * p.used_blocks / blocks, "percent");
  }
  size_t number = 0;
  for (const RequestRecord& r : answer.run.requests) {
    if (number == kMostRequests) break;
    if (r.state != RequestRecord::State::kDone) continue;
    const auto part = [&](const char* name, Seconds begin, Seconds end,
                          const std::string& arguments) {
      trace.async_slice(kFleet, "request", number, name, nanoseconds(begin), nanoseconds(end),
                        arguments);
    };
    const std::string arguments =
        fmt::format(R"({{"prompt":{},"output":{},"cached":{},"preemptions":{},"replica":{}}})",
                    r.prompt, r.output, r.cached, r.preemptions, r.replica);
    part("request", r.arrival, r.end, arguments);
    part("queue", r.arrival, r.scheduled, "{}");
    part("prefill", r.scheduled, r.first_token, "{}");
    part("decode", r.first_token, r.end, "{}");
    ++number;
  }
  // Batches of a pipeline overlap: each goes to the first line that is free.
  std::map<int, std::vector<int64_t>> lines;
  size_t transfers = 0;
  for (const ServingEvent& e : answer.run.events) {
    const int process = kFirstReplica + e.replica;
    const int64_t begin = nanoseconds(e.begin), end = nanoseconds(e.end);
    std::vector<int64_t>& free = lines[process];
    if (free.empty()) trace.name_process(process, engine_name(answer.pools, e.replica));
    if (e.kind == ServingEvent::Kind::kTransfer) {
      trace.async_slice(process, "transfer", transfers++, "transfer", begin, end, "{}");
      continue;
    }
    size_t line = 0;
    while (line < free.size() && free[line] > begin) ++line;
    if (line == free.size()) {
      free.push_back(0);
      trace.name_track(process, static_cast<int>(line), "steps");
    }
    free[line] = end;
    const std::string name = e.prefill_tokens == 0 ? R"("decode")"
                             : e.decodes == 0      ? R"("prefill")"
                                                   : R"("prefill and decode")";
    trace.slice(
        process, static_cast<int>(line), name, begin, end,
        fmt::format(R"({{"decodes":{},"prefill_tokens":{}}})", e.decodes, e.prefill_tokens));
  }
  return trace.finish(
      fmt::format(R"({{"made_by":"orrery {}","model":{},"device":{},"engine":{},"scheduler":{}}})",
                  kVersion, json_text(request.engine.model), json_text(devices_text(answer.pools)),
                  json_text(request.engine.engine), json_text(request.scheduler.name)));
}

}  // namespace orrery
