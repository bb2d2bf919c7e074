#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/source.h"

/// The messages of onnx.proto as far as a cost model needs them. Strings and
/// tensor contents are views into the mapped file.
namespace orrery::onnx {

/// What TensorProto.DataType calls them; nothing for UNDEFINED and unknown ones.
std::optional<ElementType> element_type(int64_t data_type);

/// A TensorProto or the dense form of a SparseTensorProto: its shape and where
/// its contents lie.
struct Tensor {
  std::string_view name;
  size_t offset = 0;
  ElementType element = ElementType::kNone;
  std::vector<int64_t> dims;
  std::string_view raw;    ///< raw_data
  std::string_view typed;  ///< The message itself when it has typed fields (int64_data …).
  bool sparse = false;     ///< Contents are not kept.
  bool external = false;
  std::string_view location;    ///< Of external data: the file beside the model …
  int64_t external_offset = 0;  ///< … and where in it.

  /// Product of the dimensions; throws when it overflows.
  int64_t elements(const Source& source) const;
};

struct Dimension {
  std::optional<int64_t> value;
  std::string_view parameter;  ///< dim_param; empty for an unnamed open one.
};

struct TypeInfo {
  enum class Kind : uint8_t { kAbsent, kTensor, kSequence, kOptional, kOther };
  Kind kind = Kind::kAbsent;
  ElementType element = ElementType::kNone;
  bool has_shape = false;
  std::vector<Dimension> dims;
  std::vector<TypeInfo> inner;  ///< Of a sequence or optional: one.
};

struct ValueInfo {
  std::string_view name;
  size_t offset = 0;
  TypeInfo type;
};

struct Graph;

struct NodeAttribute {
  /// AttributeProto.AttributeType's own numbers.
  enum class Kind : uint8_t {
    kUndefined = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14,
  };
  std::string_view name;
  std::string_view reference;  ///< ref_attr_name: the calling node's attribute stands here.
  size_t offset = 0;
  Kind kind = Kind::kUndefined;
  float real = 0;
  int64_t integer = 0;
  std::string_view string;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string_view> strings;
  std::shared_ptr<const Tensor> tensor;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const TypeInfo> type;
};

struct Node {
  size_t offset = 0;
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;  ///< Empty names are inputs left out.
  std::vector<std::string_view> outputs;
  std::vector<NodeAttribute> attributes;
};

struct Graph {
  size_t offset = 0;
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> values;  ///< value_info
};

using OpsetImports = std::map<std::string_view, int64_t>;

struct FunctionDefinition {
  size_t offset = 0;
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;  ///< Without a default.
  std::vector<NodeAttribute> defaults;       ///< With one.
  std::vector<Node> nodes;
  std::vector<ValueInfo> values;
  OpsetImports opsets;
};

struct Model {
  int64_t ir_version = 0;
  std::string_view producer;
  OpsetImports opsets;
  Graph graph;
  std::vector<FunctionDefinition> functions;
  size_t training_infos = 0;
};

/// Reads the whole message structure; throws `kInput` with the byte offset.
Model parse_model(const Source& source);
/// Whether the opening bytes look like a ModelProto.
bool looks_like_model(const Source& source);

/// "ai.onnx" and "" are the same domain; the latter is used throughout.
std::string_view canonical_domain(std::string_view domain);

}  // namespace orrery::onnx
