#include "orrery/cluster/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/cluster/astra/simulation.h"
#include "orrery/cluster/replay_traces.h"

namespace orrery {
namespace {

constexpr uint64_t kMostTimelineNodes = 2'000'000;

std::vector<ReplayedNode> timeline_of(const astra::SimulationResult& result,
                                      const ReplayTraces& traces) {
  std::vector<ReplayedNode> rows;
  for (uint32_t rank = 0; rank < result.ranks.size(); ++rank) {
    const chakra::Trace& trace = *traces.parts[rank].trace;
    const size_t begin = rows.size();
    for (const astra::Interval& i : result.ranks[rank].intervals) {
      const chakra::TraceNode& node = trace.nodes()[i.node];
      ReplayedNode row;
      row.rank = rank;
      row.id = node.id;
      row.name = trace.whole(i.node).name;
      row.kind = node.type == chakra::NodeType::kCommColl ? name(node.collective) : name(node.type);
      row.host = node.cpu;
      row.bytes = node.comm_bytes;
      row.start_ns = i.start;
      row.end_ns = i.end;
      rows.push_back(std::move(row));
    }
    std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end(),
                     [](const auto& a, const auto& b) {
                       return std::pair(a.start_ns, a.id) < std::pair(b.start_ns, b.id);
                     });
  }
  return rows;
}

}  // namespace

ReplayAnswer replay(const ReplayRequest& request) {
  ReplayAnswer answer;
  astra::Network network = astra::read_network(Source::from_file(request.network));
  if (request.ranks != 0 && request.ranks != network.ranks()) {
    const int before = network.dimensions.back().ranks;
    network = astra::resized(std::move(network), request.ranks);
    answer.notes.push_back(fmt::format("the network's last dimension has {} ranks instead of {}",
                                       network.dimensions.back().ranks, before));
  }
  const int ranks = network.ranks();
  const astra::System system = astra::read_system(Source::from_file(request.system));
  if (!system.ignored.empty()) {
    std::string keys;
    for (const std::string& key : system.ignored) keys += (keys.empty() ? "" : ", ") + key;
    answer.notes.push_back("ignored in the system JSON, as ASTRA-sim does: " + keys);
  }
  astra::Groups groups = request.groups.empty()
                             ? astra::Groups()
                             : astra::read_groups(Source::from_file(request.groups), ranks);
  const ReplayTraces traces = load_traces(request.prefix, ranks, request.ranks != 0);
  for (const auto& trace : traces.files) astra::add_traced_groups(groups, *trace, ranks);
  if (!request.write.empty()) write_traces(traces, request.write);
  answer.traced_ranks = traces.traced_ranks;
  if (traces.traced_ranks < ranks)
    answer.notes.push_back(
        fmt::format("{} ranks were traced; the others do as they do", traces.traced_ranks));
  for (const astra::Part& part : traces.parts) answer.nodes += part.trace->nodes().size();

  astra::SimulationOptions options;
  options.congestion = request.congestion;
  options.record = request.timeline;
  options.folded =
      !request.exact && traces.all_alike &&
      astra::foldable(network, system, groups, *traces.parts[0].trace, request.congestion);
  if (request.timeline &&
      (options.folded ? traces.parts[0].trace->nodes().size() : answer.nodes) > kMostTimelineNodes)
    throw_usage(fmt::format("a timeline of {} nodes is too long: {} at most", answer.nodes,
                            kMostTimelineNodes));
  const astra::SimulationResult result =
      astra::simulate(network, system, groups, traces.parts, options);
  answer.folded = options.folded;
  answer.messages = result.messages;
  answer.notes.insert(answer.notes.end(), result.notes.begin(), result.notes.end());
  for (const astra::RankTimes& r : result.ranks)
    answer.ranks.push_back({r.finish_ns, r.compute_ns, r.host_ns});
  if (options.folded) answer.ranks.resize(static_cast<size_t>(ranks), answer.ranks[0]);
  for (const ReplayRank& r : answer.ranks) answer.total_ns = std::max(answer.total_ns, r.finish_ns);
  if (request.timeline) answer.timeline = timeline_of(result, traces);
  return answer;
}

}  // namespace orrery
