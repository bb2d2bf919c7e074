#include <fmt/format.h>

#include <map>
#include <vector>

#include "orrery/base/version.h"
#include "orrery/report/json_text.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/trace_events.h"

namespace orrery {
namespace {

enum Track : int { kHost = 1, kCompute = 2, kCommunication = 3, kReceives = 4 };

Track track(const ReplayedNode& node) {
  if (node.host) return kHost;
  if (node.kind == "COMP_NODE") return kCompute;
  return node.kind == "COMM_RECV_NODE" ? kReceives : kCommunication;
}

}  // namespace

std::string perfetto_trace(const ReplayAnswer& answer, const ReplayRequest& request) {
  TraceEvents trace;
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t rank = kNone;
  std::vector<uint64_t> receives;  // when each track of receives is free: they overlap
  for (const ReplayedNode& node : answer.timeline) {
    const int process = static_cast<int>(node.rank) + 1;
    if (node.rank != rank) {
      rank = node.rank;
      receives.clear();
      trace.name_process(process, answer.folded ? "every rank" : fmt::format("rank {}", node.rank));
      trace.name_track(process, kHost, "host");
      trace.name_track(process, kCompute, "compute");
      trace.name_track(process, kCommunication, "communication");
    }
    int line = track(node);
    if (line == kReceives) {
      size_t lane = 0;
      while (lane < receives.size() && receives[lane] > node.start_ns) ++lane;
      if (lane == receives.size()) {
        receives.push_back(0);
        trace.name_track(process, line + static_cast<int>(lane), "receives");
      }
      receives[lane] = node.end_ns;
      line += static_cast<int>(lane);
    }
    trace.slice(process, line, json_text(node.name), static_cast<int64_t>(node.start_ns),
                static_cast<int64_t>(node.end_ns),
                fmt::format(R"({{"node":{},"kind":{},"bytes":{}}})", node.id, json_text(node.kind),
                            node.bytes));
  }
  return trace.finish(fmt::format(
      R"({{"made_by":"orrery {}","traces":{},"network":{},"system":{},"congestion":"{}"}})",
      kVersion, json_text(request.prefix), json_text(request.network), json_text(request.system),
      request.congestion ? "aware" : "unaware"));
}

}  // namespace orrery
