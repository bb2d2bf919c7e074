#pragma once

#include "orrery/base/source.h"
#include "orrery/workload/reader.h"

namespace orrery::hlo {

/// Reads one module of HLO text. Computations become functions, parameters their
/// arguments, the root what they return; a tuple stays one value.
Workload read_module(const Source& source, const ReadOptions& options);

}  // namespace orrery::hlo
