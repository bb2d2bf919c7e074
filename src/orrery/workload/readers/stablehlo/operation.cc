#include <fmt/format.h>

#include <algorithm>

#include "orrery/workload/readers/stablehlo/parser.h"

namespace orrery::stablehlo {
Translation::OpName Parser::operation_name(std::string_view written, const char* where) {
  const auto name = translation_.operation_name(written);
  if (!name) cursor_.fail_at(where, fmt::format("expected an operation, found '{}'", written));
  return *name;
}

ValueId Parser::parse_operand() {
  cursor_.expect('%');
  const std::string_view name = cursor_.suffix();
  uint32_t index = 0;
  if (cursor_.at(0) == '#') {
    cursor_.advance(1);
    const int64_t written = cursor_.integer();
    index = static_cast<uint32_t>(std::clamp<int64_t>(written, 0, UINT32_MAX));
  }
  const NameTable::Definition* definition = names_.find(name);
  if (definition == nullptr)
    cursor_.fail_at(name.data() - 1, fmt::format("'%{}' is not defined here", name));
  if (index >= definition->count)
    cursor_.fail_at(name.data() - 1, fmt::format("'%{}' has {} results, not {}", name,
                                                 definition->count, index + 1));
  return ValueId{definition->first.index + index};
}

/// %a, %b:2 =
void Parser::parse_result_names() {
  do {
    cursor_.expect('%');
    ResultName result{cursor_.suffix(), 1};
    if (cursor_.peek() == ':') {
      cursor_.advance(1);
      const int64_t count = cursor_.integer();
      if (count < 1 || count > 65536) cursor_.fail("expected a number of results from 1 to 65,536");
      result.count = static_cast<uint32_t>(count);
    }
    result_count_ += result.count;
    result_names_.push_back(result);
  } while (cursor_.accept(','));
  cursor_.expect('=');
}

void Parser::parse_operation() {
  // Names of enclosing statements lie below `first` in the scratch.
  const size_t first = result_names_.size();
  result_count_ = 0;
  cursor_.skip_space();
  const char* start = cursor_.position();
  if (cursor_.at(0) == '%') parse_result_names();
  const uint32_t count = result_count_;
  const uint32_t op_index = static_cast<uint32_t>(builder_.so_far().ops().size());
  if (cursor_.peek() == '"')
    parse_generic_operation(start);
  else
    parse_pretty_operation(start);
  const OpId op{op_index};
  if (count > 0) {
    uint32_t at = 0;
    for (size_t i = first; i < result_names_.size(); ++i) {
      const ResultName& r = result_names_[i];
      if (!names_.define(r.name, builder_.result(op, at), r.count))
        cursor_.fail_at(r.name.data() - 1, fmt::format("'%{}' is defined already", r.name));
      at += r.count;
    }
  }
  result_names_.resize(first);
  parse_location(op);
}

/// "dialect.name"(%a, %b) <{…}> ({…}, {…}) {…} : (types) -> types
void Parser::parse_generic_operation(const char* start) {
  const std::string_view written = cursor_.quoted();
  const Translation::OpName name = operation_name(written, start);
  const uint32_t count = result_count_;
  builder_.begin_op(name.code, {}, count,
                    static_cast<size_t>(start - cursor_.source().text().data()));
  cursor_.expect('(');
  if (!cursor_.accept(')')) {
    do builder_.add_operand(parse_operand());
    while (cursor_.accept(','));
    cursor_.expect(')');
  }
  if (cursor_.peek() == '[') cursor_.fail("an operation with successor blocks: not StableHLO");
  constant_text_ = {};
  if (cursor_.accept("<")) {
    parse_dictionary();
    cursor_.expect('>');
  }
  const std::string_view constant = constant_text_;
  if (cursor_.accept('(')) {
    do parse_region();
    while (cursor_.accept(','));
    cursor_.expect(')');
  }
  constant_text_ = {};
  if (cursor_.peek() == '{') parse_dictionary();
  const std::string_view late_constant = constant_text_;
  result_count_ = count;
  parse_signature();
  if (name.code == Opcode::k_constant && !signature_results_.empty())
    apply_constant(constant.empty() ? late_constant : constant, signature_results_[0]);
  translation_.finish_operation(name.code);
}

void Parser::parse_pretty_operation(const char* start) {
  const char* name_at = cursor_.position();
  const std::string_view written = cursor_.identifier();
  if (written.empty()) cursor_.fail("expected an operation");
  const Translation::OpName name = operation_name(written, name_at);
  const uint32_t count = result_count_;
  if (name.code == Opcode::k_unknown)
    cursor_.fail_at(name_at,
                    fmt::format("operation '{}' is not known, so its own syntax cannot be read; "
                                "export it in generic form (--mlir-print-op-generic)",
                                written));
  if (name.is_return) return parse_return(start);
  builder_.begin_op(name.code, {}, count,
                    static_cast<size_t>(start - cursor_.source().text().data()));
  switch (name.code) {
    case Opcode::k_constant:
      parse_constant();
      return;
    case Opcode::k_while:
      parse_while();
      break;
    case Opcode::k_manual_computation:
      parse_manual_computation();
      break;
    case Opcode::k_reduce:
      parse_reduce_operands();
      parse_clauses(name.code);
      parse_signature();
      parse_reducer();
      break;
    case Opcode::k_scan:
      parse_scan();
      break;
    default:
      parse_clauses(name.code);
      parse_signature();
      break;
  }
  translation_.finish_operation(name.code);
}

void Parser::parse_return(const char* start) {
  inits_.clear();
  if (cursor_.peek() == '%') {
    do inits_.push_back(parse_operand());
    while (cursor_.accept(','));
  }
  if (cursor_.peek() == '{') cursor_.skip_balanced();
  if (cursor_.accept(':')) {
    do parse_type();
    while (cursor_.accept(','));
  }
  builder_.emit_return(inits_, static_cast<size_t>(start - cursor_.source().text().data()));
}

/// dense<…> : type, with an attribute dictionary or parentheses before it.
void Parser::parse_constant() {
  constant_text_ = {};
  if (cursor_.accept('(')) cursor_.expect(')');
  if (cursor_.peek() == '{') parse_dictionary();
  std::string_view text = constant_text_;
  if (cursor_.peek() != ':') {
    if (cursor_.accept("dense")) {
      text = parse_dense().text;
    } else {
      const AttributeValue value = parse_value(false);
      if (value.kind == AttributeValue::Kind::kInteger || value.kind == AttributeValue::Kind::kReal)
        text = value.text;
    }
    if (cursor_.peek() == '{') parse_dictionary();
  }
  parse_signature();
  if (!signature_results_.empty()) apply_constant(text, signature_results_[0]);
  translation_.finish_operation(Opcode::k_constant);
}

/// (%i = %a, %j = %b) : types attributes {…} cond {…} do {…}
void Parser::parse_while() {
  std::vector<std::string_view> arguments;
  cursor_.expect('(');
  if (!cursor_.accept(')')) {
    do {
      cursor_.expect('%');
      arguments.push_back(cursor_.suffix());
      cursor_.expect('=');
      builder_.add_operand(parse_operand());
    } while (cursor_.accept(','));
    cursor_.expect(')');
  }
  std::vector<TypeId> types;
  if (cursor_.accept(':')) {
    do types.push_back(parse_type());
    while (cursor_.accept(','));
  }
  if (types.size() != arguments.size())
    cursor_.fail(fmt::format("{} types for {} loop variables", types.size(), arguments.size()));
  if (result_count_ != 0 && result_count_ != types.size())
    cursor_.fail(fmt::format("{} results named, the loop has {}", result_count_, types.size()));
  builder_.set_result_types(types);
  if (cursor_.accept("attributes")) parse_dictionary();
  for (const std::string_view keyword : {"cond", "do"}) {
    cursor_.expect(keyword);
    cursor_.expect('{');
    builder_.begin_region();
    names_.enter();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!names_.define(arguments[i], builder_.add_region_argument(types[i]), 1))
        cursor_.fail_at(arguments[i].data() - 1,
                        fmt::format("'%{}' is defined already", arguments[i]));
    }
    parse_region_body();
    names_.leave();
    builder_.end_region();
  }
}

/// (%a init: %x), (%b init: %y): inputs first, then initial values.
void Parser::parse_reduce_operands() {
  inits_.clear();
  while (cursor_.accept('(')) {
    builder_.add_operand(parse_operand());
    cursor_.expect("init");
    cursor_.expect(':');
    inits_.push_back(parse_operand());
    cursor_.expect(')');
    if (!cursor_.accept(',')) break;
  }
  for (ValueId v : inits_) builder_.add_operand(v);
}

/// reducer(%a: type, %b: type) (%c: type, %d: type) { … }, where there is one.
void Parser::parse_reducer() {
  if (cursor_.peek() != 'r' || !cursor_.accept("reducer")) return;
  builder_.begin_region();
  names_.enter();
  struct Named {
    std::string_view name;
    TypeId type;
  };
  std::vector<Named> left, right;
  while (cursor_.accept('(')) {
    for (std::vector<Named>* side : {&left, &right}) {
      cursor_.expect('%');
      const std::string_view name = cursor_.suffix();
      cursor_.expect(':');
      side->push_back({name, parse_type()});
      parse_location(std::nullopt);
      if (side == &left) cursor_.expect(',');
    }
    cursor_.expect(')');
  }
  for (const std::vector<Named>* side : {&left, &right})
    for (const Named& n : *side)
      if (!names_.define(n.name, builder_.add_region_argument(n.type), 1))
        cursor_.fail_at(n.name.data() - 1, fmt::format("'%{}' is defined already", n.name));
  cursor_.expect('{');
  parse_region_body();
  names_.leave();
  builder_.end_region();
}

/// (%a, %b) inits (%x, %y) dimension=0 attributes {…} { ^bb0(…): … } : (types) -> types
/// The body takes a slice of each input and the carries; results are what it stacks, then the
/// last carries.
void Parser::parse_scan() {
  const uint32_t count = result_count_;
  const auto parse_values = [&](std::vector<ValueId>& values) {
    cursor_.expect('(');
    if (cursor_.accept(')')) return;
    do values.push_back(parse_operand());
    while (cursor_.accept(','));
    cursor_.expect(')');
  };
  std::vector<ValueId> inputs, inits;
  cursor_.skip_space();
  const char* start = cursor_.position();
  parse_values(inputs);
  if (inputs.empty()) cursor_.fail_at(start, "a scan needs an input");
  cursor_.expect("inits");
  parse_values(inits);
  for (const std::vector<ValueId>* values : {&inputs, &inits})
    for (ValueId v : *values) builder_.add_operand(v);
  cursor_.expect("dimension");
  cursor_.expect('=');
  cursor_.skip_space();
  const char* dimension_at = cursor_.position();
  const int64_t dimension = cursor_.integer();
  check_scanned(inputs, dimension, dimension_at);
  builder_.set_ints(Attr::kDimensions, {dimension});
  if (cursor_.accept("attributes")) parse_dictionary();
  parse_region();
  result_count_ = count;
  cursor_.skip_space();
  const char* types_at = cursor_.position();
  parse_signature();
  if (signature_results_.size() < inits.size())
    cursor_.fail_at(types_at, fmt::format("{} results of a scan with {} carries",
                                          signature_results_.size(), inits.size()));
}

/// Every input has the dimension, and of one size, as far as it is known.
void Parser::check_scanned(std::span<const ValueId> inputs, int64_t dimension,
                           const char* where) const {
  int64_t length = kDynamic;
  for (ValueId v : inputs) {
    const Type& type = builder_.so_far().type(v);
    if (dimension < 0 || dimension >= type.rank())
      cursor_.fail_at(where, fmt::format("dimension {} is outside the {} dimensions of an input",
                                         dimension, type.rank()));
    const int64_t size = type.dims[static_cast<size_t>(dimension)];
    if (size == kDynamic) continue;
    if (length != kDynamic && size != length)
      cursor_.fail_at(where, fmt::format("inputs of {} and {} elements along dimension {}", length,
                                         size, dimension));
    length = size;
  }
}

/// (%a, %b) in_shardings=[<…>] out_shardings=[<…>] manual_axes={"x"} (%p: type) { … } : (…) -> …
void Parser::parse_manual_computation() {
  const uint32_t count = result_count_;
  if (cursor_.peek() == '<') cursor_.skip_balanced();  // the name of a named_computation
  cursor_.expect('(');
  if (!cursor_.accept(')')) {
    do builder_.add_operand(parse_operand());
    while (cursor_.accept(','));
    cursor_.expect(')');
  }
  while (cursor_.peek() != '(' && cursor_.peek() != '{') {
    const std::string_view key = cursor_.identifier();
    if (key.empty()) cursor_.fail("expected in_shardings, out_shardings or manual_axes");
    cursor_.expect('=');
    if (key == "manual_axes") {
      std::string axes;
      cursor_.expect('{');
      while (!cursor_.accept('}')) {
        axes += (axes.empty() ? "" : ",") + std::string(cursor_.quoted());
        cursor_.accept(',');
      }
      builder_.set_string(Attr::kManualAxes, axes);
      continue;
    }
    std::vector<int64_t> shardings;
    cursor_.expect('[');
    while (!cursor_.accept(']')) {
      shardings.push_back(parse_shardy_sharding().index);
      cursor_.accept(',');
    }
    builder_.set_ints(key == "in_shardings" ? Attr::kInShardings : Attr::kOutShardings, shardings);
  }
  builder_.begin_region();
  names_.enter();
  if (cursor_.accept('(')) {
    if (!cursor_.accept(')')) {
      do {
        cursor_.expect('%');
        const std::string_view name = cursor_.suffix();
        cursor_.expect(':');
        if (!names_.define(name, builder_.add_region_argument(parse_type()), 1))
          cursor_.fail_at(name.data() - 1, fmt::format("'%{}' is defined already", name));
        parse_location(std::nullopt);
      } while (cursor_.accept(','));
      cursor_.expect(')');
    }
  }
  cursor_.expect('{');
  parse_region_body();
  names_.leave();
  builder_.end_region();
  if (cursor_.peek() == '{') parse_dictionary();
  result_count_ = count;
  parse_signature();
}

/// Everything between a pretty operation's name and the ':' of its types:
/// operands, `key = value` clauses, symbols, flags, dictionaries, in any order.
void Parser::parse_clauses(Opcode code) {
  while (true) {
    const char c = cursor_.peek();
    switch (c) {
      case '%':
        builder_.add_operand(parse_operand());
        break;
      case ',':
      case '(':
      case ')':
        cursor_.advance(1);
        break;
      case ':':
        return;
      case '@': {
        const std::string_view symbol = cursor_.symbol();
        if (code == Opcode::k_custom_call)
          builder_.set_string(Attr::kTarget, symbol);
        else
          builder_.set_function(Attr::kCallee, translation_.declare_function(symbol));
        break;
      }
      case '{':
        parse_dictionary();
        break;
      case '[':
        if (code == Opcode::k_slice) {
          parse_slice_ranges();
        } else {
          const AttributeValue value = parse_value(false);
          if (code == Opcode::k_get_tuple_element &&
              value.kind == AttributeValue::Kind::kIntegers && value.integers->size() == 1)
            builder_.set_int(Attr::kIndex, value.integers->front());
        }
        break;
      case '"':
        builder_.set_string(Attr::kTarget, cursor_.quoted());
        break;
      case '<':
        if (code == Opcode::k_sharding_constraint)
          builder_.set_sharding(Attr::kSharding, parse_shardy_sharding());
        else
          parse_value(false);
        break;
      default: {
        const char* at = cursor_.position();
        const std::string_view word = cursor_.identifier();
        if (word.empty()) cursor_.fail("expected an operand, an attribute or ':'");
        if (cursor_.accept('=')) {
          parse_clause(code, word);
        } else if (word == "applies") {
          const std::string_view reducer = cursor_.identifier();
          const Translation::OpName name = operation_name(reducer, at);
          builder_.set_string(Attr::kReducer, orrery::name(name.code));
        } else if (code == Opcode::k_compare && word.size() == 2) {
          builder_.set_string(Attr::kCompare, word);
        } else if (word == "return" || word.find('.') != std::string_view::npos) {
          cursor_.fail_at(at, "expected ':' and the types of the operation before this");
        }
        break;
      }
    }
  }
}

void Parser::parse_clause(Opcode code, std::string_view word) {
  if (word == "contracting_dims" || word == "batching_dims") {
    // [1] x [0]
    const bool contracting = word[0] == 'c';
    bool all_integers = true;
    cursor_.expect('[');
    parse_integer_list(']', &all_integers);
    builder_.set_ints(contracting ? Attr::kLhsContracting : Attr::kLhsBatching, integers_);
    cursor_.expect('x');
    cursor_.expect('[');
    parse_integer_list(']', &all_integers);
    builder_.set_ints(contracting ? Attr::kRhsContracting : Attr::kRhsBatching, integers_);
  } else if (word == "dim_numbers") {
    parse_convolution_dimensions();
  } else if (word == "window") {
    parse_dictionary();
  } else if (word == "out_sharding" && cursor_.peek() == '<') {
    builder_.set_sharding(Attr::kSharding, parse_shardy_sharding());
  } else if (word == "sizes" && code == Opcode::k_broadcast) {
    parse_value(false);  // the result type says it
  } else {
    translation_.apply(word, parse_value(false));
  }
}

/// [0:8, 0:1023:2]
void Parser::parse_slice_ranges() {
  std::vector<int64_t> limits, strides;
  integers_.clear();
  cursor_.expect('[');
  if (!cursor_.accept(']')) {
    do {
      integers_.push_back(cursor_.integer());
      cursor_.expect(':');
      limits.push_back(cursor_.integer());
      strides.push_back(cursor_.accept(':') ? cursor_.integer() : 1);
    } while (cursor_.accept(','));
    cursor_.expect(']');
  }
  builder_.set_ints(Attr::kStart, integers_);
  builder_.set_ints(Attr::kLimit, limits);
  builder_.set_ints(Attr::kStride, strides);
}

/// : (operand types) -> result types, or : type, type … where those of the
/// results follow from the list: as many as there are results, else the last.
void Parser::parse_signature() {
  signature_results_.clear();
  const char* start = cursor_.position();
  if (!cursor_.accept(':')) cursor_.fail("expected ':' and the types of the operation");
  parse_type_list(&signature_results_);
  if (cursor_.peek() == '-' && cursor_.accept("->")) {
    signature_results_.clear();
    parse_type_list(&signature_results_);
  } else {
    while (cursor_.accept(',')) signature_results_.push_back(parse_type());
    if (result_count_ == 1 && signature_results_.size() > 1)
      signature_results_.assign(1, TypeId{signature_results_.back()});
  }
  if (result_count_ != 0 && signature_results_.size() != result_count_)
    cursor_.fail_at(start, fmt::format("{} result types for {} results", signature_results_.size(),
                                       result_count_));
  builder_.set_result_types(signature_results_);
}

}  // namespace orrery::stablehlo
