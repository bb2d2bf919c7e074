#include "orrery/api/inspect_trace.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>

#include "orrery/base/units.h"
#include "orrery/workload/chakra/reader.h"
#include "orrery/workload/chakra/trace.h"

namespace orrery {
namespace {

using chakra::NodeType;

bool is_communication(NodeType type) {
  return type == NodeType::kCommColl || type == NodeType::kCommSend || type == NodeType::kCommRecv;
}

}  // namespace

InspectAnswer inspect_trace(const Source& source) {
  const chakra::Trace trace(source, chakra::Trace::Dependencies::kIgnored);
  const chakra::Reader reader(source);
  InspectAnswer a;
  a.name = std::filesystem::path(source.name()).filename().string();
  a.format = "chakra";
  a.operations = trace.nodes().size();
  a.executed = static_cast<double>(a.operations);
  std::array<std::array<InspectAnswer::OpCount, 2>, chakra::kNodeTypes> by_type;
  std::map<std::tuple<std::string, double, std::string>, double> exchanged;
  double device_us = 0;
  double host_us = 0;
  for (const chakra::TraceNode& node : trace.nodes()) {
    InspectAnswer::OpCount& count = by_type[static_cast<size_t>(node.type)][node.cpu ? 1 : 0];
    const auto bytes =
        static_cast<double>(is_communication(node.type) ? node.comm_bytes : node.tensor_bytes);
    ++count.count;
    ++count.executed;
    count.flops += static_cast<double>(node.operations);
    count.bytes += bytes;
    a.total_flops += static_cast<double>(node.operations);
    (node.cpu ? host_us : device_us) += static_cast<double>(node.duration_us);
    if (!is_communication(node.type)) continue;
    const std::string kind(node.type == NodeType::kCommSend   ? "send"
                           : node.type == NodeType::kCommRecv ? "receive"
                           : node.has_comm_type               ? name(node.collective)
                                                              : "collective");
    ++exchanged[{kind, bytes, trace.groups()[node.group]}];
  }
  for (size_t type = 0; type < by_type.size(); ++type)
    for (int host = 0; host < 2; ++host) {
      InspectAnswer::OpCount& count = by_type[type][static_cast<size_t>(host)];
      if (count.count == 0) continue;
      count.name = std::string(name(static_cast<NodeType>(type))) + (host == 1 ? " (host)" : "");
      a.by_operation.push_back(count);
    }
  for (const auto& [key, count] : exchanged) {
    const auto& [kind, bytes, group] = key;
    const bool message = kind == "send" || kind == "receive";
    a.collectives.push_back({group.empty() ? kind : fmt::format("{} in group {}", kind, group),
                             count, bytes, message ? 2 : 0});
  }
  if (!reader.metadata().version.empty())
    a.notes.push_back("written by version " + reader.metadata().version);
  a.notes.push_back(fmt::format("its nodes last {} on the device and {} on the host, one by one",
                                format_seconds(device_us * 1e-6), format_seconds(host_us * 1e-6)));
  return a;
}

}  // namespace orrery
