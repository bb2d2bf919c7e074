#include "orrery/model/region_graph.h"

#include <algorithm>
#include <unordered_map>

#include "orrery/model/fused_kernel.h"

namespace orrery {
namespace {

constexpr uint32_t kNone = kNoNode;

}  // namespace

RegionGraph::RegionGraph(const Workload& w, const Device& device, const FusionRules& rules,
                         const SmallFunctions& small, RegionId region)
    : w_(w), device_(device), rules_(rules), graph_(build_fusion_graph(w, rules, small, region)) {
  if (rules.expand_grouped_products) expand_grouped_products(w, graph_);
  if (rules.vector_products) reduce_vector_products(w, graph_);
  if (rules.merge_products) merge_products(w, graph_);
  if (rules.split_products) split_products(w, graph_);
  if (rules.expand_window_gradients) expand_window_gradients(w, graph_);
  if (rules.split_reductions) split_reductions(w, graph_);
  groups_ = fuse(w, device, rules, graph_);
}

bool RegionGraph::is_read_outside(const Node& producer, uint32_t value) const {
  for (uint32_t u : graph_.values[value].users) {
    if (graph_.nodes[u].kind == Kind::kControl) return true;
    for (uint32_t g : graph_.nodes[u].groups)
      if (std::find(producer.groups.begin(), producer.groups.end(), g) == producer.groups.end())
        return true;
  }
  return false;
}

bool RegionGraph::is_stored_by(uint32_t node, uint32_t group) const {
  if (groups_[group].root == node) return true;
  for (uint32_t g : graph_.nodes[node].groups)
    if (groups_[g].root == node) return false;
  return true;
}

Kernel RegionGraph::kernel_of_group(uint32_t g, OpId* named, uint32_t* fused) const {
  const FusionGroup& nodes = groups_[g];
  const Node& hero = graph_.nodes[nodes.hero];
  *named = hero.op;
  *fused = static_cast<uint32_t>(nodes.nodes.size());
  FusedGroup group;
  std::unordered_map<uint32_t, uint32_t> local;
  const auto place = [&](uint32_t value) {
    const auto [at, added] = local.emplace(value, static_cast<uint32_t>(group.values.size()));
    if (added) group.values.push_back(graph_.values[value].type);
    return at->second;
  };
  for (uint32_t n : nodes.nodes) {
    const Node& node = graph_.nodes[n];
    FusedGroup::Node& one = group.nodes.emplace_back();
    one.op = node.op;
    one.code = node.code;
    one.inserted = node.inserted;
    if (node.shape >= 0) one.shape = &graph_.shapes[static_cast<size_t>(node.shape)];
    for (uint32_t v : node.inputs)
      if (!graph_.values[v].constant) one.inputs.push_back(place(v));
    for (uint32_t v : node.outputs) {
      one.outputs.push_back(place(v));
      const bool needed =
          graph_.values[v].returned || graph_.values[v].users.empty() || is_read_outside(node, v);
      if (needed && is_stored_by(n, g)) group.stored.push_back(place(v));
    }
  }
  Kernel kernel = hero.code == Opcode::k_fusion
                      ? stated_fusion_kernel(w_, hero.op, rules_.compiled, fused)
                      : fused_kernel(w_, group, rules_.compiled);
  // An update of a buffer that is not the program's to change works on a copy.
  for (uint32_t n : nodes.nodes) {
    const Node& node = graph_.nodes[n];
    if (node.code != Opcode::k_dynamic_update_slice && node.code != Opcode::k_scatter) continue;
    const Value& updated = graph_.values[node.inputs[0]];
    if (!updated.borrowed) continue;
    kernel.cost.bytes_read += static_cast<double>(updated.type->bytes);
    kernel.cost.bytes_written += static_cast<double>(updated.type->bytes);
  }
  if (rules_.single_precision_as_tf32 && kernel.cost.matrix_type == ElementType::kF32 &&
      w_.view(hero.op).integer(Attr::kPrecision, 0) == 0 &&
      device_.matrix[ElementType::kTF32].value > 0)
    kernel.cost.matrix_type = ElementType::kTF32;
  return kernel;
}

void RegionGraph::emit(double count, std::vector<Launch>& launches) const {
  if (count <= 0) return;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    Launch launch;
    launch.kernel = kernel_of_group(g, &launch.op, &launch.fused);
    launch.count = count;
    const Cost& c = launch.kernel.cost;
    if (c.flops() == 0 && c.bytes() == 0) continue;  // nothing to run: empty tensors, waits
    launches.push_back(launch);
  }
  // Results that are arguments, or views of them, are copied out.
  for (const Value& value : graph_.values) {
    if (!value.returned || !value.borrowed || value.type->bytes == 0) continue;
    Launch launch;
    launch.kernel.code = Opcode::k_copy;
    launch.kernel.family = KernelFamily::kDataMovement;
    launch.kernel.cost.bytes_read = launch.kernel.cost.bytes_written =
        static_cast<double>(value.type->bytes);
    launch.count = count;
    launches.push_back(launch);
  }
}

double RegionGraph::peak_temporaries(const std::vector<double>& of_functions,
                                     const std::map<uint32_t, double>& of_regions) const {
  // When each value is last needed. A value inside a fused group is needed by
  // none; one read by a group is needed until that group's last operation.
  std::vector<uint32_t> last(graph_.values.size(), 0);
  std::vector<bool> stored(graph_.values.size(), false);
  // Buffers shared by an in-place update and what it updates, by loops and what they carry.
  std::vector<uint32_t> buffer(graph_.values.size());
  for (uint32_t v = 0; v < graph_.values.size(); ++v) buffer[v] = v;
  std::vector<bool> from_outside(graph_.values.size(), false);
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    if (value.producer == kNone) {
      from_outside[v] = true;
      continue;
    }
    const Node& producer = graph_.nodes[value.producer];
    const Opcode code = producer.code;
    if (code == Opcode::k_dynamic_update_slice && !graph_.values[producer.inputs[0]].borrowed)
      buffer[v] = buffer[producer.inputs[0]];
    if (code == Opcode::k_while && producer.inputs.size() == producer.outputs.size()) {
      const auto at =
          std::find(producer.outputs.begin(), producer.outputs.end(), v) - producer.outputs.begin();
      const uint32_t carried = producer.inputs[static_cast<size_t>(at)];
      if (!from_outside[buffer[carried]]) buffer[v] = buffer[carried];
    }
    stored[v] = value.returned || value.users.empty() || producer.kind == Kind::kControl;
    for (uint32_t u : value.users) {
      const auto in_common = [&](uint32_t g) {
        return std::find(producer.groups.begin(), producer.groups.end(), g) !=
               producer.groups.end();
      };
      if (graph_.nodes[u].kind == Kind::kControl) {
        stored[v] = true;
        last[buffer[v]] = std::max(last[buffer[v]], u);
        continue;
      }
      for (uint32_t g : graph_.nodes[u].groups) {
        if (in_common(g)) continue;
        stored[v] = true;
        last[buffer[v]] = std::max(last[buffer[v]], groups_[g].root);
      }
    }
  }
  std::vector<bool> is_result(graph_.values.size(), false);
  for (uint32_t v = 0; v < graph_.values.size(); ++v)
    if (graph_.values[v].returned) is_result[buffer[v]] = true;

  std::vector<std::vector<uint32_t>> frees(graph_.nodes.size());
  std::vector<bool> allocated(graph_.values.size(), false);
  double live = 0;
  double peak = 0;
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    double here = 0;
    if (node.kind == Kind::kControl) {
      const OpView op = w_.view(node.op);
      for (RegionId r : op.raw_regions())
        if (const auto found = of_regions.find(r.index); found != of_regions.end())
          here = std::max(here, found->second);
      for (Attr key : {Attr::kCondition, Attr::kCallee})
        if (const FunctionId f = op.callee(key); f.valid())
          here = std::max(here, of_functions[f.index]);
      for (int64_t b : op.integers(Attr::kBranches))
        here = std::max(here, of_functions[static_cast<size_t>(b)]);
    }
    for (uint32_t v : node.outputs) {
      const uint32_t b = buffer[v];
      if (!stored[v] || allocated[b] || is_result[b] || from_outside[b]) continue;
      // Allocated where its group runs, freed after its last reader.
      allocated[b] = true;
      const auto bytes = static_cast<double>(graph_.values[b].type->bytes);
      live += bytes;
      frees[std::max(last[b], n)].push_back(b);
    }
    peak = std::max(peak, live + here);
    for (uint32_t b : frees[n]) live -= static_cast<double>(graph_.values[b].type->bytes);
  }
  return peak;
}

}  // namespace orrery
