#include "orrery/workload/readers/hlo/cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace orrery::hlo {
namespace {

enum CharacterClass : uint8_t { kBlank = 1, kWord = 2, kOpening = 4, kClosing = 8 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (const char c : {' ', '\t', '\n', '\r', '\f', '\v'})
    classes[static_cast<uint8_t>(c)] = kBlank;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = kWord;
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = kWord;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = kWord;
  for (const char c : {'_', '.', '-'}) classes[static_cast<uint8_t>(c)] = kWord;
  for (const char c : {'(', '[', '{'}) classes[static_cast<uint8_t>(c)] = kOpening;
  for (const char c : {')', ']', '}'}) classes[static_cast<uint8_t>(c)] = kClosing;
  return classes;
}();

bool is(char c, uint8_t mask) { return (kClasses[static_cast<uint8_t>(c)] & mask) != 0; }

char closing_of(char opening) { return opening == '(' ? ')' : opening == '[' ? ']' : '}'; }

}  // namespace

void Cursor::skip_blanks() {
  while (at_ != end_) {
    if (is(*at_, kBlank)) {
      ++at_;
    } else if (*at_ == '/' && end_ - at_ >= 2 && at_[1] == '*') {
      const std::string_view rest(at_ + 2, static_cast<size_t>(end_ - at_ - 2));
      const size_t close = rest.find("*/");
      if (close == std::string_view::npos) fail("this comment is not closed");
      at_ += close + 4;
    } else if (*at_ == '/' && end_ - at_ >= 2 && at_[1] == '/') {
      at_ = std::find(at_, end_, '\n');
    } else {
      return;
    }
  }
}

bool Cursor::next_is_digit() {
  skip_blanks();
  return at_ != end_ && *at_ >= '0' && *at_ <= '9';
}

bool Cursor::accept(std::string_view text) {
  skip_blanks();
  if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

void Cursor::expect(char c, std::string_view where) {
  if (!accept(c)) fail_expected(fmt::format("'{}' {}", c, where));
}

void Cursor::expect(std::string_view text, std::string_view where) {
  if (!accept(text)) fail_expected(fmt::format("'{}' {}", text, where));
}

void Cursor::expect_end(std::string_view where) {
  if (!at_end()) fail_expected(fmt::format("the end {}", where));
}

std::string_view Cursor::word() {
  skip_blanks();
  const char* const first = at_;
  while (at_ != end_ && is(*at_, kWord)) ++at_;
  return {first, static_cast<size_t>(at_ - first)};
}

std::string_view Cursor::name(std::string_view what) {
  if (next_is('%')) ++at_;
  const char* const first = at_;
  while (at_ != end_ && is(*at_, kWord)) ++at_;
  if (at_ == first) fail_expected(what);
  return {first, static_cast<size_t>(at_ - first)};
}

int64_t Cursor::integer(std::string_view what) {
  skip_blanks();
  int64_t number = 0;
  const auto [stopped, problem] = std::from_chars(at_, end_, number);
  if (problem == std::errc::result_out_of_range) fail("this number does not fit in 64 bits");
  if (problem != std::errc()) fail_expected(what);
  at_ = stopped;
  return number;
}

std::string_view Cursor::quoted(std::string_view what) {
  if (!next_is('"')) fail_expected(what);
  const char* const first = at_ + 1;
  skip_quoted();
  return {first, static_cast<size_t>(at_ - 1 - first)};
}

void Cursor::skip_quoted() {
  const char* p = at_ + 1;
  while (true) {
    p = static_cast<const char*>(std::memchr(p, '"', static_cast<size_t>(end_ - p)));
    if (p == nullptr) fail("this string is not closed");
    // An odd number of backslashes before it makes the quote part of the string.
    const char* before = p;
    while (before != at_ + 1 && before[-1] == '\\') --before;
    ++p;
    if ((p - 1 - before) % 2 == 0) break;
  }
  at_ = p;
}

std::string_view Cursor::bracketed() {
  skip_blanks();
  const char* const first = at_;
  if (at_ == end_ || !is(*at_, kOpening)) fail_expected("a bracket");
  skip_bracketed();
  return {first, static_cast<size_t>(at_ - first)};
}

void Cursor::skip_bracketed() {
  const char* const first = at_;
  size_t depth = 0;
  while (at_ != end_) {
    const char c = *at_;
    if (is(c, kOpening)) {
      ++depth;
    } else if (is(c, kClosing)) {
      --depth;
      if (depth == 0) {
        if (c != closing_of(*first)) {
          fail(fmt::format("'{}' closes the '{}' of line {}", c, *first,
                           source_->location(offset_of(first)).line));
        }
        ++at_;
        return;
      }
    } else if (c == '"') {
      skip_quoted();
      continue;
    } else if (c == '/' && end_ - at_ >= 2 && at_[1] == '*') {
      skip_blanks();
      continue;
    }
    ++at_;
  }
  at_ = first;
  fail(fmt::format("this '{}' is not closed", *first));
}

std::string_view Cursor::value() {
  skip_blanks();
  const char* const first = at_;
  const char* last = at_;
  while (at_ != end_) {
    while (at_ != end_ && !is(*at_, kBlank | kClosing) && *at_ != ',') {
      if (is(*at_, kOpening)) {
        skip_bracketed();
      } else if (*at_ == '"') {
        skip_quoted();
      } else {
        ++at_;
      }
    }
    last = at_;
    // `mesh['d'=8] {'d'}` and `s32[2] {1,2}`: one value with a blank inside.
    if (!next_is('{')) break;
  }
  at_ = last;
  if (first == last) fail_expected("a value");
  return {first, static_cast<size_t>(last - first)};
}

void Cursor::fail_expected(std::string_view what) const {
  if (at_ == end_ && end_ == source_->text().data() + source_->text().size()) {
    fail(fmt::format("expected {}, found the end of the file", what));
  }
  const std::string_view rest = source_->text().substr(offset());
  constexpr size_t kShown = 24;  // Enough to recognise the place in the file.
  const std::string_view line = rest.substr(0, rest.find('\n'));
  if (line.empty()) fail(fmt::format("expected {}, found the end of the line", what));
  fail(fmt::format("expected {}, found '{}{}'", what, line.substr(0, kShown),
                   line.size() > kShown ? "…" : ""));
}

std::string unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char c = text[++i];
    switch (c) {
      case 'n':
        plain += '\n';
        break;
      case 't':
        plain += '\t';
        break;
      case 'r':
        plain += '\r';
        break;
      case 'x': {
        unsigned byte = 0;
        const size_t digits = std::min<size_t>(2, text.size() - i - 1);
        const auto [stopped, problem] =
            std::from_chars(text.data() + i + 1, text.data() + i + 1 + digits, byte, 16);
        if (problem != std::errc()) {
          plain += c;
          break;
        }
        plain += static_cast<char>(byte);
        i = static_cast<size_t>(stopped - text.data()) - 1;
        break;
      }
      default:
        if (c >= '0' && c <= '7') {
          unsigned byte = 0;
          const size_t digits = std::min<size_t>(3, text.size() - i);
          const auto [stopped, problem] =
              std::from_chars(text.data() + i, text.data() + i + digits, byte, 8);
          (void)problem;
          plain += static_cast<char>(byte);
          i = static_cast<size_t>(stopped - text.data()) - 1;
        } else {
          plain += c;
        }
    }
  }
  return plain;
}

}  // namespace orrery::hlo
