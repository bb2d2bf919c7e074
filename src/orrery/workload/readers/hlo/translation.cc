#include "orrery/workload/readers/hlo/translation.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "orrery/workload/readers/hlo/instruction_attributes.h"
#include "orrery/workload/readers/hlo/instruction_names.h"
#include "orrery/workload/readers/hlo/literal.h"
#include "orrery/workload/readers/hlo/name_table.h"
#include "orrery/workload/readers/hlo/shape.h"
#include "orrery/workload/readers/hlo/syntax.h"
#include "orrery/workload/readers/hlo/values.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::hlo {
namespace {

// Notes are for people.
constexpr size_t kMaxUnknownInstructions = 32;

std::optional<int64_t> open_size(const ReadOptions& options) {
  const auto found = options.bindings.find("?");
  return found == options.bindings.end() ? std::nullopt : std::optional(found->second);
}

class Translation {
 public:
  Translation(const Source& source, const ReadOptions& options)
      : source_(&source),
        trip_count_(options.trip_count),
        builder_("hlo", source.name()),
        shapes_(builder_, open_size(options)),
        syntax_(source, shapes_),
        computations_(builder_, source),
        attributes_(builder_, source, computations_) {}

  Workload run() {
    header(syntax_.header());
    ComputationText text;
    while (syntax_.next(text)) computation(text);
    computations_.check_all_defined();
    if (!has_entry_) throw_input(source_->name(), "the module has no ENTRY computation");
    return builder_.finish(*source_, trip_count_);
  }

 private:
  void header(const HeaderText& header);
  void computation(const ComputationText& text);
  void parameters(const ComputationText& text);
  ArgumentInfo argument(const ComputationText& text, const InstructionText& parameter);
  void apply_aliases(FunctionId function);
  void instruction(const ComputationText& text, const InstructionText& instruction);
  void read_operands(std::string_view operands);
  ValueId member(ValueId tuple, std::string_view name, Cursor& at);
  ValueId value(std::string_view name) const;

  size_t offset(std::string_view text) const {
    return static_cast<size_t>(text.data() - source_->text().data());
  }
  static std::span<const AttributeText> attributes(const ComputationText& text,
                                                   const InstructionText& instruction) {
    return std::span(text.attributes)
        .subspan(instruction.first_attribute, instruction.attribute_count);
  }

  const Source* source_;
  int64_t trip_count_;  ///< Of loops for which the module gives none.
  WorkloadBuilder builder_;
  ShapeReader shapes_;
  ModuleSyntax syntax_;
  Computations computations_;
  InstructionAttributes attributes_;
  bool has_entry_ = false;
  std::string_view alias_text_;
  std::string_view donor_text_;
  size_t unknown_instructions_ = 0;
  // Of the computation being translated.
  NameTable values_;
  std::vector<const InstructionText*> parameters_;
  std::vector<ValueId> operands_;
};

void Translation::header(const HeaderText& header) {
  builder_.set_name(std::string(header.name));
  int64_t partitions = 1;
  int64_t replicas = 1;
  for (const AttributeText& attribute : header.attributes) {
    Cursor at(*source_, attribute.value);
    if (attribute.key == "num_partitions") partitions = at.integer("a number of partitions");
    if (attribute.key == "replica_count") replicas = at.integer("a number of replicas");
    if (attribute.key == "input_output_alias") alias_text_ = attribute.value;
    if (attribute.key == "buffer_donor") donor_text_ = attribute.value;
    if (partitions < 1 || partitions > kMaxDevices || replicas < 1 || replicas > kMaxDevices)
      source_->fail(offset(attribute.value),
                    fmt::format("expected a number from 1 to {}", kMaxDevices));
  }
  builder_.set_partitions(partitions, replicas);
}

void Translation::computation(const ComputationText& text) {
  const FunctionId function = builder_.declare_function(text.name);
  if (builder_.has_body(function))
    source_->fail(offset(text.name), fmt::format("a second computation '{}'", text.name));
  if (text.is_entry && has_entry_) source_->fail(offset(text.name), "a second ENTRY computation");

  values_.clear();
  builder_.begin_function(function, text.is_entry);
  parameters(text);
  for (const InstructionText& each : text.instructions)
    if (each.opcode != "parameter") instruction(text, each);
  const InstructionText& root = text.instructions[text.root];
  const ValueId result = value(root.name);
  builder_.emit_return({{result}});
  if (text.is_entry) {
    has_entry_ = true;
    builder_.set_entry(function);
    ResultInfo info;
    for (const AttributeText& attribute : attributes(text, root))
      if (attribute.key == "sharding") info.sharding = attributes_.sharding(attribute.value);
    builder_.set_result_infos({info});
  }
  builder_.end_function();
  if (text.is_entry) apply_aliases(function);
}

void Translation::parameters(const ComputationText& text) {
  size_t count = 0;
  for (const InstructionText& each : text.instructions) count += each.opcode == "parameter" ? 1 : 0;
  parameters_.assign(count, nullptr);
  for (const InstructionText& each : text.instructions) {
    if (each.opcode != "parameter") continue;
    Cursor at(*source_, each.operands);
    at.expect('(', "before a parameter's number");
    const int64_t number = at.integer("a parameter's number");
    at.expect(')', "after a parameter's number");
    if (number < 0 || number >= static_cast<int64_t>(count))
      source_->fail(offset(each.operands),
                    fmt::format("parameter {} of a computation with {}", number, count));
    const InstructionText*& place = parameters_[static_cast<size_t>(number)];
    if (place != nullptr)
      source_->fail(offset(each.name), fmt::format("a second parameter {}", number));
    place = &each;
  }
  for (const InstructionText* parameter : parameters_) {
    ArgumentInfo info;
    if (text.is_entry) info = argument(text, *parameter);
    if (!info.name.valid()) info.name = builder_.intern(parameter->name);
    const ValueId argument = builder_.add_argument(parameter->type, info);
    if (!values_.add(parameter->name, argument.index))
      source_->fail(offset(parameter->name),
                    fmt::format("a second instruction '{}'", parameter->name));
  }
}

/// JAX names a parameter of the entry after the user's argument.
ArgumentInfo Translation::argument(const ComputationText& text, const InstructionText& parameter) {
  ArgumentInfo info;
  for (const AttributeText& attribute : attributes(text, parameter)) {
    if (attribute.key == "sharding") info.sharding = attributes_.sharding(attribute.value);
    if (attribute.key != "metadata") continue;
    const std::string_view scope = attributes_.scope(attribute.value);
    if (!scope.empty()) info.name = builder_.intern(scope);
  }
  return info;
}

void Translation::apply_aliases(FunctionId function) {
  std::vector<ArgumentInfo>& arguments = builder_.function(function).arguments;
  const auto aliased = [&](const Alias& alias, std::string_view text) -> ArgumentInfo& {
    if (alias.operand >= static_cast<int64_t>(arguments.size()))
      source_->fail(offset(text), fmt::format("there is no parameter {} in the entry computation",
                                              alias.operand));
    if (alias.nested)
      builder_.add_note("aliases inside nested tuples are counted by their outermost member");
    return arguments[static_cast<size_t>(alias.operand)];
  };
  if (!alias_text_.empty()) {
    for (const Alias& alias : read_aliases(Cursor(*source_, alias_text_))) {
      ArgumentInfo& argument = aliased(alias, alias_text_);
      if (alias.output > INT32_MAX) source_->fail(offset(alias_text_), "an output's number");
      argument.donated = true;
      argument.aliased_output = static_cast<int32_t>(alias.output);
    }
  }
  if (!donor_text_.empty()) {
    for (const Alias& donor : read_donors(Cursor(*source_, donor_text_)))
      aliased(donor, donor_text_).donated = true;
  }
}

void Translation::instruction(const ComputationText& text, const InstructionText& instruction) {
  const auto known = instruction_kind(instruction.opcode);
  InstructionKind kind = known.value_or(InstructionKind{});
  if (!known && unknown_instructions_ < kMaxUnknownInstructions) {
    ++unknown_instructions_;
    builder_.add_note(fmt::format("HLO instruction '{}' is not known here; it is not counted",
                                  instruction.opcode));
  }
  const std::span<const AttributeText> written = attributes(text, instruction);
  if (kind.code == Opcode::k_case) {
    for (const AttributeText& attribute : written)
      if (attribute.key == "true_computation") kind.code = Opcode::k_if;
  }
  operands_.clear();
  if (kind.code != Opcode::k_constant) read_operands(instruction.operands);

  const OpId op = builder_.begin_op(kind.code, operands_, 1, offset(instruction.name));
  builder_.set_result_type(0, instruction.type);
  builder_.set_name(builder_.intern(instruction.name));
  if (kind.code == Opcode::k_constant) {
    const Literal literal =
        read_literal(Cursor(*source_, instruction.operands), builder_.type(instruction.type));
    if (!literal.integers.empty()) builder_.set_ints(Attr::kValue, literal.integers);
    if (literal.real) builder_.set_real(Attr::kRealValue, *literal.real);
  }
  if (kind.part == AsyncPart::kStart) builder_.set_int(Attr::kAsync, 1);
  if (kind.part == AsyncPart::kDone) builder_.set_int(Attr::kAsync, 2);
  attributes_.set(kind, written, operands_, instruction.type);
  builder_.end_op();
  if (!values_.add(instruction.name, builder_.result(op).index))
    source_->fail(offset(instruction.name),
                  fmt::format("a second instruction '{}'", instruction.name));
}

/// `(%a, %b)`, `(a, b)` or, as former versions wrote, `(f32[2]{0} %a, f32[] %b)`. Current ones
/// write `%a#1` for a member of a tuple in place of a `get-tuple-element` of its own.
void Translation::read_operands(std::string_view operands) {
  Cursor at(*source_, operands);
  at.expect('(', "before the operands");
  if (at.accept(')')) return;
  do {
    if (at.next_is('(')) {
      shapes_.read(at);
    } else if (!at.next_is('%')) {
      const size_t start = at.offset();
      const std::string_view word = at.word();
      const bool is_shape = at.touches('[') || (word == "b" && at.touches('('));
      at.rewind(start);
      if (is_shape) shapes_.read(at);
    }
    const std::string_view name = at.name("an operand");
    ValueId operand = value(name);
    while (at.touches('#')) operand = member(operand, name, at);
    operands_.push_back(operand);
  } while (at.accept(','));
  at.expect(')', "or ',' after an operand");
}

/// The member `#index` of `tuple`, at which the cursor stands. `name` begins the operand's text;
/// what it spells up to the index is the name under which the member is found again.
ValueId Translation::member(ValueId tuple, std::string_view name, Cursor& at) {
  at.expect('#', "before a member's number");
  const int64_t index = at.integer("a member's number");
  const std::string_view spelled = at.since(offset(name));
  if (const uint32_t* found = values_.find(spelled)) return ValueId{*found};
  const std::vector<TypeId>& members = builder_.type_of(tuple).members;
  if (index < 0 || index >= static_cast<int64_t>(members.size()))
    source_->fail(offset(name), fmt::format("'{}' has {} members", name, members.size()));
  const TypeId type = members[static_cast<size_t>(index)];
  const OpId op = builder_.begin_op(Opcode::k_get_tuple_element, {{tuple}}, 1, offset(name));
  builder_.set_result_type(0, type);
  builder_.set_name(builder_.intern(spelled));
  builder_.set_int(Attr::kIndex, index);
  builder_.end_op();
  const ValueId result = builder_.result(op);
  values_.add(spelled, result.index);
  return result;
}

ValueId Translation::value(std::string_view name) const {
  const uint32_t* found = values_.find(name);
  if (found == nullptr)
    source_->fail(offset(name), fmt::format("'{}' is not defined before this place", name));
  return ValueId{*found};
}

}  // namespace

Workload read_module(const Source& source, const ReadOptions& options) {
  return Translation(source, options).run();
}

}  // namespace orrery::hlo
