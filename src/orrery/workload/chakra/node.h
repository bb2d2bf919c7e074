#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Chakra execution traces: what one rank did, as nodes with dependencies. A trace is not a
/// graph of tensors, so it does not become a `Workload`.
/// Schema: https://github.com/mlcommons/chakra, schema/protobuf/et_def.proto (ChakraProtoMsg).
namespace orrery::chakra {

/// Each kind is the schema's own number.
enum class NodeType : uint8_t {
  kInvalid = 0,
  kMetadata = 1,
  kMemLoad = 2,
  kMemStore = 3,
  kComp = 4,
  kCommSend = 5,
  kCommRecv = 6,
  kCommColl = 7,
};
inline constexpr size_t kNodeTypes = 8;

/// "COMP_NODE" and so on, as the schema calls them.
std::string_view name(NodeType type);

/// Each kind is the schema's own number (CollectiveCommType).
enum class Collective : uint8_t {
  kAllReduce = 0,
  kReduce = 1,
  kAllGather = 2,
  kGather = 3,
  kScatter = 4,
  kBroadcast = 5,
  kAllToAll = 6,
  kReduceScatter = 7,
  kReduceScatterBlock = 8,
  kBarrier = 9,
};
inline constexpr size_t kCollectives = 10;

/// "all-reduce" and so on.
std::string_view name(Collective kind);

/// What an attribute holds. Each kind is the field of AttributeProto it is written in, and
/// the one after it is the list of the same.
enum class ValueType : uint8_t {
  kNone = 0,
  kDouble = 3,
  kFloat = 5,
  kInt32 = 7,
  kInt64 = 9,
  kUint32 = 11,
  kUint64 = 13,
  kSint32 = 15,
  kSint64 = 17,
  kFixed32 = 19,
  kFixed64 = 21,
  kSfixed32 = 23,
  kSfixed64 = 25,
  kBool = 27,
  kString = 29,
  kBytes = 31,
};

/// One attribute. Whole numbers are kept as 64 bits, signed ones extended; floating-point
/// ones as the bits of a double; so that what was read is written again bit by bit.
struct Attribute {
  std::string name;
  std::string doc_string;
  ValueType type = ValueType::kNone;
  bool list = false;
  std::vector<uint64_t> numbers;   ///< One unless a list.
  std::vector<std::string> texts;  ///< Of strings and bytes.

  bool operator==(const Attribute&) const = default;

  static Attribute of_int64(std::string name, int64_t value);
  static Attribute of_uint64(std::string name, uint64_t value);
  static Attribute of_bool(std::string name, bool value);
  static Attribute of_string(std::string name, std::string value);

  bool is_whole() const;  ///< A whole number of any width, or a bool; not a list.
};

/// Inputs or outputs as the tracer wrote them.
struct Tensors {
  std::string values, shapes, types;
  bool operator==(const Tensors&) const = default;
};

struct Metadata {
  std::string version;
  std::vector<Attribute> attributes;
  bool operator==(const Metadata&) const = default;
};

struct Node {
  uint64_t id = 0;
  std::string name;
  NodeType type = NodeType::kInvalid;
  std::vector<uint64_t> control_dependencies;
  std::vector<uint64_t> data_dependencies;
  uint64_t start_us = 0;
  uint64_t duration_us = 0;
  bool has_inputs = false, has_outputs = false;
  Tensors inputs, outputs;
  std::vector<Attribute> attributes;

  bool operator==(const Node&) const = default;
  /// The attribute of that name, or null.
  const Attribute* find(std::string_view attribute) const;
};

}  // namespace orrery::chakra
