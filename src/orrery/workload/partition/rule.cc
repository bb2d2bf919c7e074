#include "orrery/workload/partition/rule.h"

#include <algorithm>
#include <numeric>

namespace orrery::partition {
namespace {

bool contains(std::span<const int64_t> list, int64_t value) {
  return std::ranges::find(list, value) != list.end();
}

class RuleBuilder {
 public:
  explicit RuleBuilder(const OpView& op) : op_(op) {
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      rule_.operands.emplace_back(op.operand_type(i).dims.size());
    for (uint32_t i = 0; i < op.result_count(); ++i)
      rule_.results.emplace_back(op.result_type(i).dims.size());
  }

  Rule build() {
    const bool makes = op_.code() == Opcode::k_iota || op_.code() == Opcode::k_constant;
    if (op_.result_count() == 0 || (op_.operand_count() == 0 && !makes)) {
      rule_.known = op_.operand_count() == 0;
      return std::move(rule_);
    }
    switch (op_.code()) {
      case Opcode::k_sharding_constraint:
      case Opcode::k_identity:
      case Opcode::k_copy:
      case Opcode::k_all_reduce:
      case Opcode::k_cross_replica_sum:
      case Opcode::k_collective_permute:
      case Opcode::k_collective_broadcast:
      case Opcode::k_optimization_barrier:
        for (uint32_t i = 0; i < std::min(op_.operand_count(), op_.result_count()); ++i)
          same_dimensions(i, i);
        break;
      case Opcode::k_bitcast_convert:
      case Opcode::k_all_gather:
      case Opcode::k_reduce_scatter:
        same_dimensions(0, 0);
        break;
      case Opcode::k_all_to_all:
        same_dimensions(
            0, 0, {op_.integer(Attr::kSplitDimension, 0), op_.integer(Attr::kConcatDimension, 0)});
        break;
      case Opcode::k_broadcast_in_dim:
        broadcast();
        break;
      case Opcode::k_reshape:
        reshape();
        break;
      case Opcode::k_transpose:
        transpose();
        break;
      case Opcode::k_iota:
      case Opcode::k_constant:
        for (size_t d = 0; d < result(0).dims.size(); ++d)
          put_result(0, d, factor(result(0).dims[d]));
        break;
      case Opcode::k_concatenate:
        concatenate();
        break;
      case Opcode::k_pad:
        pad();
        break;
      case Opcode::k_reverse:
        same_dimensions(0, 0, op_.integers(Attr::kDimensions));
        break;
      case Opcode::k_slice:
      case Opcode::k_dynamic_slice:
        same_dimensions(0, 0);
        break;
      case Opcode::k_dynamic_update_slice:
        update_slice();
        break;
      case Opcode::k_gather:
        gather();
        break;
      case Opcode::k_scatter:
        scatter();
        break;
      case Opcode::k_dot_general:
      case Opcode::k_dot:
        dot();
        break;
      case Opcode::k_convolution:
        convolution();
        break;
      case Opcode::k_reduce:
        reduce();
        break;
      case Opcode::k_reduce_window:
      case Opcode::k_select_and_scatter:
        windows();
        break;
      case Opcode::k_batch_norm_training:
      case Opcode::k_batch_norm_inference:
      case Opcode::k_batch_norm_grad:
        batch_norm();
        break;
      case Opcode::k_sort:
        for_all_tensors(op_.integers(Attr::kDimensions));
        break;
      case Opcode::k_top_k:
        along_leading(op_.operand_type(0).rank() - 1);
        break;
      case Opcode::k_fft:
        along_leading(op_.operand_type(0).rank() -
                      static_cast<int>(op_.integers(Attr::kLength).size()));
        break;
      case Opcode::k_cholesky:
      case Opcode::k_triangular_solve:
        along_leading(op_.operand_type(0).rank() - 2);
        break;
      case Opcode::k_get_dimension_size:
        for (size_t d = 0; d < operand(0).dims.size(); ++d)
          put_operand(0, d, factor(operand(0).dims[d]));
        break;
      default:
        if (is_elementwise(op_.code()))
          for_all_tensors({});
        else
          rule_.known = false;
    }
    return std::move(rule_);
  }

 private:
  const Type& operand(uint32_t i) const { return op_.operand_type(i); }
  const Type& result(uint32_t i) const { return op_.result_type(i); }

  /// A dimension of one element, or of unknown size, is not shared out.
  int factor(int64_t size, bool reduced = false) {
    if (size <= 1) return -1;
    rule_.factors.push_back({size, reduced});
    return static_cast<int>(rule_.factors.size()) - 1;
  }
  static void put(Rule::Tensor& tensor, size_t dim, int f) {
    if (f >= 0 && dim < tensor.size()) tensor[dim].push_back(f);
  }
  void put_operand(uint32_t i, size_t dim, int f) {
    if (i < rule_.operands.size()) put(rule_.operands[i], dim, f);
  }
  void put_result(uint32_t i, size_t dim, int f) {
    if (i < rule_.results.size()) put(rule_.results[i], dim, f);
  }

  /// Dimensions of the same place and size belong together.
  void same_dimensions(uint32_t from, uint32_t to, std::span<const int64_t> without = {}) {
    if (from >= rule_.operands.size() || to >= rule_.results.size()) return;
    const Type& a = operand(from);
    const Type& b = result(to);
    for (size_t d = 0; d < a.dims.size() && d < b.dims.size(); ++d) {
      if (a.dims[d] != b.dims[d] || contains(without, static_cast<int64_t>(d))) continue;
      const int f = factor(a.dims[d]);
      put_operand(from, d, f);
      put_result(to, d, f);
    }
  }
  void same_dimensions(uint32_t from, uint32_t to, std::initializer_list<int64_t> without) {
    same_dimensions(from, to, std::span(without.begin(), without.size()));
  }
  /// Every tensor of the shape of the first result belongs together; scalars stand aside.
  void for_all_tensors(std::span<const int64_t> without) {
    if (rule_.results.empty()) return;
    const std::vector<int64_t>& dims = result(0).dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (contains(without, static_cast<int64_t>(d))) continue;
      const int f = factor(dims[d]);
      for (uint32_t i = 0; i < op_.operand_count(); ++i)
        if (operand(i).dims == dims) put_operand(i, d, f);
      for (uint32_t i = 0; i < op_.result_count(); ++i)
        if (result(i).dims == dims) put_result(i, d, f);
    }
  }
  void along_leading(int count) {
    for (int d = 0; d < count; ++d) {
      const auto at = static_cast<size_t>(d);
      const int64_t size = operand(0).dims[at];
      const int f = factor(size);
      for (uint32_t i = 0; i < op_.operand_count(); ++i)
        if (operand(i).rank() > d && operand(i).dims[at] == size) put_operand(i, at, f);
      for (uint32_t i = 0; i < op_.result_count(); ++i)
        if (result(i).rank() > d && result(i).dims[at] == size) put_result(i, at, f);
    }
  }

  void broadcast() {
    const auto to = op_.integers(Attr::kDimensions);
    for (size_t d = 0; d < result(0).dims.size(); ++d) {
      const int f = factor(result(0).dims[d]);
      put_result(0, d, f);
      for (size_t o = 0; o < to.size() && o < operand(0).dims.size(); ++o)
        if (to[o] == static_cast<int64_t>(d) && operand(0).dims[o] == result(0).dims[d])
          put_operand(0, o, f);
    }
  }

  /// Both shapes cut at the products of sizes they share: [6,4] to [2,12] is 2, 3 and 4.
  void reshape() {
    const std::vector<int64_t>& a = operand(0).dims;
    const std::vector<int64_t>& b = result(0).dims;
    size_t i = 0, j = 0;
    int64_t left_a = 1, left_b = 1;
    while (true) {
      while (left_a == 1 && i < a.size()) left_a = a[i++];
      while (left_b == 1 && j < b.size()) left_b = b[j++];
      if (left_a <= 1 || left_b <= 1) return;
      const int64_t size = std::gcd(left_a, left_b);
      // Where neither size divides the other nothing further lines up.
      if (size == 1) return;
      if (size != left_a && size != left_b) return;
      const int f = factor(size);
      put_operand(0, i - 1, f);
      put_result(0, j - 1, f);
      left_a /= size;
      left_b /= size;
    }
  }

  void transpose() {
    const auto from = op_.integers(Attr::kDimensions);
    for (size_t d = 0; d < from.size() && d < result(0).dims.size(); ++d) {
      const int f = factor(result(0).dims[d]);
      put_result(0, d, f);
      put_operand(0, static_cast<size_t>(from[d]), f);
    }
  }

  void concatenate() {
    const auto along = op_.integers(Attr::kDimensions);
    for (size_t d = 0; d < result(0).dims.size(); ++d) {
      if (contains(along, static_cast<int64_t>(d))) continue;
      const int f = factor(result(0).dims[d]);
      put_result(0, d, f);
      for (uint32_t i = 0; i < op_.operand_count(); ++i) put_operand(i, d, f);
    }
  }

  void pad() {
    const auto at = [](std::span<const int64_t> list, size_t d) {
      return d < list.size() ? list[d] : 0;
    };
    std::vector<int64_t> padded;
    for (size_t d = 0; d < result(0).dims.size(); ++d)
      if (at(op_.integers(Attr::kPaddingLow), d) != 0 ||
          at(op_.integers(Attr::kPaddingHigh), d) != 0 ||
          at(op_.integers(Attr::kPaddingInterior), d) != 0)
        padded.push_back(static_cast<int64_t>(d));
    same_dimensions(0, 0, padded);
  }

  /// Where less than a dimension is updated, each device updates what falls to it.
  void update_slice() {
    for (size_t d = 0; d < result(0).dims.size(); ++d) {
      const int f = factor(result(0).dims[d]);
      put_operand(0, d, f);
      put_result(0, d, f);
      if (op_.operand_count() > 1 && d < operand(1).dims.size() &&
          operand(1).dims[d] == result(0).dims[d])
        put_operand(1, d, f);
    }
  }

  /// The dimensions of start indices but the one that holds the index vector.
  std::vector<size_t> index_batch() const {
    std::vector<size_t> dims;
    const int64_t vector = op_.integer(Attr::kIndexVectorDim, -1);
    for (size_t d = 0; d < operand(1).dims.size(); ++d)
      if (static_cast<int64_t>(d) != vector) dims.push_back(d);
    return dims;
  }

  void gather() {
    if (op_.operand_count() < 2) {
      rule_.known = false;
      return;
    }
    const auto offsets = op_.integers(Attr::kOffsetDims);
    const auto collapsed = op_.integers(Attr::kCollapsedSliceDims);
    const auto batching = op_.integers(Attr::kOperandBatchingDims);
    const auto index_batching = op_.integers(Attr::kStartIndicesBatchingDims);
    const auto sizes = op_.integers(Attr::kSliceSizes);
    const std::vector<size_t> indices = index_batch();
    size_t next = 0;
    std::vector<int> of_index(operand(1).dims.size(), -1);
    for (size_t d = 0; d < result(0).dims.size(); ++d) {
      if (contains(offsets, static_cast<int64_t>(d)) || next >= indices.size()) continue;
      const size_t index = indices[next++];
      const int f = factor(result(0).dims[d]);
      put_result(0, d, f);
      put_operand(1, index, f);
      of_index[index] = f;
    }
    size_t offset = 0;
    for (size_t d = 0; d < operand(0).dims.size(); ++d) {
      const auto dim = static_cast<int64_t>(d);
      if (const auto at = std::ranges::find(batching, dim); at != batching.end()) {
        const auto i = static_cast<size_t>(at - batching.begin());
        if (i < index_batching.size() && index_batching[i] >= 0 &&
            static_cast<size_t>(index_batching[i]) < of_index.size())
          put_operand(0, d, of_index[static_cast<size_t>(index_batching[i])]);
      } else if (contains(collapsed, dim)) {
        // A device looks up the rows it holds and gives zeros for others: their sum is the result.
        put_operand(0, d, factor(operand(0).dims[d], true));
      } else {
        const size_t to = offset < offsets.size() ? static_cast<size_t>(offsets[offset]) : SIZE_MAX;
        ++offset;
        if (d >= sizes.size() || sizes[d] != operand(0).dims[d]) continue;
        const int f = factor(operand(0).dims[d]);
        put_operand(0, d, f);
        put_result(0, to, f);
      }
    }
  }

  void scatter() {
    // Inputs, indices, updates: as many inputs as updates and results.
    if (op_.result_count() != 1 || op_.operand_count() != 3) {
      rule_.known = false;
      return;
    }
    const auto window = op_.integers(Attr::kUpdateWindowDims);
    const auto inserted = op_.integers(Attr::kInsertedWindowDims);
    const auto batching = op_.integers(Attr::kOperandBatchingDims);
    const auto index_batching = op_.integers(Attr::kStartIndicesBatchingDims);
    const Type& updates = operand(2);
    const std::vector<size_t> indices = index_batch();
    std::vector<int> of_index(operand(1).dims.size(), -1);
    size_t next = 0;
    for (size_t d = 0; d < updates.dims.size(); ++d) {
      if (contains(window, static_cast<int64_t>(d)) || next >= indices.size()) continue;
      const size_t index = indices[next++];
      // What devices scatter of their own updates is summed.
      const int f = factor(updates.dims[d], !contains(index_batching, static_cast<int64_t>(index)));
      put_operand(2, d, f);
      put_operand(1, index, f);
      of_index[index] = f;
    }
    size_t at_window = 0;
    for (size_t d = 0; d < operand(0).dims.size(); ++d) {
      const auto dim = static_cast<int64_t>(d);
      int f = -1;
      if (const auto at = std::ranges::find(batching, dim); at != batching.end()) {
        const auto i = static_cast<size_t>(at - batching.begin());
        if (i < index_batching.size() && index_batching[i] >= 0 &&
            static_cast<size_t>(index_batching[i]) < of_index.size())
          f = of_index[static_cast<size_t>(index_batching[i])];
      } else {
        f = factor(operand(0).dims[d]);
        if (!contains(inserted, dim)) {
          const size_t from =
              at_window < window.size() ? static_cast<size_t>(window[at_window]) : SIZE_MAX;
          ++at_window;
          if (from < updates.dims.size() && updates.dims[from] == operand(0).dims[d])
            put_operand(2, from, f);
        }
      }
      put_operand(0, d, f);
      put_result(0, d, f);
    }
  }

  void dot() {
    const Type& lhs = operand(0);
    std::vector<int64_t> lc, rc, lb, rb;
    const auto copy = [&](std::vector<int64_t>& to, Attr key) {
      const auto from = op_.integers(key);
      to.assign(from.begin(), from.end());
    };
    copy(lc, Attr::kLhsContracting);
    copy(rc, Attr::kRhsContracting);
    copy(lb, Attr::kLhsBatching);
    copy(rb, Attr::kRhsBatching);
    if (op_.code() == Opcode::k_dot && lc.empty() && lhs.rank() > 0) {
      lc = {lhs.rank() - 1};
      rc = {0};
    }
    size_t at = 0;
    for (size_t i = 0; i < lb.size(); ++i) {
      const int f = factor(lhs.dims[static_cast<size_t>(lb[i])]);
      put_operand(0, static_cast<size_t>(lb[i]), f);
      put_operand(1, static_cast<size_t>(rb[i]), f);
      put_result(0, at++, f);
    }
    const auto free = [&](uint32_t which, const std::vector<int64_t>& batching,
                          const std::vector<int64_t>& contracting) {
      const Type& type = operand(which);
      for (size_t d = 0; d < type.dims.size(); ++d) {
        if (contains(batching, static_cast<int64_t>(d)) ||
            contains(contracting, static_cast<int64_t>(d)))
          continue;
        const int f = factor(type.dims[d]);
        put_operand(which, d, f);
        put_result(0, at++, f);
      }
    };
    free(0, lb, lc);
    free(1, rb, rc);
    for (size_t i = 0; i < lc.size(); ++i) {
      const int f = factor(lhs.dims[static_cast<size_t>(lc[i])], true);
      put_operand(0, static_cast<size_t>(lc[i]), f);
      put_operand(1, static_cast<size_t>(rc[i]), f);
    }
  }

  /// Groups are the major part of the features (or of the batch) they cut, and of the outputs.
  void convolution() {
    const auto dim = [&](Attr key) { return static_cast<size_t>(op_.integer(key, 0)); };
    const size_t batch = dim(Attr::kInputBatch), feature = dim(Attr::kInputFeature);
    const size_t in = dim(Attr::kKernelInput), out = dim(Attr::kKernelOutput);
    const size_t to_batch = dim(Attr::kOutputBatch), to_feature = dim(Attr::kOutputFeature);
    const int64_t of_features = op_.integer(Attr::kFeatureGroups, 1);
    const int64_t of_batch = op_.integer(Attr::kBatchGroups, 1);
    const int64_t groups = std::max(of_features, of_batch);
    const size_t rank = result(0).dims.size();
    const bool in_range = batch < operand(0).dims.size() && feature < operand(0).dims.size() &&
                          in < operand(1).dims.size() && out < operand(1).dims.size() &&
                          to_batch < rank && to_feature < rank;
    if (!in_range || std::min(of_features, of_batch) != 1 || operand(1).dims[out] % groups != 0 ||
        operand(0).dims[of_features > 1 ? feature : batch] % groups != 0) {
      rule_.known = false;
      return;
    }
    const int group = groups > 1 ? factor(groups) : -1;
    put_operand(0, of_features > 1 ? feature : batch, group);
    put_operand(1, out, group);
    put_result(0, to_feature, group);
    const int b = factor(result(0).dims[to_batch]);
    put_operand(0, batch, b);
    put_result(0, to_batch, b);
    const int o = factor(operand(1).dims[out] / groups);
    put_operand(1, out, o);
    put_result(0, to_feature, o);
    const int i = factor(operand(1).dims[in], true);
    put_operand(0, feature, i);
    put_operand(1, in, i);
  }

  void reduce() {
    const uint32_t inputs = op_.operand_count() / 2;
    const auto over = op_.integers(Attr::kDimensions);
    size_t to = 0;
    for (size_t d = 0; d < operand(0).dims.size(); ++d) {
      const bool reduced = contains(over, static_cast<int64_t>(d));
      const int f = factor(operand(0).dims[d], reduced);
      for (uint32_t i = 0; i < inputs; ++i) put_operand(i, d, f);
      if (reduced) continue;
      for (uint32_t i = 0; i < op_.result_count(); ++i) put_result(i, to, f);
      ++to;
    }
  }

  /// Dimensions that windows go over one by one are shared out; others are needed whole.
  void windows() {
    const auto size = op_.integers(Attr::kWindowSize);
    const auto stride = op_.integers(Attr::kWindowStrides);
    const uint32_t inputs =
        op_.code() == Opcode::k_select_and_scatter ? 2 : op_.operand_count() / 2;
    for (size_t d = 0; d < operand(0).dims.size(); ++d) {
      if ((d < size.size() && size[d] != 1) || (d < stride.size() && stride[d] != 1) ||
          operand(0).dims[d] != result(0).dims[d])
        continue;
      const int f = factor(operand(0).dims[d]);
      for (uint32_t i = 0; i < inputs; ++i) put_operand(i, d, f);
      for (uint32_t i = 0; i < op_.result_count(); ++i) put_result(i, d, f);
    }
  }

  void batch_norm() {
    const auto list = op_.integers(Attr::kDimensions);
    const size_t feature = list.empty() ? 0 : static_cast<size_t>(list[0]);
    const bool sums = op_.code() != Opcode::k_batch_norm_inference;
    const std::vector<int64_t>& dims = operand(0).dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int f = factor(dims[d], sums && d != feature);
      for (uint32_t i = 0; i < op_.operand_count(); ++i) {
        if (operand(i).dims == dims)
          put_operand(i, d, f);
        else if (d == feature)
          put_operand(i, 0, f);
      }
      for (uint32_t i = 0; i < op_.result_count(); ++i) {
        if (result(i).dims == dims)
          put_result(i, d, f);
        else if (d == feature)
          put_result(i, 0, f);
      }
    }
  }

  const OpView op_;
  Rule rule_;
};

}  // namespace

bool Rule::has(const Tensor& tensor, int factor) {
  return std::ranges::any_of(
      tensor, [&](const Dimension& d) { return std::ranges::find(d, factor) != d.end(); });
}

bool Rule::in_results(int factor) const {
  return std::ranges::any_of(results, [&](const Tensor& t) { return has(t, factor); });
}

Rule rule_of(const OpView& op) { return RuleBuilder(op).build(); }

Rule identity_rule(const Type& type) {
  Rule rule;
  rule.operands.emplace_back(type.dims.size());
  rule.results.emplace_back(type.dims.size());
  for (size_t d = 0; d < type.dims.size(); ++d) {
    if (type.dims[d] <= 1) continue;
    const int f = static_cast<int>(rule.factors.size());
    rule.factors.push_back({type.dims[d], false});
    rule.operands[0][d].push_back(f);
    rule.results[0][d].push_back(f);
  }
  return rule;
}

}  // namespace orrery::partition
