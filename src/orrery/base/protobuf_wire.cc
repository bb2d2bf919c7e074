#include "orrery/base/protobuf_wire.h"

#include <fmt/format.h>

#include <bit>

namespace orrery {
namespace {

// Field numbers take 29 bits, of which 0 is not used.
constexpr uint64_t kMaxField = (uint64_t{1} << 29) - 1;

}  // namespace

void fail_at_byte(const Source& source, size_t offset, const std::string& message) {
  source.binary().fail(offset, message);
}

ProtobufReader::ProtobufReader(const Source& source, std::string_view bytes)
    : source_(&source), rest_(bytes) {
  field_offset_ = position_offset();
}

size_t ProtobufReader::position_offset() const {
  return rest_.data() == nullptr ? 0 : static_cast<size_t>(rest_.data() - source_->text().data());
}

void ProtobufReader::fail(const std::string& message) const {
  fail_at_byte(*source_, field_offset_, message);
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (size_t i = 0; i < rest_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    // The tenth byte holds the last bit of 64.
    if (i == 9 && byte > 1) fail("a varint of more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return value;
    }
  }
  fail("the data ends inside a varint");
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  field_offset_ = position_offset();
  const uint64_t tag = varint();
  const uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxField)
    fail(fmt::format("field number {} is not valid; not a protobuf message", number));
  field_ = static_cast<uint32_t>(number);
  switch (tag & 7) {
    case 0:
    case 1:
    case 2:
    case 5:
      wire_type_ = static_cast<WireType>(tag & 7);
      return true;
    case 3:
    case 4:
      fail(fmt::format("field {} is a group, which is not supported", field_));
    default:
      fail(fmt::format("field {} has the unknown wire type {}", field_, tag & 7));
  }
}

void ProtobufReader::expect(WireType type, const char* what) const {
  if (wire_type_ != type)
    fail(fmt::format("field {} has wire type {}; {} was expected", field_,
                     static_cast<int>(wire_type_), what));
}

uint64_t ProtobufReader::uint64() {
  expect(WireType::kVarint, "a varint");
  return varint();
}

int32_t ProtobufReader::int32() {
  const int64_t value = int64();
  if (value < INT32_MIN || value > INT32_MAX)
    fail(fmt::format("field {}: {} does not fit 32 bits", field_, value));
  return static_cast<int32_t>(value);
}

uint64_t ProtobufReader::fixed(size_t size) {
  if (rest_.size() < size) fail(fmt::format("the data ends inside field {}", field_));
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
  rest_.remove_prefix(size);
  return value;
}

float ProtobufReader::float32() {
  expect(WireType::kFixed32, "a 32-bit number");
  return std::bit_cast<float>(static_cast<uint32_t>(fixed(4)));
}

double ProtobufReader::float64() {
  expect(WireType::kFixed64, "a 64-bit number");
  return std::bit_cast<double>(fixed(8));
}

std::string_view ProtobufReader::bytes() {
  expect(WireType::kBytes, "a string or message");
  const uint64_t size = varint();
  if (size > rest_.size())
    fail(
        fmt::format("field {} is {} bytes long, but only {} are left", field_, size, rest_.size()));
  const std::string_view result = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return result;
}

void ProtobufReader::skip() {
  switch (wire_type_) {
    case WireType::kVarint:
      varint();
      break;
    case WireType::kFixed64:
      fixed(8);
      break;
    case WireType::kBytes:
      bytes();
      break;
    case WireType::kFixed32:
      fixed(4);
      break;
  }
}

void ProtobufReader::check_limit(size_t count, size_t limit) const {
  if (count > limit) fail(fmt::format("field {} holds more than {} elements", field_, limit));
}

void ProtobufReader::append_int64(std::vector<int64_t>& to, size_t limit) {
  if (wire_type_ != WireType::kBytes) {
    check_limit(to.size() + 1, limit);
    to.push_back(int64());
    return;
  }
  ProtobufReader packed(*this);
  packed.rest_ = bytes();
  while (!packed.rest_.empty()) {
    check_limit(to.size() + 1, limit);
    to.push_back(static_cast<int64_t>(packed.varint()));
  }
}

void ProtobufReader::append_float32(std::vector<float>& to, size_t limit) {
  if (wire_type_ != WireType::kBytes) {
    check_limit(to.size() + 1, limit);
    to.push_back(float32());
    return;
  }
  ProtobufReader packed(*this);
  packed.rest_ = bytes();
  check_limit(to.size() + packed.rest_.size() / 4, limit);
  while (!packed.rest_.empty())
    to.push_back(std::bit_cast<float>(static_cast<uint32_t>(packed.fixed(4))));
}

void ProtobufReader::append_float64(std::vector<double>& to, size_t limit) {
  if (wire_type_ != WireType::kBytes) {
    check_limit(to.size() + 1, limit);
    to.push_back(float64());
    return;
  }
  ProtobufReader packed(*this);
  packed.rest_ = bytes();
  check_limit(to.size() + packed.rest_.size() / 8, limit);
  while (!packed.rest_.empty()) to.push_back(std::bit_cast<double>(packed.fixed(8)));
}

}  // namespace orrery
