#include "orrery/report/capacity_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::string number_text(double number) { return fmt::format("{:.3g}", number); }

/// Up to how many tokens a step is filled.
std::string budget_text(const Arrangement& arrangement) {
  const ArrangedPool& pool = arrangement.pools.front();
  const int64_t limit = std::max(pool.max_batched_tokens, pool.chunk_size);
  return limit > 0 ? std::to_string(limit) : "–";
}

Table::Column right(const std::string& title) { return {title, Table::Align::kRight}; }

}  // namespace

std::string capacity_text(const CapacityAnswer& a, const CapacityRequest& request) {
  const ServiceLevel& level = request.promise.level;
  const bool asked = request.asked() > 0;
  const LoadUnit unit = request.unit();
  const bool kinds = request.kinds().size() > 1;
  // Of a rate that is the load, nothing more is to be said.
  const bool rates = unit != LoadUnit::kRequests;
  const std::string load_title =
      unit == LoadUnit::kTableSpeed ? "table's rate ×" : std::string(name(unit));
  const auto load_number = [&](double load) {
    return unit == LoadUnit::kUsers ? fmt::format("{:.0f}", load) : number_text(load);
  };
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
                  fmt::join(request.kinds(), " and "), a.cluster, quantile, promise);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<12}{}\n", what, value);
  };
  const auto came = [&](const LoadPoint& point) {
    return rates ? fmt::format(" ({:.3g} requests/s)", point.rate) : std::string();
  };
  if (asked)
    line(best.price_per_hour > 0 ? "cheapest" : "fewest",
         fmt::format("{} for {}{}", devices_text(best.arrangement),
                     load_text(best.kept.load, unit, 4), came(best.kept)));
  line("most load",
       fmt::format("{}{} on {} ({} … {} by the model's error), {:.3g} a device",
                   load_text(a.most.load, unit), came(a.most), devices_text(best.arrangement),
                   load_number(a.most_low), load_number(a.most_high),
                   a.most.load / best.arrangement.devices()));
  const ArrangedPool& first = best.arrangement.pools.front();
  line("engines",
       words(best.arrangement, kinds) +
           (first.max_batched_tokens > 0 || first.chunk_size > 0
                ? fmt::format(", {} tokens a step at most", budget_text(best.arrangement))
                : std::string()));
  line(quantile.c_str(), fmt::format("ttft {}, tpot {}, e2e {}", time_text(best.kept.ttft),
                                     time_text(best.kept.tpot), time_text(best.kept.e2e)));
  line("throughput",
       fmt::format("{:.5g} output tokens/s ({:.4g} a device), {} a token",
                   a.run.run.metrics.output_tokens_per_s, a.run.tokens_per_s_per_device,
                   format_joules(a.run.energy_j_per_token)));
  if (best.price_per_hour > 0)
    line("price", fmt::format("{:.4g} an hour, {:.3g} a million output tokens", best.price_per_hour,
                              a.run.price_per_million_tokens));
  if (const std::string why = reason(best, request); !why.empty()) line("limit", why);

  const bool prices = best.price_per_hour > 0;
  const auto columns = [&](std::vector<Table::Column> list,
                           const std::vector<std::pair<bool, Table::Column>>& more) {
    for (const auto& [wanted, column] : more)
      if (wanted) list.push_back(column);
    return list;
  };
  if (!a.others.empty()) {
    Table table(columns({{"", Table::Align::kLeft}, right("tokens a step"), right("devices")},
                        {{prices, right("an hour")},
                         {true, right(load_title)},
                         {true, {"stopped by", Table::Align::kLeft}}}));
    std::vector<std::string> shown;
    for (const CapacityCandidate& c : a.others) {
      const std::string what = words(c.arrangement, kinds);
      if (shown.size() == kMostRows || std::ranges::find(shown, what) != shown.end()) continue;
      shown.push_back(what);
      std::vector<std::string> row = {what, budget_text(c.arrangement),
                                      std::to_string(c.arrangement.devices())};
      if (prices) row.push_back(fmt::format("{:.4g}", c.price_per_hour));
      row.push_back(load_number(c.kept.load));
      row.push_back(reason(c, request));
      table.add(row);
    }
    text += "\nWhat else keeps the promise\n" + table.text(2);
    if (a.others.size() > shown.size())
      text += fmt::format("  and {} more (--json)\n", a.others.size() - shown.size());
  }
  if (a.frontier.size() > 1) {
    Table table(
        columns({right("devices"), {"", Table::Align::kLeft}}, {{prices, right("an hour")},
                                                                {true, right(load_title)},
                                                                {rates, right("requests/s")},
                                                                {true, right("a device")},
                                                                {true, right("ttft")},
                                                                {true, right("tpot")}}));
    for (const CapacityCandidate& c : a.frontier) {
      std::vector<std::string> row = {std::to_string(c.arrangement.devices()),
                                      words(c.arrangement, kinds)};
      if (prices) row.push_back(fmt::format("{:.4g}", c.price_per_hour));
      row.push_back(load_number(c.kept.load));
      if (rates) row.push_back(number_text(c.kept.rate));
      row.insert(row.end(), {number_text(c.rate_per_device()), time_text(c.kept.ttft),
                             time_text(c.kept.tpot)});
      table.add(row);
    }
    text += asked ? "\nWith more engines\n" : "\nOn fewer devices\n";
    text += table.text(2);
  }
  Table curve(columns({right(load_title)}, {{rates, right("requests/s")},
                                            {true, right("ttft")},
                                            {true, right("tpot")},
                                            {true, right("e2e")},
                                            {true, right("output tokens/s")},
                                            {true, {"", Table::Align::kLeft}}}));
  for (const LoadPoint& p : a.curve) {
    std::vector<std::string> row = {load_number(p.load)};
    if (rates) row.push_back(number_text(p.rate));
    row.insert(row.end(), {time_text(p.ttft), time_text(p.tpot), time_text(p.e2e),
                           fmt::format("{:.4g}", p.output_tokens_per_s),
                           p.kept() ? "" : fmt::format("{} broken", name(p.tightest))});
    curve.add(row);
  }
  text += fmt::format("\nBy load, {}\n{}", quantile, curve.text(2));
  std::vector<std::string> impossible;
  for (const ImpossibleLayout& out : a.left_out)
    impossible.push_back(
        fmt::format("{}{}: {}", words(out.layout), kinds ? " on " + out.device : "", out.why));
  text += list_text("Left out", impossible);
  text += list_text("How far this was checked",
                    {fmt::format("{}: {}", a.run.trust.verdict, a.run.trust.detail)});
  text += list_text("Not modelled", a.run.gaps);
  return text;
}

}  // namespace orrery
