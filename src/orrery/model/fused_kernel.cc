#include "orrery/model/fused_kernel.h"

#include <algorithm>
#include <unordered_map>

#include "orrery/kernel/describe.h"

namespace orrery {
namespace {

/// The work, not the traffic, of operations in one kernel. Where their types differ, that of
/// the operation with the most work names the unit.
class FusedWork {
 public:
  void add(const Cost& c) {
    if (c.matrix_flops > most_matrix_) {
      most_matrix_ = c.matrix_flops;
      sum_.matrix_type = c.matrix_type;
    }
    if (c.vector_flops + c.transcendental_flops > most_vector_) {
      most_vector_ = c.vector_flops + c.transcendental_flops;
      sum_.vector_type = c.vector_type;
    }
    sum_.matrix_flops += c.matrix_flops;
    sum_.vector_flops += c.vector_flops;
    sum_.transcendental_flops += c.transcendental_flops;
  }
  const Cost& sum() const { return sum_; }

 private:
  Cost sum_;
  double most_matrix_ = 0;
  double most_vector_ = 0;
};

/// Reductions over the outermost axis of no more are unrolled: partial products of split sums.
constexpr int64_t kMostSlabs = 32;

/// The rows of a reduction as they lie in memory.
RowShape rows_in_memory(const OpView& reduce) {
  const Type& input = reduce.operand_type(0);
  const auto reduced = reduce.integers(Attr::kDimensions);
  if (input.minor_to_major.empty()) return row_shape(input.dims, reduced);
  std::vector<int64_t> dims, places;
  for (size_t i = input.minor_to_major.size(); i-- > 0;) {
    const int64_t d = input.minor_to_major[i];
    if (d < 0 || d >= input.rank()) return row_shape(input.dims, reduced);
    if (std::find(reduced.begin(), reduced.end(), d) != reduced.end())
      places.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(input.dims[static_cast<size_t>(d)]);
  }
  return row_shape(dims, places);
}

/// A tuple is counted by its bytes: it is needed whole or not at all.
double elements_of(const Type& type) {
  return static_cast<double>(type.kind == Type::Kind::kTensor ? type.elements : type.bytes);
}

/// How much of each value a kernel needs, from its stores back to what it reads: of an operand
/// that is only sliced, the slices. Values that several operations need parts of are taken to be
/// needed once, as far as they go.
class Demand {
 public:
  explicit Demand(const FusedGroup& group)
      : needed_(group.values.size(), 0), update_(group.values.size(), kWhole) {
    find_updates(group);
    for (uint32_t v : group.stored)
      needed_[v] = elements(group, update_[v] == kWhole ? v : update_[v]);
    for (size_t n = group.nodes.size(); n-- > 0;) {
      const FusedGroup::Node& node = group.nodes[n];
      double wanted = 0;
      for (uint32_t v : node.outputs) wanted = std::max(wanted, needed_[v]);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        double& needed = needed_[node.inputs[i]];
        needed =
            std::min(elements(group, node.inputs[i]), needed + of_operand(group, node, i, wanted));
      }
    }
  }
  /// Elements of a value; of one that is updated in place, those of the update.
  double of(uint32_t value) const { return needed_[value]; }

 private:
  static constexpr uint32_t kWhole = UINT32_MAX;

  /// A buffer that comes from outside and goes out again with a part of it overwritten stays
  /// where it is, unless the kernel reads the result as well.
  void find_updates(const FusedGroup& group) {
    std::vector<bool> inside(group.values.size(), false), read(group.values.size(), false);
    for (const FusedGroup::Node& node : group.nodes) {
      for (uint32_t v : node.outputs) inside[v] = true;
      for (uint32_t v : node.inputs) read[v] = true;
    }
    for (const FusedGroup::Node& node : group.nodes) {
      const bool scatters = node.code == Opcode::k_scatter;
      if ((node.code != Opcode::k_dynamic_update_slice && !scatters) || node.outputs.size() != 1 ||
          node.inputs.size() < 2 ||
          elements(group, node.inputs[0]) != elements(group, node.outputs[0]))
        continue;
      if (!inside[node.inputs[0]] && !read[node.outputs[0]])
        update_[node.outputs[0]] = scatters ? node.inputs.back() : node.inputs[1];
    }
  }

  static double elements(const FusedGroup& group, uint32_t value) {
    return elements_of(*group.values[value]);
  }

  double of_operand(const FusedGroup& group, const FusedGroup::Node& node, size_t i,
                    double wanted) const {
    const double whole = elements(group, node.inputs[i]);
    switch (op_class(node.code)) {
      case OpClass::kContraction:
      case OpClass::kLibrary:
        return whole;
      case OpClass::kReduction: {
        if (node.code == Opcode::k_reduce_window || node.code == Opcode::k_scan ||
            node.outputs.empty())
          return whole;
        const double out = elements(group, node.outputs[0]);
        return out > 0 ? whole * std::min(1.0, wanted / out) : whole;
      }
      default:
        break;
    }
    switch (node.code) {
      case Opcode::k_dynamic_update_slice:
      case Opcode::k_scatter:
        if (i == 0 && update_[node.outputs[0]] != kWhole) return 0;
        return std::min(whole, wanted);
      case Opcode::k_broadcast:
      case Opcode::k_broadcast_in_dim: {
        const double out = node.outputs.empty() ? 0 : elements(group, node.outputs[0]);
        return out > 0 ? whole * std::min(1.0, wanted / out) : whole;
      }
      default:
        return std::min(whole, wanted);
    }
  }

  std::vector<double> needed_;
  std::vector<uint32_t> update_;  ///< Of a value updated in place, what is written into it.
};

double bytes_of(const Type& type, double elements) {
  const double whole = elements_of(type);
  return whole > 0 ? static_cast<double>(type.bytes) * elements / whole : 0;
}

/// Of FusionShape, what the operations tell.
class FusionDescriber {
 public:
  FusionDescriber(const Workload& w, const FusedGroup& group, const Demand& demand)
      : w_(w), group_(group), demand_(demand) {}

  void add(const FusedGroup::Node& node) {
    for (uint32_t v : node.outputs) widen(demand_.of(v));
    switch (op_class(node.code)) {
      case OpClass::kVector:
      case OpClass::kTranscendental:
        ++operations_;
        break;
      case OpClass::kReduction:
        reduction(node);
        break;
      case OpClass::kMove:
      case OpClass::kIndexed:
        move(node);
        break;
      default:
        break;
    }
  }

  FusionShape shape(size_t inputs) {
    for (uint32_t v : group_.stored)
      if (shape_.columns > 1 && group_.values[v]->elements >= joined(shape_.rows, shape_.columns))
        shape_.does |= FusionShape::kNormalizes;
    if ((shape_.does & FusionShape::kNormalizes) != 0 && shape_.inner == 1 && shares_plane_)
      shape_.does |= FusionShape::kMasks;
    shape_.operations = counted(operations_);
    shape_.reductions = counted(reductions_);
    shape_.inputs = counted(inputs);
    shape_.outputs = counted(group_.stored.size());
    return shape_;
  }

 private:
  static uint16_t counted(size_t n) {
    return static_cast<uint16_t>(std::min<size_t>(n, UINT16_MAX));
  }
  void widen(double elements) {
    shape_.elements = std::max(shape_.elements, static_cast<int64_t>(elements));
  }

  /// Rows as the operation or the pass that changed it says; parts of a sum are rows as well.
  RowShape rows_of(const FusedGroup::Node& node) const {
    const int64_t from = group_.values[node.inputs[0]]->elements;
    const int64_t to =
        node.outputs.empty() ? 1 : std::max<int64_t>(1, group_.values[node.outputs[0]]->elements);
    RowShape rows{to, std::max<int64_t>(1, from / to), to};
    if (const auto* made = node.shape == nullptr ? nullptr : std::get_if<RowShape>(node.shape))
      rows = *made;
    else if (!node.inserted)
      rows = rows_in_memory(w_.view(node.op));
    if (const int64_t parts = to / std::max<int64_t>(1, rows.rows); parts > 1) {
      rows.rows = joined(rows.rows, parts);
      rows.columns = std::max<int64_t>(1, rows.columns / parts);
    }
    return rows;
  }

  void reduction(const FusedGroup::Node& node) {
    if (node.inputs.empty() || group_.values[node.inputs[0]]->kind != Type::Kind::kTensor) return;
    if (node.code == Opcode::k_reduce_window || node.code == Opcode::k_scan ||
        node.code == Opcode::k_select_and_scatter) {
      shape_.does |= FusionShape::kWindows;
      return;
    }
    widen(demand_.of(node.inputs[0]));
    if (node.code == Opcode::k_batch_norm_inference) return;
    ++reductions_;
    const RowShape rows = rows_of(node);
    // A few slabs added up are a loop over elements.
    if (rows.columns <= 1 || (rows.inner == rows.rows && rows.columns <= kMostSlabs)) return;
    const int64_t size = joined(rows.rows, rows.columns);
    if (shape_.columns > 1 && size <= joined(shape_.rows, shape_.columns)) return;
    shape_.rows = rows.rows;
    shape_.columns = rows.columns;
    shape_.inner = rows.inner;
  }

  /// Whether a broadcast repeats what has two axes or more and varies along the last of its result.
  bool shares_plane(const FusedGroup::Node& node) const {
    const OpView op = w_.view(node.op);
    const Type &from = op.operand_type(0), &to = op.result_type(0);
    const auto axes = op.integers(Attr::kDimensions);
    if (from.elements >= to.elements || axes.size() != from.dims.size()) return false;
    size_t wide = 0;
    bool along_last = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (from.dims[i] <= 1) continue;
      ++wide;
      along_last |= axes[i] == to.rank() - 1;
    }
    return along_last && wide >= 2;
  }

  void move(const FusedGroup::Node& node) {
    switch (node.code) {
      case Opcode::k_transpose:
      case Opcode::k_copy: {
        KernelShape alone;
        if (node.shape != nullptr)
          alone = *node.shape;
        else if (!node.inserted)
          alone = kernel_of(w_, node.op).shape;
        const auto* moved = std::get_if<MoveShape>(&alone);
        if (moved == nullptr || moved->read_run >= moved->elements) return;
        const ElementType element = group_.values[node.outputs[0]]->element;
        const int64_t run = joined(moved->read_run, std::max(1, bit_width(element) / 8));
        shape_.run = shape_.run == 0 ? run : std::min(shape_.run, run);
        return;
      }
      case Opcode::k_broadcast:
      case Opcode::k_broadcast_in_dim:
        if (!node.inserted && shares_plane(node)) shares_plane_ = true;
        return;
      case Opcode::k_concatenate:
        shape_.pieces = std::max(shape_.pieces, counted(node.inputs.size()));
        return;
      case Opcode::k_dynamic_update_slice:
        shape_.does |= FusionShape::kUpdates;
        return;
      case Opcode::k_scatter:
        shape_.does |= FusionShape::kScatters;
        return;
      case Opcode::k_gather:
      case Opcode::k_dynamic_gather:
      case Opcode::k_torch_index_select:
        shape_.does |= FusionShape::kGathers;
        return;
      case Opcode::k_pad:
      case Opcode::k_slice:
      case Opcode::k_dynamic_slice:
        shape_.does |= FusionShape::kSlices;
        return;
      default:
        return;
    }
  }

  const Workload& w_;
  const FusedGroup& group_;
  const Demand& demand_;
  FusionShape shape_;
  size_t operations_ = 0, reductions_ = 0;
  bool shares_plane_ = false;
};

/// The power of two, 16 at most, that divides the bytes of the tensor's rows as they lie in memory.
uint8_t row_alignment(const Type& type) {
  constexpr int64_t kMost = 16;
  if (type.kind != Type::Kind::kTensor || type.rank() == 0) return kMost;
  const int64_t bytes = joined(row_length(type), bit_width(type.element)) / 8;
  return static_cast<uint8_t>(std::min(kMost, std::max<int64_t>(1, bytes & -bytes)));
}

/// Elements of a row of a product's operand as a matrix: its last dimensions that are all summed
/// over, or all kept, are one.
int64_t matrix_row(const OpView& dot, uint32_t operand) {
  const Type& type = dot.operand_type(operand);
  const auto summed = dot.integers(operand == 0 ? Attr::kLhsContracting : Attr::kRhsContracting);
  const auto batch = dot.integers(operand == 0 ? Attr::kLhsBatching : Attr::kRhsBatching);
  const auto part = [&](int64_t d) {
    const auto is_in = [d](std::span<const int64_t> dims) {
      return std::find(dims.begin(), dims.end(), d) != dims.end();
    };
    return is_in(summed) ? 1 : is_in(batch) ? 2 : 0;
  };
  int64_t row = 1;
  for (int64_t d = type.rank(); d-- > 0 && part(d) == part(type.rank() - 1);)
    row = joined(row, std::max<int64_t>(1, type.dims[static_cast<size_t>(d)]));
  return row;
}

/// … of an operand whose stored dimensions, the innermost joined, are such rows.
uint8_t row_alignment(const Type& stored, int64_t row) {
  int64_t together = 1;
  for (int64_t d = stored.rank(); d-- > 0 && together < row;)
    together = joined(together, std::max<int64_t>(1, stored.dims[static_cast<size_t>(d)]));
  if (together != row || !stored.minor_to_major.empty()) return row_alignment(stored);
  Type matrix = stored;
  matrix.dims = {row};
  return row_alignment(matrix);
}

/// Operands that the compiler narrows on the way are of the type they are multiplied in; how
/// they are stored shows in the traffic.
void mark_compiled(const Workload& w, Kernel& kernel, const FusedGroup& group,
                   const FusedGroup::Node& node) {
  auto* p = std::get_if<ProductShape>(&kernel.shape);
  if (p == nullptr || p->groups > 1) return;
  p->compiled = true;
  const OpView op = w.view(node.op);
  for (uint32_t i = 0; i < std::min<size_t>(2, node.inputs.size()); ++i) {
    const Type& stored = *group.values[node.inputs[i]];
    const bool own = !node.inserted && op.code() == Opcode::k_dot_general &&
                     i < op.operand_count() && op.operand_type(i).elements == stored.elements;
    p->aligned = std::min(p->aligned,
                          own ? row_alignment(stored, matrix_row(op, i)) : row_alignment(stored));
  }
  const ElementType type = kernel.cost.matrix_type;
  if (bit_width(type) != 16) return;
  p->weight = type;
  kernel.tensors[0].element = type;
}

/// Kernels of vendors' libraries and of their own kind stay what they are.
bool gives_shape(OpClass c) {
  return c == OpClass::kContraction || c == OpClass::kLibrary || c == OpClass::kCollective;
}

/// Operations of at least this weight name the kernel they are in.
constexpr double kOwnKernel = 1e25;
double weight_of(const FusedGroup::Node& node, const Cost& work) {
  if (gives_shape(op_class(node.code))) return 1e5 * kOwnKernel + work.matrix_flops;
  if (family_of(node.code) == KernelFamily::kSort) return kOwnKernel;
  return work.flops();
}

/// A node's work, its operation's or what a pass made of it.
Cost work_of(const Workload& w, const FusedGroup& group, const FusedGroup::Node& node) {
  Cost c;
  if (node.inserted && node.code != Opcode::k_dot_general) {
    if (node.inputs.empty() || (node.code != Opcode::k_reduce && node.code != Opcode::k_multiply))
      return c;
    const Type& input = *group.values[node.inputs[0]];
    c.vector_flops = static_cast<double>(input.elements);
    c.vector_type = input.element;
    return c;
  }
  c = cost(w, node.op);
  if (node.code == Opcode::k_reduce && c.matrix_flops > 0) {  // a product with a vector
    c.vector_flops = c.matrix_flops;
    c.vector_type = ElementType::kF32;
    c.matrix_flops = 0;
    c.matrix_type = ElementType::kNone;
  } else if (const auto* p =
                 node.shape == nullptr ? nullptr : std::get_if<ProductShape>(node.shape)) {
    c.matrix_flops = 2.0 * static_cast<double>(p->batch) * static_cast<double>(p->m) *
                     static_cast<double>(p->n) * static_cast<double>(p->k);
  } else if (const auto* s =
                 node.shape == nullptr ? nullptr : std::get_if<ConvolutionShape>(node.shape)) {
    // What was written around and between the images is multiplied as well.
    const double pixels = static_cast<double>(s->batch) * static_cast<double>(s->out_height) *
                          static_cast<double>(s->out_width);
    const int64_t channels = s->channels / std::max<int64_t>(1, s->groups);
    const double depth = static_cast<double>(channels) * static_cast<double>(s->window_height) *
                         static_cast<double>(s->window_width);
    c.matrix_flops = 2 * pixels * static_cast<double>(s->features) * depth;
  }
  return c;
}

/// The kernel that gives a group its shape.
Kernel kernel_of_node(const Workload& w, const FusedGroup& group, const FusedGroup::Node& node) {
  const auto* product = node.shape == nullptr ? nullptr : std::get_if<ProductShape>(node.shape);
  if (product == nullptr || node.inputs.size() < 2) {
    Kernel kernel = kernel_of(w, node.op);
    if (node.shape != nullptr && std::holds_alternative<ConvolutionShape>(*node.shape)) {
      kernel.shape = *node.shape;
      kernel.cost.matrix_flops = work_of(w, group, node).matrix_flops;
      kernel.cost.bytes_read = 0;
      for (uint32_t v : node.inputs)
        kernel.cost.bytes_read += static_cast<double>(group.values[v]->bytes);
      kernel.tensors[0].bytes = group.values[node.inputs[0]]->bytes;
    }
    return kernel;
  }
  const auto size = [&](uint32_t value) {
    const Type& type = *group.values[value];
    return TensorSize{type.element, type.elements, type.bytes};
  };
  Kernel kernel;
  kernel.code = node.code;
  kernel.family = KernelFamily::kGemm;
  describe_product(kernel, *product, size(node.inputs[0]), size(node.inputs[1]));
  add_tensor(kernel, size(node.outputs[0]), kBatchLoop | kRowLoop | kColumnLoop, true);
  kernel.cost = work_of(w, group, node);
  kernel.cost.bytes_read = kernel.cost.bytes_written = 0;
  for (uint32_t v : node.inputs)
    kernel.cost.bytes_read += static_cast<double>(group.values[v]->bytes);
  for (uint32_t v : node.outputs)
    kernel.cost.bytes_written += static_cast<double>(group.values[v]->bytes);
  return kernel;
}

bool is_constant(const Workload& w, ValueId v) {
  const OpId definition = w.value(v).definition;
  return definition.valid() && op_class(w.op(definition).code) == OpClass::kConstant;
}

}  // namespace

int64_t row_length(const Type& type) {
  const auto size = [&](int64_t axis) {
    return axis >= 0 && axis < type.rank() ? type.dims[static_cast<size_t>(axis)] : 1;
  };
  for (const int64_t axis : type.minor_to_major)
    if (size(axis) > 1) return size(axis);
  if (type.minor_to_major.empty())
    for (int64_t axis = type.rank() - 1; axis >= 0; --axis)
      if (size(axis) > 1) return size(axis);
  return 1;
}

Kernel fused_kernel(const Workload& w, const FusedGroup& group, bool compiled) {
  const FusedGroup::Node& root = group.nodes.back();
  if (group.nodes.size() == 1 &&
      (!compiled || weight_of(root, work_of(w, group, root)) >= kOwnKernel)) {
    Kernel kernel = kernel_of_node(w, group, root);
    if (compiled) mark_compiled(w, kernel, group, root);
    return kernel;
  }
  const Demand demand(group);
  FusedWork work;
  FusionDescriber describer(w, group, demand);
  const FusedGroup::Node* heaviest = &root;
  double most = -1;
  std::vector<bool> inside(group.values.size(), false);
  double written = 0;
  const Type* widest = nullptr;
  for (const FusedGroup::Node& node : group.nodes) {
    double share = 0;
    for (uint32_t v : node.outputs) {
      inside[v] = true;
      const double whole = elements_of(*group.values[v]);
      share = std::max(share, whole > 0 ? std::min(1.0, demand.of(v) / whole) : 0);
      if (std::find(group.stored.begin(), group.stored.end(), v) == group.stored.end()) continue;
      written += bytes_of(*group.values[v], demand.of(v));
      if (widest == nullptr || group.values[v]->bytes > widest->bytes) widest = group.values[v];
    }
    Cost c = work_of(w, group, node);
    if (const double weight = weight_of(node, c); weight > most) {
      most = weight;
      heaviest = &node;
    }
    c.matrix_flops *= share;
    c.vector_flops *= share;
    c.transcendental_flops *= share;
    work.add(c);
    if (compiled) describer.add(node);
  }
  double read = 0;
  size_t inputs = 0;
  for (uint32_t v = 0; v < group.values.size(); ++v) {
    if (inside[v] || demand.of(v) <= 0) continue;
    ++inputs;
    read += bytes_of(*group.values[v], demand.of(v));
  }

  Kernel kernel;
  const bool library = most >= kOwnKernel;
  if (library || !compiled) kernel = kernel_of_node(w, group, library ? *heaviest : root);
  kernel.cost = work.sum();
  // Compilers widen what is narrower than 32 bits before they compute with it.
  if (compiled) kernel.cost.vector_type = ElementType::kF32;
  kernel.cost.bytes_read = read;
  kernel.cost.bytes_written = written;
  if (library) {
    if (compiled) mark_compiled(w, kernel, group, *heaviest);
  } else if (!compiled) {
    for (const FusedGroup::Node& node : group.nodes)
      if (node.code == Opcode::k_reduce) kernel.family = KernelFamily::kReduction;
    if (kernel.family != KernelFamily::kReduction && kernel.cost.flops() > 0)
      kernel.family = KernelFamily::kElementwise;
  } else {
    const FusionShape shape = describer.shape(inputs);
    kernel.code = root.code;
    kernel.shape = shape;
    kernel.family = shape.columns > 1      ? KernelFamily::kReduction
                    : shape.operations > 0 ? KernelFamily::kElementwise
                                           : KernelFamily::kDataMovement;
    add_dimension_loops(kernel, {&shape.elements, 1});
    if (widest != nullptr) {
      const bool tuple = widest->kind == Type::Kind::kTuple && !widest->members.empty();
      const Type& stored = tuple ? w.type(widest->members[0]) : *widest;
      add_tensor(kernel, {stored.element, stored.elements, stored.bytes}, 1, true);
    }
  }
  return kernel;
}

Kernel stated_fusion_kernel(const Workload& w, OpId id, bool compiled, uint32_t* fused) {
  const OpView fusion = w.view(id);
  const FunctionId f = fusion.callee();
  if (!f.valid() || !w.function(f).body.valid()) {
    Kernel kernel;
    kernel.code = fusion.code();
    for (uint32_t i = 0; i < fusion.operand_count(); ++i)
      kernel.cost.bytes_read += static_cast<double>(fusion.operand_type(i).bytes);
    for (uint32_t i = 0; i < fusion.result_count(); ++i)
      kernel.cost.bytes_written += static_cast<double>(fusion.result_type(i).bytes);
    return kernel;
  }
  const Region& body = w.region(w.function(f).body);
  FusedGroup group;
  // Values of the body by where they are, views seen through.
  std::unordered_map<uint32_t, uint32_t> local;
  const auto value = [&](ValueId v) {
    const auto [at, added] = local.emplace(v.index, static_cast<uint32_t>(group.values.size()));
    if (added) group.values.push_back(&w.type(v));
    return at->second;
  };
  const auto store = [&](uint32_t v) {
    if (std::find(group.stored.begin(), group.stored.end(), v) == group.stored.end())
      group.stored.push_back(v);
  };
  for_each_op(w, body, [&](OpId inner) {
    const OpView op = w.view(inner);
    const OpClass kind = op_class(op.code());
    if (op.code() == Opcode::k_return) {
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        const OpId packed = w.value(op.operand(i)).definition;
        if (packed.valid() && w.op(packed).code == Opcode::k_tuple)
          for (ValueId member : w.operands(w.op(packed))) store(value(member));
        else
          store(value(op.operand(i)));
      }
    } else if (op.code() == Opcode::k_tuple) {
      return;
    } else if (kind == OpClass::kView && op.operand_count() == 1 && op.result_count() == 1 &&
               op.operand_type(0).kind == op.result_type(0).kind) {
      local[op.result(0).index] = value(op.operand(0));
    } else if (kind == OpClass::kView && op.operand_count() == op.result_count()) {
      for (uint32_t i = 0; i < op.result_count(); ++i)
        local[op.result(i).index] = value(op.operand(i));
    } else if (kind != OpClass::kConstant) {
      FusedGroup::Node node;
      node.op = inner;
      node.code = op.code();
      for (uint32_t i = 0; i < op.operand_count(); ++i)
        if (!is_constant(w, op.operand(i))) node.inputs.push_back(value(op.operand(i)));
      for (uint32_t i = 0; i < op.result_count(); ++i) node.outputs.push_back(value(op.result(i)));
      group.nodes.push_back(std::move(node));
    }
  });
  *fused = std::max<uint32_t>(1, static_cast<uint32_t>(group.nodes.size()));
  if (group.nodes.empty()) return kernel_of(w, id);
  return fused_kernel(w, group, compiled);
}

}  // namespace orrery
