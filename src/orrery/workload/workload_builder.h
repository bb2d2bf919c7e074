#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Makes a `Workload`, operation by operation in program order. Every reader and
/// the zoo build through this and nothing else.
///
///     WorkloadBuilder b("stablehlo", "m.mlir");
///     FunctionId f = b.declare_function("main");
///     b.begin_function(f);
///     ValueId x = b.add_argument(b.tensor_type(ElementType::kF32, {4, 8}), {});
///     ValueId y = b.emit(Opcode::k_tanh, {{x}}, b.value_type(x));
///     b.emit_return({{y}});
///     b.end_function();
///     Workload w = b.finish(source);
///
/// An operation with regions, or whose result types come late, is opened and
/// closed: begin_op, set_*, begin_region … end_region, set_result_types, end_op.
class WorkloadBuilder {
 public:
  WorkloadBuilder(std::string format, std::string name);
  ~WorkloadBuilder();
  WorkloadBuilder(WorkloadBuilder&&) noexcept;
  WorkloadBuilder& operator=(WorkloadBuilder&&) noexcept;

  // Module.
  void set_name(std::string name);
  void set_library(std::string library);
  void set_partitions(int64_t partitions, int64_t replicas);  ///< 0 leaves one as it is.
  void add_note(std::string note);  ///< Kept once however often it is added.
  MeshId add_mesh(Mesh mesh);
  MeshId find_mesh(std::string_view name) const;  ///< The last of that name.
  const Mesh& mesh(MeshId id) const;
  ShardingId add_sharding(Sharding sharding);
  StringId intern(std::string_view text);
  std::string_view string(StringId id) const;

  // Types. Negative sizes other than kDynamic, more than 64 dimensions, or more
  // than 2^48 elements throw std::invalid_argument (the caller knows the place).
  TypeId tensor_type(ElementType element, std::span<const int64_t> dims,
                     std::span<const int64_t> minor_to_major = {},
                     ElementType expressed = ElementType::kNone);
  TypeId tensor_type(ElementType element, std::initializer_list<int64_t> dims) {
    return tensor_type(element, std::span(dims.begin(), dims.size()));
  }
  TypeId tuple_type(std::span<const TypeId> members);
  TypeId token_type();
  const Type& type(TypeId id) const;
  TypeId value_type(ValueId id) const;
  const Type& type_of(ValueId id) const { return type(value_type(id)); }

  // Functions. A name may be declared, and called, before its body is known.
  FunctionId declare_function(std::string_view name);
  /// Whether a body was begun for it.
  bool has_body(FunctionId id) const;
  void begin_function(FunctionId id, bool is_public = true);
  ValueId add_argument(TypeId type, ArgumentInfo info);
  void set_result_infos(std::vector<ResultInfo> infos);
  /// Result types default to those of the last `return`.
  void end_function();
  /// A function without a body.
  void declare_external(FunctionId id, std::span<const TypeId> results);
  Function& function(FunctionId id);
  /// Replaces the rule of `Workload::entry`.
  void set_entry(FunctionId id);

  // Operations.
  OpId begin_op(Opcode code, std::span<const ValueId> operands, uint32_t result_count,
                size_t offset = 0);
  bool in_operation() const;  ///< Whether one is open.
  /// What was set on the open operation so far.
  bool open_has(Attr key) const;
  std::string_view open_string(Attr key) const;
  std::span<const ValueId> open_operands() const;
  void set_open_code(Opcode code);
  /// Further operands of the open operation, before its first region.
  void add_operand(ValueId value);
  void set_int(Attr key, int64_t value);
  void set_real(Attr key, double value);
  void set_ints(Attr key, std::span<const int64_t> values);
  void set_ints(Attr key, std::initializer_list<int64_t> values) {
    set_ints(key, std::span(values.begin(), values.size()));
  }
  void set_string(Attr key, std::string_view value);
  void set_function(Attr key, FunctionId id);
  void set_sharding(Attr key, ShardingId id);
  void set_name(StringId name);  ///< Of the open operation.
  void set_op_name(OpId id, StringId name);
  void set_result_type(uint32_t i, TypeId type);
  /// Also sets the count, where it was begun with 0 because the file names no results.
  void set_result_types(std::span<const TypeId> types);
  RegionId begin_region();
  ValueId add_region_argument(TypeId type);
  void end_region();
  OpId end_op();
  /// The values the open or last operation defines.
  ValueId result(OpId id, uint32_t i = 0) const;
  /// The operation as built so far (e.g. to look through constants).
  const Op& op(OpId id) const;
  Opcode code(OpId id) const { return op(id).code; }
  OpId definition(ValueId id) const;
  const Workload& so_far() const { return *workload_; }
  /// Adds an attribute to a closed operation; at most a few a module, for what
  /// is known only later (trip counts).
  void annotate(OpId id, Attr key, int64_t value);

  // Short forms for operations without regions.
  ValueId emit(Opcode code, std::span<const ValueId> operands, TypeId result);
  ValueId emit(Opcode code, std::initializer_list<ValueId> operands, TypeId result) {
    return emit(code, std::span(operands.begin(), operands.size()), result);
  }
  void emit_return(std::span<const ValueId> values, size_t offset = 0);

  /// Checks the whole (verify.h), infers trip counts of counted loops, picks the
  /// entry and gives the workload. Faults throw `kInput` at the operation's place
  /// in `source`.
  Workload finish(const Source& source, int64_t trip_count_otherwise = 0);
  /// For workloads built by the project's own code: a fault is an internal error.
  Workload finish();

 private:
  struct State;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
