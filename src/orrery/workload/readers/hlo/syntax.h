#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "orrery/workload/readers/hlo/cursor.h"
#include "orrery/workload/readers/hlo/shape.h"

namespace orrery::hlo {

/// `key=value` with the value as written.
struct AttributeText {
  std::string_view key;
  std::string_view value;
};

/// `ROOT %name = type opcode(operands), key=value, …`
struct InstructionText {
  std::string_view name;
  std::string_view opcode;
  std::string_view operands;  ///< With their parentheses.
  TypeId type;
  uint32_t first_attribute = 0;  ///< Into the computation's attributes.
  uint32_t attribute_count = 0;
};

/// One computation taken apart, nothing in it understood yet. Parameters stand
/// anywhere in the text but are needed before the rest, hence this step.
struct ComputationText {
  std::string_view name;
  bool is_entry = false;
  size_t root = 0;  ///< The instruction marked ROOT, else the last.
  std::vector<InstructionText> instructions;
  std::vector<AttributeText> attributes;
};

struct HeaderText {
  std::string_view name;
  std::vector<AttributeText> attributes;
};

/// Takes a module's text apart: the header first, then one computation a call.
class ModuleSyntax {
 public:
  ModuleSyntax(const Source& source, ShapeReader& shapes) : cursor_(source), shapes_(&shapes) {}

  HeaderText header();
  /// Fills `computation`, whose memory is used again; false at the end.
  bool next(ComputationText& computation);

 private:
  void skip_tables();
  void signature();
  void instruction(ComputationText& computation, bool& has_root);
  /// `, key=value` as often as it comes.
  void attributes(std::vector<AttributeText>& into);
  /// The value of `literal`, the one form whose parts only a blank holds together.
  std::string_view literal();

  Cursor cursor_;
  ShapeReader* shapes_;
};

}  // namespace orrery::hlo
