#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "orrery/model/library_launches.h"

namespace orrery {

/// Launches of patterns in a graph whose other operations a compiler fuses: what an engine or a
/// compiler built on PyTorch recognises. Not for use but to be derived from.
class PatternLaunches : public LibraryLaunches {
 public:
  bool decides(OpId op) const override { return launches_.contains(op.index); }
  std::span<const Launch> of(OpId op) const override;
  std::span<const Launch> at_the_end() const override { return at_the_end_; }

 protected:
  explicit PatternLaunches(const Workload& workload);

  // The graph.
  std::optional<OpView> maker(ValueId v) const;
  const std::vector<OpId>& users(ValueId v) const;
  /// Where a value comes from, through what moves nothing.
  ValueId origin(ValueId v) const;
  /// Whether it is a weight of the entry's, or one that the entry hands on to a layer.
  bool is_parameter(ValueId v) const;
  /// The operations directly in a function.
  std::vector<OpView> operations(FunctionId id) const;

  // What is decided.
  void absorb(OpId op) { launches_.try_emplace(op.index); }
  void add(OpId op, const Kernel& kernel);
  void add_at_the_end(OpId op, const Kernel& kernel);
  /// Work that leads to `to` from one of `from` on, with what joins it on the way.
  void absorb_between(std::initializer_list<ValueId> from, ValueId to);

  // Patterns that all of them have.
  /// A bias is added by the product.
  bool absorb_bias(const OpView& product);
  /// A norm forms the sum that it reads, over the border of two layers too: what a layer returns
  /// is left to the norm that the next one begins with.
  void join_sums_with_norms(FunctionId id, std::span<const OpView> ops);
  /// Numbers and indices that only what was absorbed has read.
  void drop_numbers(std::span<const OpView> ops);

  const Workload& w_;  // NOLINT(*-non-private-member-variables-in-classes): for derived ones

 private:
  bool is_residual_sum(const OpView& op) const;
  /// Whether it is what a layer is given by the one before.
  bool is_hidden_state(ValueId v) const;
  void norm(const OpView& op, bool is_layer);

  std::unordered_map<uint32_t, std::vector<OpId>> users_;
  std::unordered_set<uint32_t> parameters_;
  /// Of each operation that is decided here; without launches, its work is another's.
  std::unordered_map<uint32_t, std::vector<Launch>> launches_;
  std::vector<Launch> at_the_end_;
};

}  // namespace orrery
