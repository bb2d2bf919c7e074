#include <fmt/format.h>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {

std::string collective_text(const CollectiveAnswer& a, const CollectiveRequest& request) {
  std::string text = fmt::format(
      "{} of {} over {} ranks{} on {}\n\n", request.kind, format_bytes(request.bytes),
      request.ranks, request.stride > 1 ? fmt::format(", every {}th", request.stride) : "",
      request.cluster);
  Table table({{"figure"}, {"value"}});
  table.add(
      {"time", fmt::format("{} ({} to {}, 90 %)", format_seconds(a.latency_s),
                           format_seconds(a.latency_low_s), format_seconds(a.latency_high_s))});
  std::string how = a.algorithm;
  if (!a.protocol.empty()) how += ", " + a.protocol;
  if (a.channels > 0) how += fmt::format(", {} channel{}", a.channels, a.channels > 1 ? "s" : "");
  table.add({"algorithm", how});
  table.add({"bus bandwidth", format_si(a.bus_bandwidth, "B/s")});
  table.add({"sent by one rank", format_bytes(a.sent_bytes)});
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
