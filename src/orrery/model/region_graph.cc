#include "orrery/model/region_graph.h"

#include <algorithm>
#include <utility>

#include "orrery/kernel/describe.h"
#include "orrery/model/fused_kernel.h"

namespace orrery {
namespace {

constexpr uint32_t kNone = kNoNode;
/// Operands times operations of a kernel up to which it is asked what it may overwrite.
constexpr size_t kMostPaths = size_t{1} << 16;
/// cuBLAS takes matrices whose rows are multiples of this long.
constexpr int64_t kAlignedElements = 8;

/// A set of small numbers that is emptied at once.
class Marks {
 public:
  explicit Marks(size_t count) : round_(count, 0) {}
  void clear() { ++now_; }
  bool contains(uint32_t i) const { return round_[i] == now_; }
  /// Whether it was not there before.
  bool insert(uint32_t i) { return std::exchange(round_[i], now_) != now_; }

 private:
  std::vector<uint32_t> round_;
  uint32_t now_ = 1;
};

}  // namespace

class RegionGraph::Scratch {
 public:
  explicit Scratch(const FusionGraph& graph)
      : values(graph.values.size()), nodes(graph.nodes.size()), place(graph.values.size()) {}

  Marks values, nodes;
  std::vector<uint32_t> place;  ///< By value, of those marked.
  IdList waiting;
  FusedGroup group;
};

RegionGraph::RegionGraph(const Workload& w, const Device& device, const FusionRules& rules,
                         const SmallFunctions& small, RegionId region,
                         const LibraryLaunches* library)
    : w_(w),
      device_(device),
      rules_(rules),
      library_(library),
      graph_(build_fusion_graph(w, rules, small, region, library)) {
  if (rules.expand_grouped_products) expand_grouped_products(w, graph_);
  if (rules.vector_products) reduce_vector_products(w, graph_);
  if (rules.merge_products) merge_products(w, graph_);
  if (rules.split_products) split_products(w, graph_);
  if (rules.scatter_into_sums) scatter_into_sums(w, graph_);
  if (rules.expand_window_gradients) expand_window_gradients(w, graph_);
  if (rules.split_reductions) split_reductions(w, graph_);
  groups_ = fuse(w, device, rules, graph_);
  is_needed_.resize(graph_.values.size());
  for (const Node& node : graph_.nodes)
    for (uint32_t v : node.outputs) {
      const Value& value = graph_.values[v];
      is_needed_[v] = value.returned || value.users.empty() || is_read_outside(node, v);
    }
}

bool RegionGraph::is_read_outside(const Node& producer, uint32_t value) const {
  for (uint32_t u : graph_.values[value].users) {
    if (graph_.nodes[u].kind == Kind::kControl) return true;
    for (uint32_t g : graph_.nodes[u].groups)
      if (!std::binary_search(producer.groups.begin(), producer.groups.end(), g)) return true;
  }
  return false;
}

bool RegionGraph::is_stored_by(uint32_t node, uint32_t group) const {
  if (groups_[group].root == node) return true;
  for (uint32_t g : graph_.nodes[node].groups)
    if (groups_[g].root == node) return false;
  return true;
}

bool RegionGraph::runs_with_epilogue(const FusionGroup& group) const {
  const Node& hero = graph_.nodes[group.hero];
  if (hero.kind != Kind::kProduct || group.nodes.front() != group.hero) return false;
  const ProductShape shape = product_shape(w_, graph_, hero);
  return std::min(shape.m, shape.n) >= kLibraryProductRows;
}

Kernel RegionGraph::kernel_of_group(uint32_t g, Scratch& scratch, OpId* named,
                                    uint32_t* fused) const {
  const FusionGroup& nodes = groups_[g];
  const Node& hero = graph_.nodes[nodes.hero];
  *named = hero.op;
  *fused = static_cast<uint32_t>(nodes.nodes.size());
  FusedGroup& group = scratch.group;
  group.nodes.clear();
  group.values.clear();
  group.stored.clear();
  scratch.values.clear();
  const auto place = [&](uint32_t value) {
    if (scratch.values.insert(value)) {
      scratch.place[value] = static_cast<uint32_t>(group.values.size());
      group.values.push_back(graph_.values[value].type);
    }
    return scratch.place[value];
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
      if (is_needed_[v] && is_stored_by(n, g)) group.stored.push_back(place(v));
    }
  }
  Kernel kernel = hero.code == Opcode::k_fusion
                      ? stated_fusion_kernel(w_, hero.op, rules_.compiled, fused)
                      : fused_kernel(w_, group, rules_.compiled);
  if (rules_.compiled && runs_with_epilogue(nodes)) {
    kernel.cost.vector_flops = 0;
    kernel.cost.transcendental_flops = 0;
  }
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
  Scratch scratch(graph_);
  launches.reserve(launches.size() + groups_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (const OpId root = graph_.nodes[groups_[g].root].op;
        library_ != nullptr && library_->decides(root)) {
      for (Launch launch : library_->of(root)) {
        launch.count *= count;
        launches.push_back(launch);
      }
      continue;
    }
    Launch launch;
    launch.kernel = kernel_of_group(g, scratch, &launch.op, &launch.fused);
    launch.count = count;
    const Cost& c = launch.kernel.cost;
    if (c.flops() == 0 && c.bytes() == 0) continue;  // nothing to run: empty tensors, waits
    launches.push_back(launch);
    for (uint32_t v : copied_updates(g, scratch))
      launches.push_back(copy_of(graph_.values[v], count));
  }
  // Results that are arguments, or views of them, are copied out.
  for (const Value& value : graph_.values)
    if (value.returned && value.borrowed && value.type->bytes > 0)
      launches.push_back(copy_of(value, count));
}

Launch RegionGraph::copy_of(const Value& value, double count) const {
  Launch launch;
  launch.kernel.code = Opcode::k_copy;
  launch.kernel.family = KernelFamily::kDataMovement;
  launch.kernel.cost.bytes_read = launch.kernel.cost.bytes_written =
      static_cast<double>(value.type->bytes);
  launch.count = count;
  return launch;
}

std::vector<uint32_t> RegionGraph::copied_updates(uint32_t group, Scratch& scratch) const {
  std::vector<uint32_t> updated;
  if (!rules_.layouts) return updated;
  bool turns = false;
  Marks& read = scratch.values;
  read.clear();
  for (uint32_t n : groups_[group].nodes) {
    const Node& node = graph_.nodes[n];
    turns |= node.inserted && node.code == Opcode::k_transpose;
    for (uint32_t v : node.inputs) read.insert(v);
    for (uint32_t v : node.outputs)
      if (const uint32_t old = graph_.values[v].replaced; old != kNone && read.contains(old))
        updated.push_back(v);
  }
  if (!turns || updated.size() < 2) updated.clear();
  return updated;
}

bool RegionGraph::is_read_where_written(uint32_t group, uint32_t operand, uint32_t result,
                                        Scratch& scratch) const {
  Marks& reached = scratch.values;
  reached.clear();
  reached.insert(operand);
  bool reaches = false;
  bool first_reduction = true;
  // Nodes stand in program order: one pass follows every path.
  for (uint32_t n : groups_[group].nodes) {
    const Node& node = graph_.nodes[n];
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](uint32_t v) { return reached.contains(v); });
    const bool runs_before = node.code == Opcode::k_reduce && std::exchange(first_reduction, false);
    if (!reads || runs_before) continue;
    if (!is_elementwise(node.code)) return false;
    for (uint32_t v : node.outputs) {
      reached.insert(v);
      reaches |= v == result;
    }
  }
  return reaches;
}

IdList RegionGraph::reads_of_group(uint32_t group, Scratch& scratch) const {
  const FusionGroup& nodes = groups_[group];
  IdList reads;
  scratch.values.clear();
  scratch.nodes.clear();
  IdList& waiting = scratch.waiting;
  const auto is_inside = [&](uint32_t node) {
    const auto& groups = graph_.nodes[node].groups;
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  const auto expand = [&](uint32_t first) {
    waiting.push_back(first);
    while (!waiting.empty()) {
      const uint32_t n = waiting.back();
      waiting.pop_back();
      if (!scratch.nodes.insert(n)) continue;
      for (uint32_t v : graph_.nodes[n].inputs) {
        const uint32_t producer = graph_.values[v].producer;
        if (producer != kNone && is_inside(producer))
          waiting.push_back(producer);
        else if (scratch.values.insert(v))
          reads.push_back(v);
      }
    }
  };
  const Kind kind = graph_.nodes[nodes.hero].kind;
  if (kind == Kind::kProduct || kind == Kind::kHeavy) expand(nodes.hero);
  expand(nodes.root);
  for (size_t i = nodes.nodes.size(); i-- > 0;) expand(nodes.nodes[i]);
  return reads;
}

LibraryCall RegionGraph::call_of(const Node& node) const {
  Kernel kernel = kernel_of(w_, node.op);
  if (node.shape >= 0) kernel.shape = graph_.shapes[static_cast<size_t>(node.shape)];
  auto* product = std::get_if<ProductShape>(&kernel.shape);
  if (product == nullptr) return library_call(kernel, device_, true);
  const OpView op = w_.view(node.op);
  if (node.shape >= 0 && product->batch > 1 && op.integers(Attr::kLhsBatching).empty()) {
    product->k = joined(product->k, product->batch);  // split along its sum
    product->batch = 1;
  }
  bool aligned = product->n % kAlignedElements == 0 && product->k % kAlignedElements == 0;
  if (!node.inserted && op.operand_count() >= 2 && op.result_count() == 1) {
    const auto is_aligned = [](const Type& type) {
      const int64_t row = row_length(type);
      return row == 1 || row % kAlignedElements == 0;
    };
    aligned = is_aligned(op.operand_type(0)) && is_aligned(op.operand_type(1)) &&
              is_aligned(op.result_type(0));
  }
  return library_call(kernel, device_, aligned);
}

void RegionGraph::add_step(uint32_t group, const Copies& copies, Scratch& scratch,
                           std::vector<bool>& written, RegionKernels& kernels) const {
  RegionKernels::Step& step = kernels.steps.emplace_back();
  step.op = graph_.nodes[groups_[group].root].op;
  step.reads = reads_of_group(group, scratch);
  for (uint32_t n : groups_[group].nodes) {
    const Node& node = graph_.nodes[n];
    if (rules_.plans_memory && op_class(node.code) == OpClass::kContraction) {
      step.call = call_of(node);
    }
    const bool in_place =
        node.code == Opcode::k_dynamic_update_slice || node.code == Opcode::k_scatter;
    for (uint32_t v : node.outputs) {
      if (!is_needed_[v] || !is_stored_by(n, group) || written[v]) continue;
      written[v] = groups_[group].reader == kNone;
      step.writes.push_back({v, node.op, in_place ? node.inputs[0] : kNone, {}});
    }
  }
  if (rules_.plans_memory && groups_[group].nodes.size() * step.reads.size() <= kMostPaths) {
    for (RegionKernels::Write& write : step.writes) {
      const Type& type = *graph_.values[write.value].type;
      for (uint32_t v : step.reads)
        if (graph_.values[v].type->bytes == type.bytes &&
            graph_.values[v].type->elements == type.elements &&
            is_read_where_written(group, v, write.value, scratch))
          write.may_overwrite.push_back(v);
    }
  }
  for (RegionKernels::Write& write : step.writes)
    if (const auto copy = copies.find({groups_[group].reader, write.value}); copy != copies.end())
      write.value = copy->second;
  for (uint32_t n : groups_[group].nodes)
    for (uint32_t v : graph_.nodes[n].inputs)
      if (const auto copy = copies.find({n, v}); copy != copies.end())
        std::replace(step.reads.begin(), step.reads.end(), v, copy->second);
}

RegionKernels RegionGraph::kernels() const {
  RegionKernels kernels;
  kernels.arguments = graph_.arguments;
  kernels.results = graph_.results;
  kernels.values.reserve(graph_.values.size());
  for (const Value& value : graph_.values) kernels.values.push_back({value.type, value.borrowed});
  std::vector<IdList> groups_at(graph_.nodes.size());
  Copies copies;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    groups_at[groups_[g].root].push_back(g);
    if (groups_[g].reader == kNone) continue;
    const uint32_t value = graph_.nodes[groups_[g].root].outputs[0];
    copies[{groups_[g].reader, value}] = static_cast<uint32_t>(kernels.values.size());
    kernels.values.push_back({graph_.values[value].type, false});
  }
  std::vector<bool> written(graph_.values.size(), false);
  Scratch scratch(graph_);
  kernels.steps.reserve(groups_.size());
  for (uint32_t root = 0; root < graph_.nodes.size(); ++root) {
    const Node& last = graph_.nodes[root];
    if (last.kind != Kind::kControl) {
      for (uint32_t g : groups_at[root]) add_step(g, copies, scratch, written, kernels);
      continue;
    }
    RegionKernels::Step& step = kernels.steps.emplace_back();
    step.op = last.op;
    step.runs_bodies = true;
    step.reads = last.inputs;
    for (uint32_t v : last.outputs) step.writes.push_back({v, step.op, kNone, {}});
  }
  return kernels;
}

}  // namespace orrery
