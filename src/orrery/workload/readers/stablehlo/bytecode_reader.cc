#include "orrery/workload/readers/stablehlo/bytecode_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/workload/readers/stablehlo/vhlo.h"

namespace orrery::stablehlo {
namespace {

/// Which parts of an operation follow its name.
enum Parts : uint8_t {
  kHasDictionary = 0x01,
  kHasResults = 0x02,
  kHasOperands = 0x04,
  kHasSuccessors = 0x08,
  kHasRegions = 0x10,
  kHasUseListOrders = 0x20,
  kHasProperties = 0x40,
};

constexpr int kMaxNestedDictionaries = 16;
/// Lists of attributes are sized, not kept, beyond this, as in text.
constexpr size_t kMaxListElements = size_t{1} << 20;
/// Integers copied, text hashed: a few bytes may name a long list again and again, so
/// their number is bounded beside the file's length.
constexpr size_t kMaxWork = size_t{1} << 27;
constexpr size_t kMaxKeptIntegers = size_t{1} << 24;
constexpr size_t kMaxSettings = size_t{1} << 20;

/// A string as MLIR prints it between quotes, which is how the text reader keeps it.
std::string as_printed(std::string_view text) {
  std::string printed;
  for (const char c : text) {
    if (c == '\\')
      printed += "\\\\";
    else if (c < ' ' || c > '~' || c == '"')
      printed += fmt::format("\\{:02X}", static_cast<uint8_t>(c));
    else
      printed += c;
  }
  return printed;
}

/// Reductions by these are named, not spelled out, where MLIR prints them.
constexpr Opcode kNamedReducers[] = {Opcode::k_add,     Opcode::k_multiply, Opcode::k_maximum,
                                     Opcode::k_minimum, Opcode::k_and,      Opcode::k_or,
                                     Opcode::k_xor};

}  // namespace

class BytecodeReader::Depth {
 public:
  Depth(BytecodeReader& reader, const ByteCursor& cursor) : reader_(reader) {
    if (++reader_.depth_ > 200) cursor.fail("nested deeper than 200 levels");
  }
  ~Depth() { --reader_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  BytecodeReader& reader_;
};

BytecodeReader::BytecodeReader(const Source& source, const ReadOptions& options)
    : source_(source.binary()),
      options_(options),
      builder_("stablehlo", source.name()),
      translation_(builder_),
      file_(source_),
      values_(source_, file_, options_, builder_),
      last_settings_(file_.properties.size()),
      location_names_(file_.attributes.size()),
      location_known_(file_.attributes.size(), false) {}

Workload BytecodeReader::read() {
  read_names();
  scopes_.emplace_back();
  ByteCursor cursor(source_, file_.program);
  const uint64_t operations = read_block_header(cursor);
  if (!block_types_.empty()) cursor.fail("the program has arguments");
  for (uint64_t i = 0; i < operations; ++i) read_top_level(cursor);
  return builder_.finish(source_, options_.trip_count);
}

void BytecodeReader::charge(size_t work, const char* what) {
  work_ += work;
  if (work_ > kMaxWork + 16 * source_.text().size() ||
      integers_.size() > kMaxKeptIntegers + 8 * source_.text().size() ||
      settings_.size() > kMaxSettings + source_.text().size() / 8)
    source_.fail(file_.program.begin,
                 fmt::format("{} make more of the file than it can mean", what));
}

// --- names ------------------------------------------------------------------

void BytecodeReader::read_names() {
  names_.reserve(file_.operations.size());
  for (const BytecodeFile::OperationName& operation : file_.operations) {
    Name name;
    name.dialect = file_.dialects[operation.dialect];
    name.local = operation.name;
    name.operation = name.dialect == "vhlo" ? without_version(name.local) : name.local;
    name.is_module = name.dialect == "builtin" && name.local == "module";
    name.is_function = name.dialect == "vhlo" && name.operation == "func";
    names_.push_back(name);
  }
}

BytecodeReader::OpName BytecodeReader::resolve(uint64_t index, size_t offset) {
  Name& name = names_[index];
  if (name.resolved) return *name.resolved;
  const std::string_view dialect = name.dialect == "vhlo" ? "stablehlo" : name.dialect;
  charge(name.local.size(), "names of operations");
  spellings_.push_back(fmt::format("{}.{}", dialect, name.operation));
  name.resolved = translation_.operation_name(spellings_.back());
  if (name.resolved->code != Opcode::k_unknown && name.dialect != "vhlo")
    source_.fail(offset, fmt::format("operation '{}' outside VHLO: only portable artifacts are "
                                     "read (stablehlo-translate --serialize, jax.export)",
                                     spellings_.back()));
  return *name.resolved;
}

void BytecodeReader::name_operation(OpId op, uint64_t location) {
  if (!location_known_[location]) {
    location_known_[location] = true;
    const std::string name = values_.location_name(location);
    charge(name.size(), "locations");
    if (!name.empty()) location_names_[location] = builder_.intern(name);
  }
  if (location_names_[location].valid()) builder_.set_op_name(op, location_names_[location]);
}

// --- structure --------------------------------------------------------------

/// Reads past the order in which results are used: of one value, or of some of several.
void BytecodeReader::skip_use_lists(ByteCursor& cursor, uint64_t values) {
  const uint64_t lists = values > 1 ? cursor.count() : 1;
  for (uint64_t i = 0; i < lists; ++i) {
    if (values > 1) cursor.varint();
    const size_t at = cursor.offset();
    const uint64_t indices = cursor.flagged().first;
    if (indices > cursor.left())
      source_.fail(at, fmt::format("{} uses where {} bytes are left", indices, cursor.left()));
    for (uint64_t k = 0; k < indices; ++k) cursor.varint();
  }
}

/// Operands and result types go to the scratch.
BytecodeReader::Head BytecodeReader::read_head(ByteCursor& cursor) {
  Head head;
  head.offset = cursor.offset();
  head.name = cursor.varint();
  if (head.name >= names_.size())
    source_.fail(head.offset, fmt::format("operation name {} of {}", head.name, names_.size()));
  const uint8_t parts = cursor.byte();
  if ((parts & 0x80) != 0) source_.fail(head.offset, "an operation with parts that are not known");
  head.location = values_.index(cursor);
  if ((parts & kHasDictionary) != 0) head.dictionary = values_.index(cursor);
  if ((parts & kHasProperties) != 0) {
    const size_t at = cursor.offset();
    head.properties = cursor.varint();
    if (*head.properties >= file_.properties.size())
      source_.fail(at,
                   fmt::format("properties {} of {}", *head.properties, file_.properties.size()));
  }
  result_types_.clear();
  if ((parts & kHasResults) != 0) {
    const uint64_t count = cursor.count();
    for (uint64_t i = 0; i < count; ++i) result_types_.push_back(values_.type(cursor));
  }
  operands_.clear();
  if ((parts & kHasOperands) != 0) {
    const uint64_t count = cursor.count();
    const std::vector<ValueId>& known = scopes_.back().values;
    for (uint64_t i = 0; i < count; ++i) {
      const size_t at = cursor.offset();
      const uint64_t value = cursor.varint();
      if (value >= known.size() || !known[value].valid())
        source_.fail(at, fmt::format("value {} is not defined here", value));
      operands_.push_back(known[value]);
    }
  }
  if ((parts & kHasSuccessors) != 0 && cursor.varint() != 0)
    source_.fail(head.offset, "an operation with successor blocks: not StableHLO");
  if ((parts & kHasUseListOrders) != 0 && file_.version >= BytecodeFile::kUseListOrders)
    skip_use_lists(cursor, result_types_.size());
  if ((parts & kHasRegions) != 0) {
    const size_t at = cursor.offset();
    const auto [count, isolated] = cursor.flagged();
    if (count > cursor.left())
      source_.fail(at, fmt::format("{} regions where {} bytes are left", count, cursor.left()));
    head.region_count = count;
    head.isolated = isolated;
  }
  return head;
}

template <class Read>
void BytecodeReader::at_regions(ByteCursor& cursor, const Head& head, Read&& read) {
  if (head.isolated) scopes_.emplace_back();
  if (head.isolated && file_.version >= BytecodeFile::kIsolatedRegionsInSections) {
    const Section section = read_section(cursor);
    if (section.kind != Section::kProgram)
      source_.fail(head.offset, "the regions of an operation are not where they should be");
    ByteCursor inside(source_, section.inside);
    read(inside);
  } else {
    read(cursor);
  }
  if (head.isolated) scopes_.pop_back();
}

uint64_t BytecodeReader::read_block_header(ByteCursor& cursor) {
  const size_t at = cursor.offset();
  const auto [operations, has_arguments] = cursor.flagged();
  if (operations > cursor.left())
    source_.fail(at,
                 fmt::format("{} operations where {} bytes are left", operations, cursor.left()));
  block_types_.clear();
  if (!has_arguments) return operations;
  const uint64_t count = cursor.count();
  for (uint64_t i = 0; i < count; ++i) {
    if (file_.version < BytecodeFile::kOptionalArgumentLocations) {
      block_types_.push_back(values_.type(cursor));
      values_.index(cursor);
      continue;
    }
    // The type's number shares its varint with whether a location follows.
    const size_t type_at = cursor.offset();
    const auto [type, has_location] = cursor.flagged();
    block_types_.push_back(values_.type(type, type_at));
    if (has_location) values_.index(cursor);
  }
  if (file_.version >= BytecodeFile::kUseListOrders && cursor.byte() != 0)
    skip_use_lists(cursor, count);
  return operations;
}

/// Makes room for a region's values and reads its block's header; gives its operations.
uint64_t BytecodeReader::open_region(ByteCursor& cursor, uint64_t blocks) {
  if (blocks != 1) cursor.fail("more than one block in a region: not StableHLO");
  const size_t at = cursor.offset();
  const uint64_t count = cursor.varint();
  // Each takes a byte or more, so all that are open take no more than the file.
  if (count > source_.text().size() - reserved_values_)
    source_.fail(at, fmt::format("{} values in a region", count));
  reserved_values_ += count;
  Scope& scope = scopes_.back();
  scope.open.push_back({scope.values.size(), scope.values.size()});
  scope.values.resize(scope.values.size() + count);
  return read_block_header(cursor);
}

void BytecodeReader::close_region() {
  Scope& scope = scopes_.back();
  const size_t first = scope.open.back().first;
  reserved_values_ -= scope.values.size() - first;
  scope.values.resize(first);
  scope.open.pop_back();
}

void BytecodeReader::define(ValueId value, const ByteCursor& cursor) {
  Scope& scope = scopes_.back();
  if (scope.open.empty()) cursor.fail("a value outside every function");
  size_t& next = scope.open.back().next;
  if (next >= scope.values.size()) cursor.fail("more values in a region than it was said to have");
  scope.values[next++] = value;
}

void BytecodeReader::read_top_level(ByteCursor& cursor) {
  const Depth guard(*this, cursor);
  const Head head = read_head(cursor);
  const Name& name = names_[head.name];
  if (name.is_module) return read_module(cursor, head);
  if (name.is_function) return read_function(cursor, head);
  if (head.region_count == 0 && result_types_.empty() && name.dialect != "vhlo") {
    builder_.add_note(
        fmt::format("'{}.{}' at the top of the module is left out", name.dialect, name.local));
    return;
  }
  source_.fail(head.offset,
               fmt::format("expected a module or a VHLO function, found '{}.{}': only portable "
                           "artifacts are read (stablehlo-translate --serialize, jax.export)",
                           name.dialect, name.local));
}

void BytecodeReader::read_module(ByteCursor& cursor, const Head& head) {
  if (head.properties) {
    // Its name and visibility, each where there is one.
    ByteCursor properties(source_, file_.properties[*head.properties]);
    if (const auto name = values_.optional_index(properties))
      builder_.set_name(std::string(values_.string(*name)));
  }
  if (head.dictionary) {
    const NamedAttributes attributes = entries(values_.attribute(*head.dictionary));
    for (const auto& [name, index] : attributes)
      if (name == "sym_name") builder_.set_name(std::string(values_.string(index)));
    apply(attributes);
  }
  at_regions(cursor, head, [&](ByteCursor& inside) {
    for (uint64_t r = 0; r < head.region_count; ++r) {
      const uint64_t blocks = inside.varint();
      if (blocks == 0) continue;
      const uint64_t operations = open_region(inside, blocks);
      for (uint64_t i = 0; i < operations; ++i) read_top_level(inside);
      close_region();
    }
  });
}

void BytecodeReader::read_function(ByteCursor& cursor, const Head& head) {
  std::optional<uint64_t> name, type, visibility, arguments, results;
  for (const auto& [key, index] : named_attributes(head)) {
    if (key == "sym_name") name = index;
    if (key == "function_type") type = index;
    if (key == "sym_visibility") visibility = index;
    if (key == "arg_attrs") arguments = index;
    if (key == "res_attrs") results = index;
  }
  if (!name || !type || head.region_count != 1)
    source_.fail(head.offset, "a function without a name, a type or a body");
  const std::string_view symbol = values_.string(*name);
  charge(symbol.size(), "names of functions");
  const FunctionId function = translation_.declare_function(symbol);
  if (builder_.has_body(function))
    source_.fail(head.offset, fmt::format("a function called '{}' is defined already", symbol));
  BytecodeValues::Signature signature = values_.signature(values_.attribute(*type));
  const bool is_public = !visibility || values_.string(*visibility) != "private";

  /// Calls `with` for each dictionary of a list, as far as there are as many.
  const auto each = [&](std::optional<uint64_t> list, size_t most, auto&& with) {
    if (!list) return;
    const BytecodeAttribute array = values_.attribute(*list);
    if (array.kind != BytecodeAttribute::Kind::kArray) return;
    ByteCursor dictionaries = values_.parts(array);
    const uint64_t count = std::min<uint64_t>(dictionaries.count(), most);
    for (uint64_t i = 0; i < count; ++i) with(i, entries(values_.attribute(dictionaries)));
  };
  std::vector<ArgumentInfo> argument_infos(signature.arguments.size());
  each(arguments, argument_infos.size(), [&](size_t i, const NamedAttributes& attributes) {
    translation_.argument = &argument_infos[i];
    apply(attributes);
    translation_.argument = nullptr;
  });
  std::vector<ResultInfo> result_infos(signature.results.size());
  each(results, result_infos.size(), [&](size_t i, const NamedAttributes& attributes) {
    translation_.result = &result_infos[i];
    apply(attributes);
    translation_.result = nullptr;
  });

  at_regions(cursor, head, [&](ByteCursor& inside) {
    const uint64_t blocks = inside.varint();
    if (blocks == 0) return builder_.declare_external(function, signature.results);
    builder_.begin_function(function, is_public);
    const uint64_t operations = open_region(inside, blocks);
    if (block_types_.size() != signature.arguments.size())
      source_.fail(head.offset, "the block's arguments do not match the function's type");
    for (size_t i = 0; i < argument_infos.size(); ++i)
      define(builder_.add_argument(block_types_[i], argument_infos[i]), inside);
    for (uint64_t i = 0; i < operations; ++i) read_operation(inside);
    close_region();
    builder_.end_function();
    Function& f = builder_.function(function);
    if (f.result_types.size() == signature.results.size()) f.results = std::move(result_infos);
    f.result_types = std::move(signature.results);
    f.results.resize(f.result_types.size());
  });
}

void BytecodeReader::read_operation(ByteCursor& cursor) {
  const Head head = read_head(cursor);
  const OpName name = resolve(head.name, head.offset);
  if (name.is_return) {
    if (head.region_count != 0) source_.fail(head.offset, "a return with regions");
    builder_.emit_return(operands_, head.offset);
    return;
  }
  const OpId op = builder_.begin_op(name.code, operands_,
                                    static_cast<uint32_t>(result_types_.size()), head.offset);
  builder_.set_result_types(result_types_);
  for (uint32_t i = 0; i < result_types_.size(); ++i) define(builder_.result(op, i), cursor);
  for (const bool from_properties : {true, false}) {
    if (!(from_properties ? head.properties : head.dictionary)) continue;
    const Settings found = settings(head, from_properties);
    for (size_t i = 0; i < found.count; ++i) apply(settings_[found.first + i]);
  }
  if (head.region_count != 0) {
    std::optional<Opcode> reducer;
    if (name.code == Opcode::k_reduce) reducer = simple_reducer(cursor, head);
    if (reducer) {
      builder_.set_string(Attr::kReducer, orrery::name(*reducer));
    } else {
      at_regions(cursor, head, [&](ByteCursor& inside) {
        for (uint64_t r = 0; r < head.region_count; ++r) read_region(inside);
      });
    }
  }
  translation_.finish_operation(name.code);
  name_operation(op, head.location);
}

void BytecodeReader::read_region(ByteCursor& cursor) {
  const Depth guard(*this, cursor);
  builder_.begin_region();
  if (const uint64_t blocks = cursor.varint(); blocks != 0) {
    const uint64_t operations = open_region(cursor, blocks);
    for (const TypeId type : block_types_) define(builder_.add_region_argument(type), cursor);
    for (uint64_t i = 0; i < operations; ++i) read_operation(cursor);
    close_region();
  }
  builder_.end_region();
}

/// The operation of a reduction's body that is one operation on both arguments: text names
/// it ("applies stablehlo.add"). The cursor moves past such a body only.
std::optional<Opcode> BytecodeReader::simple_reducer(ByteCursor& cursor, const Head& head) {
  if (operands_.size() != 2 || head.region_count != 1) return std::nullopt;
  ByteCursor after = cursor;
  const bool in_section =
      head.isolated && file_.version >= BytecodeFile::kIsolatedRegionsInSections;
  ByteCursor ahead = in_section ? ByteCursor(source_, read_section(after).inside) : cursor;
  const size_t first_value = head.isolated ? 0 : scopes_.back().values.size();
  const auto is = [&](uint64_t expected) { return ahead.varint() == expected; };
  if (!is(1) || !is(3) || !is(2 << 1 | 1) || !is(2)) return std::nullopt;  // blocks, values, …
  uint64_t types[2] = {};
  for (uint64_t& type : types) {
    if (file_.version < BytecodeFile::kOptionalArgumentLocations) {
      type = ahead.varint();
      ahead.varint();
    } else {
      const auto [number, has_location] = ahead.flagged();
      type = number;
      if (has_location) ahead.varint();
    }
  }
  if (types[0] != types[1]) return std::nullopt;
  if (file_.version >= BytecodeFile::kUseListOrders && ahead.byte() != 0) return std::nullopt;

  const uint64_t body = ahead.varint();
  if (body >= names_.size() || ahead.byte() != (kHasResults | kHasOperands)) return std::nullopt;
  ahead.varint();  // location
  if (!is(1) || !is(types[0]) || !is(2) || !is(first_value) || !is(first_value + 1))
    return std::nullopt;
  const Opcode code = resolve(body, head.offset).code;
  if (std::find(std::begin(kNamedReducers), std::end(kNamedReducers), code) ==
      std::end(kNamedReducers))
    return std::nullopt;

  const uint64_t end = ahead.varint();
  if (end >= names_.size() || ahead.byte() != kHasOperands) return std::nullopt;
  ahead.varint();  // location
  if (!is(1) || !is(first_value + 2) || !resolve(end, head.offset).is_return) return std::nullopt;
  cursor = in_section ? after : ahead;
  return code;
}

// --- attributes -------------------------------------------------------------

BytecodeReader::NamedAttributes BytecodeReader::entries(const BytecodeAttribute& dictionary) {
  NamedAttributes named;
  if (dictionary.kind != BytecodeAttribute::Kind::kDictionary) return named;
  ByteCursor cursor = values_.parts(dictionary);
  const uint64_t count = cursor.count(2);
  charge(count, "dictionaries");
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view name = values_.string(values_.index(cursor));
    named.emplace_back(name, values_.index(cursor));
  }
  return named;
}

/// All of an operation's attributes, wherever they stand.
BytecodeReader::NamedAttributes BytecodeReader::named_attributes(const Head& head) {
  NamedAttributes named;
  if (head.dictionary) named = entries(values_.attribute(*head.dictionary));
  if (!head.properties) return named;
  const Name& name = names_[head.name];
  const auto keys = vhlo_properties(name.local);
  if (name.dialect != "vhlo" || !keys)
    source_.fail(head.offset, fmt::format("the properties of '{}.{}' are not known: newer than "
                                          "StableHLO 1.20",
                                          name.dialect, name.local));
  ByteCursor cursor(source_, file_.properties[*head.properties]);
  for (const std::string_view key : *keys) named.emplace_back(key, values_.index(cursor));
  if (!cursor.at_end())
    cursor.fail(
        fmt::format("'{}.{}' has more properties than are known", name.dialect, name.local));
  return named;
}

/// What to set on operations of this name with these properties or this dictionary.
BytecodeReader::Settings BytecodeReader::settings(const Head& head, bool from_properties) {
  const uint64_t index = from_properties ? *head.properties : *head.dictionary;
  if (from_properties && last_settings_[index].name == head.name) return last_settings_[index];
  const uint64_t key = head.name << 33 | index << 1 | (from_properties ? 1 : 0);
  const auto [at, added] = known_settings_.try_emplace(key);
  if (!added) return at->second;
  Settings result;
  result.name = head.name;
  result.first = settings_.size();
  const Name& name = names_[head.name];
  if (name.resolved->code != Opcode::k_unknown) {
    Head part = head;
    (from_properties ? part.dictionary : part.properties).reset();
    for (const auto& [attribute, number] : named_attributes(part))
      add_setting(name, attribute, number, 0);
  }
  result.count = settings_.size() - result.first;
  if (from_properties) last_settings_[index] = result;
  return at->second = result;
}

void BytecodeReader::add_setting(const Name& name, std::string_view attribute, uint64_t index,
                                 int depth) {
  charge(1, "attributes");
  if (attribute == "sdy.sharding") {
    builder_.add_note("shardings of the sdy dialect are not read from bytecode");
    return;
  }
  if (attribute == "mhlo.attributes" || attribute == "composite_attributes") {
    if (depth > kMaxNestedDictionaries) return;
    for (const auto& [inner, number] : entries(values_.attribute(index)))
      add_setting(name, inner, number, depth + 1);
    return;
  }
  if (attribute == "value" && name.resolved->code == Opcode::k_constant) {
    Setting setting;
    if (open_constant(index, &setting)) settings_.push_back(setting);
    return;
  }
  const AttributeRule* rule = Translation::find_rule(attribute);
  if (rule == nullptr) return;
  Setting setting = open_value(attribute, index);
  setting.rule = rule;
  if (name.dialect == "vhlo" && is_default(name, setting)) return;
  settings_.push_back(setting);
}

/// Moves the scratch to where it stays.
void BytecodeReader::keep_integers(Setting* setting) {
  setting->first_integer = integers_.size();
  setting->integer_count = scratch_.size();
  charge(scratch_.size(), "lists of integers");
  integers_.insert(integers_.end(), scratch_.begin(), scratch_.end());
}

/// Small integers (loop bounds, shapes) and single reals, as text keeps them.
bool BytecodeReader::open_constant(uint64_t index, Setting* setting) {
  const BytecodeAttribute tensor = values_.attribute(index);
  if (tensor.kind != BytecodeAttribute::Kind::kTensor) return false;
  if (const auto real = values_.splat_real(tensor)) {
    setting->kind = Setting::Kind::kRealConstant;
    setting->value.real = *real;
    return true;
  }
  if (!values_.integers(tensor, kMaxConstantElements, &scratch_) || scratch_.empty()) return false;
  setting->kind = Setting::Kind::kConstant;
  keep_integers(setting);
  return true;
}

BytecodeReader::Setting BytecodeReader::open_value(std::string_view attribute, uint64_t index) {
  using Kind = BytecodeAttribute::Kind;
  using ValueKind = AttributeValue::Kind;
  Setting setting;
  setting.name = attribute;
  AttributeValue& value = setting.value;
  const BytecodeAttribute opened = values_.attribute(index);
  value.text = opened.text;
  value.type = opened.type;
  switch (opened.kind) {
    case Kind::kUnit:
      value.kind = ValueKind::kUnit;
      break;
    case Kind::kInteger:
      value.kind = ValueKind::kInteger;
      value.integer = opened.integer;
      break;
    case Kind::kReal:
      value.kind = ValueKind::kReal;
      value.real = opened.real;
      break;
    case Kind::kString:  // VHLO has no symbols: their names are strings.
      value.kind = Translation::names_function(attribute) ? ValueKind::kSymbol : ValueKind::kString;
      charge(4 * value.text.size(), "strings");  // each character may take three
      if (std::string printed = as_printed(value.text); printed != value.text)
        value.text = spellings_.emplace_back(std::move(printed));
      break;
    case Kind::kSymbol:
      value.kind = ValueKind::kSymbol;
      break;
    case Kind::kType:
      value.kind = ValueKind::kText;
      value.text = values_.element_name(opened);
      break;
    case Kind::kArray: {
      // Integers, or words of which the strongest counts (precisions of operands).
      scratch_.clear();
      bool all_integers = true;
      ByteCursor elements = values_.parts(opened);
      const uint64_t count = elements.count();
      charge(count, "lists");
      for (uint64_t i = 0; i < count; ++i) {
        const BytecodeAttribute element = values_.attribute(elements);
        all_integers = all_integers && element.kind == Kind::kInteger;
        if (all_integers) scratch_.push_back(element.integer);
        if (element.kind == Kind::kWord &&
            (value.text.empty() || value.text == "DEFAULT" || element.text == "HIGHEST"))
          value.text = element.text;
      }
      value.kind = all_integers ? ValueKind::kIntegers : ValueKind::kText;
      if (all_integers) keep_integers(&setting);
      break;
    }
    case Kind::kTensor:
      value.kind = ValueKind::kText;
      if (opened.is_list) value.type = {};
      if (values_.integers(opened, kMaxListElements, &scratch_)) {
        const int64_t count = values_.element_count(opened);
        if (scratch_.size() == 1 && count > 1 && count <= kMaxSplatElements)
          scratch_.assign(static_cast<size_t>(count), int64_t{scratch_[0]});
        value.kind = ValueKind::kIntegers;
        keep_integers(&setting);
      }
      break;
    case Kind::kMeshAxes:
      setting.kind = Setting::Kind::kMeshAxes;
      setting.mesh_axes = mesh_axes_.size();
      mesh_axes_.push_back(values_.mesh_axes(opened));
      for (const AxisReference& axis : mesh_axes_.back().axes)
        charge(axis.name.size(), "mesh axes");
      break;
    case Kind::kWord:
    case Kind::kDictionary:
    case Kind::kOther:
      value.kind = ValueKind::kText;
      break;
  }
  return setting;
}

bool BytecodeReader::is_default(const Name& name, const Setting& setting) const {
  const AttributeValue& value = setting.value;
  const auto list = std::span(integers_).subspan(setting.first_integer, setting.integer_count);
  const bool is_integer = value.kind == AttributeValue::Kind::kInteger;
  const bool is_list = value.kind == AttributeValue::Kind::kIntegers;
  const auto all = [&](int64_t number) {
    return is_list && std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == number; });
  };
  switch (vhlo_default(name.operation, setting.name)) {
    case VhloDefault::kNone:
      return false;
    case VhloDefault::kZero:
      return is_integer && value.integer == 0;
    case VhloDefault::kMinusOne:
      return is_integer && value.integer == -1;
    case VhloDefault::kEmpty:
      return is_list ? list.empty()
                     : value.kind == AttributeValue::Kind::kString && value.text.empty();
    case VhloDefault::kAllZero:
      return all(0);
    case VhloDefault::kAllOne:
      return all(1);
  }
  return false;
}

void BytecodeReader::apply(const Setting& setting) {
  switch (setting.kind) {
    case Setting::Kind::kConstant:
      builder_.set_ints(Attr::kValue,
                        std::span(integers_).subspan(setting.first_integer, setting.integer_count));
      return;
    case Setting::Kind::kRealConstant:
      builder_.set_real(Attr::kRealValue, setting.value.real);
      return;
    case Setting::Kind::kMeshAxes: {
      const BytecodeValues::MeshAxes& axes = mesh_axes_[setting.mesh_axes];
      if (!translation_.apply_mesh_axes(axes.mesh, nullptr, axes.axes))
        source_.fail(
            file_.program.begin,
            fmt::format("the module's replica groups list more than {} ranks", kMaxListedRanks));
      return;
    }
    case Setting::Kind::kAttribute:
      break;
  }
  AttributeValue value = setting.value;
  if (value.kind == AttributeValue::Kind::kIntegers) {
    const auto list = std::span(integers_).subspan(setting.first_integer, setting.integer_count);
    scratch_.assign(list.begin(), list.end());
    value.integers = &scratch_;
    charge(list.size(), "lists of integers");
  }
  charge(value.text.size(), "strings");
  if (setting.rule != nullptr)
    translation_.apply(*setting.rule, value);
  else
    translation_.apply(setting.name, value);
}

/// Those of a module, an argument or a result.
void BytecodeReader::apply(const NamedAttributes& attributes) {
  for (const auto& [name, index] : attributes) {
    if (name == "sdy.sharding")
      builder_.add_note("shardings of the sdy dialect are not read from bytecode");
    else if (Translation::keeps(name))
      apply(open_value(name, index));
  }
}

}  // namespace orrery::stablehlo
