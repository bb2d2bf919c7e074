#include "orrery/workload/chakra/writer.h"

#include <bit>

namespace orrery::chakra {
namespace {

constexpr uint32_t kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5;

void put_varint(std::string& to, uint64_t value) {
  while (value >= 0x80) {
    to += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  to += static_cast<char>(value);
}

void put_tag(std::string& to, uint32_t field, uint32_t wire_type) {
  put_varint(to, field << 3 | wire_type);
}

void put_bytes(std::string& to, uint32_t field, std::string_view bytes) {
  put_tag(to, field, kLength);
  put_varint(to, bytes.size());
  to += bytes;
}

void put_number(std::string& to, uint32_t field, uint64_t value) {
  if (value == 0) return;  // proto3 leaves out what has its default
  put_tag(to, field, kVarint);
  put_varint(to, value);
}

void put_text(std::string& to, uint32_t field, std::string_view text) {
  if (!text.empty()) put_bytes(to, field, text);
}

void put_fixed(std::string& to, uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(bits >> (8 * i));
}

uint64_t zigzag(uint64_t value) { return (value << 1) ^ (0 - (value >> 63)); }

/// The wire type of one element, which `put_element` writes.
uint32_t wire_type(ValueType type) {
  switch (type) {
    case ValueType::kDouble:
    case ValueType::kFixed64:
    case ValueType::kSfixed64:
      return kFixed64;
    case ValueType::kFloat:
    case ValueType::kFixed32:
    case ValueType::kSfixed32:
      return kFixed32;
    case ValueType::kString:
    case ValueType::kBytes:
      return kLength;
    default:
      return kVarint;
  }
}

void put_element(std::string& to, ValueType type, uint64_t bits) {
  switch (type) {
    case ValueType::kDouble:
    case ValueType::kFixed64:
    case ValueType::kSfixed64:
      return put_fixed(to, bits, 8);
    case ValueType::kFloat:
      return put_fixed(to, std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits))),
                       4);
    case ValueType::kFixed32:
    case ValueType::kSfixed32:
      return put_fixed(to, bits, 4);
    case ValueType::kSint32:
    case ValueType::kSint64:
      return put_varint(to, zigzag(bits));
    default:
      return put_varint(to, bits);
  }
}

std::string attribute_bytes(const Attribute& a) {
  std::string out;
  put_text(out, 1, a.name);
  put_text(out, 2, a.doc_string);
  if (a.type == ValueType::kNone) return out;
  const auto field = static_cast<uint32_t>(a.type);
  const bool text = wire_type(a.type) == kLength;
  if (!a.list) {
    if (text) {
      put_bytes(out, field, a.texts.at(0));
    } else {
      put_tag(out, field, wire_type(a.type));
      put_element(out, a.type, a.numbers.at(0));
    }
    return out;
  }
  std::string list;
  for (const std::string& t : a.texts) put_bytes(list, 1, t);
  std::string packed;
  for (uint64_t bits : a.numbers) put_element(packed, a.type, bits);
  put_text(list, 1, packed);
  put_bytes(out, field + 1, list);
  return out;
}

void put_ids(std::string& to, uint32_t field, const std::vector<uint64_t>& ids) {
  std::string packed;
  for (uint64_t id : ids) put_varint(packed, id);
  put_text(to, field, packed);
}

std::string tensor_bytes(const Tensors& tensors) {
  std::string out;
  put_text(out, 1, tensors.values);
  put_text(out, 2, tensors.shapes);
  put_text(out, 3, tensors.types);
  return out;
}

std::string behind_length(const std::string& message) {
  std::string out;
  put_varint(out, message.size());
  return out + message;
}

}  // namespace

std::string encoded(const Metadata& metadata) {
  std::string out;
  put_text(out, 1, metadata.version);
  for (const Attribute& a : metadata.attributes) put_bytes(out, 2, attribute_bytes(a));
  return behind_length(out);
}

std::string encoded(const Node& node) {
  std::string out;
  put_number(out, 1, node.id);
  put_text(out, 2, node.name);
  put_number(out, 3, static_cast<uint64_t>(node.type));
  put_ids(out, 4, node.control_dependencies);
  put_ids(out, 5, node.data_dependencies);
  put_number(out, 6, node.start_us);
  put_number(out, 7, node.duration_us);
  if (node.has_inputs) put_bytes(out, 8, tensor_bytes(node.inputs));
  if (node.has_outputs) put_bytes(out, 9, tensor_bytes(node.outputs));
  for (const Attribute& a : node.attributes) put_bytes(out, 10, attribute_bytes(a));
  return behind_length(out);
}

}  // namespace orrery::chakra
