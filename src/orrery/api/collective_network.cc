#include "orrery/api/collective_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "orrery/api/collectives.h"
#include "orrery/base/error.h"
#include "orrery/cluster/network/simulate_collective.h"

namespace orrery {

void check_network(const CollectiveNetwork& network) {
  if (network.name.empty() &&
      (network.exact || !network.slow_links.empty() || !network.stragglers.empty() ||
       network.background != 0 || network.routing != "destination"))
    throw_usage(
        "--exact, --slow-link, --straggler, --background and --routing need --network analytic, "
        "flow or "
        "packet");
}

CollectiveAnswer simulated_collective(const Cluster& cluster, const CollectiveCall& call,
                                      const CollectiveRequest& request) {
  if (!request.library.empty() || !request.protocol.empty())
    throw_usage("a network knows no library and no protocol; leave --library and --protocol out");
  fabric::FlowOptions options;
  options.network = request.network.name;
  options.algorithm = request.algorithm;
  options.exact = request.network.exact;
  for (const std::string& text : request.network.slow_links)
    options.conditions.links.push_back(fabric::parse_scaled_link(text));
  for (const std::string& text : request.network.stragglers)
    options.conditions.stragglers.push_back(fabric::parse_straggler(text));
  options.conditions.background = request.network.background;
  if (request.network.routing == "hash") {
    options.spreading = fabric::Spreading::kHash;
  } else if (request.network.routing != "destination") {
    throw_usage("unknown routing '" + request.network.routing + "'; there is destination and hash");
  }
  const fabric::CollectiveSimulation simulation =
      fabric::simulate_collective(cluster, call, options);

  CollectiveAnswer answer;
  answer.latency_s = answer.latency_low_s = answer.latency_high_s = simulation.time.value;
  answer.algorithm = simulation.algorithm;
  answer.sent_bytes = simulation.sent.value;
  answer.verdict = "untested";
  answer.detail = "a network's time as its model has it, without an interval";
  answer.gaps = cluster.gaps;
  answer.gaps.emplace_back(
      "a simulated network moves bytes alone: launches, copies, reductions and protocols of a "
      "library are not in its time");
  if (!simulation.too_large.empty())
    answer.gaps.push_back(
        fmt::format("not compared with {}: too many transfers; --algorithm runs one all the same",
                    fmt::join(simulation.too_large, ", ")));
  answer.provenance = {{"cluster", cluster.name},
                       {"device", cluster.device.name},
                       {"network", request.network.name}};
  for (const std::string& text : request.network.slow_links)
    answer.provenance.emplace_back("slow link " + text.substr(0, text.rfind('=')),
                                   text.substr(text.rfind('=') + 1));
  for (const std::string& text : request.network.stragglers)
    answer.provenance.emplace_back("straggler " + text.substr(0, text.find('=')),
                                   text.substr(text.find('=') + 1));
  NetworkFigures figures;
  figures.ranks = simulation.ranks;
  for (const Seconds finish : simulation.rank_finish) figures.rank_finish_s.push_back(finish.value);
  for (const fabric::LinkUse& use : simulation.busiest)
    figures.busiest_links.push_back({use.link, use.bytes.value, use.share});
  figures.flows = simulation.work.flows;
  figures.events = simulation.work.events;
  answer.network = std::move(figures);
  return answer;
}

}  // namespace orrery
