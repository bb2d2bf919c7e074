#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

/// Groups of operations that share their rules of cost; see opcodes.inc.
enum class OpClass : uint8_t {
  kVector,          ///< Elementwise, one vector operation an element.
  kTranscendental,  ///< Elementwise, one special function an element.
  kView,
  kConstant,
  kGenerate,
  kMove,
  kIndexed,
  kContraction,
  kReduction,
  kLibrary,
  kCollective,
  kControl,
  kUnknown,
};

/// The operations, from opcodes.inc: `Opcode::k_add`, `Opcode::k_dot_general`.
enum class Opcode : uint16_t {
#define ORRERY_OP(name, op_class) k_##name,
#include "orrery/workload/opcodes.inc"
#undef ORRERY_OP
};
inline constexpr int kOpcodeCount = static_cast<int>(Opcode::k_unknown) + 1;

std::string_view name(Opcode code);
OpClass op_class(Opcode code);
/// Looks up the StableHLO spelling ("dot_general"); nothing if there is none.
std::optional<Opcode> opcode_from_name(std::string_view name);
/// Elementwise: every result element depends on the same element of each operand.
bool is_elementwise(Opcode code);

}  // namespace orrery
