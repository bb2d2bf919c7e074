// Any bytes at all must give a trace or an orrery::Error, and a trace that can be read must
// be written again as what reads back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/error.h"
#include "orrery/workload/chakra/reader.h"
#include "orrery/workload/chakra/trace.h"
#include "orrery/workload/chakra/writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace chakra = orrery::chakra;
  const auto source = orrery::Source::from_memory(
      "fuzz.0.et", std::string(reinterpret_cast<const char*>(data), size));
  try {
    chakra::Reader reader(source);
    const auto metadata = orrery::Source::from_memory("again", encoded(reader.metadata()));
    if (!(chakra::Reader(metadata).metadata() == reader.metadata())) std::abort();
    for (chakra::Node node; reader.next(node);) {
      const auto again = orrery::Source::from_memory("again", encoded(node));
      chakra::Node read;
      if (!chakra::Reader(again, 0).next(read)) std::abort();
      // Compared as bytes: a NaN is not equal to itself, though its bits are.
      if (encoded(read) != encoded(node)) std::abort();
    }
    const chakra::Trace trace(source);
    for (uint32_t i = 0; i < trace.nodes().size(); ++i)
      if (trace.whole(i).id != trace.nodes()[i].id) std::abort();
  } catch (const orrery::Error&) {
  }
  return 0;
}
