#include "orrery/workload/chakra/reader.h"

#include <fmt/format.h>

#include <bit>

#include "orrery/base/protobuf_wire.h"

namespace orrery::chakra {
namespace {

constexpr size_t kMostDependencies = 1'000'000;
constexpr size_t kMostAttributes = 10'000;
constexpr size_t kMostElements = 1'000'000;

uint64_t from_zigzag(uint64_t bits) { return (bits >> 1) ^ (0 - (bits & 1)); }

/// What a varint of that type means, as 64 bits.
uint64_t widened(ValueType type, uint64_t bits) {
  switch (type) {
    case ValueType::kInt32:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
    case ValueType::kUint32:
      return static_cast<uint32_t>(bits);
    case ValueType::kSint32:
    case ValueType::kSint64:
      return from_zigzag(bits);
    case ValueType::kBool:
      return bits != 0 ? 1 : 0;
    default:
      return bits;
  }
}

uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

uint64_t bits_of_fixed32(ValueType type, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (type == ValueType::kFloat) return bits_of(static_cast<double>(value));
  if (type == ValueType::kSfixed32)
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
  return bits;
}

bool is_fixed32(ValueType type) {
  return type == ValueType::kFloat || type == ValueType::kFixed32 || type == ValueType::kSfixed32;
}

bool is_fixed64(ValueType type) {
  return type == ValueType::kDouble || type == ValueType::kFixed64 || type == ValueType::kSfixed64;
}

bool is_text(ValueType type) { return type == ValueType::kString || type == ValueType::kBytes; }

void read_list(ProtobufReader message, Attribute& a) {
  while (message.next()) {
    if (message.field() != 1) {
      message.skip();
    } else if (is_text(a.type)) {
      if (a.texts.size() >= kMostElements) message.fail("a list of more than 1000000 elements");
      a.texts.emplace_back(message.bytes());
    } else if (is_fixed32(a.type)) {
      std::vector<float> values;
      message.append_float32(values, kMostElements - a.numbers.size());
      for (float v : values) a.numbers.push_back(bits_of_fixed32(a.type, v));
    } else if (is_fixed64(a.type)) {
      std::vector<double> values;
      message.append_float64(values, kMostElements - a.numbers.size());
      for (double v : values) a.numbers.push_back(bits_of(v));
    } else {
      std::vector<int64_t> values;
      message.append_int64(values, kMostElements - a.numbers.size());
      for (int64_t v : values) a.numbers.push_back(widened(a.type, static_cast<uint64_t>(v)));
    }
  }
}

Attribute read_attribute(ProtobufReader message) {
  Attribute a;
  while (message.next()) {
    const uint32_t field = message.field();
    if (field == 1) {
      a.name = message.bytes();
    } else if (field == 2) {
      a.doc_string = message.bytes();
    } else if (field >= 3 && field <= 32) {
      // The value is a oneof: the last written counts.
      a.list = field % 2 == 0;
      a.type = static_cast<ValueType>(a.list ? field - 1 : field);
      a.numbers.clear();
      a.texts.clear();
      if (a.list)
        read_list(message.message(), a);
      else if (is_text(a.type))
        a.texts.emplace_back(message.bytes());
      else if (is_fixed32(a.type))
        a.numbers.push_back(bits_of_fixed32(a.type, message.float32()));
      else if (is_fixed64(a.type))
        a.numbers.push_back(bits_of(message.float64()));
      else
        a.numbers.push_back(widened(a.type, message.uint64()));
    } else {
      message.skip();
    }
  }
  return a;
}

Tensors read_tensors(ProtobufReader message) {
  Tensors t;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        t.values = message.bytes();
        break;
      case 2:
        t.shapes = message.bytes();
        break;
      case 3:
        t.types = message.bytes();
        break;
      default:
        message.skip();
    }
  }
  return t;
}

void read_ids(ProtobufReader& message, std::vector<uint64_t>& to) {
  std::vector<int64_t> ids;
  message.append_int64(ids, kMostDependencies - to.size());
  for (int64_t id : ids) to.push_back(static_cast<uint64_t>(id));
}

}  // namespace

Reader::Reader(const Source& source) : source_(&source) {
  if (source.text().empty()) throw_input(source.name(), "empty: not a Chakra execution trace");
  ProtobufReader message(source, take_message());
  while (message.next()) {
    if (message.field() == 1) {
      metadata_.version = message.bytes();
    } else if (message.field() == 2) {
      if (metadata_.attributes.size() >= kMostAttributes)
        message.fail("more than 10000 attributes");
      metadata_.attributes.push_back(read_attribute(message.message()));
    } else {
      message.fail(fmt::format("field {} is not of a Chakra trace's metadata", message.field()));
    }
  }
}

void Reader::fail(const std::string& message) const {
  fail_at_byte(*source_, node_offset_, message);
}

std::string_view Reader::take_message() {
  const std::string_view text = source_->text();
  node_offset_ = position_;
  uint64_t length = 0;
  for (int shift = 0;; shift += 7) {
    if (position_ >= text.size()) fail("the file ends inside the length of a message");
    if (shift > 28) fail("the length of a message takes more than 5 bytes");
    const auto byte = static_cast<uint8_t>(text[position_++]);
    length |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  if (length > text.size() - position_)
    fail(
        fmt::format("a message of {} bytes, but only {} are left: the file is truncated or no "
                    "Chakra execution trace",
                    length, text.size() - position_));
  const std::string_view message = text.substr(position_, length);
  position_ += length;
  return message;
}

bool Reader::next(Node& node) {
  if (position_ == source_->text().size()) return false;
  ProtobufReader message(*source_, take_message());
  node.id = 0;
  node.name.clear();
  node.type = NodeType::kInvalid;
  node.control_dependencies.clear();
  node.data_dependencies.clear();
  node.start_us = node.duration_us = 0;
  node.has_inputs = node.has_outputs = false;
  node.inputs = node.outputs = {};
  node.attributes.clear();
  while (message.next()) {
    switch (message.field()) {
      case 1:
        node.id = message.uint64();
        break;
      case 2:
        node.name = message.bytes();
        break;
      case 3: {
        const uint64_t type = message.uint64();
        if (type >= kNodeTypes) message.fail(fmt::format("{} is no type of node", type));
        node.type = static_cast<NodeType>(type);
        break;
      }
      case 4:
        read_ids(message, node.control_dependencies);
        break;
      case 5:
        read_ids(message, node.data_dependencies);
        break;
      case 6:
        node.start_us = message.uint64();
        break;
      case 7:
        node.duration_us = message.uint64();
        break;
      case 8:
        node.has_inputs = true;
        node.inputs = read_tensors(message.message());
        break;
      case 9:
        node.has_outputs = true;
        node.outputs = read_tensors(message.message());
        break;
      case 10:
        if (node.attributes.size() >= kMostAttributes)
          message.fail("a node of more than 10000 attributes");
        node.attributes.push_back(read_attribute(message.message()));
        break;
      default:
        message.skip();
    }
  }
  return true;
}

}  // namespace orrery::chakra
