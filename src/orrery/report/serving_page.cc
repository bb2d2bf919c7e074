#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orrery/api/capacity.h"
#include "orrery/base/units.h"
#include "orrery/report/page_text.h"
#include "orrery/report/serving_text.h"
#include "orrery/report/svg_chart.h"

namespace orrery {

/// The files of page/, from cmake/EmbedText.cmake.
namespace embedded {
extern const std::string_view page_css;
extern const std::string_view compare_css;
extern const std::string_view serving_html;
extern const std::string_view serving_css;
}  // namespace embedded

namespace {

constexpr size_t kMostRequests = 60;
constexpr std::string_view kQueue = "#c6ccd6", kPrefill = "#f28e2b", kDecode = "#4e79a7";
/// Two lines of a chart: the middle, and the slow ones.
constexpr std::string_view kMiddle = "#4e79a7", kSlow = "#e15759";

struct Latency {
  const char* name;
  Distribution ServingMetrics::*which;
};
constexpr std::array<Latency, 4> kLatencies = {{{"time to first token", &ServingMetrics::ttft},
                                                {"time per output token", &ServingMetrics::tpot},
                                                {"end to end", &ServingMetrics::e2e},
                                                {"in the queue", &ServingMetrics::queue}}};
struct Figure {
  const char* name;
  Measured Distribution::*which;
};
constexpr std::array<Figure, 4> kFigures = {{{"mean", &Distribution::mean},
                                             {"p50", &Distribution::p50},
                                             {"p90", &Distribution::p90},
                                             {"p99", &Distribution::p99}}};

std::string range_text(double low, double high) {
  return fmt::format("{} … {}", format_seconds(low), format_seconds(high));
}

std::string latencies_html(const ServingAnswer& a) {
  std::string html = "<table><thead><tr><th></th>";
  for (const Figure& figure : kFigures) html += fmt::format("<th>{}</th>", figure.name);
  html += "</tr></thead><tbody>";
  for (const auto& [name, which] : kLatencies) {
    const Distribution& d = a.run.metrics.*which;
    if (d.count == 0) continue;
    html += fmt::format("<tr><td>{}</td>", name);
    for (const auto& [figure_name, figure] : kFigures) {
      const Measured& m = d.*figure;
      html += fmt::format("<td><b>{}</b><small>{}</small><small>{}</small></td>",
                          format_seconds(m.value),
                          range_text(std::min(m.value, ((a.fast.*which).*figure).value),
                                     std::max(m.value, ((a.slow.*which).*figure).value)),
                          by_chance_text(m.by_chance));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

std::string figures_html(const ServingAnswer& a, const ServingRequest& request) {
  const ServingMetrics& m = a.run.metrics;
  std::string html;
  const auto add = [&](const char* name, const std::string& value, const std::string& note) {
    html += fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>", name,
                        html_text(value), html_text(note));
  };
  add("time to first token", format_seconds(m.ttft.p50.value),
      "p50; p99 " + format_seconds(m.ttft.p99.value));
  if (m.tpot.count > 0)
    add("time per output token", format_seconds(m.tpot.p50.value),
        "p50; p99 " + format_seconds(m.tpot.p99.value));
  add("throughput", fmt::format("{:.4g} requests/s", m.requests_per_s),
      fmt::format("{:.5g} output tokens/s, {:.5g} a device", m.output_tokens_per_s,
                  a.tokens_per_s_per_device));
  const ServiceLevel& promise = request.promise;
  if (promise.ttft.value > 0 || promise.tpot.value > 0 || promise.e2e.value > 0)
    add("goodput", fmt::format("{:.4g} requests/s", m.goodput),
        fmt::format("{:.1f} % keep the promise", 100 * m.goodput_share));
  add("KV cache", fmt::format("{:.1f} %", 100 * a.run.kv_mean_use),
      fmt::format("in use on average, of {} blocks", a.run.kv_blocks));
  add("requests", std::to_string(m.requests),
      fmt::format("{} rejected, {} preemptions", m.rejected, m.preemptions));
  add("energy", format_joules(a.energy_j_per_token), "a token");
  if (a.price_per_million_tokens > 0)
    add("price", fmt::format("{:.3g}", a.price_per_million_tokens), "a million output tokens");
  return html;
}

/// Latency by throughput, a point for each load.
std::string curve_html(const ServingAnswer& a, const ServingRequest& request) {
  if (a.curve.empty()) return {};
  const auto chart = [&](const char* name, Distribution ServingMetrics::*which, Seconds promised) {
    ChartLine middle{"p50", std::string(kMiddle), {}}, slow{"p99", std::string(kSlow), {}};
    for (const ServingMetrics& m : a.curve) {
      middle.points.emplace_back(m.requests_per_s, (m.*which).p50.value * 1e3);
      slow.points.emplace_back(m.requests_per_s, (m.*which).p99.value * 1e3);
    }
    Chart drawn;
    drawn.x_title = "requests/s served";
    drawn.y_title = fmt::format("{}, ms", name);
    drawn.lines = {middle, slow};
    drawn.markers = true;
    drawn.logarithmic = true;
    drawn.promised = promised.value * 1e3;
    drawn.here = a.run.metrics.requests_per_s;
    return "<div>" + svg_chart(drawn) + "</div>";
  };
  return fmt::format(
      "  <section>\n    <h2>Under other loads</h2>\n    <div class=\"charts\">{}{}</div>\n"
      "    <p class=\"note\">The same engines at {:g} to {:g} times the load; the upright line is "
      "the load that was asked for, the level one the promise.</p>\n  </section>\n",
      chart("time to first token", &ServingMetrics::ttft, request.promise.ttft),
      a.run.metrics.tpot.count > 0
          ? chart("time per output token", &ServingMetrics::tpot, request.promise.tpot)
          : std::string(),
      kCurveLoads.front(), kCurveLoads.back());
}

std::string course_html(const ServingAnswer& a) {
  std::string html;
  const auto chart = [&](const char* name, auto&& value) {
    Chart drawn;
    drawn.x_title = "seconds";
    drawn.y_title = name;
    ChartLine line{name, std::string(kMiddle), {}};
    for (const SeriesPoint& p : a.run.series)
      line.points.emplace_back((p.begin + p.length / 2).value, value(p));
    drawn.lines = {line};
    html += "<div>" + svg_chart(drawn) + "</div>";
  };
  const auto blocks = static_cast<double>(std::max<int64_t>(1, a.run.kv_blocks));
  chart("sequences decoding", [](const SeriesPoint& p) { return p.decodes; });
  chart("requests waiting", [](const SeriesPoint& p) { return p.waiting; });
  chart("KV cache in use, %", [&](const SeriesPoint& p) { return 100 * p.used_blocks / blocks; });
  chart("tokens of prompts a second", [](const SeriesPoint& p) { return p.prefill_tokens; });
  return html;
}

/// A line a request: in the queue, its prompt, its answer.
std::string waterfall_html(const ServingAnswer& a) {
  constexpr double kWidth = 1160, kRow = 9, kFoot = 20;
  std::vector<const RequestRecord*> shown;
  double end = 0;
  for (const RequestRecord& r : a.run.requests) {
    if (shown.size() == kMostRequests) break;
    if (r.state != RequestRecord::State::kDone) continue;
    shown.push_back(&r);
    end = std::max(end, r.end.value);
  }
  if (shown.empty()) return {};
  const double begin = shown.front()->arrival.value;
  const auto x = [&](Seconds at) { return kWidth * (at.value - begin) / (end - begin); };
  std::string html = fmt::format(R"(    <svg class="waterfall" viewBox="0 0 {:g} {:g}" role="img" )"
                                 R"(aria-label="requests over time">)",
                                 kWidth, kRow * static_cast<double>(shown.size()) + kFoot);
  double y = 0;
  for (const RequestRecord* r : shown) {
    const auto part = [&](Seconds from, Seconds to, std::string_view color) {
      html += fmt::format(R"(<rect x="{:.1f}" y="{:g}" width="{:.1f}" height="{:g}" fill="{}"/>)",
                          x(from), y, std::max(0.0, x(to) - x(from)), kRow - 2, color);
    };
    html += fmt::format("<g><title>{} + {} tokens: first token {}, end {}</title>", r->prompt,
                        r->output, format_seconds(r->ttft().value), format_seconds(r->e2e().value));
    part(r->arrival, r->scheduled, kQueue);
    part(r->scheduled, r->first_token, kPrefill);
    part(r->first_token, r->end, kDecode);
    html += "</g>\n";
    y += kRow;
  }
  for (const double tick : round_steps(end - begin))
    html += fmt::format(R"(<text x="{:.1f}" y="{:g}" text-anchor="{}">{:.4g} s</text>)",
                        kWidth * tick / (end - begin), y + 14,
                        tick == 0                     ? "start"
                        : tick > 0.97 * (end - begin) ? "end"
                                                      : "middle",
                        tick);
  html += "</svg>\n    <ul class=\"legend\">";
  for (const auto& [color, what] :
       {std::pair{kQueue, "waiting"}, std::pair{kPrefill, "prompt"}, std::pair{kDecode, "answer"}})
    html += fmt::format(R"(<li><i style="background:{}"></i>{}</li>)", color, what);
  return html + "</ul>";
}

/// What each pool had of the work, where there are several.
std::string pools_html(const ServingAnswer& a) {
  if (a.pools.size() < 2) return {};
  std::string html =
      "  <section>\n    <h2>Pools of engines</h2>\n    <table><thead><tr><th></th><th>devices</th>"
      "<th>requests</th><th>prompt tokens</th><th>output tokens</th><th>busy</th><th>power</th>"
      "<th>price an hour</th></tr></thead><tbody>";
  for (const PoolAnswer& pool : a.pools)
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{}</td><td>{:.1f} %</td>"
        "<td>{:.0f} W</td><td>{}</td></tr>\n",
        html_text(pool_title(pool, a.pools)), pool.devices(), 100 * pool.request_share,
        pool.use.prompt_tokens, pool.use.output_tokens, 100 * pool.busy,
        pool.mean_power_w * pool.devices(),
        pool.price_per_hour > 0 ? fmt::format("{:.4g}", pool.price_per_hour) : std::string());
  return html + "</tbody></table>\n  </section>\n";
}

std::string steps_html(const ServingAnswer& a) {
  constexpr std::array<std::string_view, 8> kColors = {"#4e79a7", "#f28e2b", "#e15759", "#59a14f",
                                                       "#b07aa1", "#d37295", "#c6ccd6", "#9c755f"};
  std::string html;
  for (const PoolAnswer& pool : a.pools) {
    html += fmt::format(
        "    <h3>{}</h3>\n    <p>{} on average; {:.1f} sequences decode, {:.1f} tokens "
        "of prompts.</p>\n    <div class=\"bar-of-parts\">",
        html_text(pool_title(pool, a.pools)), format_seconds(pool.step_s), pool.mean_decodes,
        pool.mean_prefill_tokens);
    std::string legend;
    for (size_t i = 0; i < pool.step.size(); ++i) {
      const auto& [cause, share] = pool.step[i];
      const std::string_view color = kColors[i % kColors.size()];
      html += fmt::format(R"(<span title="{}" style="background:{};flex:0 0 {:.2f}%"></span>)",
                          html_text(cause), color, 100 * share);
      legend += fmt::format(R"(<li><i style="background:{}"></i>{} <b>{:.1f} %</b></li>)", color,
                            html_text(cause), 100 * share);
    }
    html += fmt::format("</div>\n    <ul class=\"legend\">{}</ul>\n", legend);
  }
  return html;
}

}  // namespace

std::string serving_page(const ServingAnswer& a, const ServingRequest& request) {
  std::string gaps = "  <section>\n    <h2>How far this was checked</h2>\n    <p>" +
                     html_text(a.trust.verdict + ": " + a.trust.detail) + "</p>\n  </section>\n";
  if (!a.gaps.empty()) {
    gaps += "  <section>\n    <h2>Not modelled</h2>\n    <ul>";
    for (const std::string& gap : a.gaps) gaps += "<li>" + html_text(gap) + "</li>";
    gaps += "</ul>\n  </section>\n";
  }
  return filled(
      embedded::serving_html,
      {{"{{title}}", html_text(request.engine.model + " on " + devices_text(a.pools))},
       {"{{page_css}}", std::string(embedded::page_css)},
       {"{{compare_css}}", std::string(embedded::compare_css)},
       {"{{serving_css}}", std::string(embedded::serving_css)},
       {"{{model}}", html_text(request.engine.model)},
       {"{{conditions}}", html_text(fmt::format("{}, {} with scheduler {}", devices_text(a.pools),
                                                request.engine.engine, request.scheduler.name))},
       {"{{figures}}", figures_html(a, request)},
       {"{{latencies}}", latencies_html(a)},
       {"{{curve}}", curve_html(a, request)},
       {"{{course}}", course_html(a)},
       {"{{waterfall}}", waterfall_html(a)},
       {"{{pools}}", pools_html(a)},
       {"{{steps}}", steps_html(a)},
       {"{{gaps}}", gaps}});
}

}  // namespace orrery
