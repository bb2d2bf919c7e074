#include "orrery/workload/readers/hlo/literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace orrery::hlo {
namespace {

constexpr size_t kMaxKept = 64;  // As Attr::kValue says.

std::optional<double> to_real(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  const std::string_view magnitude = negative ? text.substr(1) : text;
  if (magnitude == "inf") {
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  if (magnitude == "nan") return std::numeric_limits<double>::quiet_NaN();
  double number = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (stopped != text.data() + text.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) return 0.0;
  if (problem != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> to_integer(std::string_view text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc() && stopped == end) return number;
  // The upper half of u64 keeps its bits.
  uint64_t bits = 0;
  const auto [stopped_bits, problem_bits] = std::from_chars(text.data(), end, bits);
  if (problem_bits == std::errc() && stopped_bits == end) return static_cast<int64_t>(bits);
  return std::nullopt;
}

/// Walks over the numbers of a literal; braces and commas are decoration.
class Numbers {
 public:
  explicit Numbers(Cursor cursor) : cursor_(cursor) {}

  /// The next number as written, empty after the last.
  std::string_view next() {
    while (cursor_.accept('{') || cursor_.accept('}') || cursor_.accept(',')) {
    }
    if (cursor_.next_is(')')) return {};
    std::string_view number = cursor_.word();
    if (number.empty() && cursor_.accept('+')) number = cursor_.word();
    if (number.empty()) cursor_.fail_expected("a number");
    // An exponent's plus sign is no part of a word: 1e+09. So is a NaN's payload.
    if (cursor_.touches('+') && (number.back() == 'e' || number.back() == 'E')) {
      const size_t offset = cursor_.offset() - number.size();
      cursor_.accept('+');
      cursor_.word();
      number = cursor_.since(offset);
    }
    if (number.ends_with("nan") && cursor_.touches('(')) cursor_.bracketed();
    return number;
  }
  const Cursor& cursor() const { return cursor_; }

 private:
  Cursor cursor_;
};

}  // namespace

Literal read_literal(Cursor cursor, const Type& type) {
  Literal literal;
  cursor.expect('(', "before a constant");
  const bool is_number = is_integer(type.element) || is_float(type.element);
  if (type.kind != Type::Kind::kTensor || (!is_number && type.element != ElementType::kBool))
    return literal;
  if (cursor.next_is('"')) return literal;  // Bytes written as a string.
  // Former years wrote the type once more: constant(f32[2] {1, 2}).
  const size_t start = cursor.offset();
  if (!cursor.word().empty() && cursor.touches('[')) {
    cursor.bracketed();
    if (cursor.touches('{')) cursor.bracketed();
  } else {
    cursor.rewind(start);
  }

  Numbers numbers(cursor);
  std::string_view first;
  bool all_same = true;
  int64_t count = 0;
  for (std::string_view number = numbers.next(); !number.empty(); number = numbers.next()) {
    if (number == "...") return {};
    if (count++ == 0) first = number;
    all_same = all_same && number == first;
    if (is_float(type.element)) {
      if (!all_same) return {};
      continue;
    }
    if (literal.integers.size() < kMaxKept) {
      const auto integer = to_integer(number);
      if (!integer) numbers.cursor().fail(fmt::format("'{}' is not an integer", number));
      literal.integers.push_back(*integer);
    } else if (!all_same) {
      return {};
    }
  }
  if (count != type.elements && !type.dynamic)
    numbers.cursor().fail(
        fmt::format("the constant has {} values, its type {}", count, type.elements));
  if (count == 0) return {};
  if (is_float(type.element)) {
    literal.real = to_real(first);
    if (!literal.real) numbers.cursor().fail(fmt::format("'{}' is not a number", first));
  } else if (all_same) {
    literal.integers.resize(1);
  }
  return literal;
}

}  // namespace orrery::hlo
