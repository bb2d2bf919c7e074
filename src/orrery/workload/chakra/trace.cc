#include "orrery/workload/chakra/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "orrery/base/protobuf_wire.h"
#include "orrery/workload/chakra/reader.h"

namespace orrery::chakra {
namespace {

constexpr size_t kMostNodes = 10'000'000;
constexpr size_t kMostEdges = 50'000'000;
constexpr size_t kMostGroups = 1'000'000;
constexpr size_t kMostDimensions = 32;

/// The attribute as a whole number from 0 to `most`.
uint64_t whole_number(const Reader& reader, const Node& node, const Attribute& a, uint64_t most) {
  if (!a.is_whole())
    reader.fail(fmt::format("node {} '{}': {} is not a whole number", node.id, node.name, a.name));
  const bool is_signed = a.type == ValueType::kInt32 || a.type == ValueType::kInt64 ||
                         a.type == ValueType::kSint32 || a.type == ValueType::kSint64 ||
                         a.type == ValueType::kSfixed32 || a.type == ValueType::kSfixed64;
  if ((is_signed && static_cast<int64_t>(a.numbers[0]) < 0) || a.numbers[0] > most)
    reader.fail(
        fmt::format("node {} '{}': {} is not from 0 to {}", node.id, node.name, a.name, most));
  return a.numbers[0];
}

constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostRank = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();

}  // namespace

Trace::Trace(const Source& source, Dependencies dependencies) : source_(source) {
  std::vector<std::pair<uint32_t, uint64_t>> edges;  // node, id it depends on
  read_nodes(edges);
  if (dependencies == Dependencies::kIgnored) {
    dependencies_.assign(nodes_.size(), 0);
    first_child_.assign(nodes_.size() + 1, 0);
    return;
  }
  link(edges);
  check_acyclic();
}

void Trace::read_nodes(std::vector<std::pair<uint32_t, uint64_t>>& edges) {
  Reader reader(source_);
  Node node;
  while (reader.next(node)) {
    if (nodes_.size() >= kMostNodes) reader.fail("more than 10000000 nodes");
    TraceNode t;
    t.id = node.id;
    t.type = node.type;
    t.duration_us = node.duration_us;
    for (const Attribute& a : node.attributes) {
      const auto number = [&](uint64_t most) { return whole_number(reader, node, a, most); };
      if (a.name == "is_cpu_op") {
        t.cpu = number(kAny) != 0;
      } else if (a.name == "num_ops") {
        t.operations = number(kAny);
      } else if (a.name == "tensor_size") {
        t.tensor_bytes = number(kAny);
      } else if (a.name == "comm_type" && node.type == NodeType::kCommColl) {
        t.collective = static_cast<Collective>(number(kCollectives - 1));
        t.has_comm_type = true;
      } else if (a.name == "comm_size") {
        t.comm_bytes = number(kAny);
        t.has_comm_bytes = true;
      } else if (a.name == "comm_tag") {
        t.tag = static_cast<uint32_t>(number(kMost32));
      } else if (a.name == "comm_priority") {
        t.priority = static_cast<uint32_t>(number(kMostRank));
      } else if (a.name == "comm_src") {
        t.source = static_cast<int32_t>(number(kMostRank));
      } else if (a.name == "comm_dst") {
        t.destination = static_cast<int32_t>(number(kMostRank));
      } else if (a.name == "pg_name") {
        std::string group =
            a.type == ValueType::kString && !a.list ? a.texts[0] : std::to_string(number(kAny));
        if (group == "0") group.clear();  // as "", the group of all ranks
        const auto at = std::find(groups_.begin(), groups_.end(), group);
        t.group = static_cast<uint32_t>(at - groups_.begin());
        if (at == groups_.end()) groups_.push_back(std::move(group));
        if (groups_.size() > kMostGroups) reader.fail("more than 1000000 process groups");
      } else if (a.name == "involved_dim") {
        if (!a.list || a.type != ValueType::kBool || a.numbers.empty() ||
            a.numbers.size() > kMostDimensions)
          reader.fail(fmt::format("node {} '{}': involved_dim is not a list of 1 to {} bools",
                                  node.id, node.name, kMostDimensions));
        t.dimension_count = static_cast<uint8_t>(a.numbers.size());
        for (size_t i = 0; i < a.numbers.size(); ++i)
          if (a.numbers[i] != 0) t.dimensions |= uint32_t{1} << i;
      }
    }
    const auto index = static_cast<uint32_t>(nodes_.size());
    for (const auto* ids : {&node.data_dependencies, &node.control_dependencies})
      for (uint64_t id : *ids) edges.emplace_back(index, id);
    if (edges.size() > kMostEdges) reader.fail("more than 50000000 dependencies");
    nodes_.push_back(t);
    offsets_.push_back(reader.offset());
  }
}

void Trace::link(std::vector<std::pair<uint32_t, uint64_t>>& edges) {
  const size_t count = nodes_.size();
  std::vector<uint32_t> place(count);  // of the node read n-th
  const bool sorted = std::is_sorted(nodes_.begin(), nodes_.end(),
                                     [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (!sorted) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return nodes_[a].id < nodes_[b].id; });
    std::vector<TraceNode> nodes(count);
    std::vector<uint64_t> offsets(count);
    for (size_t i = 0; i < count; ++i) {
      nodes[i] = nodes_[order[i]];
      offsets[i] = offsets_[order[i]];
    }
    nodes_ = std::move(nodes);
    offsets_ = std::move(offsets);
  }
  for (size_t i = 0; i < count; ++i) place[order[i]] = static_cast<uint32_t>(i);
  for (size_t i = 1; i < count; ++i)
    if (nodes_[i].id == nodes_[i - 1].id)
      fail(static_cast<uint32_t>(i), fmt::format("a second node of id {}", nodes_[i].id));

  // Edges from here on as parent, child; one that is written twice counts once.
  std::vector<std::pair<uint32_t, uint32_t>> links;
  links.reserve(edges.size());
  for (const auto& [read, id] : edges) {
    const uint32_t child = place[read];
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), id,
                                     [](const TraceNode& n, uint64_t want) { return n.id < want; });
    if (at == nodes_.end() || at->id != id)
      fail(child,
           fmt::format("{} depends on node {}, which is not in the trace", named(child), id));
    links.emplace_back(static_cast<uint32_t>(at - nodes_.begin()), child);
  }
  edges = {};
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  dependencies_.assign(count, 0);
  first_child_.assign(count + 1, 0);
  children_.reserve(links.size());
  for (const auto& [parent, child] : links) {
    ++dependencies_[child];
    ++first_child_[parent + 1];
    children_.push_back(child);
  }
  std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
}

void Trace::check_acyclic() const {
  std::vector<uint32_t> waits = dependencies_;
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (waits[i] == 0) ready.push_back(i);
  size_t done = 0;
  while (!ready.empty()) {
    const uint32_t node = ready.back();
    ready.pop_back();
    ++done;
    for (uint32_t child : children(node))
      if (--waits[child] == 0) ready.push_back(child);
  }
  if (done == nodes_.size()) return;
  // Every node that still waits has a parent that still waits: going back from one of them
  // to its lowest such parent meets the circle.
  std::vector<uint32_t> parent(nodes_.size(), UINT32_MAX);
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (waits[i] > 0)
      for (uint32_t child : children(i)) parent[child] = std::min(parent[child], i);
  uint32_t at = 0;
  while (waits[at] == 0) ++at;
  std::vector<bool> seen(nodes_.size(), false);
  for (; !seen[at]; at = parent[at]) seen[at] = true;
  const uint32_t start = at;
  std::string circle = fmt::format("{}", nodes_[start].id);
  size_t shown = 1;
  for (at = parent[start]; at != start; at = parent[at])
    if (++shown <= 8) circle += fmt::format(" on {}", nodes_[at].id);
  if (shown > 8) circle += fmt::format(" … on {} others", shown - 8);
  fail(start,
       fmt::format("nodes depend on each other in a circle: {} on {}", circle, nodes_[start].id));
}

std::span<const uint32_t> Trace::children(uint32_t node) const {
  return std::span(children_).subspan(first_child_[node],
                                      first_child_[node + 1] - first_child_[node]);
}

Node Trace::whole(uint32_t node) const {
  Node out;
  Reader reader(source_, offsets_[node]);
  reader.next(out);
  return out;
}

std::string Trace::named(uint32_t node) const {
  return fmt::format("node {} '{}'", nodes_[node].id, whole(node).name);
}

void Trace::fail(uint32_t node, const std::string& message) const {
  fail_at_byte(source_, offsets_[node], message);
}

}  // namespace orrery::chakra
