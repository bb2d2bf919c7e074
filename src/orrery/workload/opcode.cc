#include "orrery/workload/opcode.h"

#include <array>
#include <unordered_map>

namespace orrery {
namespace {

constexpr std::array<std::string_view, kOpcodeCount> kNames = {
#define ORRERY_OP(name, op_class) #name,
#include "orrery/workload/opcodes.inc"
#undef ORRERY_OP
};

constexpr std::array<OpClass, kOpcodeCount> kClasses = {
#define ORRERY_OP(name, op_class) OpClass::op_class,
#include "orrery/workload/opcodes.inc"
#undef ORRERY_OP
};

}  // namespace

std::string_view name(Opcode code) { return kNames[static_cast<size_t>(code)]; }
OpClass op_class(Opcode code) { return kClasses[static_cast<size_t>(code)]; }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new std::unordered_map<std::string_view, Opcode>;
    for (int i = 0; i < kOpcodeCount; ++i)
      map->emplace(kNames[static_cast<size_t>(i)], static_cast<Opcode>(i));
    return map;
  }();
  const auto found = kByName->find(name);
  if (found == kByName->end()) return std::nullopt;
  return found->second;
}

bool is_elementwise(Opcode code) {
  return op_class(code) == OpClass::kVector || op_class(code) == OpClass::kTranscendental;
}

}  // namespace orrery
