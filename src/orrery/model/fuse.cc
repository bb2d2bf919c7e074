#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "orrery/model/fusion_passes.h"
#include "orrery/model/library_workspace.h"
#include "orrery/model/priority_fusion.h"
#include "orrery/workload/cost.h"

namespace orrery {
namespace {

/// What starting a kernel counts for: about this explains what XLA computes twice (its own
/// cost model says 1 µs and less bandwidth).
constexpr double kLaunchSeconds = 0.7e-6;
/// How much faster XLA takes what fits the cache to be read.
constexpr double kCacheSpeedup = 2.5;
/// Vector operations that one special function takes.
constexpr double kSpecialFunctionWork = 16;
/// … and the exponential of the logistic function, which XLA computes up to three times (10 and
/// less decide alike for every training step at hand).
constexpr double kLogisticWork = 6;
/// Share of its reading time that storing a tensor of many readers counts as saved.
constexpr double kStoringBonus = 0.2;
/// A producer is computed again in at most this many kernels.
constexpr size_t kMostCopies = 24;
/// A kernel reads at most this many values.
constexpr size_t kMostInputs = 96;
/// Rows longer than this do not stay on chip from one pass over them to the next.
constexpr double kMostRowElements = 65536;
/// … and rows in parts that are still to be added, longer than this in all.
constexpr double kMostSplitRow = 16384;
/// Generated kernels also compute what leads up to a product's operands; the library reads them
/// from memory. It is not taken where writing them would take more than this share of the
/// product at its peak rate. Fitted to XLA's choices on the H200.
constexpr double kMostPreparation = 1.2;
/// Kernels joined for a tensor share at least this many elements.
constexpr double kLeastSharedElements = 2;
/// Kernels looked at to see whether one needs another.
constexpr size_t kLongestSearch = 64;
/// Nodes between kernels that may still become one.
constexpr uint32_t kFarthest = 512;
/// Work an element beyond which nothing is computed twice.
constexpr double kMostWork = 1e4;
/// Values whose reading is weighed before a node is computed again.
constexpr size_t kMostLeaves = 16;
/// How far a reduction's input is followed to see that a kernel reads what it comes from.
constexpr int kMostSteps = 12;

bool is_broadcast(Opcode code) {
  return code == Opcode::k_broadcast_in_dim || code == Opcode::k_broadcast;
}

class Fuser {
 public:
  Fuser(const Workload& w, const Device& device, const FusionRules& rules, FusionGraph& g)
      : w_(w), device_(device), rules_(rules), g_(g) {
    bytes_per_second_ = std::max(1.0, device.main_memory().bandwidth.value);
    const double rate = device.vector[ElementType::kF32].value;
    work_per_second_ = rate > 0 ? rate / 2 : 10 * bytes_per_second_;
    flops_per_second_ = std::max(1.0, device.matrix[ElementType::kBF16].value);
    if (const MemoryLevel* l2 = device.level("l2")) cache_bytes_ = l2->capacity.value;
  }

  std::vector<FusionGroup> run() {
    claimed_.assign(g_.nodes.size(), kNoNode);
    if (rules_.product_epilogues) claim_epilogues();
    evaluations_.resize(g_.nodes.size());
    find_row_statistics();
    find_leaves();
    if (rules_.by_priority) weigh_by_priority();
    for (size_t n = g_.nodes.size(); n-- > 0;) place(static_cast<uint32_t>(n));
    if (rules_.multi_output) join_siblings();
    return finish();
  }

 private:
  enum class Form : uint8_t {
    kLoop,       ///< Elementwise over its result.
    kReduction,  ///< Ends in a reduction.
    kRows,       ///< Keeps rows on chip: reductions along them and what reads the results.
    kProduct,
    kPrologue,  ///< What leads up to a library product's operand.
    kOther,     ///< Takes nothing in.
  };
  struct Group {
    uint32_t root = 0;
    Form form = Form::kOther;
    double elements = 0;  ///< Of the largest tensor it runs over.
    double row = 0;       ///< Of kRows: elements a row.
    bool concatenates = false;
    bool scattered = false;  ///< Gathers, joins or pads: rows cannot be kept.
    uint32_t operations = 0;
    IdList inputs;
    uint32_t joined = kNoNode;  ///< The group it became part of.
    uint32_t reader = kNoNode;  ///< Of kPrologue: the product.
    uint32_t first = 0;         ///< Of the roots of all that joined it.
    uint32_t last = 0;
  };

  double elements(const FusionNode& node) const {
    double most = 0;
    for (uint32_t v : node.outputs)
      most = std::max(most, static_cast<double>(g_.values[v].type->elements));
    return most;
  }
  double input_elements(const FusionNode& node) const {
    return node.inputs.empty() ? 0 : static_cast<double>(g_.values[node.inputs[0]].type->elements);
  }
  double bytes(uint32_t value) const { return static_cast<double>(g_.values[value].type->bytes); }
  double read_bytes(const FusionNode& node, uint32_t value) const {
    const FusionValue& v = g_.values[value];
    if (v.splat) return 0;
    const double whole = bytes(value);
    if (node.inputs[0] == value) {
      if (node.code == Opcode::k_dynamic_update_slice) return 0;
      if (is_sliced_read(node.code)) return std::min(whole, bytes(node.outputs[0]));
    }
    return whole;
  }
  double work(const FusionNode& node) const {
    switch (op_class(node.code)) {
      case OpClass::kTranscendental:
        return is_of_logistic(node) ? kLogisticWork : kSpecialFunctionWork;
      case OpClass::kVector:
        return node.code == Opcode::k_divide || node.code == Opcode::k_remainder ? 8 : 1;
      default:
        return 0.5;
    }
  }

  uint32_t new_group(uint32_t root, Form form) {
    Group group;
    group.root = group.first = group.last = root;
    group.form = form;
    groups_.push_back(std::move(group));
    return static_cast<uint32_t>(groups_.size() - 1);
  }

  /// Adds `n` to `g`, computed for `times` elements.
  void join(uint32_t n, uint32_t g, double times) {
    FusionNode& node = g_.nodes[n];
    node.groups.push_back(g);
    evaluations_[n].push_back(times);
    Group& group = groups_[g];
    ++group.operations;
    switch (node.code) {
      case Opcode::k_gather:
      case Opcode::k_dynamic_gather:
      case Opcode::k_concatenate:
      case Opcode::k_pad:
      case Opcode::k_reverse:
      case Opcode::k_dynamic_update_slice:
      case Opcode::k_dynamic_slice:
        group.scattered = true;
        break;
      default:
        break;
    }
    group.concatenates |= node.code == Opcode::k_concatenate;
    group.elements =
        std::max(group.elements,
                 node.kind == FusionKind::kReduction ? input_elements(node) : elements(node));
    for (uint32_t v : node.outputs)
      erase_if(group.inputs, [v](uint32_t input) { return input == v; });
    for (uint32_t v : node.inputs)
      if (!g_.values[v].splat && !reads(group, v)) group.inputs.push_back(v);
  }
  static bool reads(const Group& group, uint32_t value) {
    return std::find(group.inputs.begin(), group.inputs.end(), value) != group.inputs.end();
  }

  /// A number or a vector, spread over the other dimensions of a tensor of `of` elements.
  bool is_small_operand(uint32_t value, double of) const {
    const FusionValue& v = g_.values[value];
    if (v.splat) return true;
    if (v.producer == kNoNode) return false;
    const FusionNode& producer = g_.nodes[v.producer];
    if (!is_broadcast(producer.code) || input_elements(producer) * 8 > of) return false;
    int longer = 0;
    for (int64_t d : w_.view(producer.op).operand_type(0).dims) longer += d > 1 ? 1 : 0;
    return longer <= 1;
  }
  /// An elementwise operation on one full tensor: with itself, numbers or a small vector.
  bool is_scaling(const FusionNode& node) const {
    if (node.kind != FusionKind::kFusible || node.outputs.size() != 1 ||
        op_class(node.code) != OpClass::kVector || node.inserted)
      return false;
    int full = 0;
    for (uint32_t v : node.inputs) full += is_small_operand(v, elements(node)) ? 0 : 1;
    return full == 1;
  }

  /// Marks what is computed from reductions along rows alone, one number a row.
  void find_row_statistics() {
    row_of_.assign(g_.nodes.size(), 0);
    if (!rules_.normalizations) return;
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      const FusionNode& node = g_.nodes[n];
      if (node.outputs.size() != 1) continue;
      const double own = elements(node);
      if (node.code == Opcode::k_reduce && node.along_rows && !node.inserted) {
        row_of_[n] = input_elements(node) / std::max(1.0, own);
        continue;
      }
      if (node.kind != FusionKind::kFusible || !is_elementwise(node.code)) continue;
      double row = 0;
      for (uint32_t v : node.inputs) {
        if (g_.values[v].splat) continue;
        const uint32_t producer = g_.values[v].producer;
        const double of = producer == kNoNode ? 0 : row_of_[producer];
        if (of == 0 || (row != 0 && of != row)) {
          row = 0;
          break;
        }
        row = of;
      }
      row_of_[n] = row;
    }
  }

  /// Whether whoever reads `value` will surely compute it: nobody else does, or its own
  /// inputs are no larger than it.
  bool is_inlined(uint32_t value) const {
    const FusionValue& v = g_.values[value];
    if (v.producer == kNoNode || v.returned) return false;
    const FusionNode& node = g_.nodes[v.producer];
    if (node.kind != FusionKind::kFusible || node.outputs.size() != 1 ||
        claimed_[v.producer] != kNoNode)
      return false;
    switch (node.code) {
      case Opcode::k_dynamic_update_slice:
      case Opcode::k_concatenate:
      case Opcode::k_gather:
      case Opcode::k_transpose:
      case Opcode::k_pad:
        return false;
      default:
        break;
    }
    for (uint32_t u : v.users)
      if (!takes_in(g_.nodes[u])) return false;
    if (v.users.size() == 1) return true;
    if (op_class(node.code) == OpClass::kTranscendental) return false;
    double read = 0;
    for (uint32_t leaf : leaves_[v.producer]) read += bytes(leaf);
    if (v.users.size() == 2 && node.code == Opcode::k_add && read <= 2.1 * bytes(value))
      return true;
    return leaves_[v.producer].size() <= 2 && read <= bytes(value);
  }

  /// What a node reads in the end, through what will be computed along with it.
  void find_leaves() {
    leaves_.resize(g_.nodes.size());
    leaf_work_.assign(g_.nodes.size(), 0);
    parts_.assign(g_.nodes.size(), 0);
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      const FusionNode& node = g_.nodes[n];
      if (node.kind != FusionKind::kFusible && node.kind != FusionKind::kReduction) continue;
      auto& leaves = leaves_[n];
      leaf_work_[n] = work(node);
      if (node.inserted && node.code == Opcode::k_reduce)
        parts_[n] = input_elements(node) / std::max(1.0, elements(node));
      const auto add = [&leaves](uint32_t v) {
        if (leaves.size() < kMostLeaves &&
            std::find(leaves.begin(), leaves.end(), v) == leaves.end())
          leaves.push_back(v);
      };
      for (uint32_t v : node.inputs) {
        if (g_.values[v].splat) continue;
        if (!is_inlined(v) || is_sliced_read(node.code))
          add(v);
        else {
          const uint32_t producer = g_.values[v].producer;
          for (uint32_t leaf : leaves_[producer]) add(leaf);
          parts_[n] = std::max(parts_[n], parts_[producer]);
          if (elements(g_.nodes[producer]) == elements(node))
            leaf_work_[n] = std::min(kMostWork, leaf_work_[n] + leaf_work_[producer]);
        }
      }
    }
  }

  /// Scales, biases and the like after a product or convolution run inside its kernel.
  void claim_epilogues() {
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      const bool convolution = g_.nodes[n].code == Opcode::k_convolution;
      if (g_.nodes[n].kind != FusionKind::kProduct && !convolution) continue;
      uint32_t last = n;
      for (int step = 0; step < 2; ++step) {
        if (g_.nodes[last].outputs.size() != 1) break;
        const uint32_t out = g_.nodes[last].outputs[0];
        if (g_.values[out].returned || g_.values[out].users.size() != 1) break;
        const uint32_t u = g_.values[out].users[0];
        const FusionNode& user = g_.nodes[u];
        if (claimed_[u] != kNoNode || user.outputs.size() != 1 ||
            bytes(user.outputs[0]) > bytes(out))
          break;
        if (convolution) {
          // cuDNN adds a bias and a tensor of the result's size, then cuts off below zero.
          if (user.code != Opcode::k_add &&
              (user.code != Opcode::k_maximum || step == 0 || !is_scaling(user)))
            break;
          if (user.code == Opcode::k_add && !adds_early(user, out, n)) break;
        } else if (!is_scaling(user) || user.code == Opcode::k_convert) {
          break;
        }
        claimed_[u] = n;
        last = u;
      }
    }
  }
  /// Whether what `user` adds to `out` is there before node `n` runs.
  bool adds_early(const FusionNode& user, uint32_t out, uint32_t n) const {
    for (uint32_t v : user.inputs) {
      if (v == out || is_small_operand(v, elements(user))) continue;
      const uint32_t producer = g_.values[v].producer;
      if (bytes(v) != bytes(out) || (producer != kNoNode && producer > n)) return false;
    }
    return true;
  }

  /// XLA times generated kernels against the library with what leads up to its operands, and
  /// takes the faster.
  bool runs_in_library(const FusionNode& product) const {
    const ProductShape shape = product_shape(w_, g_, product);
    if (std::min(shape.m, shape.n) < kLibraryProductRows || shape.k < kLibraryProductDepth ||
        fills_device_once(shape, device_))
      return false;
    double moved = 0;
    for (uint32_t v : product.inputs) {
      const uint32_t producer = g_.values[v].producer;
      if (producer != kNoNode && is_prologue(g_.nodes[producer])) moved += 2 * bytes(v);
    }
    const double flops = 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                         static_cast<double>(shape.n) * static_cast<double>(shape.k);
    return moved / bytes_per_second_ < kMostPreparation * flops / flops_per_second_;
  }
  bool feeds_batched_product(const FusionNode& node) const {
    for (uint32_t u : g_.values[node.outputs[0]].users)
      if (g_.nodes[u].kind == FusionKind::kProduct && !g_.nodes[u].inserted &&
          !w_.view(g_.nodes[u].op).integers(Attr::kLhsBatching).empty())
        return true;
    return false;
  }
  /// Whether a product kernel can compute `node` on the way to its operand.
  bool is_prologue(const FusionNode& node) const {
    if (node.kind != FusionKind::kFusible || node.outputs.size() != 1) return false;
    if (node.inserted)
      return node.code == Opcode::k_concatenate ||
             (node.code == Opcode::k_transpose && !feeds_batched_product(node));
    if (node.code == Opcode::k_convert) return bytes(node.inputs[0]) <= bytes(node.outputs[0]);
    return is_scaling(node) && node.inputs.size() > 1 &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](uint32_t v) { return is_computed_vector(v); });
  }
  /// Whether `value` repeats a vector that the kernel would have to compute or cut out first: a
  /// product's kernel loads no such thing.
  bool is_computed_vector(uint32_t value) const {
    const uint32_t repeats = g_.values[value].producer;
    if (repeats == kNoNode || !is_broadcast(g_.nodes[repeats].code) ||
        g_.nodes[repeats].inputs.empty())
      return false;
    const uint32_t maker = g_.values[g_.nodes[repeats].inputs[0]].producer;
    return maker != kNoNode && g_.nodes[maker].kind == FusionKind::kFusible &&
           !g_.values[g_.nodes[repeats].inputs[0]].splat;
  }

  bool takes_in(const FusionNode& user) const {
    return (user.kind == FusionKind::kFusible && rules_.elementwise) ||
           (user.kind == FusionKind::kReduction && rules_.into_reductions);
  }

  /// The buffer that an update in place writes is not computed on the way.
  static bool updates(const FusionNode& user, uint32_t value) {
    return (user.code == Opcode::k_dynamic_update_slice || user.code == Opcode::k_scatter) &&
           user.inputs[0] == value;
  }

  /// Whether a reduction along rows can be computed where its result is spread over them again.
  bool rows_fit(const FusionNode& node, const Group& group) const {
    if (!rules_.normalizations || node.code != Opcode::k_reduce || !node.along_rows ||
        node.outputs.size() != 1 || group.scattered)
      return false;
    const double full = input_elements(node);
    const double row = full / std::max(1.0, elements(node));
    if (group.elements != full || row > kMostRowElements || row < 2 || elements(node) < 2)
      return false;
    if (group.form == Form::kRows) {
      if (group.row != row) return false;
    } else if (group.form == Form::kReduction) {
      const FusionNode& root = g_.nodes[group.root];
      if (!root.along_rows || input_elements(root) / std::max(1.0, elements(root)) != row)
        return false;
    } else if (group.form != Form::kLoop) {
      return false;
    }
    return closes_diamond(node, group);
  }

  /// Whether a reduction takes what the group reads as well, through operations on that one tensor,
  /// and nobody else reads it on the way: XLA's softmax rewriter joins no others.
  bool closes_diamond(const FusionNode& reduce, const Group& group) const {
    const auto g = static_cast<uint32_t>(&group - groups_.data());
    uint32_t value = reduce.inputs[0];
    const FusionNode* reader = &reduce;
    for (int steps = 0; steps < kMostSteps; ++steps) {
      if (g_.values[value].returned) return false;
      for (uint32_t u : g_.values[value].users) {
        const FusionNode& user = g_.nodes[u];
        if (&user != reader &&
            std::find(user.groups.begin(), user.groups.end(), g) == user.groups.end())
          return false;
      }
      if (reads(group, value)) return true;
      const uint32_t producer = g_.values[value].producer;
      if (producer == kNoNode) return false;
      const FusionNode& node = g_.nodes[producer];
      if (node.kind != FusionKind::kFusible || !is_elementwise(node.code)) return false;
      uint32_t full = kNoNode;
      for (uint32_t v : node.inputs) {
        if (is_small_operand(v, elements(node)) || v == full) continue;
        if (full != kNoNode) return false;
        full = v;
      }
      if (full == kNoNode) return false;
      value = full;
      reader = &node;
    }
    return false;
  }

  bool may_join(uint32_t n, const FusionNode& user, const Group& group) const {
    const FusionNode& node = g_.nodes[n];
    if (group.form == Form::kOther || group.inputs.size() > kMostInputs) return false;
    for (uint32_t v : node.outputs)
      if (updates(user, v)) return false;
    if (group.form == Form::kPrologue)
      return is_prologue(node) || is_broadcast(node.code) ||
             (node.code == Opcode::k_slice && user.code == Opcode::k_transpose);
    if (group.form == Form::kProduct) return is_broadcast(node.code) || is_prologue(node);
    if (!takes_in(user)) return false;
    if (node.kind == FusionKind::kReduction) return rows_fit(node, group);
    if (group.form == Form::kRows && parts_[n] * group.row > kMostSplitRow) return false;
    if (node.kind != FusionKind::kFusible) return false;
    // The products of a sum with few results, which was found to need a kernel of its own.
    if (node.inserted && node.code == Opcode::k_multiply) return false;
    switch (node.code) {
      case Opcode::k_dynamic_update_slice:
        return false;
      case Opcode::k_concatenate:
        return group.form == Form::kLoop;
      case Opcode::k_transpose:
        return !node.inserted || (turns_gradient(node) && group.form == Form::kLoop);
      case Opcode::k_gather:
      case Opcode::k_dynamic_gather:
      case Opcode::k_pad:
      case Opcode::k_reverse:
      case Opcode::k_dynamic_slice:
        return group.form != Form::kRows;
      default:
        return true;
    }
  }

  /// Whether an inserted transposition is that of a filter's gradient.
  bool turns_gradient(const FusionNode& node) const {
    const uint32_t producer = g_.values[node.inputs[0]].producer;
    return producer != kNoNode && g_.nodes[producer].code == Opcode::k_convolution &&
           g_.nodes[producer].op == node.op;
  }

  /// How many elements of `node` a kernel computes for one of its users.
  double times_for(uint32_t n, const FusionNode& user, double user_times,
                   const Group& group) const {
    const FusionNode& node = g_.nodes[n];
    const double own = elements(node);
    if (user.code == Opcode::k_dynamic_update_slice) return own;
    if (group.form == Form::kRows && own * group.row <= group.elements * 1.001) return own;
    // Will be: the reduction it comes from can follow.
    if (row_of_[n] > 1 && !group.scattered && own * row_of_[n] == group.elements) return own;
    if (user.kind == FusionKind::kReduction || (user.code == Opcode::k_reduce && user.inserted))
      return own * std::max(1.0, user_times / std::max(1.0, elements(user)));
    if (is_broadcast(user.code)) return user_times;
    return std::max(user_times, is_sliced_read(user.code) ? 0.0 : own);
  }

  void place(uint32_t n) {
    FusionNode& node = g_.nodes[n];
    if (node.kind == FusionKind::kControl) return;
    if (claimed_[n] != kNoNode) {
      // The end of a product: its group, made here if it is the last.
      uint32_t g = kNoNode;
      for (uint32_t u : g_.values[node.outputs[0]].users)
        if (claimed_[u] == claimed_[n]) g = g_.nodes[u].groups[0];
      join(n, g == kNoNode ? new_group(n, Form::kProduct) : g, elements(node));
      return;
    }
    if (node.kind == FusionKind::kProduct || node.kind == FusionKind::kHeavy) {
      uint32_t g = kNoNode;
      for (uint32_t v : node.outputs)
        for (uint32_t u : g_.values[v].users)
          if (claimed_[u] == n) g = g_.nodes[u].groups[0];
      const bool product = node.kind == FusionKind::kProduct && rules_.product_prologues;
      if (g == kNoNode) g = new_group(n, product ? Form::kProduct : Form::kOther);
      if (node.kind == FusionKind::kHeavy) groups_[g].form = Form::kOther;
      join(n, g, elements(node));
      return;
    }
    place_fusible(n);
  }

  void place_fusible(uint32_t n) {
    FusionNode& node = g_.nodes[n];
    IdList consumers;              // groups it may join
    SmallVector<double, 4> times;  // and for how many elements there
    IdList generated;              // products that compute it on the way
    IdList by_library;             // products whose library wants it in memory
    bool stored = false;           // needed in memory whatever is fused
    bool joinable = takes_in(node) && node.code != Opcode::k_dynamic_update_slice;
    const bool prologue = rules_.product_prologues && is_prologue(node);
    bool reads_something = false;
    for (uint32_t v : node.inputs)
      reads_something |= !g_.values[v].splat && !is_broadcast(node.code);
    for (uint32_t v : node.outputs) {
      stored |= g_.values[v].returned;
      for (uint32_t u : g_.values[v].users) {
        const FusionNode& user = g_.nodes[u];
        if (user.kind == FusionKind::kControl) {
          stored = true;
          continue;
        }
        if (user.kind == FusionKind::kProduct) {
          if (prologue)
            (runs_in_library(user) ? by_library : generated).push_back(u);
          else
            stored = true;
          continue;
        }
        if (consumers.size() > kMostCopies && reads_something) {
          joinable = false;
          break;
        }
        for (size_t i = 0; i < user.groups.size(); ++i) {
          const uint32_t g = user.groups[i];
          if (!may_join(n, user, groups_[g])) joinable = false;
          const double t = times_for(n, user, evaluations_[u][i], groups_[g]);
          if (stamp_.size() < groups_.size()) stamp_.resize(groups_.size() + 1024, {kNoNode, 0});
          if (stamp_[g].first != n) {
            stamp_[g] = {n, static_cast<uint32_t>(consumers.size())};
            consumers.push_back(g);
            times.push_back(t);
          } else {
            times[stamp_[g].second] = std::max(times[stamp_[g].second], t);
          }
        }
      }
    }
    if (stored) joinable = false;
    const bool fused =
        joinable && !consumers.empty() && (consumers.size() <= kMostCopies || !reads_something) &&
        (consumers.size() <= 2 || node.code != Opcode::k_concatenate) && pays(n, consumers, times);
    const bool product_user = !generated.empty() || !by_library.empty();
    if (fused) {
      for (size_t i = 0; i < consumers.size(); ++i) {
        if (node.kind == FusionKind::kReduction) make_rows(groups_[consumers[i]], node);
        join(n, consumers[i], times[i]);
      }
    }
    if (prologue && product_user && !stored && (fused || consumers.empty())) {
      for (uint32_t u : generated) join_once(n, g_.nodes[u].groups[0]);
      for (uint32_t u : by_library) {
        const uint32_t g = new_group(n, Form::kPrologue);
        groups_[g].reader = u;
        join(n, g, elements(g_.nodes[u]));
      }
      return;
    }
    if (fused) return;
    const uint32_t g =
        new_group(n, node.kind == FusionKind::kReduction ? Form::kReduction : Form::kLoop);
    join(n, g, elements(node));
  }

  void join_once(uint32_t n, uint32_t g) {
    const auto& groups = g_.nodes[n].groups;
    if (std::find(groups.begin(), groups.end(), g) == groups.end())
      join(n, g, elements(g_.nodes[n]));
  }

  void make_rows(Group& group, const FusionNode& reduction) const {
    group.form = Form::kRows;
    group.row = input_elements(reduction) / std::max(1.0, elements(reduction));
  }

  /// Whether a group reads `value`, or something computed from it on the spot, aside of `but`.
  bool reads_in_the_end(const Group& group, uint32_t value, uint32_t but) const {
    for (uint32_t v : group.inputs) {
      if (v == value) return true;
      if (v == but || !is_inlined(v)) continue;
      const auto& leaves = leaves_[g_.values[v].producer];
      if (std::find(leaves.begin(), leaves.end(), value) != leaves.end()) return true;
    }
    return false;
  }

  /// Whether it is the exponential function of 1 / (1 + exp(−x)), or all of that.
  bool is_of_logistic(const FusionNode& node) const {
    if (node.code == Opcode::k_logistic) return true;
    if (node.code != Opcode::k_exponential) return false;
    const auto& users = g_.values[node.outputs[0]].users;
    return std::all_of(users.begin(), users.end(), [&](uint32_t u) {
      const FusionNode& user = g_.nodes[u];
      return user.code == Opcode::k_add &&
             std::any_of(user.inputs.begin(), user.inputs.end(),
                         [&](uint32_t v) { return g_.values[v].number == 1; });
    });
  }

  /// Whether `value` spreads one number a row over the rows.
  bool spreads_rows(uint32_t value) const {
    const uint32_t producer = g_.values[value].producer;
    return producer != kNoNode && is_broadcast(g_.nodes[producer].code) &&
           !g_.nodes[producer].inputs.empty() && is_row_statistic(g_.nodes[producer].inputs[0]);
  }
  bool is_row_statistic(uint32_t value) const {
    const uint32_t producer = g_.values[value].producer;
    return producer != kNoNode && row_of_[producer] > 1;
  }
  /// Whether `n` is, reads or feeds what a kernel that keeps rows on chip computes.
  bool meets_rows(uint32_t n) const {
    const auto in_rows = [&](const FusionNode& node) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](uint32_t v) { return spreads_rows(v) || is_row_statistic(v); });
    };
    if (row_of_[n] > 1 || in_rows(g_.nodes[n])) return true;
    for (uint32_t v : g_.nodes[n].outputs)
      for (uint32_t u : g_.values[v].users)
        if (row_of_[u] > 1 || in_rows(g_.nodes[u])) return true;
    return false;
  }

  void weigh_by_priority() {
    std::vector<bool> held(g_.nodes.size());
    std::vector<bool> closed(g_.nodes.size());
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      const FusionNode& node = g_.nodes[n];
      closed[n] = claimed_[n] != kNoNode || !takes_in(node);
      const bool prologue = rules_.product_prologues && is_prologue(node);
      for (uint32_t v : node.outputs) {
        held[n] = held[n] || g_.values[v].returned;
        for (uint32_t u : g_.values[v].users) {
          const FusionNode& user = g_.nodes[u];
          if (user.kind == FusionKind::kProduct && prologue) continue;
          held[n] = held[n] || claimed_[u] != kNoNode || !takes_in(user);
        }
      }
    }
    priority_.emplace(w_, device_, g_, held, closed);
  }

  /// Whether computing `n` in each consumer takes less than storing it: XLA's priority
  /// fusion, time = launches + bytes / bandwidth + work / rate.
  bool pays(uint32_t n, std::span<const uint32_t> consumers, std::span<const double> times) const {
    const FusionNode& node = g_.nodes[n];
    if (!rules_.duplicate_cheap && consumers.size() > 1) return false;
    if (priority_ && !meets_rows(n) &&
        std::all_of(consumers.begin(), consumers.end(), [&](uint32_t c) {
          return groups_[c].form == Form::kLoop || groups_[c].form == Form::kReduction;
        }))
      return !priority_->stored(n);
    double written = 0;
    for (uint32_t v : node.outputs) written += bytes(v);
    // Special functions are computed again only where storing them would leave the cache: the
    // slow tanh never, the logistic function always.
    if (consumers.size() > 1 && op_class(node.code) == OpClass::kTranscendental &&
        (written <= cache_bytes_ || node.code == Opcode::k_tanh) && elements(node) > 4096 &&
        !is_of_logistic(node))
      return false;
    // The parts of a split product are added once or twice, no more.
    double all_times = 0;
    for (double t : times) all_times += t;
    if (consumers.size() > 2 && parts_[n] > 0 && all_times > 2 * elements(node)) return false;
    const bool sliced = is_sliced_read(node.code);
    const auto reading = [&](uint32_t v) {
      return read_seconds(sliced ? read_bytes(node, v) : bytes(v));
    };
    double own_reads = 0;
    for (uint32_t v : leaves_[n]) own_reads += reading(v);
    double saved = written / bytes_per_second_ + own_reads;
    // Tensors with three readers and more are stored unless it is clearly slower.
    if (consumers.size() < 3 || own_reads < kLaunchSeconds)
      saved += kLaunchSeconds;
    else
      saved -= kStoringBonus * own_reads;
    double extra_times = -elements(node);
    for (size_t i = 0; i < consumers.size(); ++i) {
      const Group& group = groups_[consumers[i]];
      // Whoever takes a slice reads, and computes, no more than that.
      const double share = std::min(1.0, times[i] / std::max(1.0, elements(node)));
      saved += read_seconds(share * written);
      extra_times += times[i];
      if (node.kind == FusionKind::kReduction) continue;  // its rows are read there already
      for (uint32_t v : leaves_[n])
        if (!reads_in_the_end(group, v, node.outputs[0])) saved -= share * reading(v);
    }
    const double work = node.kind == FusionKind::kReduction ? 0 : leaf_work_[n];
    return saved > std::max(0.0, extra_times) * work / work_per_second_;
  }
  /// Tensors that fit the cache are read faster.
  double read_seconds(double read) const {
    return read / bytes_per_second_ / (read < cache_bytes_ ? kCacheSpeedup : 1);
  }

  // --- several results ------------------------------------------------------

  uint32_t resolve(uint32_t g) const {
    while (groups_[g].joined != kNoNode) g = groups_[g].joined;
    return g;
  }

  bool same_space(const Group& a, const Group& b) const {
    const auto joins = [](Form form) { return form == Form::kLoop || form == Form::kReduction; };
    if (!joins(a.form) || !joins(b.form) || a.elements != b.elements) return false;
    if (b.first > a.last + kFarthest || a.first > b.last + kFarthest) return false;
    const FusionNode& x = g_.nodes[a.root];
    const FusionNode& y = g_.nodes[b.root];
    if (x.code == Opcode::k_dynamic_update_slice || y.code == Opcode::k_dynamic_update_slice ||
        x.code == Opcode::k_scatter || y.code == Opcode::k_scatter ||
        x.code == Opcode::k_concatenate || y.code == Opcode::k_concatenate ||
        x.code == Opcode::k_transpose || y.code == Opcode::k_transpose ||
        (is_sliced_read(x.code) && (a.operations < 2 || x.inserted)) ||
        (is_sliced_read(y.code) && (b.operations < 2 || y.inserted)) ||
        x.code == Opcode::k_reduce_window || y.code == Opcode::k_reduce_window ||
        x.code == Opcode::k_scan || y.code == Opcode::k_scan)
      return false;
    // Reductions only with what is of the type they sum.
    if ((a.form == Form::kReduction || b.form == Form::kReduction) &&
        space_element(x) != space_element(y))
      return false;
    if (a.concatenates || b.concatenates) return false;
    if (a.form == Form::kReduction && b.form == Form::kReduction)
      return elements(x) == elements(y) && x.along_rows == y.along_rows;
    return true;
  }
  /// Of the tensor a kernel runs over: what a reduction takes in, what a loop makes.
  ElementType space_element(const FusionNode& root) const {
    return g_.values[root.kind == FusionKind::kReduction ? root.inputs[0] : root.outputs[0]]
        .type->element;
  }

  /// Whether `to` needs, through other kernels, what `from` makes. Where the search grows long
  /// it is taken to.
  bool leads_to(uint32_t from, uint32_t to) {
    ++search_;
    searched_.resize(groups_.size(), 0);
    IdList open{from};
    searched_[from] = search_;
    for (size_t i = 0; i < open.size(); ++i) {
      if (i > kLongestSearch) return true;
      for (uint32_t n : members_[open[i]])
        for (uint32_t v : g_.nodes[n].outputs) {
          if (!shared_[v]) continue;
          for (uint32_t u : g_.values[v].users) {
            if (g_.nodes[u].kind == FusionKind::kControl) {
              if (u < groups_[to].last) return true;
              continue;
            }
            for (uint32_t g : g_.nodes[u].groups) {
              const uint32_t next = resolve(g);
              if (!reads(groups_[next], v)) continue;  // it has its own copy
              if (next == to) {
                if (open[i] != from) return true;
                continue;
              }
              if (searched_[next] == search_ || groups_[next].first > groups_[to].last) continue;
              searched_[next] = search_;
              open.push_back(next);
            }
          }
        }
    }
    return false;
  }
  bool feeds(uint32_t from, uint32_t to) const {
    for (uint32_t n : members_[from])
      for (uint32_t v : g_.nodes[n].outputs)
        if (reads(groups_[to], v)) return true;
    return false;
  }

  void merge(uint32_t into, uint32_t from) {
    Group& a = groups_[into];
    Group& b = groups_[from];
    b.joined = into;
    a.first = std::min(a.first, b.first);
    a.last = std::max(a.last, b.last);
    a.operations += b.operations;
    if (b.form == Form::kReduction) {
      a.form = Form::kReduction;
      if (g_.nodes[a.root].kind != FusionKind::kReduction) a.root = b.root;
    }
    for (uint32_t v : b.inputs)
      if (!reads(a, v)) a.inputs.push_back(v);
    auto& members = members_[into];
    if (members.size() < members_[from].size()) std::swap(members, members_[from]);
    members.append(members_[from].begin(), members_[from].end());
    members_[from].clear();
    erase_if(a.inputs, [&](uint32_t v) {
      const uint32_t producer = g_.values[v].producer;
      if (producer == kNoNode) return false;
      for (uint32_t g : g_.nodes[producer].groups)
        if (resolve(g) == into) return true;
      return false;
    });
  }

  IdList readers_of(uint32_t value) const {
    IdList readers;
    for (uint32_t u : g_.values[value].users)
      for (uint32_t g : g_.nodes[u].groups) {
        const uint32_t real = resolve(g);
        if (is_sliced_read(g_.nodes[u].code)) continue;  // different parts: nothing is shared
        if (reads(groups_[real], value) &&
            std::find(readers.begin(), readers.end(), real) == readers.end())
          readers.push_back(real);
      }
    std::sort(readers.begin(), readers.end(),
              [&](uint32_t a, uint32_t b) { return groups_[a].root < groups_[b].root; });
    return readers;
  }

  /// Kernels that read the same tensor over the same elements become one with several
  /// results, as does one with what it makes (XLA's multi-output fusion). Uses before
  /// definitions.
  void join_siblings() {
    members_.resize(groups_.size());
    shared_.assign(g_.values.size(), false);
    for (const Group& group : groups_)
      for (uint32_t v : group.inputs) shared_[v] = true;
    for (const FusionNode& node : g_.nodes)
      if (node.kind == FusionKind::kControl)
        for (uint32_t v : node.inputs) shared_[v] = true;
    for (uint32_t n = 0; n < g_.nodes.size(); ++n)
      for (uint32_t g : g_.nodes[n].groups) members_[g].push_back(n);
    std::vector<uint32_t> values;
    for (uint32_t v = 0; v < g_.values.size(); ++v) {
      const FusionValue& value = g_.values[v];
      if (!value.splat && !value.users.empty() && value.users.size() <= kMostCopies &&
          static_cast<double>(value.type->elements) >= kLeastSharedElements)
        values.push_back(v);
    }
    // Arguments come before all nodes.
    const auto place = [&](uint32_t v) { return g_.values[v].producer + 1; };
    std::stable_sort(values.begin(), values.end(),
                     [&](uint32_t a, uint32_t b) { return place(a) > place(b); });
    for (uint32_t v : values) {
      const IdList readers = readers_of(v);
      for (size_t i = 0; i < readers.size(); ++i) {
        if (groups_[readers[i]].joined != kNoNode) continue;
        for (size_t j = i + 1; j < readers.size(); ++j) {
          const uint32_t a = readers[i], b = readers[j];
          if (groups_[b].joined != kNoNode || !same_space(groups_[a], groups_[b]) || feeds(a, b) ||
              feeds(b, a) || leads_to(a, b) || leads_to(b, a))
            continue;
          merge(a, b);
        }
      }
      // What makes it takes in a reader of the same elements.
      if (g_.values[v].producer == kNoNode) continue;
      const FusionNode& producer = g_.nodes[g_.values[v].producer];
      if (producer.kind != FusionKind::kFusible || producer.groups.size() != 1 ||
          (producer.inserted && producer.code == Opcode::k_multiply))
        continue;
      const uint32_t maker = resolve(producer.groups[0]);
      for (uint32_t reader : readers) {
        if (groups_[reader].joined != kNoNode || reader == maker ||
            !same_space(groups_[maker], groups_[reader]) || leads_to(maker, reader) ||
            (priority_ && !priority_->pays_to_return(groups_[maker].root, groups_[reader].root)))
          continue;
        merge(maker, reader);
        break;
      }
    }
  }

  std::vector<FusionGroup> finish() {
    std::vector<uint32_t> order;
    for (uint32_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].joined == kNoNode && groups_[g].operations > 0) order.push_back(g);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return groups_[a].last != groups_[b].last ? groups_[a].last < groups_[b].last : a > b;
    });
    std::vector<uint32_t> place(groups_.size(), kNoNode);
    std::vector<FusionGroup> found(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      found[i].root = found[i].hero = groups_[order[i]].root;
      found[i].reader = groups_[order[i]].reader;
    }
    for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
      auto& groups = g_.nodes[n].groups;
      for (uint32_t& g : groups) g = place[resolve(g)];
      std::sort(groups.begin(), groups.end());
      groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
      for (uint32_t g : groups) {
        FusionGroup& group = found[g];
        group.nodes.push_back(n);
        const FusionKind kind = g_.nodes[n].kind;
        if (kind == FusionKind::kProduct || kind == FusionKind::kHeavy ||
            (kind == FusionKind::kReduction && g_.nodes[group.hero].kind == FusionKind::kFusible))
          group.hero = n;
      }
    }
    return found;
  }

  const Workload& w_;
  const Device& device_;
  const FusionRules& rules_;
  FusionGraph& g_;
  double bytes_per_second_ = 1;
  double work_per_second_ = 1;
  double flops_per_second_ = 1;
  double cache_bytes_ = 0;
  std::vector<Group> groups_;
  std::vector<IdList> members_;     ///< Nodes of each group.
  std::vector<bool> shared_;        ///< Values that some kernel reads from memory.
  std::vector<uint32_t> searched_;  ///< By group: the last search that met it.
  uint32_t search_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> stamp_;  ///< By group: the last node to meet it.
  std::vector<double> row_of_;     ///< Elements a row where a node is one number a row, else 0.
  std::vector<IdList> leaves_;     ///< What each node reads in the end …
  std::vector<double> parts_;      ///< … parts of a product it adds …
  std::vector<double> leaf_work_;  ///< … and the work on the way, an element.
  std::optional<PriorityFusion> priority_;
  std::vector<uint32_t> claimed_;                    ///< The product a node is the end of.
  std::vector<SmallVector<double, 2>> evaluations_;  ///< By node, as its groups.
};

}  // namespace

std::vector<FusionGroup> fuse(const Workload& workload, const Device& device,
                              const FusionRules& rules, FusionGraph& graph) {
  return Fuser(workload, device, rules, graph).run();
}

}  // namespace orrery
