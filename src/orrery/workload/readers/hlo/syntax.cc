#include "orrery/workload/readers/hlo/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery::hlo {
namespace {

// XLA's busiest instructions carry about fifteen.
constexpr size_t kMaxAttributes = 64;

}  // namespace

HeaderText ModuleSyntax::header() {
  HeaderText header;
  cursor_.expect("HloModule", "at the start of an HLO module");
  header.name = cursor_.value();
  attributes(header.attributes);
  skip_tables();
  return header;
}

void ModuleSyntax::skip_tables() {
  // Where in the user's program instructions come from; `op_name` says enough.
  static constexpr std::array<std::string_view, 4> kTables = {"FileNames", "FunctionNames",
                                                              "FileLocations", "StackFrames"};
  while (true) {
    const size_t offset = cursor_.offset();
    const std::string_view title = cursor_.word();
    if (std::ranges::find(kTables, title) == kTables.end() || cursor_.next_is('{') ||
        cursor_.next_is('(')) {
      cursor_.rewind(offset);
      return;
    }
    while (cursor_.next_is_digit()) {
      cursor_.integer("a row's number");
      if (cursor_.next_is('"'))
        cursor_.quoted("a name");
      else
        cursor_.bracketed();
    }
  }
}

bool ModuleSyntax::next(ComputationText& computation) {
  computation.instructions.clear();
  computation.attributes.clear();
  if (cursor_.at_end()) return false;
  computation.name = cursor_.name("a computation");
  computation.is_entry = computation.name == "ENTRY" && !cursor_.next_is('{');
  if (computation.is_entry) computation.name = cursor_.name("the name of the entry computation");
  signature();
  cursor_.expect('{', "before the computation's instructions");
  bool has_root = false;
  while (!cursor_.accept('}')) instruction(computation, has_root);
  if (computation.instructions.empty())
    cursor_.fail(fmt::format("computation '{}' has no instructions", computation.name));
  if (!has_root) computation.root = computation.instructions.size() - 1;
  if (cursor_.next_is(',')) {  // `, execution_thread="main"`
    std::vector<AttributeText> of_computation;
    attributes(of_computation);
  }
  return true;
}

void ModuleSyntax::signature() {
  // `(x: f32[2], y: s32[]) -> f32[2]` repeats what parameters and root say.
  if (!cursor_.next_is('(')) return;
  cursor_.bracketed();
  cursor_.expect("->", "after the computation's parameters");
  shapes_->read(cursor_);
}

void ModuleSyntax::instruction(ComputationText& computation, bool& has_root) {
  if (cursor_.at_end()) cursor_.fail_expected("an instruction or '}'");
  InstructionText instruction;
  const size_t offset = cursor_.offset();
  instruction.name = cursor_.name("an instruction or '}'");
  if (instruction.name == "ROOT" && !cursor_.next_is('=')) {
    if (has_root) cursor_.source().fail(offset, "a second ROOT in this computation");
    has_root = true;
    computation.root = computation.instructions.size();
    instruction.name = cursor_.name("the name of an instruction");
  }
  cursor_.expect('=', "after the instruction's name");
  instruction.type = shapes_->read(cursor_);
  instruction.opcode = cursor_.word();
  if (instruction.opcode.empty()) cursor_.fail_expected("the name of an operation");
  if (!cursor_.next_is('(')) cursor_.fail_expected("'(' before the operands");
  instruction.operands = cursor_.bracketed();
  instruction.first_attribute = static_cast<uint32_t>(computation.attributes.size());
  attributes(computation.attributes);
  instruction.attribute_count =
      static_cast<uint32_t>(computation.attributes.size()) - instruction.first_attribute;
  computation.instructions.push_back(instruction);
}

void ModuleSyntax::attributes(std::vector<AttributeText>& into) {
  const size_t first = into.size();
  while (cursor_.accept(',')) {
    AttributeText attribute;
    cursor_.at_end();  // Moves to the key, for the message.
    const size_t offset = cursor_.offset();
    attribute.key = cursor_.word();
    if (attribute.key.empty()) cursor_.fail_expected("an attribute");
    if (attribute.key == "device_ids" && into.size() > first &&
        into.back().value.starts_with("mesh[")) {
      // `replica_groups=mesh['x'=2], device_ids=(1,0) {'x'}` is one value with a comma.
      const std::string_view mesh = into.back().value;
      cursor_.expect('=', "after device_ids");
      cursor_.value();
      into.back().value =
          cursor_.since(static_cast<size_t>(mesh.data() - cursor_.source().text().data()));
      continue;
    }
    for (size_t i = first; i < into.size(); ++i) {
      if (into[i].key == attribute.key)
        cursor_.source().fail(offset, fmt::format("attribute '{}' is given twice", attribute.key));
    }
    if (into.size() - first == kMaxAttributes)
      cursor_.source().fail(offset, "more than 64 attributes");
    cursor_.expect('=', "after the attribute's name");
    attribute.value = attribute.key == "literal" ? literal() : cursor_.value();
    into.push_back(attribute);
  }
}

std::string_view ModuleSyntax::literal() {
  // `f32[] 0.1`, `s32[2]{0} {1, 2}` or several in parentheses.
  cursor_.at_end();  // Moves to the value.
  const size_t offset = cursor_.offset();
  if (cursor_.next_is('(')) return cursor_.bracketed();
  shapes_->read(cursor_);
  cursor_.value();
  return cursor_.since(offset);
}

}  // namespace orrery::hlo
