#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "orrery/base/source.h"

namespace orrery::stablehlo {

/// A stretch of the source's bytes.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

/// A position in MLIR bytecode with the primitives it is made of. Reading past
/// the end of the range fails with the byte's number.
class ByteCursor {
 public:
  ByteCursor(const Source& source, ByteRange range)
      : source_(&source),
        p_(source.text().data() + range.begin),
        end_(source.text().data() + range.end) {}

  bool at_end() const { return p_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - p_); }
  size_t offset() const { return static_cast<size_t>(p_ - source_->text().data()); }

  uint8_t byte() {
    if (p_ == end_) fail("the bytecode ends in the middle of something");
    return static_cast<uint8_t>(*p_++);
  }
  std::string_view bytes(uint64_t count) {
    if (count > left())
      fail("a length of " + std::to_string(count) + " bytes where " + std::to_string(left()) +
           " are left");
    const std::string_view taken(p_, static_cast<size_t>(count));
    p_ += count;
    return taken;
  }
  /// A prefix varint: as many zero bits as bytes follow the first, then a one, then
  /// the value; a first byte of zero is followed by all 64 bits.
  uint64_t varint() {
    const uint8_t first = byte();
    if ((first & 1) != 0) [[likely]]
      return first >> 1;
    const int more = first == 0 ? 8 : std::countr_zero(first);
    if (left() < static_cast<size_t>(more)) fail("a number that is not finished");
    uint64_t rest = 0;
    std::memcpy(&rest, p_, static_cast<size_t>(more));
    p_ += more;
    return first == 0 ? rest : (rest << (8 - more - 1)) | (first >> (more + 1));
  }
  /// Zigzag: the lowest bit is the sign.
  int64_t signed_varint() {
    const uint64_t coded = varint();
    return static_cast<int64_t>((coded >> 1) ^ (~(coded & 1) + 1));
  }
  /// A varint whose lowest bit is a flag.
  std::pair<uint64_t, bool> flagged() {
    const uint64_t coded = varint();
    return {coded >> 1, (coded & 1) != 0};
  }
  /// A number of things that each take `least` bytes or more of what is left.
  uint64_t count(size_t least = 1) {
    const size_t at = offset();
    const uint64_t number = varint();
    if (number > left() / least)
      source_->fail(at, std::to_string(number) + " entries where " + std::to_string(left()) +
                            " bytes are left");
    return number;
  }

  [[noreturn]] void fail(std::string message) const { source_->fail(offset(), std::move(message)); }
  const Source& source() const { return *source_; }

 private:
  const Source* source_;
  const char* p_;
  const char* end_;
};

}  // namespace orrery::stablehlo
