// Any module that shardings share out is partitioned, or refused with an Error of the user's.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/error.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/partition/partition.h"
#include "orrery/workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const Source source =
        Source::from_memory("fuzz.mlir", std::string(reinterpret_cast<const char*>(data), size));
    const Workload whole = read_workload(source, {});
    if (!needs_partitioning(whole)) return 0;
    const Workload part = partition_module(whole);
    total_cost(part, part.entry());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  return 0;
}
