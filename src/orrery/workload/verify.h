#pragma once

#include "orrery/base/source.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// Checks what every rule downstream relies on, so that none of them needs to:
/// values typed and defined before use, operand and result counts, dimension
/// numbers within rank, list lengths that match, callees with a body where one
/// is run, no recursion among functions. Throws `kInput` at the operation.
void verify(const Workload& workload, const Source& source);

}  // namespace orrery
