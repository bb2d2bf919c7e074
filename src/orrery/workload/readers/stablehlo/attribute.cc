#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "orrery/workload/mesh.h"
#include "orrery/workload/readers/stablehlo/parser.h"

namespace orrery::stablehlo {
bool Parser::alias_text(std::string_view name, std::string_view* text) {
  const auto found = attribute_aliases_.find(name);
  if (found == attribute_aliases_.end()) return false;
  alias_bytes_ += found->second.size();
  if (alias_bytes_ > 4 * cursor_.source().text().size() + (size_t{1} << 20))
    cursor_.fail("attribute aliases expand to more than four times the file");
  *text = found->second;
  return true;
}

AttributeValue Parser::parse_number() {
  AttributeValue value;
  cursor_.skip_space();
  const char* start = cursor_.position();
  size_t n = cursor_.at(0) == '-' ? 1 : 0;
  bool real = false;
  if (cursor_.at(n) == '0' && cursor_.at(n + 1) == 'x') {  // a bit pattern
    n += 2;
    while (TextCursor::is(cursor_.at(n), kIdentifier)) ++n;
    cursor_.advance(n);
    value.kind = AttributeValue::Kind::kText;
    value.text = {start, n};
    return value;
  }
  for (char c = cursor_.at(n);
       TextCursor::is(c, kDigit) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
       c = cursor_.at(++n)) {
    if (c == '-' && cursor_.at(n - 1) != 'e' && cursor_.at(n - 1) != 'E') break;
    real |= !TextCursor::is(c, kDigit);
  }
  value.text = {start, n};
  if (real) {
    value.kind = AttributeValue::Kind::kReal;
    if (std::from_chars(start, start + n, value.real).ec != std::errc())
      cursor_.fail("not a number");
    cursor_.advance(n);
  } else {
    value.kind = AttributeValue::Kind::kInteger;
    value.integer = cursor_.integer();
  }
  return value;
}

/// The elements up to `close` (the opening bracket is behind us), nested lists
/// flattened into `integers_`. Elements that are no integers are read past.
void Parser::parse_integer_list(char close, bool* all_integers) {
  integers_.clear();
  const char* start = cursor_.position();
  int depth = 0;
  while (true) {
    const char c = cursor_.peek();
    if (c == close && depth == 0) break;
    if (c == '[') {
      if (++depth > 64) cursor_.fail("a list nested deeper than 64 levels");
      cursor_.advance(1);
    } else if (c == ']') {
      if (--depth < 0) cursor_.fail(std::string("expected '") + close + "'");
      cursor_.advance(1);
    } else if (c == ',') {
      cursor_.advance(1);
    } else if (c == 't' && cursor_.accept("true")) {
      integers_.push_back(1);
    } else if (c == 'f' && cursor_.accept("false")) {
      integers_.push_back(0);
    } else if (TextCursor::is(c, kDigit) || c == '-') {
      const AttributeValue number = parse_number();
      if (number.kind == AttributeValue::Kind::kInteger)
        integers_.push_back(number.integer);
      else
        *all_integers = false;
      // An element may carry its type: [0 : i64, 1 : i64].
      if (cursor_.peek() == ':' && close == ']') {
        cursor_.advance(1);
        parse_type();
      }
    } else if (c == '\0') {
      cursor_.fail_at(start, "a list that is not closed");
    } else {
      // Nested values may use the scratch: what was collected is no longer of use.
      *all_integers = false;
      parse_value(true);
      integers_.clear();
    }
  }
  cursor_.advance(1);
}

/// dense<…>, its text kept whole; integers too when they are few.
AttributeValue Parser::parse_dense() {
  AttributeValue value;
  value.kind = AttributeValue::Kind::kText;
  cursor_.expect('<');
  const char* start = cursor_.position();
  if (cursor_.peek() == '"') {
    cursor_.quoted();
  } else {
    const std::string_view rest = cursor_.source().text().substr(cursor_.offset());
    const size_t close = rest.find('>');
    if (close == std::string_view::npos) cursor_.fail_at(start, "dense<…> is not closed");
    cursor_.advance(close);
  }
  value.text = {start, static_cast<size_t>(cursor_.position() - start)};
  cursor_.expect('>');
  return value;
}

AttributeValue Parser::parse_value(bool typed) {
  const Depth guard(*this);
  AttributeValue value;
  const char c = cursor_.peek();
  const char* start = cursor_.position();
  switch (c) {
    case '"':
      value.kind = AttributeValue::Kind::kString;
      value.text = cursor_.quoted();
      if (typed && cursor_.accept(':')) parse_type();
      return value;
    case '[': {
      cursor_.advance(1);
      bool all_integers = true;
      parse_integer_list(']', &all_integers);
      value.kind = all_integers ? AttributeValue::Kind::kIntegers : AttributeValue::Kind::kText;
      value.integers = &integers_;
      value.text = {start, static_cast<size_t>(cursor_.position() - start)};
      return value;
    }
    case '{':
      cursor_.skip_balanced();
      value.kind = AttributeValue::Kind::kText;
      value.text = {start, static_cast<size_t>(cursor_.position() - start)};
      return value;
    case '@':
      value.kind = AttributeValue::Kind::kSymbol;
      value.text = cursor_.symbol();
      while (cursor_.accept("::")) value.text = cursor_.symbol();
      return value;
    case '#': {
      cursor_.advance(1);
      const std::string_view name = cursor_.suffix();
      if (cursor_.at(0) == '<') {
        parse_struct(name);
      } else {
        std::string_view text;
        if (alias_text(name, &text)) {
          const char* after = cursor_.position();
          cursor_.rewind(text.data());
          value = parse_value(typed);
          cursor_.rewind(after);
          return value;
        }
        if (name.find('.') == std::string_view::npos)
          cursor_.fail_at(start,
                          fmt::format("attribute alias '#{}' is not defined before its use", name));
      }
      value.kind = AttributeValue::Kind::kText;
      value.text = {start, static_cast<size_t>(cursor_.position() - start)};
      if (typed && cursor_.accept(':')) parse_type();
      return value;
    }
    case '<':
      parse_struct("");
      value.kind = AttributeValue::Kind::kText;
      value.text = {start, static_cast<size_t>(cursor_.position() - start)};
      return value;
    case '(':
    case '!':
      value.type = parse_type();
      value.kind = AttributeValue::Kind::kText;
      return value;
    default:
      break;
  }
  if (TextCursor::is(c, kDigit) || c == '-') {
    value = parse_number();
    if (typed && cursor_.accept(':')) value.type = parse_type();
    return value;
  }
  const std::string_view word = cursor_.identifier();
  if (word == "true" || word == "false") {
    value.kind = AttributeValue::Kind::kInteger;
    value.integer = word == "true" ? 1 : 0;
    return value;
  }
  if (word == "array") {
    cursor_.expect('<');
    cursor_.identifier();
    bool all_integers = true;
    integers_.clear();
    if (cursor_.accept(':'))
      parse_integer_list('>', &all_integers);
    else
      cursor_.expect('>');
    value.kind = all_integers ? AttributeValue::Kind::kIntegers : AttributeValue::Kind::kText;
    value.integers = &integers_;
    return value;
  }
  if (word == "dense" || word == "dense_resource" || word == "sparse") {
    value = parse_dense();
    if (word != "dense") value.text = {};
    if (typed && cursor_.accept(':')) {
      value.type = parse_type();
      const Type& type = builder_.type(value.type);
      constant_text_ = value.text;
      if (is_integer(type.element) || type.element == ElementType::kBool) {
        // Small lists of integers: dimension numbers, replica groups, padding.
        const char* after = cursor_.position();
        if (!value.text.empty() && value.text[0] != '"' && type.elements <= (1 << 20)) {
          cursor_.rewind(value.text.data());
          bool all_integers = true;
          parse_integer_list('>', &all_integers);
          cursor_.rewind(after);
          if (all_integers) {
            if (integers_.size() == 1 && type.elements > 1 && type.elements <= kMaxSplatElements)
              integers_.assign(static_cast<size_t>(type.elements), integers_[0]);
            value.kind = AttributeValue::Kind::kIntegers;
            value.integers = &integers_;
          }
        }
      }
    }
    return value;
  }
  if (word.empty()) cursor_.fail("expected an attribute's value");
  value.kind = AttributeValue::Kind::kText;
  if (word == "loc") {
    cursor_.skip_space();
    cursor_.skip_balanced();
  } else if (cursor_.at(0) == '<') {
    cursor_.skip_balanced();  // a type such as tensor<…>, or affine_map<…>
    if (typed && cursor_.peek() == '-' && cursor_.accept("->")) parse_type();
  }
  value.text = {start, static_cast<size_t>(cursor_.position() - start)};
  return value;
}

/// { name = value, "name" = value, unit }
void Parser::parse_dictionary() {
  const Depth guard(*this);
  cursor_.expect('{');
  if (cursor_.accept('}')) return;
  do {
    if (cursor_.peek() == '}') break;
    const std::string_view name = cursor_.peek() == '"' ? cursor_.quoted() : cursor_.identifier();
    if (name.empty()) cursor_.fail("expected an attribute's name or '}'");
    AttributeValue value;
    if (cursor_.accept('=')) {
      if (name == "sdy.sharding" && cursor_.peek() == '#') {
        const char* start = cursor_.position();
        cursor_.advance(1);
        const std::string_view form = cursor_.suffix();
        if (form == "sdy.sharding" || form == "sdy.sharding_per_value") {
          const ShardingId sharding =
              form == "sdy.sharding" ? parse_shardy_sharding() : parse_shardings_of_results();
          if (translation_.argument != nullptr)
            translation_.argument->sharding = sharding;
          else if (translation_.result != nullptr)
            translation_.result->sharding = sharding;
          else if (builder_.in_operation() && sharding.valid())
            builder_.set_sharding(Attr::kSharding, sharding);
          continue;
        }
        cursor_.rewind(start);
      }
      if ((name == "mhlo.attributes" || name == "composite_attributes") && cursor_.peek() == '{') {
        parse_dictionary();
        continue;
      }
      value = parse_value(true);
    }
    translation_.apply(name, value);
  } while (cursor_.accept(','));
  cursor_.expect('}');
}

/// <name = value, …> of #stablehlo.dot, .gather, .scatter, .conv, … ; `kind` is
/// what stood before. The inside of others is read past.
void Parser::parse_struct(std::string_view kind) {
  const Depth guard(*this);
  const size_t dot = kind.rfind('.');
  const std::string_view local = dot == std::string_view::npos ? kind : kind.substr(dot + 1);
  const bool is_known = kind.empty() || local == "dot" || local == "gather" || local == "scatter" ||
                        local == "dot_algorithm" || local == "channel_handle" ||
                        local == "ragged_dot";
  if (local == "conv") return parse_convolution_dimensions();
  if (local == "replica_group_mesh_axes") return parse_mesh_axes_groups();
  if (!is_known) return cursor_.skip_balanced();
  cursor_.expect('<');
  while (!cursor_.accept('>')) {
    const char* start = cursor_.position();
    const std::string_view name = cursor_.identifier();
    if (!name.empty() && cursor_.accept('=')) {
      translation_.apply(name, parse_value(true));
    } else {
      cursor_.rewind(start);
      parse_value(true);
    }
    if (cursor_.peek() != '>') cursor_.expect(',');
  }
}

/// <[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, the same without brackets around it
/// (pretty form), or <raw input_batch_dimension = 0, …>.
void Parser::parse_convolution_dimensions() {
  const bool enclosed = cursor_.accept('<');
  if (cursor_.accept("raw")) {
    while (!cursor_.accept('>')) {
      const std::string_view name = cursor_.identifier();
      if (name.empty()) cursor_.fail("expected a dimension's name");
      cursor_.expect('=');
      translation_.apply(name, parse_value(false));
      cursor_.accept(',');
    }
    return;
  }
  struct Keys {
    char first, second;
    Attr first_key, second_key, spatial_key;
  };
  static constexpr Keys kLists[] = {
      {'b', 'f', Attr::kInputBatch, Attr::kInputFeature, Attr::kInputSpatial},
      {'i', 'o', Attr::kKernelInput, Attr::kKernelOutput, Attr::kKernelSpatial},
      {'b', 'f', Attr::kOutputBatch, Attr::kOutputFeature, Attr::kOutputSpatial}};
  for (int list = 0; list < 3; ++list) {
    const Keys& keys = kLists[list];
    if (list == 1) cursor_.expect('x');
    if (list == 2) cursor_.expect("->");
    cursor_.expect('[');
    std::vector<std::pair<int64_t, int64_t>> spatial;  // number, place
    int64_t place = 0;
    do {
      const char c = cursor_.peek();
      if (c == keys.first || c == keys.second) {
        cursor_.advance(1);
        builder_.set_int(c == keys.first ? keys.first_key : keys.second_key, place);
      } else if (c == '?') {
        cursor_.advance(1);  // a dimension with no meaning
      } else {
        spatial.emplace_back(cursor_.integer(), place);
      }
      ++place;
    } while (cursor_.accept(','));
    cursor_.expect(']');
    std::sort(spatial.begin(), spatial.end());
    second_integers_.clear();
    for (const auto& [number, at] : spatial) second_integers_.push_back(at);
    builder_.set_ints(keys.spatial_key, second_integers_);
  }
  if (enclosed) cursor_.expect('>');
}

/// <mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>, …]>
void Parser::parse_mesh_axes_groups() {
  cursor_.expect('<');
  std::string_view mesh_name;
  Mesh inline_mesh;
  bool has_inline_mesh = false;
  std::vector<AxisReference> axes;
  while (!cursor_.accept('>')) {
    const std::string_view key = cursor_.identifier();
    cursor_.expect('=');
    if (key == "mesh" && cursor_.peek() == '@') {
      mesh_name = cursor_.symbol();
    } else if (key == "axes") {
      cursor_.expect('[');
      while (!cursor_.accept(']')) {
        cursor_.expect('#');
        cursor_.suffix();
        cursor_.expect('<');
        AxisReference axis;
        while (!cursor_.accept('>')) {
          const std::string_view part = cursor_.identifier();
          cursor_.expect('=');
          if (part == "name") {
            axis.name = std::string(cursor_.quoted());
          } else if (cursor_.accept('(')) {
            axis.pre_size = cursor_.integer();
            cursor_.expect(')');
            axis.size = cursor_.integer();
          } else {
            parse_value(false);
          }
          cursor_.accept(',');
        }
        axes.push_back(std::move(axis));
        cursor_.accept(',');
      }
    } else if (key == "mesh") {
      // An inline mesh: #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, …]>
      cursor_.expect('#');
      cursor_.suffix();
      cursor_.skip_space();
      const char* at = cursor_.position();
      cursor_.skip_balanced();
      std::string_view text(at, static_cast<size_t>(cursor_.position() - at));
      has_inline_mesh = true;
      for (size_t i = text.find("name"); i != std::string_view::npos;
           i = text.find("name", i + 4)) {
        const size_t open = text.find('"', i);
        const size_t close = open == std::string_view::npos ? open : text.find('"', open + 1);
        const size_t size_at = close == std::string_view::npos ? close : text.find("size", close);
        const size_t equals = size_at == std::string_view::npos ? size_at : text.find('=', size_at);
        if (equals == std::string_view::npos) break;
        MeshAxis axis;
        axis.name = std::string(text.substr(open + 1, close - open - 1));
        const char* digits =
            text.data() + std::min(text.size(), text.find_first_not_of("= ", equals));
        std::from_chars(digits, text.data() + text.size(), axis.size);
        inline_mesh.axes.push_back(std::move(axis));
      }
    } else {
      parse_value(false);
    }
    cursor_.accept(',');
  }
  if (!builder_.in_operation()) return;
  if (!translation_.apply_mesh_axes(mesh_name, has_inline_mesh ? &inline_mesh : nullptr, axes))
    cursor_.fail(
        fmt::format("the module's replica groups list more than {} ranks", kMaxListedRanks));
}

/// <@mesh, [{"x"}, {}], replicated={"y"}> after #sdy.sharding, or bare in a list.
ShardingId Parser::parse_shardy_sharding() {
  Sharding sharding;
  sharding.form = Sharding::Form::kShardy;
  cursor_.expect('<');
  if (cursor_.peek() == '@') {
    sharding.mesh = builder_.find_mesh(cursor_.symbol());
  } else {
    cursor_.expect("mesh");
    Mesh mesh;
    parse_mesh_body(&mesh);
    sharding.mesh = builder_.add_mesh(std::move(mesh));
  }
  cursor_.expect(',');
  cursor_.skip_space();
  const char* start = cursor_.position();
  int depth = 0;
  while (cursor_.peek() != '>' || depth > 0) {
    const char c = cursor_.peek();
    if (c == '\0') cursor_.fail_at(start, "a sharding that is not closed");
    if (c == '"') {
      cursor_.quoted();
      continue;
    }
    if (c == '<') ++depth;
    if (c == '>') --depth;
    cursor_.advance(1);
  }
  sharding.text = std::string(start, static_cast<size_t>(cursor_.position() - start));
  cursor_.expect('>');
  return builder_.add_sharding(std::move(sharding));
}

/// <[<@mesh, […]>, …]> of an operation, one for each result; the first is kept.
ShardingId Parser::parse_shardings_of_results() {
  ShardingId first;
  cursor_.expect('<');
  cursor_.expect('[');
  while (!cursor_.accept(']')) {
    const ShardingId sharding = parse_shardy_sharding();
    if (!first.valid()) first = sharding;
    cursor_.accept(',');
  }
  cursor_.expect('>');
  return first;
}

/// Keeps what later passes look through: small integers (loop bounds, shapes)
/// and single reals.
void Parser::apply_constant(std::string_view dense, TypeId type_id) {
  const Type& type = builder_.type(type_id);
  if (dense.empty() || type.kind != Type::Kind::kTensor) return;
  const bool integral = is_integer(type.element) || type.element == ElementType::kBool;
  if (dense[0] == '"' || dense[0] == '(' || dense.size() > 24 * kMaxConstantElements) {
    if (!is_integer(type.element) || !dense.starts_with("\"0x") ||
        type.elements > static_cast<int64_t>(kMaxConstantElements))
      return;
    // "0x…": the bytes in memory order, little endian; booleans are packed by bits.
    const std::string_view hex = dense.substr(3, dense.size() - 4);
    const size_t width = static_cast<size_t>(bit_width(type.element)) / 8;
    if (width == 0 || hex.size() % (2 * width) != 0 ||
        hex.size() > 2 * width * kMaxConstantElements)
      return;
    const bool is_signed = type.element <= ElementType::kS64 || type.element == ElementType::kIndex;
    second_integers_.clear();
    for (size_t i = 0; i < hex.size(); i += 2 * width) {
      uint64_t bits = 0;
      for (size_t b = 0; b < width; ++b) {
        unsigned byte = 0;
        std::from_chars(hex.data() + i + 2 * b, hex.data() + i + 2 * b + 2, byte, 16);
        bits |= static_cast<uint64_t>(byte) << (8 * b);
      }
      const size_t unused = 64 - 8 * width;
      const auto extended = static_cast<int64_t>(bits << unused) >> unused;
      second_integers_.push_back(is_signed ? extended : static_cast<int64_t>(bits));
    }
    builder_.set_ints(Attr::kValue, second_integers_);
    return;
  }
  if (integral) {
    if (dense[0] != '[') {
      int64_t number = dense == "true" ? 1 : 0;
      std::from_chars(dense.data(), dense.data() + dense.size(), number);
      builder_.set_ints(Attr::kValue, {number});
      return;
    }
    second_integers_.clear();
    for (size_t i = 0; i < dense.size();) {
      const char c = dense[i];
      if (TextCursor::is(c, kDigit) || c == '-') {
        int64_t number = 0;
        const auto [after, status] =
            std::from_chars(dense.data() + i, dense.data() + dense.size(), number);
        if (status != std::errc()) return;
        second_integers_.push_back(number);
        i = static_cast<size_t>(after - dense.data());
      } else if (dense.substr(i).starts_with("true")) {
        second_integers_.push_back(1);
        i += 4;
      } else if (dense.substr(i).starts_with("false")) {
        second_integers_.push_back(0);
        i += 5;
      } else {
        ++i;
      }
    }
    if (second_integers_.size() <= kMaxConstantElements)
      builder_.set_ints(Attr::kValue, second_integers_);
    return;
  }
  if (is_float(type.element) && dense[0] != '[') {
    double number = 0;
    if (dense.starts_with("0x")) {
      uint64_t bits = 0;
      if (std::from_chars(dense.data() + 2, dense.data() + dense.size(), bits, 16).ec !=
          std::errc())
        return;
      const auto decoded = real_from_bits(bits, type.element);
      if (!decoded) return;
      number = *decoded;
    } else if (std::from_chars(dense.data(), dense.data() + dense.size(), number).ec !=
               std::errc()) {
      return;
    }
    builder_.set_real(Attr::kRealValue, number);
  }
}

}  // namespace orrery::stablehlo
