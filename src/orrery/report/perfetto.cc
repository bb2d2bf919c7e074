#include "orrery/report/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/base/version.h"
#include "orrery/report/json_text.h"
#include "orrery/report/trace_events.h"

namespace orrery {
namespace {

enum Process : int { kDevice = 1, kHost = 2 };
enum Track : int { kStep = 1, kParts = 2, kStream = 3, kQueue = 4 };

/// Starts and ends are rounded apart, so that what touches still touches.
int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// The parts as slices inside each other: a part lasts while launches of it follow each
/// other. Readers want the outer of two that begin together first.
void add_parts(const Timeline& t, TraceEvents& trace) {
  struct Span {
    uint32_t part = 0;
    double start_s = 0, end_s = 0;
  };
  std::vector<Span> spans;
  std::vector<size_t> open;  // outermost first
  std::vector<uint32_t> way;
  for (const TimelineLaunch& l : t.launches) {
    way.clear();
    for (uint32_t p = l.part; p != 0; p = t.parts[p].parent) way.push_back(p);
    std::reverse(way.begin(), way.end());
    size_t shared = 0;
    while (shared < open.size() && shared < way.size() && spans[open[shared]].part == way[shared])
      ++shared;
    open.resize(shared);
    for (size_t depth = shared; depth < way.size(); ++depth) {
      open.push_back(spans.size());
      spans.push_back({way[depth], l.start_s, l.end_s});
    }
    for (const size_t s : open) spans[s].end_s = l.end_s;
  }
  for (const Span& s : spans)
    trace.slice(kDevice, kParts, json_text(t.parts[s.part].name), nanoseconds(s.start_s),
                nanoseconds(s.end_s), "{}");
}

}  // namespace

std::string perfetto_trace(const PredictAnswer& answer, const PredictRequest& request) {
  const Timeline& t = answer.timeline;
  TraceEvents trace;
  trace.name_process(kDevice, request.device);
  trace.name_process(kHost, "host");
  trace.name_track(kDevice, kStep, "step");
  trace.name_track(kDevice, kParts, "model");
  trace.name_track(kDevice, kStream, "stream 0");
  trace.name_track(kHost, kQueue, "dispatch");

  trace.slice(
      kDevice, kStep, json_text(request.workload), nanoseconds(t.step_start_s),
      nanoseconds(t.step_end_s),
      fmt::format(
          R"({{"low_us":{:.6g},"high_us":{:.6g},"flops":{:.6g},"bytes":{:.6g},"launches":{:.0f}}})",
          answer.latency_low_s * 1e6, answer.latency_high_s * 1e6, answer.flops, answer.bytes,
          answer.launches));
  add_parts(t, trace);
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  for (const TimelineKernel& k : t.kernels) {
    names.push_back(json_text(k.name));
    arguments.push_back(fmt::format(
        R"("kind":{},"bound":{},"each_us":{:.6g},"low_us":{:.6g},"high_us":{:.6g},"flops":{:.6g},"bytes":{:.6g},"operations":{})",
        json_text(k.kind), json_text(k.bound), k.time_s * 1e6, k.low_s * 1e6, k.high_s * 1e6,
        k.flops, k.bytes, k.fused));
  }
  for (const TimelineLaunch& l : t.launches)
    trace.slice(kDevice, kStream, names[l.kernel], nanoseconds(l.start_s), nanoseconds(l.end_s),
                fmt::format(R"({{{},"count":{:.0f}}})", arguments[l.kernel], l.count));
  for (const TimelineLaunch& l : t.launches)
    trace.slice(kHost, kQueue, names[l.kernel], nanoseconds(l.host_start_s),
                nanoseconds(l.host_end_s), fmt::format(R"({{"count":{:.0f}}})", l.count));
  for (const HeldMemory& m : t.memory)
    trace.counter(kDevice, "memory", nanoseconds(m.time_s), std::round(m.bytes), "bytes");
  std::string note = "One step of many that follow each other.";
  if (t.folded)
    note += fmt::format(
        " It has {:.0f} launches: what loops and calls repeat is one slice with its "
        "count.",
        answer.launches);
  return trace.finish(fmt::format(
      R"({{"made_by":"orrery {}","workload":{},"device":{},"stack":{},"kernel_model":{},"note":{}}})",
      kVersion, json_text(request.workload), json_text(request.device), json_text(request.stack),
      json_text(answer.kernel_model), json_text(note)));
}

}  // namespace orrery
