// Any bytes at all must give a workload or an orrery::Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kReader =
      orrery::Registry<orrery::Reader>::instance().at("onnx", "reader").create();
  const auto source = orrery::Source::from_memory(
      "fuzz.onnx", std::string(reinterpret_cast<const char*>(data), size));
  orrery::ReadOptions options;
  options.bindings = {{"batch", 2}, {"sequence", 3}, {"?", 4}};
  try {
    kReader->read(source, options);
  } catch (const orrery::Error&) {
  }
  return 0;
}
