#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/workload/mesh.h"
#include "orrery/workload/readers/stablehlo/name_table.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::stablehlo {

inline constexpr size_t kMaxConstantElements = 64;  ///< Larger constants are sized, not kept.
/// A splat attribute is spelled out up to this: two numbers (padding) for each of 64 dimensions.
inline constexpr int64_t kMaxSplatElements = 128;

/// Ranks that groups over mesh axes may name in one module. A few bytes name them all, so
/// nothing else bounds the memory they take.
inline constexpr size_t kMaxListedRanks = size_t{1} << 24;

/// A value of an attribute, as far as anyone downstream wants it. Lists of
/// integers lie in the reader's scratch until the next value is read.
struct AttributeValue {
  enum class Kind { kUnit, kInteger, kReal, kString, kIntegers, kSymbol, kText };
  Kind kind = Kind::kUnit;
  int64_t integer = 0;  ///< Also of true and false.
  double real = 0;
  std::string_view text;  ///< As written; the inside of a string; a symbol's name.
  std::vector<int64_t>* integers = nullptr;
  TypeId type;  ///< Where one was written after a colon.
};

/// The number whose IEEE 754 bits these are; nothing for types narrower than half.
std::optional<double> real_from_bits(uint64_t bits, ElementType type);

/// How one written attribute becomes ours.
struct AttributeRule;

/// What StableHLO's names mean in a `Workload`, whether text or bytecode spelled
/// them: operations, attributes, symbols. It sets attributes on whatever is open
/// in the builder: an argument, a result, an operation or the module.
class Translation {
 public:
  explicit Translation(WorkloadBuilder& builder) : builder_(builder) {}

  struct OpName {
    Opcode code = Opcode::k_unknown;
    bool is_return = false;
  };
  /// Turns "stablehlo.dot_general", "call", "chlo.broadcast_add" … into an opcode;
  /// each spelling, which must outlive this, is looked up once. Unknown operations
  /// of a dialect are noted; nothing for a word without a dialect that is none.
  std::optional<OpName> operation_name(std::string_view written) {
    const uint32_t known = operations_.find(written);
    if (known != TextMap::kMissing) [[likely]]
      return operation_names_[known];
    return look_up(written);
  }

  /// The function called `symbol` in the module being read. Those of later modules in
  /// the same file get the module's number, so that each keeps its own.
  FunctionId declare_function(std::string_view symbol);
  void set_module(size_t number) { module_ = number; }  ///< From 0.

  /// Sets one attribute; those that nobody downstream needs are left out.
  void apply(std::string_view name, const AttributeValue& value);
  /// The same of an operation's attribute whose rule is known.
  void apply(const AttributeRule& rule, const AttributeValue& value);
  /// Of an operation's attribute; null where nobody downstream needs it.
  static const AttributeRule* find_rule(std::string_view name);
  /// Whether `apply` does something with an attribute of this name.
  static bool keeps(std::string_view name);
  /// Whether attributes of this name name a function.
  static bool names_function(std::string_view name);

  /// Replica groups over axes of a mesh; false when the module's groups list more
  /// than `kMaxListedRanks`.
  bool apply_mesh_axes(std::string_view mesh_name, const Mesh* inline_mesh,
                       std::span<const AxisReference> axes);

  /// Closes the open operation, begun as `code`.
  void finish_operation(Opcode code) {
    if (code == Opcode::k_custom_call) recognise_target();
    builder_.end_op();
  }

  /// While one is set, attributes are those of the argument or result.
  ArgumentInfo* argument = nullptr;
  ResultInfo* result = nullptr;

 private:
  std::optional<OpName> look_up(std::string_view written);
  void recognise_target();
  void apply_replica_groups(const AttributeValue& value);
  ShardingId gspmd_sharding(std::string_view text);

  WorkloadBuilder& builder_;
  TextMap operations_;
  std::vector<OpName> operation_names_;
  size_t module_ = 0;
  size_t listed_ranks_ = 0;  ///< Of replica groups over mesh axes.
  std::vector<int64_t> group_sizes_;
};

}  // namespace orrery::stablehlo
