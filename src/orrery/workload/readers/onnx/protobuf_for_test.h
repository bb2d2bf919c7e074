#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Writes just enough of onnx.proto for tests and seed files to state their models.
namespace orrery::onnx::testing {

class Message {
 public:
  Message& varint(uint32_t field, int64_t value) {
    tag(field, 0);
    raw_varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& bytes(uint32_t field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.text_); }
  Message& float32(uint32_t field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void tag(uint32_t field, uint32_t wire_type) { raw_varint(field << 3 | wire_type); }
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

using Sizes = std::vector<int64_t>;

enum DataType : int {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
};

inline Message tensor(std::string_view name, DataType type, const Sizes& dims) {
  Message t;
  for (int64_t d : dims) t.varint(1, d);
  t.varint(2, type).bytes(8, name);
  return t;
}

/// An int64 tensor with its numbers.
inline Message integers(std::string_view name, const Sizes& values, const Sizes& dims) {
  Message t = tensor(name, kInt64, dims);
  for (int64_t v : values) t.varint(7, v);
  return t;
}
inline Message integers(std::string_view name, const Sizes& values) {
  return integers(name, values, {static_cast<int64_t>(values.size())});
}
inline Message floats(std::string_view name, const std::vector<float>& values, const Sizes& dims) {
  Message t = tensor(name, kFloat, dims);
  for (float v : values) t.float32(4, v);
  return t;
}

/// Sizes below zero stand for named open dimensions: -1 is "batch", -2 "sequence".
inline Message value_info(std::string_view name, DataType type, const Sizes& dims) {
  Message shape;
  for (int64_t d : dims) {
    Message dim;
    if (d >= 0) dim.varint(1, d);
    if (d == -1) dim.bytes(2, "batch");
    if (d == -2) dim.bytes(2, "sequence");
    shape.message(1, dim);
  }
  const Message tensor_type = Message().varint(1, type).message(2, shape);
  return Message().bytes(1, name).message(2, Message().message(1, tensor_type));
}

inline Message attribute(std::string_view name, int64_t value) {
  return Message().bytes(1, name).varint(3, value).varint(20, 2);
}
inline Message attribute(std::string_view name, const Sizes& values) {
  Message a = Message().bytes(1, name);
  for (int64_t v : values) a.varint(8, v);
  return a.varint(20, 7);
}
inline Message attribute(std::string_view name, float value) {
  return Message().bytes(1, name).float32(2, value).varint(20, 1);
}
inline Message attribute(std::string_view name, const char* value) {
  return Message().bytes(1, name).bytes(4, value).varint(20, 3);
}
inline Message tensor_attribute(std::string_view name, const Message& value) {
  return Message().bytes(1, name).message(5, value).varint(20, 4);
}
inline Message graph_attribute(std::string_view name, const Message& graph) {
  return Message().bytes(1, name).message(6, graph).varint(20, 5);
}

inline Message node(std::string_view op_type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, std::string_view domain = "") {
  Message n;
  for (const std::string& i : inputs) n.bytes(1, i);
  for (const std::string& o : outputs) n.bytes(2, o);
  n.bytes(3, "the_" + std::string(op_type)).bytes(4, op_type);
  for (const Message& a : attributes) n.message(5, a);
  if (!domain.empty()) n.bytes(7, domain);
  return n;
}

struct GraphParts {
  std::vector<Message> nodes, initializers, inputs, outputs, values;
};

inline Message graph(const GraphParts& parts) {
  Message g;
  for (const Message& m : parts.nodes) g.message(1, m);
  g.bytes(2, "g");
  for (const Message& m : parts.initializers) g.message(5, m);
  for (const Message& m : parts.inputs) g.message(11, m);
  for (const Message& m : parts.outputs) g.message(12, m);
  for (const Message& m : parts.values) g.message(13, m);
  return g;
}

inline std::string model(const GraphParts& parts, int64_t opset = 22,
                         const std::vector<Message>& functions = {}) {
  Message m = Message().varint(1, 10).message(7, graph(parts));
  m.message(8, Message().bytes(1, "").varint(2, opset));
  m.message(8, Message().bytes(1, "com.microsoft").varint(2, 1));
  for (const Message& f : functions) m.message(25, f);
  return m.text();
}

}  // namespace orrery::onnx::testing
