#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "orrery/base/source.h"

namespace orrery::hlo {

/// A place in HLO text, and the tokens its grammar is made of. Every function
/// skips blanks and comments first; those that expect something throw `kInput`
/// at the place when it is not there. Nothing reads past the end, and nothing
/// here recurses.
class Cursor {
 public:
  explicit Cursor(const Source& source) : Cursor(source, source.text()) {}
  /// Walks over `part` alone, which must be a piece of the source's text.
  Cursor(const Source& source, std::string_view part)
      : source_(&source), at_(part.data()), end_(part.data() + part.size()) {}

  const Source& source() const { return *source_; }
  size_t offset() const { return offset_of(at_); }
  /// Goes back to a place seen before.
  void rewind(size_t offset) { at_ = source_->text().data() + offset; }
  /// The text from `offset` up to here.
  std::string_view since(size_t offset) const {
    return source_->text().substr(offset, this->offset() - offset);
  }

  bool at_end() {
    skip_blanks();
    return at_ == end_;
  }
  bool next_is(char c) {
    skip_blanks();
    return at_ != end_ && *at_ == c;
  }
  /// As `next_is`, but `c` must follow without a blank.
  bool touches(char c) const { return at_ != end_ && *at_ == c; }
  bool next_is_digit();
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view text);
  void expect(char c, std::string_view where);
  void expect(std::string_view text, std::string_view where);
  void expect_end(std::string_view where);

  /// Letters, digits, `_`, `.` and `-`; may be empty.
  std::string_view word();
  /// A word with or without the sigil `%`, which is left out; `what` names it in
  /// the message when there is none.
  std::string_view name(std::string_view what);
  int64_t integer(std::string_view what);
  /// The inside of a string in double quotes, escapes kept.
  std::string_view quoted(std::string_view what);
  /// From an opening bracket through the one that closes it.
  std::string_view bracketed();
  /// The value of an attribute, whatever its form, up to the comma or the end of
  /// the instruction.
  std::string_view value();

  [[noreturn]] void fail(std::string message) const { source_->fail(offset(), std::move(message)); }
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  size_t offset_of(const char* p) const { return static_cast<size_t>(p - source_->text().data()); }
  void skip_blanks();
  void skip_quoted();
  void skip_bracketed();

  const Source* source_;
  const char* at_;
  const char* end_;
};

/// A string's meaning: `\"` to `"`, `\n` to a new line, and the other escapes of C.
std::string unescape(std::string_view text);

}  // namespace orrery::hlo
