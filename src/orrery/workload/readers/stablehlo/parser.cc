#include "orrery/workload/readers/stablehlo/parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::stablehlo {

Parser::Parser(const Source& source, const ReadOptions& options)
    : cursor_(source, source.text()),
      options_(options),
      builder_("stablehlo", source.name()),
      translation_(builder_) {}

Workload Parser::parse() {
  find_modules();
  while (!cursor_.at_end()) parse_top_level();
  resolve_locations();
  return builder_.finish(cursor_.source(), options_.trip_count);
}

/// Test files hold several modules, split by lines of "// -----".
void Parser::find_modules() {
  constexpr std::string_view kSplit = "\n// -----";
  const std::string_view text = cursor_.source().text();
  for (size_t at = text.find(kSplit); at != std::string_view::npos;
       at = text.find(kSplit, at + 1)) {
    const size_t after = text.find_first_not_of(" \t\r", at + kSplit.size());
    if (after == std::string_view::npos || text[after] == '\n') splits_.push_back(at);
  }
}

void Parser::parse_top_level() {
  const Depth guard(*this);
  const char* start = cursor_.position();
  cursor_.skip_space();
  translation_.set_module(static_cast<size_t>(
      std::upper_bound(splits_.begin(), splits_.end(), cursor_.offset()) - splits_.begin()));
  switch (cursor_.peek()) {
    case '#':
    case '!':
      parse_alias();
      return;
    case '{':  // {-# dialect_resources: … #-}: the weights of dense_resource constants
      if (cursor_.at(1) == '-') {
        const std::string_view rest = cursor_.source().text().substr(cursor_.offset());
        const size_t end = rest.find("#-}");
        if (end == std::string_view::npos) cursor_.fail("a '{-#' section that is not closed");
        cursor_.advance(end + 3);
        return;
      }
      break;
    case '"': {
      const std::string_view name = cursor_.quoted();
      if (name == "builtin.module") return parse_generic_module(start);
      if (name == "func.func") return parse_generic_function();
      cursor_.fail_at(start, fmt::format("expected a module or a function, found \"{}\"", name));
    }
    default:
      break;
  }
  const std::string_view word = cursor_.identifier();
  if (word == "module" || word == "builtin.module") return parse_module();
  if (word == "func.func" || word == "func") return parse_function();
  if (word == "sdy.mesh") return parse_mesh();
  cursor_.fail_at(start, word.empty()
                             ? "expected 'module' or 'func.func'"
                             : fmt::format("expected 'module' or 'func.func', found '{}'", word));
}

void Parser::parse_module() {
  if (cursor_.peek() == '@') builder_.set_name(std::string(cursor_.symbol()));
  if (cursor_.accept("attributes")) parse_dictionary();
  cursor_.expect('{');
  const size_t opened = cursor_.offset();
  while (!cursor_.accept('}')) {
    if (cursor_.at_end()) cursor_.source().fail(opened - 1, "the module's '{' is not closed");
    parse_top_level();
  }
  parse_location(std::nullopt);
}

/// "builtin.module"() <{…}> ({ ^bb0: … }) {…} : () -> ()
void Parser::parse_generic_module(const char* start) {
  cursor_.expect('(');
  cursor_.expect(')');
  if (cursor_.accept("<")) {
    parse_dictionary();
    cursor_.expect('>');
  }
  cursor_.expect('(');
  cursor_.expect('{');
  if (cursor_.accept('^')) {
    cursor_.suffix();
    cursor_.expect(':');
  }
  while (!cursor_.accept('}')) {
    if (cursor_.at_end()) cursor_.fail_at(start, "the module is not closed");
    parse_top_level();
  }
  cursor_.expect(')');
  if (cursor_.peek() == '{') parse_dictionary();
  if (cursor_.accept(':')) {
    std::vector<TypeId> none;
    parse_type_list(&none);
    cursor_.expect("->");
    parse_type_list(&none);
  }
  parse_location(std::nullopt);
}

void Parser::parse_function() {
  bool is_public = true;
  if (cursor_.accept("private"))
    is_public = false;
  else if (cursor_.accept("public") || cursor_.accept("nested"))
    is_public = true;
  const char* name_at = cursor_.position();
  const FunctionId function = translation_.declare_function(cursor_.symbol());
  if (builder_.has_body(function))
    cursor_.fail_at(name_at, "a function of this name is defined already");
  builder_.begin_function(function, is_public);
  names_.enter();
  cursor_.expect('(');
  std::vector<TypeId> declared;
  if (!cursor_.accept(')')) {
    do {
      if (cursor_.peek() == '%') {
        parse_argument();
      } else {  // a declaration names types alone
        declared.push_back(parse_type());
        if (cursor_.peek() == '{') parse_dictionary();
      }
    } while (cursor_.accept(','));
    cursor_.expect(')');
  }
  std::vector<ResultInfo> infos;
  std::vector<TypeId> types;
  if (cursor_.accept("->")) {
    const bool listed = cursor_.accept('(');
    if (!listed || !cursor_.accept(')')) {
      do {
        types.push_back(parse_type());
        infos.emplace_back();
        if (cursor_.peek() == '{' && listed) {
          translation_.result = &infos.back();
          parse_dictionary();
          translation_.result = nullptr;
        }
      } while (listed && cursor_.accept(','));
      if (listed) cursor_.expect(')');
    }
  }
  if (cursor_.accept("attributes")) parse_dictionary();
  if (cursor_.peek() != '{') {
    // Only declared: undo the body that was begun for its arguments.
    builder_.end_function();
    builder_.function(function).body = {};
    builder_.declare_external(function, types);
    names_.leave();
    parse_location(std::nullopt);
    return;
  }
  if (!declared.empty()) cursor_.fail("a function with a body must name its arguments");
  cursor_.expect('{');
  parse_region_body();
  builder_.end_function();
  names_.leave();
  parse_location(std::nullopt);
  Function& f = builder_.function(function);
  if (f.result_types.size() == types.size()) f.results = std::move(infos);
  f.result_types = std::move(types);
  f.results.resize(f.result_types.size());
}

/// "func.func"() <{function_type = (…) -> …, sym_name = "main", …}> ({ ^bb0(…): … }) : () -> ()
/// Older printers put the dictionary after the region: it is read ahead.
void Parser::parse_generic_function() {
  cursor_.expect('(');
  cursor_.expect(')');
  const char* start = cursor_.position();
  const char* region = nullptr;
  std::string_view dictionary;
  if (cursor_.accept("<")) {
    cursor_.skip_space();
    const char* at = cursor_.position();
    cursor_.skip_balanced();
    dictionary = {at, static_cast<size_t>(cursor_.position() - at)};
    cursor_.expect('>');
  }
  cursor_.skip_space();
  region = cursor_.position();
  cursor_.skip_balanced();
  if (cursor_.peek() == '{') {
    const char* at = cursor_.position();
    cursor_.skip_balanced();
    if (dictionary.empty()) dictionary = {at, static_cast<size_t>(cursor_.position() - at)};
  }
  const char* after = cursor_.position();

  const auto field = [&](std::string_view key) {
    size_t at = dictionary.find(key);
    while (at != std::string_view::npos) {
      const size_t end = at + key.size();
      const bool starts = at == 0 || !TextCursor::is(dictionary[at - 1], kIdentifier);
      const size_t equals = dictionary.find_first_not_of(' ', end);
      if (starts && equals != std::string_view::npos && dictionary[equals] == '=')
        return dictionary.data() + equals + 1;
      at = dictionary.find(key, end);
    }
    return static_cast<const char*>(nullptr);
  };
  const char* name_at = field("sym_name");
  const char* type_at = field("function_type");
  if (name_at == nullptr || type_at == nullptr)
    cursor_.fail_at(start, "a generic func.func needs sym_name and function_type");
  cursor_.rewind(name_at);
  cursor_.skip_space();
  const FunctionId function = translation_.declare_function(cursor_.quoted());
  if (builder_.has_body(function))
    cursor_.fail_at(name_at, "a function of this name is defined already");
  bool is_public = true;
  if (const char* visibility = field("sym_visibility")) {
    cursor_.rewind(visibility);
    cursor_.skip_space();
    is_public = cursor_.quoted() != "private";
  }
  cursor_.rewind(type_at);
  std::vector<TypeId> arguments;
  std::vector<TypeId> results;
  parse_type_list(&arguments);
  cursor_.expect("->");
  parse_type_list(&results);

  std::vector<ArgumentInfo> infos(arguments.size());
  if (const char* attributes = field("arg_attrs")) {
    cursor_.rewind(attributes);
    cursor_.expect('[');
    for (size_t i = 0; i < infos.size() && cursor_.peek() == '{'; ++i) {
      translation_.argument = &infos[i];
      parse_dictionary();
      translation_.argument = nullptr;
      cursor_.accept(',');
    }
  }
  cursor_.rewind(region);
  cursor_.expect('(');
  cursor_.expect('{');
  if (cursor_.accept('}')) {  // a declaration
    builder_.declare_external(function, results);
  } else {
    builder_.begin_function(function, is_public);
    names_.enter();
    std::vector<std::string_view> names;
    if (cursor_.accept('^')) {
      cursor_.suffix();
      if (cursor_.accept('(')) {
        do {
          cursor_.expect('%');
          names.push_back(cursor_.suffix());
          cursor_.expect(':');
          parse_type();
          parse_location(std::nullopt);
        } while (cursor_.accept(','));
        cursor_.expect(')');
      }
      cursor_.expect(':');
    }
    if (names.size() != arguments.size())
      cursor_.fail_at(region, "the block's arguments do not match function_type");
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId value = builder_.add_argument(arguments[i], infos[i]);
      if (!names_.define(names[i], value, 1))
        cursor_.fail_at(names[i].data() - 1, fmt::format("'%{}' is defined already", names[i]));
    }
    parse_region_body();
    builder_.end_function();
    names_.leave();
    Function& f = builder_.function(function);
    f.result_types = std::move(results);
    f.results.resize(f.result_types.size());
  }
  cursor_.rewind(after);
  if (cursor_.accept(':')) {
    std::vector<TypeId> none;
    parse_type_list(&none);
    cursor_.expect("->");
    parse_type_list(&none);
  }
  parse_location(std::nullopt);
}

void Parser::parse_argument() {
  cursor_.expect('%');
  const std::string_view name = cursor_.suffix();
  cursor_.expect(':');
  const TypeId type = parse_type();
  ArgumentInfo info;
  if (cursor_.peek() == '{') {
    translation_.argument = &info;
    parse_dictionary();
    translation_.argument = nullptr;
  }
  parse_location(std::nullopt);
  const ValueId value = builder_.add_argument(type, info);
  if (!names_.define(name, value, 1))
    cursor_.fail_at(name.data() - 1, fmt::format("'%{}' is defined already", name));
}

/// ^bb0(%a: type, %b: type): of the open region.
void Parser::parse_block_header() {
  if (!cursor_.accept('^')) return;
  cursor_.suffix();
  if (cursor_.accept('(')) {
    if (!cursor_.accept(')')) {
      do {
        cursor_.expect('%');
        const std::string_view name = cursor_.suffix();
        cursor_.expect(':');
        const ValueId value = builder_.add_region_argument(parse_type());
        if (!names_.define(name, value, 1))
          cursor_.fail_at(name.data() - 1, fmt::format("'%{}' is defined already", name));
        parse_location(std::nullopt);
      } while (cursor_.accept(','));
      cursor_.expect(')');
    }
  }
  cursor_.expect(':');
}

/// Statements up to the closing '}'.
void Parser::parse_region_body() {
  const Depth guard(*this);
  const size_t opened = cursor_.offset();
  while (true) {
    const char c = cursor_.peek();
    if (c == '}') {
      cursor_.advance(1);
      return;
    }
    if (c == '\0') cursor_.source().fail(opened - 1, "the '{' here is not closed");
    if (c == '^') cursor_.fail("more than one block in a region: not StableHLO");
    parse_operation();
  }
}

/// { ^bb0(…): statements }
void Parser::parse_region() {
  cursor_.expect('{');
  builder_.begin_region();
  names_.enter();
  parse_block_header();
  parse_region_body();
  names_.leave();
  builder_.end_region();
}

/// #name = attribute   or   !name = type
void Parser::parse_alias() {
  const bool is_type = cursor_.peek() == '!';
  cursor_.advance(1);
  const std::string_view name = cursor_.suffix();
  cursor_.expect('=');
  cursor_.skip_space();
  const char* start = cursor_.position();
  if (is_type) {
    type_aliases_[name] = parse_type();
    return;
  }
  if (cursor_.accept("loc")) {
    cursor_.skip_space();
    cursor_.skip_balanced();
  } else {
    parse_value(true);
  }
  attribute_aliases_[name] =
      std::string_view(start, static_cast<size_t>(cursor_.position() - start));
}

/// sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[…]> {…}
void Parser::parse_mesh() {
  Mesh mesh;
  mesh.name = std::string(cursor_.symbol());
  cursor_.expect('=');
  parse_mesh_body(&mesh);
  if (cursor_.peek() == '{') cursor_.skip_balanced();
  builder_.add_mesh(std::move(mesh));
  parse_location(std::nullopt);
}

void Parser::parse_mesh_body(Mesh* mesh) {
  cursor_.expect('<');
  if (cursor_.accept('[')) {
    if (!cursor_.accept(']')) {
      do {
        MeshAxis axis;
        axis.name = std::string(cursor_.quoted());
        cursor_.expect('=');
        axis.size = cursor_.integer();
        if (axis.size <= 0) cursor_.fail("a mesh axis must have a positive size");
        mesh->axes.push_back(std::move(axis));
      } while (cursor_.accept(','));
      cursor_.expect(']');
    }
  }
  cursor_.accept(',');
  if (cursor_.accept("device_ids")) {
    cursor_.expect('=');
    cursor_.expect('[');
    bool all_integers = true;
    parse_integer_list(']', &all_integers);
    mesh->device_ids = integers_;
  }
  while (cursor_.peek() != '>') {  // maximal_device_id and the like
    if (cursor_.at_end()) cursor_.fail("a mesh that is not closed");
    cursor_.advance(1);
  }
  cursor_.expect('>');
}

// --- locations --------------------------------------------------------------

void Parser::parse_location(std::optional<OpId> op) {
  if (cursor_.peek() != 'l' || !cursor_.accept("loc")) return;
  cursor_.skip_space();
  const char* start = cursor_.position();
  if (cursor_.at(0) != '(') cursor_.fail("expected '(' after loc");
  cursor_.skip_balanced();
  if (op)
    pending_locations_.emplace_back(
        *op, std::string_view(start, static_cast<size_t>(cursor_.position() - start)));
}

/// What a reader recognises of a location: its first name, else file:line.
std::string Parser::location_name(TextCursor cursor, int depth) {
  if (depth > 16) return {};
  cursor.accept('(');
  if (cursor.accept("unknown")) return {};
  if (cursor.peek() == '#') {
    cursor.advance(1);
    const auto found = attribute_aliases_.find(cursor.suffix());
    if (found == attribute_aliases_.end()) return {};
    TextCursor inner(cursor.source(), found->second);
    inner.accept("loc");
    return location_name(inner, depth + 1);
  }
  if (cursor.peek() == '"') {
    std::string name(cursor.quoted());
    if (cursor.accept(':')) name += fmt::format(":{}", cursor.integer());
    return name;
  }
  if (cursor.accept("fused") || cursor.accept("callsite")) {
    if (cursor.peek() == '<') cursor.skip_balanced();
    cursor.accept('(');
    cursor.accept('[');
    return location_name(cursor, depth + 1);
  }
  return {};
}

void Parser::resolve_locations() {
  std::unordered_map<std::string_view, StringId> known;
  for (const auto& [op, text] : pending_locations_) {
    const auto [at, added] = known.emplace(text, StringId{});
    if (added) {
      const std::string name = location_name(TextCursor(cursor_.source(), text), 0);
      if (!name.empty()) at->second = builder_.intern(name);
    }
    builder_.set_op_name(op, at->second);
  }
}

}  // namespace orrery::stablehlo
