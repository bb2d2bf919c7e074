#include "orrery/workload/readers/onnx/model.h"

#include <fmt/format.h>

#include <array>

#include "orrery/base/protobuf_wire.h"

namespace orrery::onnx {
namespace {

// Deeper than any exporter nests control flow or types, shallow enough for the stack.
constexpr int kMaxDepth = 32;
constexpr size_t kMaxRank = 64;
// Lists in attributes: tree ensembles hold some hundred thousand.
constexpr size_t kMaxListElements = size_t{1} << 24;
constexpr int64_t kMaxElements = int64_t{1} << 48;

using Reader = ProtobufReader;

Graph parse_graph(const Source& source, Reader message, int depth);
TypeInfo parse_type(Reader message, int depth);

void check_depth(const Reader& at, int depth) {
  if (depth > kMaxDepth) at.fail(fmt::format("nested more than {} deep", kMaxDepth));
}

int64_t decimal(Reader& at, std::string_view text) {
  int64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || value > (INT64_MAX - 9) / 10)
      at.fail(fmt::format("'{}' is not an offset in an external file", text));
    value = value * 10 + (c - '0');
  }
  return value;
}

void parse_external(Tensor& tensor, Reader entry) {
  std::string_view key, value;
  while (entry.next()) switch (entry.field()) {
      case 1:
        key = entry.bytes();
        break;
      case 2:
        value = entry.bytes();
        break;
      default:
        entry.skip();
    }
  if (key == "location") tensor.location = value;
  if (key == "offset") tensor.external_offset = decimal(entry, value);
}

Tensor parse_tensor(const Source& source, Reader message) {
  Tensor tensor;
  tensor.offset = message.offset();
  const Reader whole = message;
  bool typed = false;
  bool has_type = false;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        message.append_int64(tensor.dims, kMaxRank);
        break;
      case 2: {
        const int32_t data_type = message.int32();
        const auto element = element_type(data_type);
        if (!element) message.fail(fmt::format("tensor data type {} is not known", data_type));
        tensor.element = *element;
        has_type = true;
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7:
      case 10:
      case 11:
        typed = true;
        message.skip();
        break;
      case 8:
        tensor.name = message.bytes();
        break;
      case 9:
        tensor.raw = message.bytes();
        break;
      case 13:
        tensor.external = true;
        parse_external(tensor, message.message());
        break;
      case 14:
        if (message.int32() == 1) tensor.external = true;
        break;
      default:
        message.skip();
    }
  }
  if (!has_type) message.fail("a tensor without a data type");
  for (int64_t dim : tensor.dims)
    if (dim < 0)
      whole.fail(fmt::format("tensor '{}' has the negative dimension {}", tensor.name, dim));
  tensor.elements(source);
  if (typed) {
    // The message as a whole, to be walked again when its numbers are asked for.
    const size_t end = message.end_offset();
    tensor.typed = source.text().substr(tensor.offset, end - tensor.offset);
  }
  return tensor;
}

Tensor parse_sparse_tensor(const Source& source, Reader message) {
  Tensor tensor;
  const size_t offset = message.offset();
  std::vector<int64_t> dims;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        tensor = parse_tensor(source, message.message());
        break;
      case 3:
        message.append_int64(dims, kMaxRank);
        break;
      default:
        message.skip();
    }
  }
  if (tensor.element == ElementType::kNone) message.fail("a sparse tensor without values");
  tensor.offset = offset;
  tensor.dims = std::move(dims);
  for (int64_t dim : tensor.dims)
    if (dim < 0) message.fail(fmt::format("a sparse tensor has the negative dimension {}", dim));
  tensor.elements(source);
  tensor.sparse = true;
  tensor.raw = tensor.typed = {};
  return tensor;
}

Dimension parse_dimension(Reader message) {
  Dimension dimension;
  while (message.next()) {
    switch (message.field()) {
      case 1: {
        const int64_t value = message.int64();
        if (value < 0) message.fail(fmt::format("negative dimension {}", value));
        dimension.value = value;
        break;
      }
      case 2:
        dimension.parameter = message.bytes();
        break;
      default:
        message.skip();
    }
  }
  return dimension;
}

TypeInfo parse_tensor_type(Reader message) {
  TypeInfo type;
  type.kind = TypeInfo::Kind::kTensor;
  while (message.next()) {
    switch (message.field()) {
      case 1: {
        const int32_t data_type = message.int32();
        const auto element = element_type(data_type);
        if (!element && data_type != 0)
          message.fail(fmt::format("tensor data type {} is not known", data_type));
        if (element) type.element = *element;
        break;
      }
      case 2: {
        type.has_shape = true;
        Reader shape = message.message();
        while (shape.next()) {
          if (shape.field() != 1) {
            shape.skip();
            continue;
          }
          if (type.dims.size() == kMaxRank) shape.fail("more than 64 dimensions");
          type.dims.push_back(parse_dimension(shape.message()));
        }
        break;
      }
      default:
        message.skip();
    }
  }
  return type;
}

TypeInfo parse_container_type(Reader message, TypeInfo::Kind kind, int depth) {
  TypeInfo type;
  type.kind = kind;
  while (message.next()) {
    if (message.field() == 1)
      type.inner = {parse_type(message.message(), depth + 1)};
    else
      message.skip();
  }
  return type;
}

TypeInfo parse_type(Reader message, int depth) {
  check_depth(message, depth);
  TypeInfo type;
  while (message.next()) {
    switch (message.field()) {
      case 1:
      case 8:
        type = parse_tensor_type(message.message());
        break;
      case 4:
        type = parse_container_type(message.message(), TypeInfo::Kind::kSequence, depth);
        break;
      case 9:
        type = parse_container_type(message.message(), TypeInfo::Kind::kOptional, depth);
        break;
      case 5:
      case 7:
        type.kind = TypeInfo::Kind::kOther;
        message.skip();
        break;
      default:
        message.skip();
    }
  }
  return type;
}

ValueInfo parse_value_info(Reader message) {
  ValueInfo info;
  info.offset = message.offset();
  while (message.next()) {
    switch (message.field()) {
      case 1:
        info.name = message.bytes();
        break;
      case 2:
        info.type = parse_type(message.message(), 0);
        break;
      default:
        message.skip();
    }
  }
  return info;
}

NodeAttribute parse_attribute(const Source& source, Reader message, int depth) {
  using Kind = NodeAttribute::Kind;
  NodeAttribute attribute;
  attribute.offset = message.offset();
  // Files of IR version 1 have no `type`: the field that is there tells it.
  Kind seen = Kind::kUndefined;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        attribute.name = message.bytes();
        break;
      case 2:
        attribute.real = message.float32();
        seen = Kind::kFloat;
        break;
      case 3:
        attribute.integer = message.int64();
        seen = Kind::kInt;
        break;
      case 4:
        attribute.string = message.bytes();
        seen = Kind::kString;
        break;
      case 5:
        attribute.tensor = std::make_shared<Tensor>(parse_tensor(source, message.message()));
        seen = Kind::kTensor;
        break;
      case 6:
        attribute.graph =
            std::make_shared<Graph>(parse_graph(source, message.message(), depth + 1));
        seen = Kind::kGraph;
        break;
      case 7:
        message.append_float32(attribute.reals, kMaxListElements);
        seen = Kind::kFloats;
        break;
      case 8:
        message.append_int64(attribute.integers, kMaxListElements);
        seen = Kind::kInts;
        break;
      case 9:
        attribute.strings.push_back(message.bytes());
        seen = Kind::kStrings;
        break;
      case 10:
        message.skip();
        seen = Kind::kTensors;
        break;
      case 11:
        message.skip();
        seen = Kind::kGraphs;
        break;
      case 14:
        attribute.type = std::make_shared<TypeInfo>(parse_type(message.message(), 0));
        seen = Kind::kTypeProto;
        break;
      case 20: {
        const int32_t kind = message.int32();
        if (kind < 0 || kind > static_cast<int32_t>(Kind::kTypeProtos))
          message.fail(fmt::format("attribute type {} is not known", kind));
        attribute.kind = static_cast<Kind>(kind);
        break;
      }
      case 21:
        attribute.reference = message.bytes();
        break;
      case 22:
        attribute.tensor = std::make_shared<Tensor>(parse_sparse_tensor(source, message.message()));
        seen = Kind::kSparseTensor;
        break;
      default:
        message.skip();
    }
  }
  if (attribute.kind == Kind::kUndefined) attribute.kind = seen;
  const bool missing = (attribute.kind == Kind::kTensor && !attribute.tensor) ||
                       (attribute.kind == Kind::kSparseTensor && !attribute.tensor) ||
                       (attribute.kind == Kind::kGraph && !attribute.graph) ||
                       (attribute.kind == Kind::kTypeProto && !attribute.type);
  if (missing && attribute.reference.empty())
    fail_at_byte(source, attribute.offset,
                 fmt::format("attribute '{}' does not hold what its type says", attribute.name));
  return attribute;
}

Node parse_node(const Source& source, Reader message, int depth) {
  Node node;
  node.offset = message.offset();
  while (message.next()) {
    switch (message.field()) {
      case 1:
        node.inputs.push_back(message.bytes());
        break;
      case 2:
        node.outputs.push_back(message.bytes());
        break;
      case 3:
        node.name = message.bytes();
        break;
      case 4:
        node.op_type = message.bytes();
        break;
      case 5:
        node.attributes.push_back(parse_attribute(source, message.message(), depth));
        break;
      case 7:
        node.domain = canonical_domain(message.bytes());
        break;
      case 8:
        node.overload = message.bytes();
        break;
      default:
        message.skip();
    }
  }
  if (node.op_type.empty())
    fail_at_byte(source, node.offset, "a node without an operator (op_type)");
  return node;
}

Graph parse_graph(const Source& source, Reader message, int depth) {
  check_depth(message, depth);
  Graph graph;
  graph.offset = message.offset();
  while (message.next()) {
    switch (message.field()) {
      case 1:
        graph.nodes.push_back(parse_node(source, message.message(), depth));
        break;
      case 2:
        graph.name = message.bytes();
        break;
      case 5:
        graph.initializers.push_back(parse_tensor(source, message.message()));
        break;
      case 11:
        graph.inputs.push_back(parse_value_info(message.message()));
        break;
      case 12:
        graph.outputs.push_back(parse_value_info(message.message()));
        break;
      case 13:
        graph.values.push_back(parse_value_info(message.message()));
        break;
      case 15:
        graph.initializers.push_back(parse_sparse_tensor(source, message.message()));
        break;
      default:
        message.skip();
    }
  }
  return graph;
}

void parse_opset(OpsetImports& opsets, Reader message) {
  std::string_view domain;
  int64_t version = 0;
  while (message.next()) switch (message.field()) {
      case 1:
        domain = canonical_domain(message.bytes());
        break;
      case 2:
        version = message.int64();
        break;
      default:
        message.skip();
    }
  opsets[domain] = std::max(opsets[domain], version);
}

FunctionDefinition parse_function(const Source& source, Reader message) {
  FunctionDefinition function;
  function.offset = message.offset();
  while (message.next()) {
    switch (message.field()) {
      case 1:
        function.name = message.bytes();
        break;
      case 4:
        function.inputs.push_back(message.bytes());
        break;
      case 5:
        function.outputs.push_back(message.bytes());
        break;
      case 6:
        function.attributes.push_back(message.bytes());
        break;
      case 7:
        function.nodes.push_back(parse_node(source, message.message(), 0));
        break;
      case 9:
        parse_opset(function.opsets, message.message());
        break;
      case 10:
        function.domain = canonical_domain(message.bytes());
        break;
      case 11:
        function.defaults.push_back(parse_attribute(source, message.message(), 0));
        break;
      case 12:
        function.values.push_back(parse_value_info(message.message()));
        break;
      case 13:
        function.overload = message.bytes();
        break;
      default:
        message.skip();
    }
  }
  return function;
}

}  // namespace

std::optional<ElementType> element_type(int64_t data_type) {
  using E = ElementType;
  static constexpr std::array<E, 27> kTypes = {
      E::kNone, E::kF32,    E::kU8,       E::kS8,        E::kU16,        E::kS16,    E::kS32,
      E::kS64,  E::kString, E::kBool,     E::kF16,       E::kF64,        E::kU32,    E::kU64,
      E::kC64,  E::kC128,   E::kBF16,     E::kF8E4M3FN,  E::kF8E4M3FNUZ, E::kF8E5M2, E::kF8E5M2FNUZ,
      E::kU4,   E::kS4,     E::kF4E2M1FN, E::kF8E8M0FNU, E::kU2,         E::kS2};
  if (data_type <= 0 || data_type >= static_cast<int64_t>(kTypes.size())) return std::nullopt;
  return kTypes[static_cast<size_t>(data_type)];
}

std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

int64_t Tensor::elements(const Source& source) const {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim == 0) return 0;
    if (__builtin_mul_overflow(product, dim, &product) || product > kMaxElements)
      fail_at_byte(source, offset, fmt::format("tensor '{}' has more than 2^48 elements", name));
  }
  return product;
}

Model parse_model(const Source& source) {
  Model model;
  Reader message(source);
  bool has_graph = false;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        model.ir_version = message.int64();
        break;
      case 2:
        model.producer = message.bytes();
        break;
      case 7:
        model.graph = parse_graph(source, message.message(), 0);
        has_graph = true;
        break;
      case 8:
        parse_opset(model.opsets, message.message());
        break;
      case 20:
        ++model.training_infos;
        message.skip();
        break;
      case 25:
        model.functions.push_back(parse_function(source, message.message()));
        break;
      default:
        message.skip();
    }
  }
  if (!has_graph) throw_input(source.name(), "an ONNX model without a graph");
  return model;
}

bool looks_like_model(const Source& source) {
  // ModelProto's fields in the order serialisers write them: ir_version first,
  // a small varint, then producer, domain, graph or opset as strings or
  // messages. Text formats fail at the first or second tag.
  const std::string_view text = source.text();
  if (text.size() < 4 || text[0] != '\x08' || text[1] <= 0) return false;
  const auto tag = static_cast<uint8_t>(text[2]);
  return tag == 0x12 || tag == 0x1a || tag == 0x22 || tag == 0x28 || tag == 0x32 || tag == 0x3a ||
         tag == 0x42;
}

}  // namespace orrery::onnx
