#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "orrery/base/source.h"

namespace orrery::stablehlo {

/// Character classes of MLIR's lexer.
enum CharacterClass : uint8_t {
  kSpace = 1,
  kDigit = 2,
  kIdentifier = 4,  ///< Letters, digits, '_', '$', '.'.
  kSuffix = 8,      ///< What may follow '%', '@', '#', '!': also '-'.
};

constexpr std::array<uint8_t, 256> make_character_classes() {
  std::array<uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    uint8_t bits = 0;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') bits |= kSpace;
    if (digit) bits |= kDigit;
    if (digit || letter || c == '_' || c == '$' || c == '.') bits |= kIdentifier | kSuffix;
    if (c == '-') bits |= kSuffix;
    table[static_cast<size_t>(c)] = bits;
  }
  return table;
}
inline constexpr std::array<uint8_t, 256> kCharacterClasses = make_character_classes();

/// A position in MLIR text with the primitives its grammar is made of. Every
/// `accept` moves only when it matched; every `expect` fails with line and column.
class TextCursor {
 public:
  TextCursor(const Source& source, std::string_view text)
      : source_(&source), p_(text.data()), end_(text.data() + text.size()) {}

  bool at_end() {
    skip_space();
    return p_ == end_;
  }
  const char* position() const { return p_; }
  void rewind(const char* position) { p_ = position; }
  size_t offset() const { return static_cast<size_t>(p_ - source_->text().data()); }
  const Source& source() const { return *source_; }

  void skip_space() {
    while (p_ != end_) {
      if (is(*p_, kSpace)) {
        ++p_;
      } else if (*p_ == '/' && p_ + 1 != end_ && p_[1] == '/') {
        const void* newline = std::memchr(p_, '\n', static_cast<size_t>(end_ - p_));
        p_ = newline == nullptr ? end_ : static_cast<const char*>(newline) + 1;
      } else {
        return;
      }
    }
  }

  /// The next character after white space and comments; 0 at the end.
  char peek() {
    skip_space();
    return p_ == end_ ? '\0' : *p_;
  }
  /// The character `distance` after the present one, no white space skipped.
  char at(size_t distance) const {
    return distance < static_cast<size_t>(end_ - p_) ? p_[distance] : '\0';
  }
  void advance(size_t n) { p_ += n; }

  bool accept(char c) {
    if (peek() != c) return false;
    ++p_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  /// A punctuation such as "->" or a keyword followed by no identifier character.
  bool accept(std::string_view word) {
    skip_space();
    if (static_cast<size_t>(end_ - p_) < word.size() ||
        std::memcmp(p_, word.data(), word.size()) != 0)
      return false;
    const char* after = p_ + word.size();
    if (is(word.back(), kIdentifier) && after != end_ && is(*after, kIdentifier)) return false;
    p_ = after;
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) fail("expected '" + std::string(word) + "'");
  }

  /// [A-Za-z0-9_.$]*, maybe empty.
  std::string_view identifier() {
    skip_space();
    const char* start = p_;
    while (p_ != end_ && is(*p_, kIdentifier)) ++p_;
    return {start, static_cast<size_t>(p_ - start)};
  }
  /// What follows a sigil: [A-Za-z0-9_.$-]+, or a quoted string for symbols.
  std::string_view suffix() {
    const char* start = p_;
    while (p_ != end_ && is(*p_, kSuffix)) {
      if (*p_ == '-' && p_ + 1 != end_ && p_[1] == '>') break;  // an arrow, not a name
      ++p_;
    }
    return {start, static_cast<size_t>(p_ - start)};
  }
  /// The inside of a "…" string, escapes kept as written.
  std::string_view quoted() {
    expect('"');
    const char* start = p_;
    while (true) {
      const void* quote = std::memchr(p_, '"', static_cast<size_t>(end_ - p_));
      if (quote == nullptr) {
        p_ = start - 1;
        fail("a string that is not closed");
      }
      p_ = static_cast<const char*>(quote) + 1;
      // An odd number of backslashes before the quote escapes it.
      const char* back = p_ - 2;
      while (back >= start && *back == '\\') --back;
      if ((p_ - 2 - back) % 2 == 0) return {start, static_cast<size_t>(p_ - 1 - start)};
    }
  }
  /// The name after '@', quoted or not.
  std::string_view symbol() {
    expect('@');
    if (p_ != end_ && *p_ == '"') return quoted();
    const std::string_view name = suffix();
    if (name.empty()) fail("expected a symbol name after '@'");
    return name;
  }
  int64_t integer();

  /// Moves past a balanced (…), […], {…} or <…> that starts here.
  void skip_balanced();

  [[noreturn]] void fail(std::string message) const { source_->fail(offset(), std::move(message)); }
  [[noreturn]] void fail_at(const char* where, std::string message) const {
    source_->fail(static_cast<size_t>(where - source_->text().data()), std::move(message));
  }

  static bool is(char c, uint8_t classes) {
    return (kCharacterClasses[static_cast<unsigned char>(c)] & classes) != 0;
  }

 private:
  const Source* source_;
  const char* p_;
  const char* end_;
};

}  // namespace orrery::stablehlo
