#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace orrery {

/// What parameters of operators are called, in all operators.
// clang-format off
#define ORRERY_PARAMETERS(X)                                                          \
  X(b) X(c) X(d) X(h) X(k) X(m) X(n) X(r) X(s) X(t) X(w)                              \
  X(axis) X(causal) X(dv) X(ep) X(experts) X(groups) X(hidden) X(inter) X(kv)         \
  X(kv_dtype) X(layout) X(order) X(pad) X(paged) X(rows) X(shape) X(skew) X(stride)   \
  X(tokens) X(topk) X(tp) X(vocab) X(window)                                          \
  X(aligned) X(columns) X(does) X(elements) X(flops) X(gradient) X(inner) X(inputs) X(operations) X(outputs) \
  X(pieces) X(read) X(reductions) X(run) X(special) X(written)
// clang-format on

enum class OperatorParameter : uint8_t {
#define ORRERY_PARAMETER(name) k_##name,
  ORRERY_PARAMETERS(ORRERY_PARAMETER)
#undef ORRERY_PARAMETER
};
inline constexpr size_t kParameterCount = static_cast<size_t>(OperatorParameter::k_written) + 1;
static_assert(kParameterCount <= 64);

std::string_view name(OperatorParameter parameter);

/// Bit i for the i-th parameter.
using ParameterSet = uint64_t;
constexpr ParameterSet parameter_set(std::initializer_list<OperatorParameter> parameters) {
  ParameterSet set = 0;
  for (OperatorParameter p : parameters) set |= ParameterSet{1} << static_cast<unsigned>(p);
  return set;
}

/// One operator's parameters, read from a flat JSON object: values are numbers,
/// true, false, strings and lists of integers. It points into the text and
/// allocates nothing, since a table has a million of them. A key given twice is
/// refused. Faults throw std::invalid_argument that begins "params: ".
class OperatorParameters {
 public:
  static constexpr size_t kLongestList = 8;

  /// Refuses keys that are not in `known`, those that `op` takes.
  OperatorParameters(std::string_view op, ParameterSet known, std::string_view text);

  bool has(OperatorParameter p) const { return (present_ >> static_cast<unsigned>(p) & 1) != 0; }
  int64_t size(OperatorParameter p) const;                                ///< From 1 to 2^40.
  int64_t size(OperatorParameter p, int64_t otherwise) const;             ///< The same.
  int64_t count(OperatorParameter p, int64_t otherwise) const;            ///< From 0 to 2^40.
  double real(OperatorParameter p, double otherwise, double most) const;  ///< From 0 to `most`.
  bool flag(OperatorParameter p) const;  ///< true, false or an integer.
  std::string_view text(OperatorParameter p, std::string_view otherwise) const;
  std::span<const int64_t> shape() const;  ///< 1 to 8 sizes.
  /// The axis of `rank` dimensions that is meant; negative ones count from the end.
  int64_t axis(size_t rank, int64_t otherwise) const;
  /// A permutation of `rank` dimensions.
  std::span<const int64_t> order(size_t rank) const;

 private:
  enum class Kind : uint8_t { kInteger, kReal, kFlag, kText, kList };
  struct Value {
    Kind kind;
    uint32_t length;  ///< Of a text or list; of a list that is too long kLongestList + 1.
    union {
      int64_t integer;
      double real;
      const char* begin;    ///< Of a text.
      uint32_t first_item;  ///< Of a list.
    };
  };
  class Scanner;

  const Value& at(OperatorParameter p) const { return values_[static_cast<size_t>(p)]; }
  const Value& required(OperatorParameter p) const;
  int64_t integer(OperatorParameter p, int64_t least) const;
  int64_t checked(OperatorParameter p, int64_t value, int64_t least) const;
  std::span<const int64_t> list(OperatorParameter p) const;

  std::string_view op_;
  ParameterSet present_ = 0;
  std::array<Value, kParameterCount> values_;    // only what is present is set
  std::array<int64_t, 2 * kLongestList> items_;  // of the shape, then of another list
};

}  // namespace orrery
