// Uses the installed library and shows that components which register
// themselves, and which nothing refers to by name, came with it.

#include <fmt/format.h>

#include "orrery/base/error.h"
#include "orrery/base/registry.h"
#include "orrery/base/source.h"
#include "orrery/base/units.h"
#include "orrery/workload/reader.h"

int main() {
  fmt::print("format_bytes(141e9) = {}\n", orrery::format_bytes(141e9));

  const auto& readers = orrery::Registry<orrery::Reader>::instance().entries();
  fmt::print("{} readers registered\n", readers.size());
  for (const auto& reader : readers)
    fmt::print("  {}: {}\n", reader.description.name, reader.description.summary);

  // An exception must cross the library's boundary with its type.
  try {
    orrery::read_workload(orrery::Source::from_memory("empty", ""), {});
  } catch (const orrery::Error& error) {
    fmt::print("refused: {}\n", error.what());
    return error.kind() == orrery::ErrorKind::kInput ? 0 : 1;
  }
  fmt::print("an empty file was read as a workload\n");
  return 1;
}
