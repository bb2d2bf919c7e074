// Any bytecode at all must give a workload or an orrery::Error; a workload must be costed
// and lowered, or refused, without a fault either.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "orrery/base/data_folder.h"
#include "orrery/base/error.h"
#include "orrery/base/source.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/model/stack.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  static const Device device = Catalogue(hardware_folder().string()).device("h200");
  static const FusionRules rules = Registry<Stack>::instance().at("xla", "stack").create()->rules();
  // With the magic number in front, mutations reach the decoder and not its refusal.
  std::string file(reinterpret_cast<const char*>(data), size);
  file.replace(0, 4, "ML\xEFR");
  const Source source = Source::from_memory("fuzz.mlir.bc", std::move(file));
  try {
    const Workload workload = read_workload(source, ReadOptions{});
    total_cost(workload, workload.entry());
    lower(workload, device, rules);
  } catch (const Error&) {
  }
  return 0;
}
