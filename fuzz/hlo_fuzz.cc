// Any bytes at all must give a workload or an orrery::Error.

#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/base/error.h"
#include "orrery/base/source.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/hlo/translation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  const Source source =
      Source::from_memory("fuzz.hlo", std::string(reinterpret_cast<const char*>(data), size));
  try {
    hlo::read_module(source, ReadOptions{});
  } catch (const Error&) {
  }
  return 0;
}
