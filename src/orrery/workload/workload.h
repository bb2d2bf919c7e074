#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/id.h"
#include "orrery/workload/attribute.h"
#include "orrery/workload/opcode.h"

namespace orrery {

using TypeId = Id<struct TypeTag>;
using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;
using RegionId = Id<struct RegionTag>;
using FunctionId = Id<struct FunctionTag>;
using StringId = Id<struct StringTag>;
using MeshId = Id<struct MeshTag>;
using ShardingId = Id<struct ShardingTag>;

inline constexpr int64_t kDynamic = -1;  ///< A dimension whose size the file leaves open.

/// A tensor, a tuple of types, or a value without data. Types are unique: equal
/// types have equal ids.
struct Type {
  enum class Kind : uint8_t { kTensor, kTuple, kToken };
  Kind kind = Kind::kToken;
  ElementType element = ElementType::kNone;
  ElementType expressed = ElementType::kNone;  ///< Of a quantised tensor: what it stands for.
  bool dynamic = false;                        ///< Has a kDynamic dimension somewhere.
  std::vector<int64_t> dims;                   ///< Sizes, kDynamic where open.
  std::vector<int64_t> minor_to_major;         ///< Layout; empty means row-major.
  std::vector<TypeId> members;                 ///< Of a tuple.
  int64_t elements = 0;                        ///< Product of dims (open ones as 1); tuples: 0.
  int64_t bytes = 0;  ///< Densely packed, rounded up to a byte; tuples: the sum of their members.

  int rank() const { return static_cast<int>(dims.size()); }
};

struct Value {
  TypeId type;
  OpId definition;  ///< Not valid for arguments of functions and regions.
};

struct Attribute {
  enum class Kind : uint8_t { kInt, kReal, kInts, kString, kFunction, kSharding };
  Attr key{};
  Kind kind = Kind::kInt;
  uint32_t count = 0;  ///< Of kInts.
  union {
    int64_t integer = 0;
    double real;
    uint32_t offset;  ///< Of kInts: into the integer pool.
    uint32_t index;   ///< Of kString, kFunction, kSharding.
  };
};

/// Operations stand in pre-order: those of an operation's regions follow it, up
/// to `end`. So the operations directly in a region are first, ops[first].end, …
struct Op {
  Opcode code = Opcode::k_unknown;
  uint16_t attribute_count = 0;
  uint32_t first_attribute = 0;
  uint32_t first_operand = 0;
  uint32_t operand_count = 0;
  uint32_t first_result = 0;
  uint32_t result_count = 0;
  uint32_t end = 0;       ///< One past the last operation of its regions.
  RegionId first_region;  ///< Further regions by Region::next.
  StringId name;          ///< As the file calls it, where that helps a reader.
  uint32_t offset = 0;    ///< Byte in the source, for messages.
};

struct Region {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  uint32_t first_argument = 0;  ///< Arguments are consecutive values.
  uint32_t argument_count = 0;
  RegionId next;
};

/// What an argument of the entry function is for, where the source says so.
enum class Role : uint8_t {
  kUnknown,
  kInput,
  kParameter,
  kOptimizerState,
  kCache,
  kBuffer,  ///< Kept between runs but not trained: running statistics, tables.
};

struct ArgumentInfo {
  StringId name;
  ShardingId sharding;
  Role role = Role::kUnknown;
  bool donated = false;         ///< The caller gives the buffer away.
  int32_t aliased_output = -1;  ///< The result that shares its buffer, if fixed.
};

struct ResultInfo {
  StringId name;
  ShardingId sharding;
};

struct Function {
  StringId name;
  bool is_public = true;
  RegionId body;  ///< Not valid for a declaration without a body.
  std::vector<ArgumentInfo> arguments;
  std::vector<ResultInfo> results;
  std::vector<TypeId> result_types;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

/// The logical arrangement of devices that shardings refer to.
struct Mesh {
  std::string name;
  std::vector<MeshAxis> axes;
  std::vector<int64_t> device_ids;  ///< Empty: row-major 0, 1, 2, …
};

/// How a tensor is spread over devices, as the file wrote it.
struct Sharding {
  enum class Form : uint8_t { kShardy, kGspmd };
  Form form = Form::kGspmd;
  MeshId mesh;       ///< Shardy only.
  std::string text;  ///< `[{"x"}, {}]` or `{devices=[8,1]<=[8]}`.
};

class OpView;

/// A graph of tensor operations, whatever file it came from. Calls, loops and
/// repeated layers stay structured. Made by a `WorkloadBuilder`, then read-only.
class Workload {
 public:
  const std::string& name() const { return name_; }
  const std::string& format() const { return format_; }  ///< "stablehlo", "onnx", …
  /// The library whose PyTorch modules run the model: "transformers", "torchvision"; empty: not
  /// known.
  const std::string& library() const { return library_; }
  int64_t partitions() const { return partitions_; }
  int64_t replicas() const { return replicas_; }

  std::span<const Op> ops() const { return ops_; }
  std::span<const Region> regions() const { return regions_; }
  std::span<const Function> functions() const { return functions_; }
  std::span<const Value> values() const { return values_; }
  std::span<const Type> types() const { return types_; }
  std::span<const Mesh> meshes() const { return meshes_; }
  std::span<const Sharding> shardings() const { return shardings_; }
  /// What the reader could not take from the file, for the answer's `gaps`.
  std::span<const std::string> notes() const { return notes_; }

  /// The function a run starts with: `main`, else the only public one, else the
  /// first. Not valid only when there are no functions with a body.
  FunctionId entry() const { return entry_; }

  const Op& op(OpId id) const { return ops_[id.index]; }
  const Region& region(RegionId id) const { return regions_[id.index]; }
  const Function& function(FunctionId id) const { return functions_[id.index]; }
  const Type& type(TypeId id) const { return types_[id.index]; }
  const Type& type(ValueId id) const { return types_[values_[id.index].type.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  std::string_view string(StringId id) const {
    return id.valid() ? std::string_view(strings_[id.index]) : std::string_view();
  }
  std::span<const ValueId> operands(const Op& op) const {
    return std::span(operands_).subspan(op.first_operand, op.operand_count);
  }
  std::span<const Attribute> attributes(const Op& op) const {
    return std::span(attributes_).subspan(op.first_attribute, op.attribute_count);
  }
  std::span<const int64_t> integers(const Attribute& a) const {
    return std::span(integers_).subspan(a.offset, a.count);
  }

  OpView view(OpId id) const;

  /// Bytes the tables take, for the memory benchmark.
  size_t memory_bytes() const;

 private:
  friend class WorkloadBuilder;
  std::string name_;
  std::string format_;
  std::string library_;
  int64_t partitions_ = 1;
  int64_t replicas_ = 1;
  FunctionId entry_;
  std::vector<Op> ops_;
  std::vector<Region> regions_;
  std::vector<Function> functions_;
  std::vector<Value> values_;
  std::vector<ValueId> operands_;
  std::vector<Attribute> attributes_;
  std::vector<int64_t> integers_;
  std::vector<Type> types_;
  std::vector<std::string> strings_;
  std::vector<Mesh> meshes_;
  std::vector<Sharding> shardings_;
  std::vector<std::string> notes_;
};

/// One operation with its workload: the comfortable way to read it.
class OpView {
 public:
  OpView(const Workload& workload, OpId id) : workload_(&workload), id_(id) {}

  OpId id() const { return id_; }
  const Op& raw() const { return workload_->op(id_); }
  const Workload& workload() const { return *workload_; }
  Opcode code() const { return raw().code; }

  uint32_t operand_count() const { return raw().operand_count; }
  ValueId operand(uint32_t i) const { return workload_->operands(raw())[i]; }
  const Type& operand_type(uint32_t i) const { return workload_->type(operand(i)); }
  uint32_t result_count() const { return raw().result_count; }
  ValueId result(uint32_t i) const { return ValueId{raw().first_result + i}; }
  const Type& result_type(uint32_t i) const { return workload_->type(result(i)); }

  /// The attribute, or null.
  const Attribute* find(Attr key) const;
  bool has(Attr key) const { return find(key) != nullptr; }
  int64_t integer(Attr key, int64_t otherwise) const;
  double real(Attr key, double otherwise) const;
  std::span<const int64_t> integers(Attr key) const;  ///< Empty when absent.
  std::string_view string(Attr key) const;            ///< Empty when absent.
  FunctionId callee(Attr key = Attr::kCallee) const;  ///< Not valid when absent.

  std::vector<RegionId> raw_regions() const;  ///< Its own regions.
  /// The bodies it runs, as regions: its own, then those of its callees.
  std::vector<RegionId> bodies() const;

 private:
  const Workload* workload_;
  OpId id_;
};

inline OpView Workload::view(OpId id) const { return OpView(*this, id); }

/// Visits the operations directly inside `region` in order.
template <class Visitor>
void for_each_op(const Workload& workload, const Region& region, Visitor&& visit) {
  for (uint32_t i = region.first_op; i < region.end_op; i = workload.ops()[i].end) visit(OpId{i});
}

}  // namespace orrery
