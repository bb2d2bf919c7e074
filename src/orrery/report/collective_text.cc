#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

/// Ranks that are done this close to each other, relatively, differ by rounding.
constexpr double kAtOnce = 1e-9;

void add_network(Table& table, const NetworkFigures& n) {
  const auto [first, last] = std::minmax_element(n.rank_finish_s.begin(), n.rank_finish_s.end());
  if (*last - *first > kAtOnce * *last)
    table.add({"first and last rank done",
               fmt::format("{} (rank {}), {} (rank {})", format_seconds(*first),
                           first - n.rank_finish_s.begin(), format_seconds(*last),
                           last - n.rank_finish_s.begin())});
  for (size_t i = 0; i < std::min<size_t>(n.busiest_links.size(), 3); ++i)
    table.add(
        {i == 0 ? "busiest links" : "",
         fmt::format("{}: {}, {:.0f} % of the time", n.busiest_links[i].link,
                     format_bytes(n.busiest_links[i].bytes), n.busiest_links[i].share * 100)});
  table.add({"simulated",
             fmt::format("{} flow{} and {} event{} for {} ranks", n.flows, n.flows == 1 ? "" : "s",
                         n.events, n.events == 1 ? "" : "s", n.ranks)});
}

}  // namespace

std::string collective_text(const CollectiveAnswer& a, const CollectiveRequest& request) {
  std::string text = fmt::format(
      "{} of {} over {} ranks{} on {}\n\n", request.kind, format_bytes(request.bytes),
      request.ranks, request.stride > 1 ? fmt::format(", every {}th", request.stride) : "",
      request.cluster);
  Table table({{"figure"}, {"value"}});
  table.add({"time", a.network ? format_seconds(a.latency_s)
                               : fmt::format("{} ({} to {}, 90 %)", format_seconds(a.latency_s),
                                             format_seconds(a.latency_low_s),
                                             format_seconds(a.latency_high_s))});
  std::string how = a.algorithm;
  if (!a.protocol.empty()) how += ", " + a.protocol;
  if (a.channels > 0) how += fmt::format(", {} channel{}", a.channels, a.channels > 1 ? "s" : "");
  table.add({"algorithm", how});
  table.add({"bus bandwidth", format_si(a.bus_bandwidth, "B/s")});
  table.add({"sent by one rank", format_bytes(a.sent_bytes)});
  if (a.network) add_network(table, *a.network);
  table.add({"trust", a.verdict + (a.detail.empty() ? "" : " (" + a.detail + ")")});
  for (const auto& [name, value] : a.provenance)
    if (name != "cluster") table.add({name, value});
  text += table.text(2);
  text += list_text("Not known", a.gaps);
  return text;
}

std::string collective_fit_text(const CollectiveFitAnswer& a) {
  std::string text = fmt::format("{}: constants of {}\n", a.out, a.system);
  if (a.held_out.contains("rows"))
    text += fmt::format(
        "  on {:.0f} rows held out, errors of {:.1f} % mean, {:.1f} % median and "
        "{:.1f} % at the ninth decile\n",
        a.held_out.at("rows"), 100 * a.held_out.at("mean"), 100 * a.held_out.at("median"),
        100 * a.held_out.at("p90"));
  return text;
}

}  // namespace orrery
