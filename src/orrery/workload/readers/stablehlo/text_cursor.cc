#include "orrery/workload/readers/stablehlo/text_cursor.h"

#include <charconv>

namespace orrery::stablehlo {

int64_t TextCursor::integer() {
  skip_space();
  int64_t value = 0;
  const auto [after, status] = std::from_chars(p_, end_, value);
  if (status == std::errc::result_out_of_range) fail("an integer too large for 64 bits");
  if (status != std::errc()) fail("expected an integer");
  p_ = after;
  return value;
}

void TextCursor::skip_balanced() {
  const char* start = p_;
  std::string closers;
  do {
    const char c = peek();
    switch (c) {
      case '\0':
        fail_at(start, "a bracket that is not closed");
        break;
      case '"':
        quoted();
        continue;
      case '(':
        closers.push_back(')');
        break;
      case '[':
        closers.push_back(']');
        break;
      case '{':
        closers.push_back('}');
        break;
      case '<':
        closers.push_back('>');
        break;
      case '-':
        if (at(1) == '>') ++p_;  // an arrow closes nothing
        break;
      case ')':
      case ']':
      case '}':
      case '>':
        if (closers.empty() || closers.back() != c) fail(std::string("unexpected '") + c + "'");
        closers.pop_back();
        break;
      default:
        break;
    }
    ++p_;
  } while (!closers.empty());
}

}  // namespace orrery::stablehlo
