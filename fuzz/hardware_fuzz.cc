// Reads arbitrary bytes as a device's description. Whatever they are, the answer
// is a device or an `orrery::Error`.

#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/base/error.h"
#include "orrery/base/source.h"
#include "orrery/hardware/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // An empty catalogue: what an input does must not depend on the files beside it.
  static const orrery::Catalogue catalogue("/nonexistent");
  try {
    const auto source = orrery::Source::from_memory(
        "/nonexistent/fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size));
    catalogue.device_from(source);
  } catch (const orrery::Error&) {
  }
  return 0;
}
