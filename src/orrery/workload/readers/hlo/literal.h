#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orrery/workload/readers/hlo/cursor.h"
#include "orrery/workload/workload.h"

namespace orrery::hlo {

/// What is worth keeping of a constant: integers when they are few or all the
/// same, a real number when there is only one.
struct Literal {
  std::vector<int64_t> integers;  ///< One when all are the same; else all, at most 64.
  std::optional<double> real;
};

/// Reads the operand of `constant(…)` with its parentheses: `(3)`,
/// `({ { 1, 2 }, { 3, 4 } })`, `({...})` where the values are left out. Throws
/// `kInput` when the values are not as many as `type` holds.
Literal read_literal(Cursor cursor, const Type& type);

}  // namespace orrery::hlo
