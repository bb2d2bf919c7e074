#pragma once

#include <optional>
#include <string_view>

#include "orrery/workload/opcode.h"

namespace orrery::hlo {

/// Which part of an asynchronous operation an instruction is.
enum class AsyncPart : uint8_t { kNone, kStart, kUpdate, kDone };

struct InstructionKind {
  Opcode code = Opcode::k_unknown;
  AsyncPart part = AsyncPart::kNone;
};

/// What `name` means: any instruction of XLA's hlo_opcode.h, its names of former
/// years, and `X-start`, `X-update`, `X-done` of every X. A start is the
/// operation itself, an update or done is Opcode::k_async_update or
/// k_async_done. Nothing for a name XLA does not have.
std::optional<InstructionKind> instruction_kind(std::string_view name);

}  // namespace orrery::hlo
