#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "orrery/kernel/describe.h"
#include "orrery/model/fusion_passes.h"

namespace orrery {
namespace {

/// XLA merges products while what each brings beside the shared operand stays below this
/// (`xla_gpu_dot_merger_threshold_mb`; 64 MB explains all products of the checked programs).
constexpr int64_t kMostMergedBytes = int64_t{64} << 20;

/// A product is split until it has enough tiles, and no part sums over less than a least depth,
/// which is longer where there are many tiles to begin with. Fitted to the products in the
/// optimised HLO of 135 programs for the H200, of which 87 % are found.
constexpr int64_t kTileRows = 64, kTileColumns = 128, kEnoughTiles = 190, kFewTiles = 54;
constexpr int64_t kLeastDepth = 192, kLeastDepthOfMany = 640;

/// Matrices from this many elements on are multiplied with a vector as products: XLA sums over
/// those of 3,072 × 3,072 and multiplies those of 4,096 × 4,096.
constexpr int64_t kVectorProductElements = int64_t{12} << 20;
/// Sums over outer dimensions with at most this many results do not take their products in.
constexpr int64_t kFewColumns = 4096;
/// Of a product with a vector, tiles beyond which it is not split.
constexpr int64_t kEnoughVectorTiles = 80;

bool same(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Sums of no more elements over outer dimensions run in one step: XLA's bound for reductions
/// without atomics.
constexpr int64_t kLongReduction = 4096;

/// Neighbouring dimensions of the same kind, one's skipped.
struct DimensionRun {
  int64_t size = 1;
  bool reduced = false;
};
std::vector<DimensionRun> runs_of(const Type& type, std::span<const int64_t> reduced) {
  std::vector<DimensionRun> runs;
  for (int64_t d = 0; d < type.rank(); ++d) {
    const int64_t size = type.dims[static_cast<size_t>(d)];
    if (size == 1) continue;
    const bool is = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    if (runs.empty() || runs.back().reduced != is) runs.push_back({1, is});
    runs.back().size = joined(runs.back().size, size);
  }
  return runs;
}

RowShape rows_of(const std::vector<DimensionRun>& runs) {
  std::vector<int64_t> dims, places;
  for (const DimensionRun& run : runs) {
    if (run.reduced) places.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(run.size);
  }
  return row_shape(dims, places);
}

/// A reduction over dimensions that do not lie side by side runs along the longest of them first.
void split_by_dimensions(const Workload& w, FusionGraph& graph, size_t n) {
  const OpView op = w.view(graph.nodes[n].op);
  std::vector<DimensionRun> runs = runs_of(op.operand_type(0), op.integers(Attr::kDimensions));
  const auto is_reduced = [](const DimensionRun& run) { return run.reduced; };
  if (std::count_if(runs.begin(), runs.end(), is_reduced) < 2) return;
  const auto longest = std::max_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return (a.reduced ? a.size : 0) < (b.reduced ? b.size : 0);
  });
  std::vector<DimensionRun> first = runs;
  for (size_t i = 0; i < runs.size(); ++i)
    first[i].reduced = i == static_cast<size_t>(longest - runs.begin());
  const RowShape rows = rows_of(first);
  runs.erase(longest);
  const uint32_t whole = graph.nodes[n].outputs[0];
  const Type& to = *graph.values[whole].type;
  const uint32_t partial = graph.add_value(graph.add_type(to, {rows.rows}, to.element));
  graph.nodes[n].outputs[0] = partial;
  graph.nodes[n].shape = static_cast<int32_t>(graph.shapes.size());
  graph.nodes[n].along_rows = rows.inner == 1;
  graph.shapes.emplace_back(rows);
  FusionNode& second = graph.insert(graph.nodes[n].position + 1, graph.nodes[n].op,
                                    Opcode::k_reduce, FusionKind::kReduction, whole);
  second.inputs = {partial};
  second.shape = static_cast<int32_t>(graph.shapes.size());
  graph.shapes.emplace_back(rows_of(runs));
}

/// Splits a sum of `length` elements: parts of type `element`, then those.
void split_reduction(FusionGraph& graph, size_t n, int64_t length, ElementType element) {
  const uint32_t whole = graph.nodes[n].outputs[0];
  const Type& to = *graph.values[whole].type;
  int64_t parts = 1;
  while (4 * parts * parts <= length) parts *= 2;
  const uint32_t partial = graph.add_value(graph.add_type(to, {parts, to.elements}, element));
  graph.nodes[n].outputs[0] = partial;
  FusionNode& second = graph.insert(graph.nodes[n].position + 1, graph.nodes[n].op,
                                    Opcode::k_reduce, FusionKind::kReduction, whole);
  second.inputs = {partial};
  second.shape = static_cast<int32_t>(graph.shapes.size());
  graph.shapes.emplace_back(RowShape{to.elements, parts, to.elements});
}

/// Whether it scatters terms of a sum over zeros.
bool adds_to_zeros(const Workload& w, const FusionGraph& graph, const FusionNode& node) {
  if (node.code != Opcode::k_scatter || node.inserted || node.inputs.empty() ||
      node.outputs.size() != 1)
    return false;
  const uint32_t producer = graph.values[node.inputs[0]].producer;
  if (producer == kNoNode) return false;
  const FusionNode& fill = graph.nodes[producer];
  if (!fill.inserted || fill.code != Opcode::k_broadcast || fill.inputs.size() != 1 ||
      graph.values[fill.inputs[0]].number != 0)
    return false;
  bool adds = false;
  for (RegionId r : w.view(node.op).raw_regions())
    for_each_op(w, w.region(r), [&](OpId id) { adds |= w.op(id).code == Opcode::k_add; });
  return adds;
}

/// The node that makes `value` as the larger of something and zero; kNoNode: it is not made so.
uint32_t cut_at_zero(const FusionGraph& graph, uint32_t value) {
  const uint32_t producer = graph.values[value].producer;
  if (producer == kNoNode) return kNoNode;
  const FusionNode& node = graph.nodes[producer];
  if (node.code != Opcode::k_maximum || node.inserted) return kNoNode;
  const bool with_zero = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](uint32_t v) { return graph.values[v].number == 0; });
  return with_zero ? producer : kNoNode;
}

/// What a window's gradient is scattered over: its operand, before padding that a slice takes off
/// the gradient again.
uint32_t without_padding(const FusionGraph& graph, size_t gradient) {
  const FusionNode& node = graph.nodes[gradient];
  const FusionValue& operand = graph.values[node.inputs[0]];
  const FusionValue& result = graph.values[node.outputs[0]];
  if (operand.producer == kNoNode || result.returned || result.users.size() != 1)
    return node.inputs[0];
  const FusionNode& pad = graph.nodes[operand.producer];
  const FusionNode& slice = graph.nodes[result.users[0]];
  if (pad.code != Opcode::k_pad || slice.code != Opcode::k_slice || slice.outputs.size() != 1)
    return node.inputs[0];
  return graph.values[pad.inputs[0]].type->dims == graph.values[slice.outputs[0]].type->dims
             ? pad.inputs[0]
             : node.inputs[0];
}

class Merger {
 public:
  Merger(const Workload& w, FusionGraph& g) : w_(w), g_(g) {}

  bool run() {
    const auto value_count = static_cast<uint32_t>(g_.values.size());
    for (uint32_t v = 0; v < value_count; ++v) {
      if (g_.values[v].users.size() < 2) continue;
      for (uint32_t side : {0u, 1u}) merge_users(v, side);
    }
    return changed_;
  }

 private:
  int64_t own_bytes(const FusionNode& node, uint32_t side) const {
    return g_.values[node.inputs[1 - side]].type->bytes + g_.values[node.outputs[0]].type->bytes;
  }

  /// A plain product of `side` with a matrix of one kept dimension.
  bool is_candidate(const FusionNode& node, uint32_t value, uint32_t side) const {
    if (node.kind != FusionKind::kProduct || node.inserted || node.inputs.size() != 2 ||
        node.inputs[side] != value || node.inputs[1 - side] == value)
      return false;
    const OpView op = w_.view(node.op);
    return op.integers(Attr::kLhsBatching).empty() &&
           op.operand_type(1 - side).rank() ==
               static_cast<int>(op.integers(Attr::kLhsContracting).size()) + 1;
  }
  bool alike(const FusionNode& a, const FusionNode& b, uint32_t side) const {
    const OpView x = w_.view(a.op), y = w_.view(b.op);
    return same(x.integers(Attr::kLhsContracting), y.integers(Attr::kLhsContracting)) &&
           same(x.integers(Attr::kRhsContracting), y.integers(Attr::kRhsContracting)) &&
           same(x.operand_type(side).dims, y.operand_type(side).dims) &&
           x.operand_type(1 - side).element == y.operand_type(1 - side).element &&
           x.result_type(0).element == y.result_type(0).element;
  }

  void merge_users(uint32_t value, uint32_t side) {
    std::vector<uint32_t> dots;
    for (uint32_t u : g_.values[value].users)
      if (is_candidate(g_.nodes[u], value, side)) dots.push_back(u);
    // From the last on, each with what has been gathered.
    std::vector<uint32_t> gathered;
    int64_t bytes = 0;
    for (size_t i = dots.size(); i-- > 0;) {
      const FusionNode& node = g_.nodes[dots[i]];
      const int64_t own = own_bytes(node, side);
      if (!gathered.empty() && own <= kMostMergedBytes && bytes <= kMostMergedBytes &&
          alike(node, g_.nodes[gathered.back()], side)) {
        gathered.push_back(dots[i]);
        bytes += own;
        continue;
      }
      merge(gathered, side);
      gathered = {dots[i]};
      bytes = own;
    }
    merge(gathered, side);
  }

  void merge(std::vector<uint32_t> dots, uint32_t side) {
    if (dots.size() < 2) return;
    std::sort(dots.begin(), dots.end());
    const uint32_t first = dots.front(), last = dots.back();
    bool at_first = true, at_last = true;
    for (uint32_t d : dots) {
      const uint32_t producer = g_.values[g_.nodes[d].inputs[1 - side]].producer;
      at_first &= producer == kNoNode || producer < first;
      for (uint32_t u : g_.values[g_.nodes[d].outputs[0]].users) at_last &= u > last;
    }
    if (!at_first && !at_last) return;
    changed_ = true;

    ProductShape shape = product_shape(w_, g_, g_.nodes[first]);
    int64_t& kept = side == 0 ? shape.n : shape.m;
    kept = 0;
    for (uint32_t d : dots) {
      const ProductShape each = product_shape(w_, g_, g_.nodes[d]);
      kept += side == 0 ? each.n : each.m;
    }
    const OpId op = g_.nodes[first].op;
    const uint64_t place = at_first ? g_.nodes[first].position - 2 : g_.nodes[last].position;
    const Type& operand = *g_.values[g_.nodes[first].inputs[1 - side]].type;
    const uint32_t joined_operand =
        g_.add_value(g_.add_type(operand, {shape.k, kept}, operand.element));
    const uint32_t result = g_.add_value(g_.add_type(
        operand, {shape.m, shape.n}, g_.values[g_.nodes[first].outputs[0]].type->element));
    IdList parts;
    for (uint32_t d : dots) parts.push_back(g_.nodes[d].inputs[1 - side]);
    const uint32_t shared = g_.nodes[first].inputs[side];
    uint64_t after = place;
    for (uint32_t d : dots) {
      FusionNode& slice = g_.nodes[d];
      slice.code = Opcode::k_slice;
      slice.kind = FusionKind::kFusible;
      slice.inserted = true;
      slice.inputs = {result};
      if (!at_first) slice.position = ++after;
    }
    g_.insert(place - 1, op, Opcode::k_concatenate, FusionKind::kFusible, joined_operand).inputs =
        std::move(parts);
    FusionNode& merged = g_.insert(place, op, Opcode::k_dot_general, FusionKind::kProduct, result);
    merged.inputs = {side == 0 ? shared : joined_operand, side == 0 ? joined_operand : shared};
    merged.shape = static_cast<int32_t>(g_.shapes.size());
    g_.shapes.emplace_back(shape);
  }

  const Workload& w_;
  FusionGraph& g_;
  bool changed_ = false;
};

}  // namespace

ProductShape product_shape(const Workload& w, const FusionGraph& graph, const FusionNode& node) {
  if (node.shape >= 0)
    if (const auto* shape =
            std::get_if<ProductShape>(&graph.shapes[static_cast<size_t>(node.shape)]))
      return *shape;
  const OpView op = w.view(node.op);
  ProductShape shape;
  const auto extent = [](const Type& type, std::span<const int64_t> dims) {
    int64_t n = 1;
    for (int64_t d : dims)
      if (d >= 0 && d < type.rank())
        n = joined(n, std::max<int64_t>(1, type.dims[static_cast<size_t>(d)]));
    return n;
  };
  shape.batch = extent(op.operand_type(0), op.integers(Attr::kLhsBatching));
  shape.k = extent(op.operand_type(0), op.integers(Attr::kLhsContracting));
  const int64_t both = joined(shape.batch, shape.k);
  shape.m = std::max<int64_t>(1, op.operand_type(0).elements / both);
  shape.n = std::max<int64_t>(1, op.operand_type(1).elements / both);
  shape.weight = op.operand_type(1).element;
  return shape;
}

bool is_vector_product(const Workload& w, const FusionGraph& graph, const FusionNode& node) {
  if (node.kind != FusionKind::kProduct || node.inserted) return false;
  const ProductShape shape = product_shape(w, graph, node);
  if (shape.m != 1 && shape.n != 1) return false;
  return shape.batch > 1 || joined(std::max(shape.m, shape.n), shape.k) < kVectorProductElements;
}

void merge_products(const Workload& w, FusionGraph& graph) {
  if (Merger(w, graph).run()) graph.order(w, false);
}

void expand_grouped_products(const Workload& w, FusionGraph& graph) {
  std::map<std::pair<uint32_t, int64_t>, uint32_t> spread;  // rows, by value and groups
  const size_t count = graph.nodes.size();
  bool changed = false;
  for (size_t n = 0; n < count; ++n) {
    if (graph.nodes[n].code != Opcode::k_grouped_dot || graph.nodes[n].inputs.size() < 3) continue;
    const Type& rows = *graph.values[graph.nodes[n].inputs[0]].type;
    const Type& weights = *graph.values[graph.nodes[n].inputs[1]].type;
    if (rows.rank() < 1 || weights.rank() < 3) continue;
    const int64_t groups = std::max<int64_t>(1, weights.dims[0]);
    const int64_t depth = std::max<int64_t>(1, rows.dims.back());
    changed = true;
    ProductShape shape;
    shape.k = joined(groups, depth);
    shape.m = std::max<int64_t>(1, rows.elements / depth);
    shape.n = std::max<int64_t>(1, weights.elements / shape.k);
    shape.weight = weights.element;
    shape.filled = 1 / static_cast<float>(groups);
    const IdList inputs = graph.nodes[n].inputs;
    const auto [at, added] = spread.try_emplace({inputs[0], groups});
    if (added) {
      at->second = graph.add_value(graph.add_type(rows, {shape.m, shape.k}, rows.element));
      graph
          .insert(graph.nodes[n].position - 1, graph.nodes[n].op, Opcode::k_select,
                  FusionKind::kFusible, at->second)
          .inputs = {inputs[0], inputs[2]};
    }
    FusionNode& node = graph.nodes[n];
    node.code = Opcode::k_dot_general;
    node.kind = FusionKind::kProduct;
    node.inserted = true;
    node.inputs = {at->second, inputs[1]};
    node.shape = static_cast<int32_t>(graph.shapes.size());
    graph.shapes.emplace_back(shape);
  }
  if (changed) graph.order(w, false);
}

void reduce_vector_products(const Workload& w, FusionGraph& graph) {
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    if (!is_vector_product(w, graph, graph.nodes[n])) continue;
    const ProductShape shape = product_shape(w, graph, graph.nodes[n]);
    const OpView op = w.view(graph.nodes[n].op);
    const uint32_t matrix = shape.n == 1 ? 0 : 1;
    const auto summed = op.integers(matrix == 0 ? Attr::kLhsContracting : Attr::kRhsContracting);
    const bool along_rows = !summed.empty() && summed.back() + 1 == op.operand_type(matrix).rank();
    const int64_t results = joined(shape.batch, std::max(shape.m, shape.n));
    int64_t inner = 1;  // what lies between neighbours of a sum
    for (int64_t d = summed.empty() ? 0 : summed.back() + 1; d < op.operand_type(matrix).rank();
         ++d)
      inner =
          joined(inner, std::max<int64_t>(1, op.operand_type(matrix).dims[static_cast<size_t>(d)]));
    FusionNode& node = graph.nodes[n];
    node.kind = FusionKind::kReduction;
    node.code = Opcode::k_reduce;
    node.shape = static_cast<int32_t>(graph.shapes.size());
    graph.shapes.emplace_back(
        RowShape{results, shape.k, along_rows ? 1 : std::min(results, inner)});
    if (along_rows || results > kFewColumns) continue;
    if (shape.k > kLongReduction) {
      split_reduction(graph, n, shape.k, ElementType::kF32);
      continue;
    }
    // Too few columns to keep the device busy: the elementwise product is a kernel of its own.
    const uint32_t factor = node.inputs[matrix];
    const uint32_t product = graph.add_value(graph.add_type(
        *graph.values[factor].type, {shape.k, results}, graph.values[factor].type->element));
    IdList inputs = node.inputs;
    if (matrix == 1) std::swap(inputs[0], inputs[1]);
    node.inputs = {product};
    const uint64_t position = node.position - 1;
    const OpId id = node.op;
    graph.insert(position, id, Opcode::k_multiply, FusionKind::kFusible, product).inputs =
        std::move(inputs);
  }
  if (graph.nodes.size() > count) graph.order(w, false);
}

void split_products(const Workload& w, FusionGraph& graph) {
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    if (graph.nodes[n].kind != FusionKind::kProduct) continue;
    ProductShape shape = product_shape(w, graph, graph.nodes[n]);
    if (shape.batch != 1) continue;
    const int64_t tiles = ceil_divide(std::max(shape.m, shape.n), kTileColumns) *
                          ceil_divide(std::min(shape.m, shape.n), kTileRows);
    if (std::min(shape.m, shape.n) == 1 && tiles >= kEnoughVectorTiles) continue;
    int64_t parts = 1;
    const int64_t depth = tiles <= kFewTiles ? kLeastDepth : kLeastDepthOfMany;
    while (tiles * parts < kEnoughTiles && shape.k / (2 * parts) >= depth) parts *= 2;
    if (parts == 1) continue;
    shape.batch = parts;
    shape.k = ceil_divide(shape.k, parts);
    const uint32_t whole = graph.nodes[n].outputs[0];
    const Type& type = *graph.values[whole].type;
    const uint32_t partial =
        graph.add_value(graph.add_type(type, {parts, shape.m, shape.n}, ElementType::kF32));
    graph.nodes[n].outputs[0] = partial;
    graph.nodes[n].shape = static_cast<int32_t>(graph.shapes.size());
    graph.shapes.emplace_back(shape);
    graph
        .insert(graph.nodes[n].position + 1, graph.nodes[n].op, Opcode::k_reduce,
                FusionKind::kFusible, whole)
        .inputs = {partial};
  }
  if (graph.nodes.size() > count) graph.order(w, false);
}

void split_reductions(const Workload& w, FusionGraph& graph) {
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    if (graph.nodes[n].code != Opcode::k_reduce || graph.nodes[n].inserted ||
        graph.nodes[n].outputs.size() != 1 || w.op(graph.nodes[n].op).code != Opcode::k_reduce)
      continue;
    if (graph.nodes[n].shape < 0) split_by_dimensions(w, graph, n);
    const FusionNode& node = graph.nodes[n];
    if (node.along_rows) continue;
    const Type& from = *graph.values[node.inputs[0]].type;
    const Type& to = *graph.values[node.outputs[0]].type;
    if (to.elements <= 1 || from.elements / to.elements <= kLongReduction) continue;
    split_reduction(graph, n, from.elements / to.elements, to.element);
  }
  if (graph.nodes.size() > count) graph.order(w, false);
}

void scatter_into_sums(const Workload& w, FusionGraph& graph) {
  bool changed = false;
  for (FusionNode& node : graph.nodes) {
    if (!adds_to_zeros(w, graph, node)) continue;
    const FusionValue& sum = graph.values[node.outputs[0]];
    if (sum.returned || sum.users.size() != 1) continue;
    FusionNode& add = graph.nodes[sum.users[0]];
    if (add.code != Opcode::k_add || add.inserted || add.inputs.size() != 2) continue;
    const uint32_t other = add.inputs[add.inputs[0] == node.outputs[0] ? 1 : 0];
    if (other == node.outputs[0] || graph.values[other].splat || graph.values[other].borrowed ||
        graph.values[other].users.size() != 1 || graph.values[other].type->dims != sum.type->dims)
      continue;
    node.inputs[0] = other;
    node.position = add.position;
    std::swap(node.outputs[0], add.outputs[0]);
    add.inputs = node.outputs;  // nobody reads it now
    add.position = node.position + 1;
    changed = true;
  }
  if (changed) graph.order(w, true);
}

void expand_window_gradients(const Workload& w, FusionGraph& graph) {
  const size_t count = graph.nodes.size();
  for (size_t n = 0; n < count; ++n) {
    if (graph.nodes[n].code != Opcode::k_select_and_scatter || graph.nodes[n].inputs.size() < 2)
      continue;
    const IdList inputs = graph.nodes[n].inputs;
    const uint64_t position = graph.nodes[n].position;
    const OpId op = graph.nodes[n].op;
    const uint32_t unpadded = without_padding(graph, n);
    const Type& operand = *graph.values[unpadded].type;
    const Type& source = *graph.values[inputs[1]].type;
    // Where each window's largest element lies: its value and a coordinate a dimension.
    const uint32_t places = graph.add_value(graph.add_type(
        source, {static_cast<int64_t>(operand.rank()) + 1, source.elements}, ElementType::kS32));
    graph.insert(position - 2, op, Opcode::k_reduce_window, FusionKind::kReduction, places)
        .inputs = {inputs[0]};
    uint32_t zeros = graph.add_value(&operand);
    uint32_t kept_zeros = kNoNode;
    if (const uint32_t cut = cut_at_zero(graph, unpadded); cut != kNoNode) {
      // The zeros of the activation before it: they are written with its result, and a copy takes
      // what is scattered, for the activation's gradient reads them later.
      graph.nodes[cut].outputs.push_back(zeros);
      kept_zeros = zeros;
      const uint32_t copy = graph.add_value(&operand);
      graph.insert(position - 1, op, Opcode::k_copy, FusionKind::kHeavy, copy).inputs = {zeros};
      zeros = copy;
    } else {
      graph.insert(position - 1, op, Opcode::k_broadcast, FusionKind::kFusible, zeros);
    }
    if (unpadded != inputs[0]) {
      // What would be cut off afterwards is not scattered to.
      FusionNode& slice = graph.nodes[graph.values[graph.nodes[n].outputs[0]].users[0]];
      std::swap(graph.nodes[n].outputs[0], slice.outputs[0]);
      slice.inputs = graph.nodes[n].outputs;
    }
    FusionNode& node = graph.nodes[n];
    node.code = Opcode::k_scatter;
    node.kind = FusionKind::kReduction;
    node.inserted = true;
    node.inputs = {zeros, places, inputs[1]};
    if (kept_zeros == kNoNode) continue;
    for (uint32_t u : graph.values[node.outputs[0]].users)
      if (graph.nodes[u].code == Opcode::k_select) graph.nodes[u].inputs.push_back(kept_zeros);
  }
  if (graph.nodes.size() > count) graph.order(w, true);
}

}  // namespace orrery
