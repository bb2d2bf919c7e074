#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// Reads protobuf's wire format where it lies, copying nothing.
///
/// Generated classes would copy every byte of every weight into their own
/// storage and refuse files over 2 GB; a cost model needs only shapes and small
/// constants out of a mapped file, whatever its size. So fields are walked in
/// place and the caller, who knows the schema, asks for each as what it is:
///
///     ProtobufReader message(source);
///     while (message.next())
///       switch (message.field()) {
///         case 1: version = message.int64(); break;
///         case 7: read_graph(message.message()); break;
///         default: message.skip();
///       }
///
/// A field asked for under another wire type than its own, a length past the
/// end, an overlong varint or a group (deprecated since 2008) throws `kInput`
/// "FILE: byte OFFSET: …": lines and columns mean nothing in a binary file.
class ProtobufReader {
 public:
  /// Each kind is the wire format's own number.
  enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  /// The whole of `source` as one message. `source` must outlive the reader.
  explicit ProtobufReader(const Source& source) : ProtobufReader(source, source.text()) {}
  /// One message inside it; `bytes` is a part of `source.text()`.
  ProtobufReader(const Source& source, std::string_view bytes);

  /// Moves to the next field; false at the end. The value of the field before
  /// must have been read or skipped.
  bool next();
  uint32_t field() const { return field_; }
  WireType wire_type() const { return wire_type_; }
  /// Of the current field's tag, from the start of the source.
  size_t offset() const { return field_offset_; }
  /// One past what was read so far; past the message when `next` gave false.
  size_t end_offset() const { return position_offset(); }

  uint64_t uint64();
  int64_t int64() { return static_cast<int64_t>(uint64()); }
  /// An int32 or enum; negative ones are ten bytes long on the wire.
  int32_t int32();
  float float32();
  double float64();
  std::string_view bytes();
  ProtobufReader message() { return ProtobufReader(*source_, bytes()); }
  void skip();

  /// Appends the current field's elements: one when written alone, any number
  /// when packed. At most `limit` may be gathered in all.
  void append_int64(std::vector<int64_t>& to, size_t limit);
  void append_float32(std::vector<float>& to, size_t limit);
  void append_float64(std::vector<double>& to, size_t limit);

  /// Throws `kInput` at the current field.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  size_t position_offset() const;
  uint64_t varint();
  uint64_t fixed(size_t size);
  void expect(WireType type, const char* what) const;
  void check_limit(size_t count, size_t limit) const;

  const Source* source_;
  std::string_view rest_;
  size_t field_offset_ = 0;
  uint32_t field_ = 0;
  WireType wire_type_ = WireType::kVarint;
};

/// Throws `kInput` "FILE: byte OFFSET: message" for any binary format.
[[noreturn]] void fail_at_byte(const Source& source, size_t offset, const std::string& message);

}  // namespace orrery
