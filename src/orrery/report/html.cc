#include "orrery/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orrery/report/json_text.h"
#include "orrery/report/page_text.h"

namespace orrery {

/// The files of page/, from cmake/EmbedText.cmake.
namespace embedded {
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;
}  // namespace embedded

namespace {

/// Four digits are more than a plot or a column shows.
std::string number(double value) { return fmt::format("{:.4g}", value); }

template <class Range, class Text>
std::string list(const Range& range, Text&& text) {
  std::string written = "[";
  for (const auto& each : range) {
    if (written.size() > 1) written += ',';
    written += text(each);
  }
  return written + "]";
}

/// Names are repeated a thousand times: each is written once and then by its number.
class Strings {
 public:
  std::string operator()(const std::string& text) {
    const auto [at, added] = known_.emplace(text, list_.size());
    if (added) list_.push_back(text);
    return std::to_string(at->second);
  }
  std::string json() const { return list(list_, json_text); }

 private:
  std::unordered_map<std::string, size_t> known_;
  std::vector<std::string> list_;
};

/// Which launches are shown, in order.
std::vector<size_t> shown_launches(const Timeline& t) {
  std::vector<size_t> shown(t.launches.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (shown.size() <= kMostPageLaunches) return shown;
  const auto seconds = [&](size_t i) {
    return t.launches[i].count * t.kernels[t.launches[i].kernel].time_s;
  };
  std::nth_element(
      shown.begin(), shown.begin() + kMostPageLaunches, shown.end(),
      [&](size_t a, size_t b) { return std::pair(-seconds(a), a) < std::pair(-seconds(b), b); });
  shown.resize(kMostPageLaunches);
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string page_data(const PredictAnswer& a, const PredictRequest& request) {
  const Timeline& t = a.timeline;
  Strings strings;
  std::string json = "{";
  const auto add = [&](std::string_view key, const std::string& value) {
    json += fmt::format("{}\"{}\":{}", json.size() > 1 ? ",\n" : "", key, value);
  };
  add("workload", json_text(request.workload));
  add("device", json_text(request.device));
  add("stack", json_text(request.stack));
  add("kernel_model", json_text(a.kernel_model));
  add("latency", fmt::format("{:.9g}", a.latency_s));
  add("low", number(a.latency_low_s));
  add("high", number(a.latency_high_s));
  add("single_call", number(a.single_call_s));
  add("kernel_sum", number(a.composition.kernels_s));
  add("energy", a.energy_known ? number(a.energy_j) : "null");
  add("flops", number(a.flops));
  add("bytes", number(a.bytes));
  add("launch_count", fmt::format("{:.0f}", a.launches));
  add("trust", fmt::format("[{},{}]", json_text(a.trust.verdict), json_text(a.trust.detail)));
  const MemoryAnswer& m = a.memory;
  add("memory",
      fmt::format(R"({{"peak":{:.0f},"arguments":{:.0f},"outputs":{:.0f},"temporaries":{:.0f},)"
                  R"("constants":{:.0f},"aliased":{:.0f},"capacity":{:.0f},"fits":{}}})",
                  m.peak_bytes, m.arguments_bytes, m.outputs_bytes, m.temporaries_bytes,
                  m.constants_bytes, m.aliased_bytes, m.capacity_bytes, m.fits));
  add("breakdown", list(a.breakdown, [](const auto& cause) {
        return fmt::format("[{},{}]", json_text(cause.first), number(cause.second));
      }));
  add("gaps", list(a.gaps, json_text));
  add("provenance", list(a.provenance, [](const auto& entry) {
        return fmt::format("[{},{}]", json_text(entry.first), json_text(entry.second));
      }));
  add("roofs", list(t.roofs, [](const Roof& r) {
        return fmt::format("[{},{}]", json_text(r.name), number(r.flops_per_s));
      }));
  add("bandwidth", number(t.bandwidth));

  const auto column = [&](const char* key, auto&& text) {
    return fmt::format("\"{}\":{}", key, list(t.kernels, text));
  };
  using Kernel = TimelineKernel;
  add("kernels",
      fmt::format("{{{},{},{},{},{},{},{},{},{},{}}}",
                  column("name", [&](const Kernel& k) { return strings(k.name); }),
                  column("kind", [&](const Kernel& k) { return strings(k.kind); }),
                  column("operation", [&](const Kernel& k) { return strings(k.operation); }),
                  column("bound", [&](const Kernel& k) { return strings(k.bound); }),
                  column("time", [](const Kernel& k) { return fmt::format("{:.6g}", k.time_s); }),
                  column("low", [](const Kernel& k) { return number(k.low_s); }),
                  column("high", [](const Kernel& k) { return number(k.high_s); }),
                  column("flops", [](const Kernel& k) { return number(k.flops); }),
                  column("bytes", [](const Kernel& k) { return number(k.bytes); }),
                  column("fused", [](const Kernel& k) { return std::to_string(k.fused); })));
  add("parts",
      fmt::format("{{\"name\":{},\"parent\":{}}}",
                  list(t.parts, [&](const PartTree::Part& p) { return strings(p.name); }),
                  list(t.parts, [](const PartTree::Part& p) { return std::to_string(p.parent); })));

  const std::vector<size_t> shown = shown_launches(t);
  const auto of_launches = [&](auto&& text) {
    return list(shown, [&](size_t i) { return text(t.launches[i]); });
  };
  // Starts as nanoseconds since the one before: short numbers.
  int64_t before = 0;
  add("launches",
      fmt::format(
          "{{\"kernel\":{},\"part\":{},\"count\":{},\"start\":{}}}",
          of_launches([](const TimelineLaunch& l) { return std::to_string(l.kernel); }),
          of_launches([](const TimelineLaunch& l) { return std::to_string(l.part); }),
          of_launches([](const TimelineLaunch& l) { return fmt::format("{:.0f}", l.count); }),
          of_launches([&](const TimelineLaunch& l) {
            const int64_t at = std::llround(l.start_s * 1e9);
            return std::to_string(at - std::exchange(before, at));
          })));
  double total = 0;
  double total_launches = 0;
  for (const TimelineLaunch& l : t.launches) {
    total += l.count * t.kernels[l.kernel].time_s;
    total_launches += l.count;
  }
  for (const size_t i : shown) {
    total -= t.launches[i].count * t.kernels[t.launches[i].kernel].time_s;
    total_launches -= t.launches[i].count;
  }
  const bool complete = shown.size() == t.launches.size();
  add("left_out", fmt::format("{{\"launches\":{:.0f},\"time\":{}}}", complete ? 0 : total_launches,
                              number(complete ? 0 : total)));
  add("folded", t.folded ? "true" : "false");
  add("step", fmt::format("[{:.9g},{:.9g}]", t.step_start_s, t.step_end_s));
  add("held",
      fmt::format(
          "{{\"time\":{},\"bytes\":{}}}",
          list(t.memory, [](const HeldMemory& p) { return fmt::format("{:.7g}", p.time_s); }),
          list(t.memory, [](const HeldMemory& p) { return fmt::format("{:.5g}", p.bytes); })));
  add("strings", strings.json());
  return json + "}";
}

}  // namespace

std::string html_report(const PredictAnswer& answer, const PredictRequest& request) {
  return filled(
      embedded::page_html,
      {{"{{title}}", html_text(fmt::format("{} on {}", request.workload, request.device))},
       {"{{css}}", std::string(embedded::page_css)},
       {"{{data}}", page_data(answer, request)},
       {"{{script}}", std::string(embedded::page_js)}});
}

}  // namespace orrery
