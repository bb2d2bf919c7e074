// Any bytes at all must give a workload or an orrery::Error that blames the input.
#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/workload/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kReader =
      orrery::Registry<orrery::Reader>::instance().at("huggingface", "reader").create();
  if (size == 0) return 0;
  // The first byte picks the phase, so that every one is reached.
  static constexpr const char* kPhases[] = {"forward", "prefill", "decode", "train"};
  orrery::ReadOptions options;
  options.build.phase = kPhases[data[0] % 4];
  if (options.build.phase != "decode") options.build.sequence = 32;
  const auto source = orrery::Source::from_memory(
      "fuzz.json", std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  try {
    kReader->read(source, options);
  } catch (const orrery::Error& error) {
    if (error.kind() == orrery::ErrorKind::kInternal) throw;
  }
  return 0;
}
