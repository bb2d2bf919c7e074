#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "orrery/base/small_vector.h"
#include "orrery/model/library_workspace.h"
#include "orrery/model/memory_planner.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// The kernels of a region as memory planning sees them: what each reads from
/// and leaves in memory. Values are numbered by their maker.
struct RegionKernels {
  struct Value {
    const Type* type = nullptr;
    bool borrowed = false;  ///< An argument whose buffer the caller keeps.
  };
  struct Write {
    uint32_t value = 0;
    OpId op;  ///< That makes it.
    /// What an update in place updates, else none.
    uint32_t updates = UINT32_MAX;
    /// Values of its size that are read only where it is written.
    IdList may_overwrite;
  };
  struct Step {
    OpId op;                   ///< That names it.
    bool runs_bodies = false;  ///< A loop, a branch or a call: reads and writes stand in order.
    LibraryCall call;
    IdList reads;
    std::vector<Write> writes;
  };
  std::vector<Value> values;
  std::vector<Step> steps;          ///< In an order they can run in.
  std::vector<uint32_t> arguments;  ///< Values, in order.
  std::vector<uint32_t> results;
};

/// The memory of a region: a step for each kernel, copies of results that are
/// borrowed arguments at the end. Labels are an argument's number and otherwise an
/// operation's index. `region_bytes` says what each region of the workload needs for
/// itself; `result_of_argument`, which result takes each argument's memory, -1 where
/// none does.
MemoryGraph region_memory(const Workload& workload, const RegionKernels& kernels,
                          std::span<const int64_t> region_bytes,
                          const std::vector<int32_t>& result_of_argument);

/// The most bytes that one of the regions `op` runs needs for itself.
int64_t bytes_of_bodies(const OpView& op, std::span<const int64_t> region_bytes);

}  // namespace orrery
