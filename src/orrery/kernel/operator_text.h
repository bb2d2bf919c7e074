#pragma once

#include <optional>
#include <string>

#include "orrery/kernel/kernel.h"

namespace orrery {

/// A kernel as a row of a table of operators.
struct OperatorText {
  std::string op, dtype, params;
};

/// The row from which `operator_kernel` makes a kernel that is predicted alike; nothing where no
/// operator describes it.
std::optional<OperatorText> operator_text(const Kernel& kernel);

}  // namespace orrery
