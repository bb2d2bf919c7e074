// Any bytes at all must give requests in order of time, each with tokens, or an orrery::Error; and
// replaying them must send each once.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/error.h"
#include "orrery/serving/traffic/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const auto trace = std::make_shared<const Trace>(read_trace(
        Source::from_memory("fuzz", std::string(reinterpret_cast<const char*>(data), size))));
    const std::unique_ptr<RequestSource> source = make_replay(trace);
    size_t requests = 0;
    Seconds last;
    for (; source->next_arrival() != kNever; ++requests) {
      const Request request = source->take();
      if (!(request.arrival >= last) || request.prompt < 1 || request.output < 1) std::abort();
      last = request.arrival;
    }
    if (requests != trace->rows.size()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
