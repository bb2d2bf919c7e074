#include "orrery/report/capacity_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

/// Rows of a table of other arrangements, at most.
constexpr size_t kMostRows = 8;

std::string time_text(Seconds seconds) {
  return std::isfinite(seconds.value) ? format_seconds(seconds.value) : "never";
}

std::string devices_text(const Arrangement& arrangement) {
  return fmt::format("{} device{}", arrangement.devices(), arrangement.devices() == 1 ? "" : "s");
}

std::string rate_text(double rate) { return fmt::format("{:.3g}", rate); }

std::string budget_text(const Arrangement& arrangement) {
  return std::to_string(arrangement.pools.front().max_batched_tokens);
}

Table::Column right(const std::string& title) { return {title, Table::Align::kRight}; }

}  // namespace

std::string capacity_text(const CapacityAnswer& a, const CapacityRequest& request) {
  const ServiceLevel& level = request.promise.level;
  const bool asked = request.serving.traffic.rate > 0;
  const CapacityCandidate& best = a.best;
  std::string promise;
  const auto add = [&](const char* what, Seconds value) {
    if (value.value > 0)
      promise +=
          fmt::format("{}{} {}", promise.empty() ? "" : ", ", what, format_seconds(value.value));
  };
  add("ttft", level.ttft);
  add("tpot", level.tpot);
  add("e2e", level.e2e);
  const std::string quantile = fmt::format("p{:g}", 100 * request.promise.quantile);
  std::string text =
      fmt::format("{} on {} ({}), {} of requests: {}\n\n", request.serving.engine.model,
                  request.serving.engine.device, a.cluster, quantile, promise);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<12}{}\n", what, value);
  };
  if (asked)
    line("fewest",
         fmt::format("{} for {:.4g} requests/s", devices_text(best.arrangement), best.kept.rate));
  line("most load", fmt::format("{:.3g} requests/s on {} ({:.3g} … {:.3g} by the model's "
                                "error), {:.3g} a device",
                                a.most.rate, devices_text(best.arrangement), a.most_low,
                                a.most_high, a.most.rate / best.arrangement.devices()));
  line("engines", fmt::format("{}, {} tokens a step at most", words(best.arrangement),
                              budget_text(best.arrangement)));
  line(quantile.c_str(), fmt::format("ttft {}, tpot {}, e2e {}", time_text(best.kept.ttft),
                                     time_text(best.kept.tpot), time_text(best.kept.e2e)));
  line("throughput",
       fmt::format("{:.5g} output tokens/s ({:.4g} a device), {} a token",
                   a.run.run.metrics.output_tokens_per_s, a.run.tokens_per_s_per_device,
                   format_joules(a.run.energy_j_per_token)));
  if (request.serving.prices.given())
    line("price", fmt::format("{:.4g} an hour, {:.3g} a million output tokens",
                              a.run.price_per_hour,
                              a.run.price_per_million_tokens));
  if (const std::string why = reason(best, request); !why.empty()) line("limit", why);

  if (!a.others.empty()) {
    Table table({{"", Table::Align::kLeft},
                 right("tokens a step"),
                 right("devices"),
                 right("requests/s"),
                 {"stopped by", Table::Align::kLeft}});
    std::vector<std::string> shown;
    for (const CapacityCandidate& c : a.others) {
      const std::string what = words(c.arrangement);
      if (shown.size() == kMostRows || std::ranges::find(shown, what) != shown.end()) continue;
      shown.push_back(what);
      table.add({what, budget_text(c.arrangement), std::to_string(c.arrangement.devices()),
                 rate_text(c.kept.rate), reason(c, request)});
    }
    text += "\nWhat else keeps the promise\n" + table.text(2);
    if (a.others.size() > shown.size())
      text += fmt::format("  and {} more (--json)\n", a.others.size() - shown.size());
  }
  if (a.frontier.size() > 1) {
    Table table({right("devices"),
                 {"", Table::Align::kLeft},
                 right("requests/s"),
                 right("a device"),
                 right("ttft"),
                 right("tpot")});
    for (const CapacityCandidate& c : a.frontier)
      table.add({std::to_string(c.arrangement.devices()), words(c.arrangement),
                 rate_text(c.kept.rate), rate_text(c.rate_per_device()), time_text(c.kept.ttft),
                 time_text(c.kept.tpot)});
    text += asked ? "\nWith more engines\n" : "\nOn fewer devices\n";
    text += table.text(2);
  }
  Table curve({right("requests/s"),
               right("ttft"),
               right("tpot"),
               right("e2e"),
               right("output tokens/s"),
               {"", Table::Align::kLeft}});
  for (const LoadPoint& p : a.curve)
    curve.add({rate_text(p.rate), time_text(p.ttft), time_text(p.tpot), time_text(p.e2e),
               fmt::format("{:.4g}", p.output_tokens_per_s),
               p.kept() ? "" : fmt::format("{} broken", name(p.tightest))});
  text += fmt::format("\nBy load, {}\n{}", quantile, curve.text(2));
  std::vector<std::string> impossible;
  for (const ImpossibleLayout& out : a.left_out)
    impossible.push_back(fmt::format("{}: {}", words(out.layout), out.why));
  text += list_text("Left out", impossible);
  text += list_text("How far this was checked",
                    {fmt::format("{}: {}", a.run.trust.verdict, a.run.trust.detail)});
  text += list_text("Not modelled", a.run.gaps);
  return text;
}

}  // namespace orrery
