#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "orrery/workload/readers/stablehlo/parser.h"

namespace orrery::stablehlo {

TypeId Parser::parse_type() {
  cursor_.skip_space();
  const char* start = cursor_.position();
  // Nearly every type is a plain tensor<…>, seen before: one scan, one look-up.
  if (cursor_.at(0) == 't' && cursor_.at(1) == 'e') {
    size_t n = 7;
    char c = cursor_.at(n);
    while (c != '>' && c != '<' && c != '\0' && c != '!' && c != ',') c = cursor_.at(++n);
    if (c == '>') {
      uint32_t& known = types_[std::string_view(start, n + 1)];
      if (known != TextMap::kMissing) {
        cursor_.advance(n + 1);
        return TypeId{known};
      }
    }
  }
  const TypeId type = parse_type_uncached();
  types_[std::string_view(start, static_cast<size_t>(cursor_.position() - start))] = type.index;
  return type;
}

TypeId Parser::parse_type_uncached() {
  const Depth guard(*this);
  const char* start = cursor_.position();
  if (cursor_.peek() == '!') {
    cursor_.advance(1);
    const std::string_view name = cursor_.suffix();
    if (name.ends_with(".token")) return builder_.token_type();
    if (name.ends_with(".future")) {
      std::vector<TypeId> members;
      cursor_.expect('<');
      if (!cursor_.accept('>')) {
        do members.push_back(parse_type());
        while (cursor_.accept(','));
        cursor_.expect('>');
      }
      return members.size() == 1 ? members[0] : builder_.tuple_type(members);
    }
    if (name.starts_with("quant.uniform")) {  // what an alias of it stands for
      ElementType stored{}, expressed{};
      parse_quantized_element(start, &stored, &expressed);
      return builder_.tensor_type(stored, {}, {}, expressed);
    }
    const auto alias = type_aliases_.find(name);
    if (alias != type_aliases_.end()) return alias->second;
    if (name.find('.') == std::string_view::npos)
      cursor_.fail_at(start, fmt::format("type alias '!{}' is not defined", name));
    // A type of some other dialect: kept as a value without data.
    if (cursor_.at(0) == '<') cursor_.skip_balanced();
    builder_.add_note(fmt::format("values of type !{} are taken as having no data", name));
    return builder_.token_type();
  }
  if (cursor_.peek() == '(') {  // a function type
    std::vector<TypeId> ignored;
    parse_type_list(&ignored);
    cursor_.expect("->");
    parse_type_list(&ignored);
    return builder_.token_type();
  }
  const std::string_view word = cursor_.identifier();
  if (word == "tensor" || word == "memref" || word == "vector") return parse_tensor_type();
  if (word == "tuple") {
    std::vector<TypeId> members;
    cursor_.expect('<');
    if (!cursor_.accept('>')) {
      do members.push_back(parse_type());
      while (cursor_.accept(','));
      cursor_.expect('>');
    }
    try {
      return builder_.tuple_type(members);
    } catch (const std::invalid_argument& e) {
      cursor_.fail_at(start, e.what());
    }
  }
  if (word == "complex") {
    cursor_.expect('<');
    const std::string_view part = cursor_.identifier();
    cursor_.expect('>');
    if (part != "f32" && part != "f64")
      cursor_.fail_at(start, "expected complex<f32> or complex<f64>");
    return builder_.tensor_type(part == "f32" ? ElementType::kC64 : ElementType::kC128, {});
  }
  if (const auto element = element_type_from_mlir(word)) return builder_.tensor_type(*element, {});
  cursor_.fail_at(
      start, word.empty() ? "expected a type" : fmt::format("'{}' is not a type known here", word));
}

TypeId Parser::parse_tensor_type() {
  const char* start = cursor_.position();
  cursor_.expect('<');
  std::array<int64_t, 64> dims{};
  size_t rank = 0;
  const auto push = [&](int64_t size) {
    if (rank == dims.size()) cursor_.fail("more than 64 dimensions");
    dims[rank++] = size;
  };
  ElementType element = ElementType::kNone;
  ElementType expressed = ElementType::kNone;
  cursor_.skip_space();
  while (true) {
    const char c = cursor_.at(0);
    if (c == '?' || c == '*') {
      cursor_.advance(1);
      const auto bound = options_.bindings.find("?");
      push(bound != options_.bindings.end() && c == '?' ? bound->second : kDynamic);
    } else if (TextCursor::is(c, kDigit)) {
      int64_t size = 0;
      size_t n = 0;
      for (; TextCursor::is(cursor_.at(n), kDigit); ++n) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, cursor_.at(n) - '0', &size))
          cursor_.fail("a dimension too large for 64 bits");
      }
      cursor_.advance(n);
      push(size);
    } else {
      break;
    }
    if (cursor_.at(0) == ' ') cursor_.skip_space();
    if (cursor_.at(0) != 'x') cursor_.fail("expected 'x' after a dimension");
    cursor_.advance(1);
  }
  const char* element_start = cursor_.position();
  if (cursor_.at(0) == '!') {
    cursor_.advance(1);
    const std::string_view name = cursor_.suffix();
    if (name.starts_with("quant.uniform")) {
      parse_quantized_element(element_start, &element, &expressed);
    } else {
      const auto alias = type_aliases_.find(name);
      if (alias == type_aliases_.end())
        cursor_.fail_at(element_start, fmt::format("element type '!{}' is not known", name));
      element = builder_.type(alias->second).element;
      expressed = builder_.type(alias->second).expressed;
    }
  } else {
    const std::string_view word = cursor_.identifier();
    if (word == "complex") {
      cursor_.expect('<');
      const std::string_view part = cursor_.identifier();
      cursor_.expect('>');
      if (part != "f32" && part != "f64")
        cursor_.fail_at(element_start, "expected complex<f32> or complex<f64>");
      element = part == "f32" ? ElementType::kC64 : ElementType::kC128;
    } else if (const auto known = element_type_from_mlir(word)) {
      element = *known;
    } else {
      cursor_.fail_at(element_start, fmt::format("'{}' is not an element type", word));
    }
  }
  if (cursor_.accept(',')) {
    // An encoding. Bounds of dynamic dimensions are what XLA allocates: use them.
    const char* encoding = cursor_.position();
    int depth = 0;
    while (cursor_.peek() != '>' || depth > 0) {
      if (cursor_.peek() == '\0') cursor_.fail_at(start, "a type that is not closed");
      if (cursor_.peek() == '<') ++depth;
      if (cursor_.peek() == '>') --depth;
      cursor_.advance(1);
    }
    const std::string_view text(encoding, static_cast<size_t>(cursor_.position() - encoding));
    const size_t bounds = text.find("bounds");
    if (bounds != std::string_view::npos) {
      size_t dim = 0;
      for (size_t i = bounds + 6; i < text.size() && dim < rank;) {
        const char c = text[i];
        if (c == '?') {
          ++dim;
          ++i;
        } else if (TextCursor::is(c, kDigit)) {
          int64_t value = 0;
          for (; i < text.size() && TextCursor::is(text[i], kDigit); ++i)
            value = std::min<int64_t>(value * 10 + (text[i] - '0'), int64_t{1} << 50);
          if (dims[dim] == kDynamic) {
            dims[dim] = value;
            builder_.add_note("bounded dynamic dimensions are taken at their bound");
          }
          ++dim;
        } else {
          ++i;
        }
      }
    }
  }
  cursor_.expect('>');
  try {
    return builder_.tensor_type(element, std::span(dims.data(), rank), {}, expressed);
  } catch (const std::invalid_argument& e) {
    cursor_.fail_at(start, e.what());
  }
}

/// <i8<-7:7>:f32:0, {0.1:2, …}> after !quant.uniform or !quant.uniform_per_axis.
void Parser::parse_quantized_element(const char* start, ElementType* stored,
                                     ElementType* expressed) {
  cursor_.expect('<');
  const std::string_view storage = cursor_.identifier();
  // The storage type may be narrowed: i8<-8:7>.
  if (cursor_.peek() == '<') cursor_.skip_balanced();
  cursor_.expect(':');
  const std::string_view stands_for = cursor_.identifier();
  const auto storage_type = element_type_from_mlir(storage == "u8" ? "ui8" : storage);
  const auto expressed_type = element_type_from_mlir(stands_for);
  if (!storage_type || !expressed_type)
    cursor_.fail_at(start, "expected !quant.uniform<STORAGE:EXPRESSED, …>");
  *stored = *storage_type;
  *expressed = *expressed_type;
  // Scales and zero points do not matter here; find the end of the type.
  while (cursor_.peek() != '>') {
    const char c = cursor_.peek();
    if (c == '\0') cursor_.fail_at(start, "a quantised type that is not closed");
    if (c == '{' || c == '<' || c == '[')
      cursor_.skip_balanced();
    else
      cursor_.advance(1);
  }
  cursor_.expect('>');
}

void Parser::parse_type_list(std::vector<TypeId>* types) {
  const Depth guard(*this);
  if (cursor_.peek() != '(') {
    types->push_back(parse_type());
    return;
  }
  cursor_.advance(1);
  if (cursor_.accept(')')) return;
  do {
    types->push_back(parse_type());
    if (cursor_.peek() == '{') parse_dictionary();
  } while (cursor_.accept(','));
  cursor_.expect(')');
}

}  // namespace orrery::stablehlo
