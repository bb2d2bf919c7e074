#pragma once

#include "orrery/model/memory_planner.h"
#include "orrery/model/region_graph.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// The memory of one computation of a compiled module (HLO text), its steps in
/// the order written, which is the order a scheduled module runs in. Labels are
/// an argument's number and otherwise the operation's index.
///
/// Tuples and bitcasts hold no data of their own; an update in place, a loop and
/// what a call's `output_to_operand_aliasing` names share memory; a fusion may
/// overwrite an operand that it reads only at the element it writes. Of a loop,
/// a branch or a call, `region_bytes` says what its bodies need.
MemoryGraph compiled_memory(const Workload& workload, FunctionId function,
                            std::span<const int64_t> region_bytes);

}  // namespace orrery
