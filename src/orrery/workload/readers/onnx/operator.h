#pragma once

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/workload/readers/onnx/constant.h"
#include "orrery/workload/readers/onnx/model.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::onnx {

class Translator;
struct Scope;

/// What a name of the graph stands for. Every size is known: open dimensions
/// were bound where they entered.
struct Value {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional };
  Kind kind = Kind::kTensor;
  ElementType element = ElementType::kNone;
  Dims dims;
  /// Not valid for a folded constant, which becomes an operation only where one uses it.
  ValueId id;
  std::shared_ptr<const Constant> constant;
  /// Of a sequence its tensors, of an optional none or one.
  std::vector<Value> items;
};

/// One node while its rule runs: what it is given, and how it says what it does.
/// Every complaint names the node and its place in the file.
///
/// Emitted elementwise operations broadcast as ONNX does, without operations of
/// their own: a kernel reads the small operand once.
class NodeContext {
 public:
  NodeContext(Translator& translator, Scope& scope, const Node& node, int64_t version)
      : translator_(translator), scope_(scope), node_(node), version_(version) {}

  const Node& node() const { return node_; }
  /// Of the operator set the node's domain is imported at.
  int64_t version() const { return version_; }
  Translator& translator() { return translator_; }
  Scope& scope() { return scope_; }
  const Source& source() const;
  WorkloadBuilder& builder();
  [[noreturn]] void fail(const std::string& message) const;
  void note(std::string message);

  // Inputs. Those left out at the end or by an empty name are absent.
  size_t input_count() const { return node_.inputs.size(); }
  bool has_input(size_t i) const;
  const Value& value(size_t i) const;   ///< Of any kind; fails when absent.
  const Value& tensor(size_t i) const;  ///< Fails when absent or not a tensor.
  const Dims& dims(size_t i) const { return tensor(i).dims; }
  ElementType element(size_t i) const { return tensor(i).element; }
  size_t rank(size_t i) const { return tensor(i).dims.size(); }
  /// Fails unless the rank is at least `least`.
  void expect_rank(size_t i, size_t least) const;
  void expect_inputs(size_t least) const;
  const Constant* constant(size_t i) const;  ///< Null when absent or not known.
  /// The known integers of an input; fails, naming it, when they depend on data.
  Dims integers(size_t i, std::string_view what) const;
  std::optional<Dims> known_integers(size_t i) const;
  std::optional<double> known_real(size_t i) const;  ///< Of a one-element tensor.

  // Attributes, by name; of another type than asked for they fail.
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t required_integer(std::string_view name) const;
  double real(std::string_view name, double otherwise) const;
  std::string_view string(std::string_view name, std::string_view otherwise) const;
  std::optional<Dims> integer_list(std::string_view name) const;
  std::vector<float> real_list(std::string_view name) const;
  const Graph& graph(std::string_view name) const;
  const NodeAttribute* find(std::string_view name) const;
  /// An axis attribute or input in [0, rank).
  int64_t axis(int64_t axis, size_t rank) const;
  Dims axes(const Dims& axes, size_t rank) const;
  /// The element type with this TensorProto number.
  ElementType data_type(int64_t number) const;

  // Arithmetic on sizes that fails instead of overflowing.
  int64_t multiply(int64_t a, int64_t b) const;
  int64_t add(int64_t a, int64_t b) const;
  int64_t product(std::span<const int64_t> dims) const;
  /// NumPy's rule; fails when the shapes do not fit together.
  Dims broadcast(const Dims& a, const Dims& b) const;

  // Emission.
  using Attributes = std::function<void(WorkloadBuilder&)>;
  /// The operand for input `i`, as a constant operation where it was folded.
  ValueId operand(size_t i);
  ValueId operand(const Value& value);
  TypeId type(ElementType element, const Dims& dims, const Dims& minor_to_major = {});
  ValueId emit(Opcode code, std::span<const ValueId> operands, TypeId result,
               const Attributes& attributes = nullptr);
  ValueId emit(Opcode code, std::initializer_list<ValueId> operands, ElementType element,
               const Dims& dims, const Attributes& attributes = nullptr);
  /// An operation with several results.
  std::vector<ValueId> emit_many(Opcode code, std::span<const ValueId> operands,
                                 std::span<const TypeId> results,
                                 const Attributes& attributes = nullptr);
  /// Elementwise over broadcast shapes, of the first operand's element type.
  ValueId elementwise(Opcode code, std::initializer_list<ValueId> operands);
  ValueId compare(std::string_view how, ValueId a, ValueId b);
  ValueId convert(ValueId value, ElementType to);
  ValueId number(ElementType element, double value);  ///< A scalar constant.
  ValueId splat(ElementType element, const Dims& dims, double value);
  ValueId reshape(ValueId value, const Dims& dims);  ///< A view; none when equal.
  ValueId transpose(ValueId value, const Dims& permutation);
  ValueId iota(ElementType element, const Dims& dims, int64_t dimension);
  /// Reduces with `combine` (k_add, k_maximum, …); dropped dimensions come back
  /// as ones when `keep`.
  ValueId reduce(Opcode combine, ValueId value, const Dims& axes, bool keep);
  /// The body of a reduction: combine(a, b) on scalars of `element`.
  void reduction_body(Opcode combine, ElementType element);
  ValueId concatenate(std::span<const ValueId> values, int64_t axis);
  ValueId slice(ValueId value, const Dims& start, const Dims& limit, const Dims& stride);
  Dims dims_of(ValueId value);
  ElementType element_of(ValueId value);
  /// Names the open operation after the node.
  void set_scope();

  // Outputs.
  size_t output_count() const { return node_.outputs.size(); }
  bool has_output(size_t i) const;
  void set(size_t i, ValueId value);
  void set(size_t i, Value value);
  /// A folded result, when it is small enough; false when it must be emitted.
  bool set_constant(size_t i, Constant constant);
  /// Sizes only data can tell (nullopt): as declared in the file or bound by name,
  /// else fails saying how to bind them.
  Dims data_dependent(size_t i, const std::vector<std::optional<int64_t>>& dims) const;
  /// The shape the file declares for an output, when all of it is known.
  std::optional<Dims> declared_dims(size_t i) const;

 private:
  Translator& translator_;
  Scope& scope_;
  const Node& node_;
  int64_t version_;
};

/// One operator: how its result types follow and what operations it stands for.
struct OperatorRule {
  std::string_view name;
  void (*translate)(NodeContext&);
  /// Works the result out when every input is known; false when it cannot.
  bool (*fold)(NodeContext&) = nullptr;
};

// The rules by family, each a file.
std::span<const OperatorRule> elementwise_rules();
std::span<const OperatorRule> shape_rules();
std::span<const OperatorRule> indexing_rules();
std::span<const OperatorRule> contraction_rules();
std::span<const OperatorRule> window_rules();
std::span<const OperatorRule> reduction_rules();
std::span<const OperatorRule> normalization_rules();
std::span<const OperatorRule> attention_rules();
std::span<const OperatorRule> recurrent_rules();
std::span<const OperatorRule> quantization_rules();
std::span<const OperatorRule> generation_rules();
std::span<const OperatorRule> signal_rules();
std::span<const OperatorRule> sequence_rules();
std::span<const OperatorRule> control_rules();
std::span<const OperatorRule> contrib_rules();  ///< Of domain com.microsoft.

/// The rule for an operator of the default or the com.microsoft domain, or null.
const OperatorRule* find_rule(std::string_view domain, std::string_view name);

}  // namespace orrery::onnx
