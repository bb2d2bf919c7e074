#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace orrery {

/// The number that all of `text` is, or none; without a locale, and without blanks around it.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [read_until, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read_until != end) return std::nullopt;
  return number;
}

}  // namespace orrery
