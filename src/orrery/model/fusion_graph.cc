#include "orrery/model/fusion_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <ranges>
#include <unordered_set>

#include "orrery/kernel/describe.h"
#include "orrery/model/fusion_passes.h"
#include "orrery/model/library_launches.h"
#include "orrery/workload/cost.h"

namespace orrery {
namespace {

constexpr size_t kMostSmallOperations = 64;
constexpr size_t kDeepestSmallCalls = 16;
/// Constants up to this size live in the kernels' code or cache.
constexpr int64_t kLargeConstantBytes = 4096;

/// Logical dimensions in the order they lie in memory, slowest first. Empty: row-major, as are
/// all tensors of more dimensions than kMostOrdered.
using Order = SmallVector<uint8_t, 16>;
constexpr int kMostOrdered = 64;

/// A value as an operation sees it, through views.
struct Seen {
  uint32_t value = kNoNode;
  Order order;
  bool reversed = false;  ///< Mirrored along some dimensions: what a library's gradient undoes.
  bool flexible = false;  ///< A broadcast: takes whatever order its neighbours have.
  bool mixed = false;     ///< Computed from tensors that lie in different orders.
};

Order whole_order(const Order& order, size_t rank) {
  if (!order.empty()) return order;
  Order all(rank);
  std::iota(all.begin(), all.end(), uint8_t{0});
  return all;
}

/// Empty when dimensions longer than one lie row-major.
Order normal(Order order, const std::vector<int64_t>& dims) {
  int last = -1;
  for (uint8_t d : order) {
    if (dims[d] == 1) continue;
    if (d < last) return order;
    last = d;
  }
  return {};
}

/// The dimension longer than one along which neighbours lie side by side; -1: there is none.
int innermost(const Order& order, const Type& type) {
  for (size_t i = type.dims.size(); i-- > 0;) {
    const int d = order.empty() ? static_cast<int>(i) : order[i];
    if (type.dims[static_cast<size_t>(d)] > 1) return d;
  }
  return -1;
}

Order transposed(const Order& order, std::span<const int64_t> permutation,
                 const std::vector<int64_t>& result_dims) {
  const size_t rank = result_dims.size();
  if (permutation.size() != rank || rank > kMostOrdered) return {};
  std::vector<uint8_t> result_of(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (permutation[i] < 0 || static_cast<size_t>(permutation[i]) >= rank) return {};
    result_of[static_cast<size_t>(permutation[i])] = static_cast<uint8_t>(i);
  }
  Order found = whole_order(order, rank);
  for (uint8_t& d : found) d = result_of[d];
  return normal(std::move(found), result_dims);
}

/// The order of `to` when the elements of `from` keep their places; false where no order says it.
bool reshaped(const Order& order, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
              Order* found) {
  found->clear();
  if (order.empty()) return true;
  if (to.size() > kMostOrdered) return false;
  // Which runs of `from` make up which runs of `to`; those of size one go anywhere.
  std::vector<std::pair<std::vector<uint8_t>, std::vector<uint8_t>>> runs;
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    if (i < from.size() && from[i] == 1) {
      ++i;
      continue;
    }
    if (j < to.size() && to[j] == 1) {
      ++j;
      continue;
    }
    if (i >= from.size() || j >= to.size()) return false;
    runs.emplace_back();
    auto& [sources, targets] = runs.back();
    int64_t a = from[i], b = to[j];
    sources.push_back(static_cast<uint8_t>(i++));
    targets.push_back(static_cast<uint8_t>(j++));
    while (a != b) {
      if (a < b) {
        if (i >= from.size()) return false;
        a = joined(a, from[i]);
        if (from[i] != 1) sources.push_back(static_cast<uint8_t>(i));
        ++i;
      } else {
        if (j >= to.size()) return false;
        b = joined(b, to[j]);
        if (to[j] != 1) targets.push_back(static_cast<uint8_t>(j));
        ++j;
      }
    }
  }
  for (size_t p = 0; p < order.size();) {
    if (from[order[p]] == 1) {
      ++p;
      continue;
    }
    const auto run = std::find_if(runs.begin(), runs.end(),
                                  [&](const auto& r) { return r.first.front() == order[p]; });
    if (run == runs.end()) return false;
    for (uint8_t source : run->first) {
      while (p < order.size() && from[order[p]] == 1) ++p;
      if (p >= order.size() || order[p] != source) return false;
      ++p;
    }
    found->append(run->second.begin(), run->second.end());
  }
  for (size_t d = 0; d < to.size(); ++d)
    if (to[d] == 1) found->push_back(static_cast<uint8_t>(d));
  *found = normal(std::move(*found), to);
  return true;
}

Order reduced(const Order& order, const Type& from, std::span<const int64_t> dims) {
  if (order.empty()) return {};
  std::vector<int> kept(from.dims.size());
  int next = 0;
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < kept.size(); ++d) {
    const bool gone = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    kept[d] = gone ? -1 : next++;
    if (!gone) sizes.push_back(from.dims[d]);
  }
  Order found;
  for (uint8_t d : order)
    if (kept[d] >= 0) found.push_back(static_cast<uint8_t>(kept[d]));
  return normal(std::move(found), sizes);
}

/// Whether the reduced dimensions are the innermost in memory.
bool reduces_rows(const Order& order, const Type& from, std::span<const int64_t> dims) {
  if (from.rank() > kMostOrdered) return false;
  bool seen_kept = false;
  bool seen_reduced = false;
  const Order all = whole_order(order, from.dims.size());
  for (size_t i = all.size(); i-- > 0;) {
    if (from.dims[all[i]] == 1) continue;
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(all[i])) == dims.end())
      seen_kept = true;
    else if (seen_kept)
      return false;
    else
      seen_reduced = true;
  }
  return seen_reduced;
}

RowShape rows_as_they_lie(const Order& order, const OpView& reduce) {
  const Type& type = reduce.operand_type(0);
  const auto reduced = reduce.integers(Attr::kDimensions);
  std::vector<int64_t> dims, places;
  for (uint8_t d : order) {
    if (std::find(reduced.begin(), reduced.end(), d) != reduced.end())
      places.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(type.dims[d]);
  }
  return row_shape(dims, places);
}

/// Whether a product can read an operand as it lies: batch, kept and summed dimensions each
/// side by side and in order, the batch not innermost.
bool is_product_operand(const Order& order, const Type& type, std::span<const int64_t> batching,
                        std::span<const int64_t> contracting) {
  enum Part { kBatch, kKept, kSummed };
  const auto part = [&](uint8_t d) {
    if (std::find(batching.begin(), batching.end(), d) != batching.end()) return kBatch;
    return std::find(contracting.begin(), contracting.end(), d) != contracting.end() ? kSummed
                                                                                     : kKept;
  };
  bool closed[3] = {};
  int last_dim[3] = {-1, -1, -1};
  int current = -1;
  for (uint8_t d : whole_order(order, type.dims.size())) {
    if (type.dims[d] == 1) continue;
    const Part p = part(d);
    if (current != p) {
      if (current >= 0) closed[current] = true;
      if (closed[p]) return false;
      current = p;
    }
    if (static_cast<int>(d) < last_dim[p]) return false;
    last_dim[p] = d;
  }
  return current != kBatch;
}

/// Values of one function activation to values of the graph. References stay valid.
class Scope {
 public:
  Scope(const Workload& w, const Region& region) {
    uint32_t end = region.first_argument + region.argument_count;
    first_ = region.argument_count > 0 ? region.first_argument : UINT32_MAX;
    size_t count = region.argument_count;
    for_each_op(w, region, [&](OpId id) {
      const Op& op = w.op(id);
      if (op.result_count == 0) return;
      first_ = std::min(first_, op.first_result);
      end = std::max(end, op.first_result + op.result_count);
      count += op.result_count;
    });
    // Values of a region lie side by side, but for those of regions inside it.
    if (count > 0 && end - first_ <= kMostGaps * count) inside_.resize(end - first_);
  }
  Seen& operator[](ValueId value) {
    const uint32_t place = value.index - first_;  // of one before the first: beyond all
    return place < inside_.size() ? inside_[place] : outside_[value.index];
  }

 private:
  static constexpr size_t kMostGaps = 4;
  uint32_t first_ = 0;
  std::vector<Seen> inside_;
  std::unordered_map<uint32_t, Seen> outside_;  ///< Of regions around this one.
};

bool contains(const Workload& w, const Region& region, Opcode code) {
  bool found = false;
  for_each_op(w, region, [&](OpId id) { found |= w.op(id).code == code; });
  return found;
}

class Builder {
 public:
  Builder(const Workload& workload, const FusionRules& rules, const SmallFunctions& small,
          const LibraryLaunches* library)
      : w_(workload), rules_(rules), small_(small), library_(library) {}

  FusionGraph run(RegionId region) {
    const Function& entry = w_.function(w_.entry());
    const Region& body = w_.region(region);
    Scope scope(w_, body);
    known_.reserve(body.end_op - body.first_op);
    for (uint32_t i = 0; i < body.argument_count; ++i) {
      g_.arguments.push_back(local(ValueId{body.first_argument + i}, scope).value);
      if (rules_.arguments_are_immutable && region == entry.body)
        g_.values[g_.arguments.back()].borrowed = !entry.arguments[i].donated;
    }
    add_region(w_.region(region), scope, nullptr);
    if (region == entry.body)
      for (uint32_t i = 0; i < entry.arguments.size() && i < g_.arguments.size(); ++i) {
        const int32_t result = entry.arguments[i].aliased_output;
        if (result >= 0 && static_cast<size_t>(result) < g_.results.size())
          g_.values[g_.results[static_cast<size_t>(result)]].replaced = g_.arguments[i];
      }
    return std::move(g_);
  }

 private:
  Seen& local(ValueId value, Scope& scope) {
    Seen& seen = scope[value];
    if (seen.value == kNoNode) seen.value = g_.add_value(&w_.type(value));
    return seen;
  }

  bool is_view(const OpView& op) const {
    if (op.operand_count() == 0) return false;
    if (is_librarys(op)) return library_->of(op.id()).empty();
    if (op_class(op.code()) == OpClass::kView) return true;
    if (op.code() == Opcode::k_reduce && rules_.simplify && op.result_count() == 1)
      return op.operand_type(0).elements == op.result_type(0).elements;
    if (op.code() == Opcode::k_broadcast_in_dim || op.code() == Opcode::k_broadcast) {
      return rules_.broadcasts_are_views ||
             op.operand_type(0).elements == op.result_type(0).elements;
    }
    if (op.code() == Opcode::k_convert || op.code() == Opcode::k_dynamic_reshape)
      return cost(w_, op.id()).bytes() == 0;
    if (op.code() == Opcode::k_transpose) return rules_.layouts || cost(w_, op.id()).bytes() == 0;
    return op.code() == Opcode::k_async_done;
  }

  bool is_librarys(const OpView& op) const {
    return library_ != nullptr && op_class(op.code()) != OpClass::kControl &&
           library_->decides(op.id());
  }

  FusionKind classify(const OpView& op) const {
    if (is_librarys(op)) return FusionKind::kHeavy;
    switch (op_class(op.code())) {
      case OpClass::kVector:
      case OpClass::kTranscendental:
        return FusionKind::kFusible;
      case OpClass::kGenerate:
        return op.code() == Opcode::k_iota ? FusionKind::kFusible : FusionKind::kHeavy;
      case OpClass::kMove:
        return op.code() == Opcode::k_copy ? FusionKind::kHeavy : FusionKind::kFusible;
      case OpClass::kIndexed:
        if (op.code() == Opcode::k_scatter) return FusionKind::kReduction;
        return op.code() == Opcode::k_resize ? FusionKind::kHeavy : FusionKind::kFusible;
      case OpClass::kReduction:
        // Statistics are given: a scale and a shift, which XLA writes out and fuses.
        if (op.code() == Opcode::k_batch_norm_inference) return FusionKind::kFusible;
        // XLA writes a scan as windows of sixteen, the sums of which the next kernel adds up.
        return op.code() == Opcode::k_reduce || op.code() == Opcode::k_reduce_window ||
                       op.code() == Opcode::k_scan
                   ? FusionKind::kReduction
                   : FusionKind::kHeavy;
      case OpClass::kContraction:
        return op.code() == Opcode::k_dot_general ? FusionKind::kProduct : FusionKind::kHeavy;
      case OpClass::kControl:
        return op.code() == Opcode::k_fusion ? FusionKind::kHeavy : FusionKind::kControl;
      default:
        return FusionKind::kHeavy;
    }
  }

  void add_constant(const OpView& op, Scope& scope) {
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      const bool splat = op.has(Attr::kRealValue) || op.integers(Attr::kValue).size() == 1;
      if (splat && rules_.simplify) {
        const double number = op.has(Attr::kRealValue)
                                  ? op.real(Attr::kRealValue, 0)
                                  : static_cast<double>(op.integers(Attr::kValue)[0]);
        scope[op.result(i)] = {
            .value = number_value(op.result_type(i), number), .order = {}, .flexible = true};
        continue;
      }
      const uint32_t v = g_.add_value(&op.result_type(i));
      g_.values[v].constant = true;
      g_.values[v].splat = splat;
      if (op.result_type(i).bytes > kLargeConstantBytes && !g_.values[v].splat)
        g_.constant_bytes += static_cast<double>(op.result_type(i).bytes);
      scope[op.result(i)] = {.value = v, .order = {}, .flexible = true};
    }
  }

  /// Numbers known beforehand stay one number through elementwise work and moves.
  bool folds(const OpView& op, Scope& scope) {
    if (!rules_.simplify || op.operand_count() == 0 || op.result_count() != 1) return false;
    const OpClass c = op_class(op.code());
    if (c != OpClass::kVector && c != OpClass::kTranscendental && op.code() != Opcode::k_slice &&
        op.code() != Opcode::k_broadcast_in_dim && op.code() != Opcode::k_transpose &&
        op.code() != Opcode::k_reshape)
      return false;
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      if (!g_.values[local(op.operand(i), scope).value].splat) return false;
    see_operands(op, scope);
    Seen& seen = scope[op.result(0)];
    seen.flexible = true;
    const double number = g_.values[operands_[0].value].number;
    if (c != OpClass::kVector && c != OpClass::kTranscendental && !std::isnan(number)) {
      seen.value = number_value(op.result_type(0), number);
      return true;
    }
    Key key{};
    key_of(op, operands_, &key);
    const auto [at, added] = known_.try_emplace(std::move(key));
    if (added) {
      at->second.value = g_.add_value(&op.result_type(0));
      at->second.flexible = true;
      g_.values[at->second.value].constant = g_.values[at->second.value].splat = true;
    }
    seen = at->second;
    return true;
  }

  /// A tensor of one number, once for each type.
  uint32_t number_value(const Type& type, double number) {
    const auto [at, added] = numbers_.try_emplace({&type, std::bit_cast<uint64_t>(number)});
    if (added) {
      at->second = g_.add_value(&type);
      FusionValue& value = g_.values[at->second];
      value.constant = value.splat = true;
      value.number = number;
    }
    return at->second;
  }

  /// x + 0, x · 1 and the larger of x and −∞ are x.
  bool is_identity(const OpView& op, Scope& scope) {
    if (!rules_.simplify || op.operand_count() != 2) return false;
    double neutral = 0;
    if (op.code() == Opcode::k_multiply)
      neutral = 1;
    else if (op.code() == Opcode::k_maximum)
      neutral = -std::numeric_limits<double>::infinity();
    else if (op.code() != Opcode::k_add)
      return false;
    for (uint32_t i : {0u, 1u}) {
      if (g_.values[local(op.operand(i), scope).value].number != neutral) continue;
      Seen seen = local(op.operand(1 - i), scope);
      scope[op.result(0)] = std::move(seen);
      return true;
    }
    return false;
  }

  uint64_t next_position() { return position_ += kPositionStep; }

  /// `seen`, written anew with its dimensions in the order `target`. Once for each value.
  Seen rearranged(const Seen& seen, const Type& type, const Order& target, OpId op) {
    const auto [at, added] = rearranged_.try_emplace({seen.value, target});
    if (added && updated_.count(seen.value) > 0) {
      at->second = rearranged_update(seen, type, target, op);
    } else if (added) {
      at->second = g_.add_value(g_.add_type(*g_.values[seen.value].type, type.dims, type.element));
      FusionNode& node =
          g_.insert(next_position(), op, Opcode::k_transpose, FusionKind::kFusible, at->second);
      node.inputs.push_back(seen.value);
      node.shape = static_cast<int32_t>(g_.shapes.size());
      const auto wide = [&](const Order& order) {
        const Order all = whole_order(order, type.dims.size());
        return std::vector<int64_t>(all.begin(), all.end());
      };
      g_.shapes.emplace_back(move_shape(type.dims, wide(seen.order), wide(target)));
    }
    return {.value = at->second, .order = normal(target, type.dims)};
  }

  /// Of an argument updated in place: it is rearranged, copied and updated in its new order.
  uint32_t rearranged_update(const Seen& seen, const Type& type, const Order& target, OpId op) {
    const uint32_t updating = updated_[seen.value];
    const FusionNode update = g_.nodes[updating];
    Seen before = seen;
    before.value = update.inputs[0];
    const uint32_t moved = rearranged(before, type, target, op).value;
    const Type* whole = g_.values[moved].type;
    const uint32_t copied = g_.add_value(whole);
    g_.insert(next_position(), op, Opcode::k_copy, FusionKind::kHeavy, copied).inputs = {moved};
    const uint32_t result = g_.add_value(whole);
    FusionNode& node = g_.insert(next_position(), op, Opcode::k_dynamic_update_slice,
                                 FusionKind::kFusible, result);
    node.inputs = update.inputs;
    node.inputs[0] = copied;
    // What the file calls the updated argument is put back into its order.
    FusionNode& original = g_.nodes[updating];
    original.code = Opcode::k_transpose;
    original.inserted = true;
    original.inputs[0] = moved;
    original.position = next_position();
    return result;
  }

  /// A constant of one number, written to memory for what updates it.
  uint32_t filled(uint32_t constant, OpId op) {
    const uint32_t value = g_.add_value(g_.values[constant].type);
    g_.insert(next_position(), op, Opcode::k_broadcast, FusionKind::kFusible, value).inputs = {
        constant};
    return value;
  }

  /// Products read an operand whose batch, kept and summed dimensions lie side by side; any other
  /// is written anew, the second one with the summed dimension outside.
  Seen product_operand(const OpView& op, uint32_t operand, const Seen& seen) {
    const auto batching = op.integers(operand == 0 ? Attr::kLhsBatching : Attr::kRhsBatching);
    const auto contracting =
        op.integers(operand == 0 ? Attr::kLhsContracting : Attr::kRhsContracting);
    const Type& type = op.operand_type(operand);
    if (type.rank() > kMostOrdered || is_product_operand(seen.order, type, batching, contracting) ||
        by_library_.count(seen.value) > 0)
      return seen;
    Order target(batching.begin(), batching.end());
    const auto append = [&](bool summed) {
      for (int64_t d = 0; d < type.rank(); ++d) {
        if (std::find(batching.begin(), batching.end(), d) != batching.end()) continue;
        const bool is = std::find(contracting.begin(), contracting.end(), d) != contracting.end();
        if (is == summed) target.push_back(static_cast<uint8_t>(d));
      }
    };
    append(operand == 1);
    append(operand == 0);
    // Written once, whichever product reads it: the gradients read what the forward pass made.
    for (auto at = rearranged_.lower_bound({seen.value, {}});
         at != rearranged_.end() && at->first.first == seen.value; ++at) {
      const Order& order = at->first.second;
      if (order.size() == type.dims.size() &&
          is_product_operand(order, type, batching, contracting))
        return {.value = at->second, .order = normal(order, type.dims)};
    }
    return rearranged(seen, type, target, op.id());
  }

  /// XLA writes the operands of a batched product with the summed dimension outside; what the
  /// library multiplies it turns once more.
  bool library_turns(const OpView& op, const FusionNode& node) const {
    const ProductShape shape = product_shape(w_, g_, node);
    return !op.integers(Attr::kLhsBatching).empty() &&
           std::min(shape.m, shape.n) >= kLibraryProductRows &&
           op.result_type(0).element == op.operand_type(0).element;
  }
  Seen turned(const Seen& seen, const OpView& op) {
    const Type* type = g_.values[seen.value].type;
    const uint32_t value = g_.add_value(type);
    g_.insert(next_position(), op.id(), Opcode::k_transpose, FusionKind::kFusible, value).inputs = {
        seen.value};
    return {.value = value, .order = seen.order};
  }

  /// A filter's gradient sums over the images: their batch stands where features do.
  static bool is_filter_gradient(const OpView& op) {
    return op.integer(Attr::kInputFeature, 1) == 0 && op.integer(Attr::kInputBatch, 0) != 0;
  }

  /// cuDNN reads images with features innermost and filters as [out, window, in].
  Seen convolution_operand(const OpView& op, uint32_t operand, const Seen& seen) {
    if (is_filter_gradient(op)) {
      // What its convolution read: images padded beforehand, but not where it padded none.
      const auto low = op.integers(Attr::kPaddingLow), high = op.integers(Attr::kPaddingHigh);
      const auto adds = [](int64_t d) { return d > 0; };
      if (std::none_of(low.begin(), low.end(), adds) &&
          std::none_of(high.begin(), high.end(), adds))
        return seen;
      const auto found = padded_.find(seen.value);
      if (found == padded_.end()) return seen;
      const auto alike = std::find(found->second.begin(), found->second.end(), Padding(op));
      return {.value = alike == found->second.end() ? found->second.front().value : alike->value,
              .order = {}};
    }
    const Type& type = op.operand_type(operand);
    if (type.rank() > kMostOrdered) return seen;
    Order target;
    const auto spatial = op.integers(operand == 0 ? Attr::kInputSpatial : Attr::kKernelSpatial);
    auto first =
        static_cast<uint8_t>(op.integer(operand == 0 ? Attr::kInputBatch : Attr::kKernelOutput, 0));
    auto last = static_cast<uint8_t>(
        op.integer(operand == 0 ? Attr::kInputFeature : Attr::kKernelInput, 1));
    if (operand == 1 && seen.reversed) std::swap(first, last);
    target.push_back(first);
    for (int64_t d : spatial) target.push_back(static_cast<uint8_t>(d));
    target.push_back(last);
    if (target.size() != type.dims.size()) return seen;
    for (uint8_t d : target)
      if (d >= type.dims.size()) return seen;
    Seen found = seen;
    const auto place = [&](const Order& order) {
      Order longer;
      for (uint8_t d : whole_order(order, type.dims.size()))
        if (type.dims[d] > 1) longer.push_back(d);
      return longer;
    };
    if (place(seen.order) != place(target)) found = rearranged(seen, type, target, op.id());
    if (operand == 0) found = padded(op, found);
    return found;
  }

  /// XLA runs the gradient of a grouped convolution's input as a convolution over what the stride
  /// spreads out, written to memory (conv_rewriter.cc of openxla/xla takes no groups there).
  static bool spreads_images(const OpView& op) {
    const auto spread = op.integers(Attr::kBaseDilation);
    return op.integer(Attr::kFeatureGroups, 1) > 1 &&
           std::any_of(spread.begin(), spread.end(), [](int64_t d) { return d > 1; });
  }

  /// How images were padded, and what came of it.
  struct Padding {
    explicit Padding(const OpView& op) : dims(padded_dims(op)) {
      const auto before = op.integers(Attr::kPaddingLow);
      low.assign(before.begin(), before.end());
    }
    bool operator==(const Padding& other) const { return dims == other.dims && low == other.low; }
    std::vector<int64_t> dims, low;
    uint32_t value = 0;
  };

  /// Sizes of a convolution's images with its padding, spread out where that is done before it.
  static std::vector<int64_t> padded_dims(const OpView& op) {
    const auto low = op.integers(Attr::kPaddingLow), high = op.integers(Attr::kPaddingHigh);
    const auto spatial = op.integers(Attr::kInputSpatial);
    const auto dilation = op.integers(Attr::kBaseDilation);
    std::vector<int64_t> dims = op.operand_type(0).dims;
    for (size_t i = 0; i < spatial.size() && i < low.size() && i < high.size(); ++i) {
      int64_t& size = dims[static_cast<size_t>(spatial[i])];
      if (spreads_images(op) && i < dilation.size())
        size = joined(std::max<int64_t>(0, size - 1), dilation[i]) + 1;
      size += std::max<int64_t>(0, low[i]) + std::max<int64_t>(0, high[i]);
    }
    return dims;
  }

  /// cuDNN pads both sides alike; more on one side is padded before it.
  Seen padded(const OpView& op, const Seen& seen) {
    const auto low = op.integers(Attr::kPaddingLow), high = op.integers(Attr::kPaddingHigh);
    const bool spreads = spreads_images(op);
    for (int64_t d : op.integers(Attr::kBaseDilation))
      if (d > 1 && !spreads) return seen;  // the gradient of a stride: the library's own
    if (!spreads && std::equal(low.begin(), low.end(), high.begin(), high.end())) return seen;
    std::vector<Padding>& known = padded_[seen.value];
    Padding wanted(op);
    const auto alike = std::find(known.begin(), known.end(), wanted);
    if (alike != known.end()) return {.value = alike->value, .order = {}};
    const Type& type = op.operand_type(0);
    wanted.value = g_.add_value(g_.add_type(type, wanted.dims, type.element));
    known.push_back(wanted);
    FusionNode& node =
        g_.insert(next_position(), op.id(), Opcode::k_pad, FusionKind::kFusible, wanted.value);
    node.inputs.push_back(seen.value);
    return {.value = wanted.value, .order = {}};
  }

  /// The shape of a convolution whose images were padded before it; false where they were not.
  bool padded_shape(const OpView& op, const Seen& images, ConvolutionShape* found) const {
    const auto spatial = op.integers(Attr::kInputSpatial);
    const std::vector<int64_t>& dims = g_.values[images.value].type->dims;
    const std::vector<int64_t>& stated = op.operand_type(0).dims;
    if (spatial.size() != 2 || dims.size() != stated.size()) return false;
    const auto height = static_cast<size_t>(spatial[0]), width = static_cast<size_t>(spatial[1]);
    if (dims[height] <= stated[height] && dims[width] <= stated[width]) return false;
    const Kernel kernel = kernel_of(w_, op.id());
    const auto* shape = std::get_if<ConvolutionShape>(&kernel.shape);
    if (shape == nullptr) return false;
    *found = *shape;
    if (shape->computes == ConvolutionShape::Computes::kInputGradient) {
      // Its sizes are those of the convolution it is the gradient of; here it runs forwards.
      found->computes = ConvolutionShape::Computes::kOutput;
      std::swap(found->channels, found->features);
      found->out_height = shape->height;
      found->out_width = shape->width;
      found->stride = 1;
    }
    found->height = dims[height];
    found->width = dims[width];
    return true;
  }

  Order result_order(const OpView& op, const std::vector<Seen>& operands) {
    if (!rules_.layouts || operands.empty() || op.result_count() == 0) return {};
    const Type& result = op.result_type(0);
    if (result.rank() > kMostOrdered) return {};
    switch (op.code()) {
      case Opcode::k_reduce:
        return reduced(operands[0].order, op.operand_type(0), op.integers(Attr::kDimensions));
      case Opcode::k_slice:
      case Opcode::k_pad:
      case Opcode::k_dynamic_slice:
      case Opcode::k_dynamic_update_slice:
      case Opcode::k_reverse:
      case Opcode::k_concatenate:
        return operands[0].order.size() == result.dims.size()
                   ? normal(operands[0].order, result.dims)
                   : Order{};
      case Opcode::k_convolution: {
        if (!is_filter_gradient(op)) return {};
        // Written as a filter is read; which of its dimensions that is, the image's batch tells.
        Order order{static_cast<uint8_t>(op.integer(Attr::kOutputFeature, 0))};
        for (int64_t d : op.integers(Attr::kOutputSpatial))
          order.push_back(static_cast<uint8_t>(d));
        order.push_back(static_cast<uint8_t>(op.integer(Attr::kOutputBatch, 0)));
        return order.size() == result.dims.size() ? normal(order, result.dims) : Order{};
      }
      default:
        break;
    }
    if (!is_elementwise(op.code())) return {};
    for (uint32_t i = 0; i < operands.size(); ++i)
      if (!operands[i].flexible && op.operand_type(i).dims == result.dims) return operands[i].order;
    return {};
  }

  static bool is_mixed(const OpView& op, const std::vector<Seen>& operands) {
    const Seen* first = nullptr;
    for (uint32_t i = 0; i < operands.size(); ++i) {
      if (operands[i].mixed) return true;
      if (operands[i].flexible || op.operand_type(i).dims != op.result_type(0).dims) continue;
      // Rows that lie elsewhere are read as well; rows that run elsewhere are not.
      if (first == nullptr)
        first = &operands[i];
      else if (innermost(operands[i].order, op.operand_type(i)) !=
               innermost(first->order, op.result_type(0)))
        return true;
    }
    return false;
  }

  /// A matrix times a vector, as a reduction: what is kept lies as it lay in the matrix.
  Order vector_product_order(const OpView& op, const std::vector<Seen>& operands) const {
    const uint32_t matrix = op.operand_type(0).elements >= op.operand_type(1).elements ? 0 : 1;
    const auto batching = op.integers(matrix == 0 ? Attr::kLhsBatching : Attr::kRhsBatching);
    const auto contracting =
        op.integers(matrix == 0 ? Attr::kLhsContracting : Attr::kRhsContracting);
    const Type& type = op.operand_type(matrix);
    if (type.rank() > kMostOrdered || op.result_type(0).rank() > kMostOrdered) return {};
    // Result: batch, then what is kept of the first, then of the second operand.
    const size_t other_kept = op.operand_type(1 - matrix).dims.size() - batching.size() -
                              op.integers(Attr::kLhsContracting).size();
    size_t next = batching.size() + (matrix == 1 ? other_kept : 0);
    std::vector<int> result_of(type.dims.size(), -1);
    for (size_t i = 0; i < batching.size(); ++i)
      result_of[static_cast<size_t>(batching[i])] = static_cast<int>(i);
    for (size_t d = 0; d < type.dims.size(); ++d)
      if (result_of[d] < 0 &&
          std::find(contracting.begin(), contracting.end(), d) == contracting.end())
        result_of[d] = static_cast<int>(next++);
    Order order;
    for (uint8_t d : whole_order(operands[matrix].order, type.dims.size()))
      if (result_of[d] >= 0) order.push_back(static_cast<uint8_t>(result_of[d]));
    const std::vector<int64_t>& dims = op.result_type(0).dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (std::find(order.begin(), order.end(), d) == order.end())
        order.push_back(static_cast<uint8_t>(d));
    return order.size() == dims.size() ? normal(std::move(order), dims) : Order{};
  }

  /// The same operation on the same values, seen the same way.
  struct Key {
    Opcode code;
    const Type* type;
    SmallVector<uint32_t, 8> inputs;
    SmallVector<int64_t, 6> attributes;
    auto operator<=>(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      size_t h = static_cast<size_t>(key.code);
      const auto mix = [&h](size_t x) { h = (h ^ x) * 0x9E3779B97F4A7C15u; };
      for (uint32_t i : key.inputs) mix(i);
      for (int64_t a : key.attributes) mix(static_cast<size_t>(a));
      return h;
    }
  };
  bool key_of(const OpView& op, const std::vector<Seen>& operands, Key* key) const {
    if (!rules_.simplify || op.result_count() != 1 || op.raw().first_region.valid()) return false;
    const FusionKind kind = classify(op);
    if (kind == FusionKind::kControl || kind == FusionKind::kHeavy) return false;
    key->code = op.code();
    key->type = &op.result_type(0);
    for (uint32_t i = 0; i < operands.size(); ++i) {
      key->inputs.push_back(operands[i].value);
      // Views of one value may differ in their dimensions.
      key->inputs.push_back(w_.value(op.operand(i)).type.index);
      for (uint8_t d : operands[i].order) key->inputs.push_back(d);
    }
    for (const Attribute& a : w_.attributes(op.raw())) {
      if (a.key == Attr::kScope) continue;
      key->attributes.push_back(static_cast<int64_t>(a.key));
      switch (a.kind) {
        case Attribute::Kind::kInts:
          for (int64_t x : w_.integers(a)) key->attributes.push_back(x);
          break;
        case Attribute::Kind::kInt:
        case Attribute::Kind::kReal:
          key->attributes.push_back(a.integer);
          break;
        default:
          key->attributes.push_back(a.index);
      }
    }
    return true;
  }

  void see_through(const OpView& op, Scope& scope) {
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      const uint32_t from = op.result_count() == op.operand_count() ? i : 0;
      Seen seen = local(op.operand(from), scope);
      const Type& before = op.operand_type(from);
      const Type& after = op.result_type(i);
      if (op.code() == Opcode::k_transpose) {
        seen.order = transposed(seen.order, op.integers(Attr::kDimensions), after.dims);
      } else if (!seen.order.empty() && before.dims != after.dims) {
        Order order;
        if (!reshaped(seen.order, before.dims, after.dims, &order) &&
            by_library_.count(seen.value) == 0)
          seen = rearranged(seen, before, whole_order({}, before.dims.size()), op.id());
        seen.order = std::move(order);
      }
      if (seen.order.size() != after.dims.size()) seen.order.clear();
      scope[op.result(i)] = std::move(seen);
    }
  }

  void add_region(const Region& region, Scope& scope, std::vector<Seen>* results) {
    // Which values are used by certain operations only, found in one pass.
    const std::unordered_map<uint32_t, bool> only_dots =
        rules_.transposes_fold_into_dots && !rules_.layouts &&
                contains(w_, region, Opcode::k_transpose)
            ? used_only_by(region, Opcode::k_dot_general)
            : std::unordered_map<uint32_t, bool>{};
    const std::unordered_map<uint32_t, bool> only_convolutions =
        rules_.layouts && contains(w_, region, Opcode::k_reverse)
            ? used_only_by(region, Opcode::k_convolution)
            : std::unordered_map<uint32_t, bool>{};
    const auto holds = [](const std::unordered_map<uint32_t, bool>& only, ValueId value) {
      const auto found = only.find(value.index);
      return found != only.end() && found->second;
    };
    for_each_op(w_, region, [&](OpId id) {
      const OpView op = w_.view(id);
      if (op_class(op.code()) == OpClass::kCollective) g_.has_collectives = true;
      if (op_class(op.code()) == OpClass::kUnknown) {
        for (uint32_t i = 0; i < op.result_count(); ++i)
          scope[op.result(i)].value = g_.add_value(&op.result_type(i));
        return;
      }
      if (op_class(op.code()) == OpClass::kConstant ||
          (op_class(op.code()) == OpClass::kView && op.operand_count() == 0)) {
        add_constant(op, scope);
        return;
      }
      if (folds(op, scope) || is_identity(op, scope)) return;
      if (is_view(op) || (op.code() == Opcode::k_transpose && holds(only_dots, op.result(0)))) {
        see_through(op, scope);
        return;
      }
      if (op.code() == Opcode::k_reverse && holds(only_convolutions, op.result(0))) {
        Seen seen = local(op.operand(0), scope);
        seen.reversed = true;
        scope[op.result(0)] = std::move(seen);
        return;
      }
      if (is_inlined_call(op.code()) && op.callee().valid() && small_.contains(op.callee())) {
        inline_call(op, scope);
        return;
      }
      add_node(op, scope, results);
    });
  }

  std::unordered_map<uint32_t, bool> used_only_by(const Region& region, Opcode user) const {
    std::unordered_map<uint32_t, bool> only;
    for_each_op(w_, region, [&](OpId id) {
      const OpView op = w_.view(id);
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        const auto [at, added] = only.emplace(op.operand(i).index, op.code() == user);
        if (!added) at->second &= op.code() == user;
      }
    });
    return only;
  }

  void inline_call(const OpView& op, Scope& scope) {
    const Region& body = w_.region(w_.function(op.callee()).body);
    Scope inner(w_, body);
    for (uint32_t i = 0; i < body.argument_count && i < op.operand_count(); ++i)
      inner[ValueId{body.first_argument + i}] = local(op.operand(i), scope);
    std::vector<Seen> inner_results;
    add_region(body, inner, &inner_results);
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      if (i < inner_results.size())
        scope[op.result(i)] = std::move(inner_results[i]);
      else
        scope[op.result(i)].value = g_.add_value(&op.result_type(i));
    }
  }

  void see_operands(const OpView& op, Scope& scope) {
    operands_.clear();
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      operands_.push_back(local(op.operand(i), scope));
  }

  void add_node(const OpView& op, Scope& scope, std::vector<Seen>* results) {
    see_operands(op, scope);
    if (op.code() == Opcode::k_return) {
      for (Seen& seen : operands_) {
        if (results == nullptr) {
          g_.values[seen.value].returned = true;
          g_.results.push_back(seen.value);
        } else {
          results->push_back(std::move(seen));
        }
      }
      return;
    }
    Key key{};
    if (key_of(op, operands_, &key)) {
      const auto [at, added] = known_.try_emplace(std::move(key));
      if (!added) {
        scope[op.result(0)] = at->second;
        return;
      }
      add_new_node(op, operands_, scope);
      at->second = scope[op.result(0)];
      return;
    }
    add_new_node(op, operands_, scope);
  }

  void add_new_node(const OpView& op, std::vector<Seen>& operands, Scope& scope) {
    FusionNode node;
    node.op = op.id();
    node.code = op.code();
    node.kind = classify(op);
    const bool vector = rules_.vector_products && is_vector_product(w_, g_, node);
    if (rules_.layouts && operands.size() >= 2) {
      for (uint32_t i = 0; i < 2; ++i) {
        if (op.code() == Opcode::k_dot_general && !vector) {
          const uint32_t before = operands[i].value;
          operands[i] = product_operand(op, i, operands[i]);
          if (i == 0 && operands[i].value != before && library_turns(op, node))
            operands[i] = turned(operands[i], op);
        }
        if (op.code() == Opcode::k_convolution)
          operands[i] = convolution_operand(op, i, operands[i]);
      }
    }
    if (ConvolutionShape shape; op.code() == Opcode::k_convolution && !operands.empty() &&
                                padded_shape(op, operands[0], &shape)) {
      node.shape = static_cast<int32_t>(g_.shapes.size());
      g_.shapes.emplace_back(shape);
    }
    if ((op.code() == Opcode::k_scatter || op.code() == Opcode::k_dynamic_update_slice) &&
        !operands.empty() && g_.values[operands[0].value].splat)
      operands[0].value = filled(operands[0].value, op.id());
    node.position = next_position();
    if (op.code() == Opcode::k_reduce && !operands.empty() && operands[0].mixed &&
        op.operand_type(0).rank() <= kMostOrdered) {
      const Type& type = op.operand_type(0);
      operands[0] = rearranged(operands[0], type, whole_order({}, type.dims.size()), op.id());
      node.position = next_position();
    }
    if (op.code() == Opcode::k_reduce && !operands.empty() && !operands[0].order.empty()) {
      node.shape = static_cast<int32_t>(g_.shapes.size());
      g_.shapes.emplace_back(rows_as_they_lie(operands[0].order, op));
    }
    if (op.code() == Opcode::k_reduce && !operands.empty())
      node.along_rows =
          reduces_rows(operands[0].order, op.operand_type(0), op.integers(Attr::kDimensions));
    const bool joins = rules_.simplify && op.code() == Opcode::k_concatenate;
    for (uint32_t i = 0; i < operands.size(); ++i) {
      const auto inner = joins ? joined_.find(operands[i].value) : joined_.end();
      // Joined along the same dimension before: its parts are joined at once.
      if (inner != joined_.end() &&
          std::ranges::equal(w_.view(g_.nodes[inner->second].op).integers(Attr::kDimensions),
                             op.integers(Attr::kDimensions)) &&
          g_.values[operands[i].value].type->dims == op.operand_type(i).dims) {
        const auto& parts = g_.nodes[inner->second].inputs;
        node.inputs.append(parts.begin(), parts.end());
      } else {
        node.inputs.push_back(operands[i].value);
      }
    }
    Order order = vector ? vector_product_order(op, operands) : result_order(op, operands);
    const bool mixed = rules_.layouts && is_elementwise(op.code()) && is_mixed(op, operands);
    const bool flexible = op.code() == Opcode::k_broadcast_in_dim || op.code() == Opcode::k_iota;
    const bool updates = op.code() == Opcode::k_dynamic_update_slice && !made(node.inputs[0]) &&
                         !g_.values[node.inputs[0]].constant;
    for (uint32_t i = 0; i < op.result_count(); ++i) {
      const uint32_t v = g_.add_value(&op.result_type(i));
      node.outputs.push_back(v);
      made_.resize(v + 1);
      made_[v] = true;
      if (joins) joined_[v] = static_cast<uint32_t>(g_.nodes.size());
      if (updates) updated_[v] = static_cast<uint32_t>(g_.nodes.size());
      if (op_class(op.code()) == OpClass::kLibrary) by_library_.insert(v);
      Seen seen{.value = v, .order = {}, .flexible = flexible, .mixed = mixed};
      if (order.size() == op.result_type(i).dims.size()) seen.order = order;
      scope[op.result(i)] = std::move(seen);
    }
    g_.nodes.push_back(std::move(node));
    // What follows a filter's gradient, its update, runs in the filter's own order.
    if (op.code() == Opcode::k_convolution && !order.empty()) {
      const Type& type = op.result_type(0);
      Seen& seen = scope[op.result(0)];
      seen = rearranged(seen, type, whole_order({}, type.dims.size()), op.id());
    }
  }

  /// Whether it is the result of an operation of the file.
  bool made(uint32_t value) const { return value < made_.size() && made_[value]; }

  const Workload& w_;
  const FusionRules& rules_;
  const SmallFunctions& small_;
  const LibraryLaunches* library_;
  FusionGraph g_;
  std::vector<Seen> operands_;  ///< Of the operation at hand.
  uint64_t position_ = 0;
  std::unordered_map<Key, Seen, KeyHash> known_;
  std::map<std::pair<const Type*, uint64_t>, uint32_t> numbers_;
  std::map<std::pair<uint32_t, Order>, uint32_t> rearranged_;
  std::unordered_map<uint32_t, std::vector<Padding>> padded_;  ///< Of each image.
  std::unordered_map<uint32_t, uint32_t> joined_;   ///< Results of concatenations, by node.
  std::vector<bool> made_;                          ///< By value.
  std::unordered_map<uint32_t, uint32_t> updated_;  ///< Arguments after an update, by that node.
  std::unordered_set<uint32_t> by_library_;  ///< Written in whatever order their reader wants.
};

}  // namespace

SmallFunctions::SmallFunctions(const Workload& w, bool enabled)
    : small_(w.functions().size(), false) {
  if (!enabled) return;
  // Functions may call each other: each is measured once, those under measurement are large.
  enum class State : uint8_t { kUnknown, kOpen, kSmall, kLarge };
  std::vector<State> states(w.functions().size(), State::kUnknown);
  std::vector<size_t> sizes(w.functions().size(), 0);
  const auto measure = [&](auto& self, FunctionId f, size_t depth) -> bool {
    State& state = states[f.index];
    if (state != State::kUnknown) return state == State::kSmall;
    const Function& function = w.function(f);
    if (!function.body.valid() || f == w.entry() || depth > kDeepestSmallCalls) return false;
    const Region& body = w.region(function.body);
    size_t size = body.end_op - body.first_op;
    state = State::kOpen;
    bool small = size <= kMostSmallOperations;
    if (small)
      for_each_op(w, body, [&](OpId id) {
        const OpView op = w.view(id);
        switch (op_class(op.code())) {
          case OpClass::kVector:
          case OpClass::kTranscendental:
          case OpClass::kView:
          case OpClass::kConstant:
          case OpClass::kGenerate:
          case OpClass::kMove:
          case OpClass::kIndexed:
          case OpClass::kReduction:
            break;
          case OpClass::kControl:
            if (op.code() == Opcode::k_return) break;
            small = small && is_inlined_call(op.code()) && op.callee().valid() &&
                    self(self, op.callee(), depth + 1);
            if (small) size += sizes[op.callee().index];
            break;
          default:
            small = false;
        }
      });
    small = small && size <= kMostSmallOperations;
    sizes[f.index] = size;
    states[f.index] = small ? State::kSmall : State::kLarge;
    return small;
  };
  for (uint32_t i = 0; i < w.functions().size(); ++i)
    small_[i] = measure(measure, FunctionId{i}, 0);
}

bool is_sliced_read(Opcode code) {
  return code == Opcode::k_slice || code == Opcode::k_dynamic_slice || code == Opcode::k_gather ||
         code == Opcode::k_dynamic_gather || code == Opcode::k_real_dynamic_slice ||
         code == Opcode::k_torch_index_select;
}

uint32_t FusionGraph::add_value(const Type* type) {
  FusionValue v;
  v.type = type;
  values.push_back(std::move(v));
  return static_cast<uint32_t>(values.size() - 1);
}

const Type* FusionGraph::add_type(const Type& like, std::vector<int64_t> dims,
                                  ElementType element) {
  Type type;
  type.kind = like.kind;
  type.element = element;
  type.dims = std::move(dims);
  type.elements = 1;
  for (int64_t d : type.dims) type.elements = joined(type.elements, std::max<int64_t>(d, 0));
  type.bytes = (type.elements * bit_width(element) + 7) / 8;
  types.push_back(std::move(type));
  return &types.back();
}

FusionNode& FusionGraph::insert(uint64_t position, OpId op, Opcode code, FusionKind kind,
                                uint32_t output) {
  FusionNode node;
  node.op = op;
  node.code = code;
  node.kind = kind;
  node.inserted = true;
  node.position = position;
  node.outputs.push_back(output);
  nodes.push_back(std::move(node));
  return nodes.back();
}

void FusionGraph::order(const Workload& w, bool drop_dead) {
  if (!std::ranges::is_sorted(nodes, {}, &FusionNode::position)) {
    std::vector<std::pair<uint64_t, uint32_t>> places;
    places.reserve(nodes.size());
    for (uint32_t n = 0; n < nodes.size(); ++n) places.emplace_back(nodes[n].position, n);
    std::sort(places.begin(), places.end());
    std::vector<FusionNode> sorted;
    sorted.reserve(nodes.size());
    for (const auto& [position, n] : places) sorted.push_back(std::move(nodes[n]));
    nodes = std::move(sorted);
  }
  if (drop_dead) {
    std::vector<bool> needed(values.size());
    for (size_t v = 0; v < values.size(); ++v) needed[v] = values[v].returned;
    std::vector<bool> kept(nodes.size());
    for (size_t n = nodes.size(); n-- > 0;) {
      const FusionNode& node = nodes[n];
      const OpClass c = op_class(w.op(node.op).code);
      bool keep = node.outputs.empty() || c == OpClass::kLibrary || c == OpClass::kCollective ||
                  c == OpClass::kControl;
      for (uint32_t v : node.outputs) keep = keep || needed[v];
      kept[n] = keep;
      if (keep)
        for (uint32_t v : node.inputs) needed[v] = true;
    }
    size_t next = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!kept[n]) continue;
      if (next != n) nodes[next] = std::move(nodes[n]);
      ++next;
    }
    nodes.resize(next);
  }
  for (FusionValue& value : values) {
    value.producer = kNoNode;
    value.users.clear();
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    for (uint32_t v : nodes[n].inputs)
      if (values[v].users.empty() || values[v].users.back() != n) values[v].users.push_back(n);
    for (uint32_t v : nodes[n].outputs) values[v].producer = n;
  }
}

FusionGraph build_fusion_graph(const Workload& workload, const FusionRules& rules,
                               const SmallFunctions& small, RegionId region,
                               const LibraryLaunches* library) {
  FusionGraph graph = Builder(workload, rules, small, library).run(region);
  graph.order(workload, rules.simplify);
  return graph;
}

}  // namespace orrery
