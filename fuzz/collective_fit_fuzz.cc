// Reads arbitrary bytes as what is known of collectives: constants of links, of networks, or a
// table of measured times. Whatever they are, the answer is an orrery::Error, a fit that writes
// itself as it was read, or rows that are numbers.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/error.h"
#include "orrery/cluster/nccl/link_calibration.h"

namespace {

using namespace orrery;

JsonValue parse(std::string text) {
  return JsonValue::parse(Source::from_memory("fuzz.json", std::move(text)));
}

template <class Fit>
void read_twice(const std::string& text, Fit (*read)(const JsonValue&)) {
  try {
    const std::string written = to_json(read(parse(text)));
    if (to_json(read(parse(written))) != written) std::abort();
  } catch (const Error&) {
  }
}

void read_rows(const std::string& text) {
  try {
    for (const MeasuredCollective& row : read_collectives(Source::from_memory("fuzz.csv", text)))
      if (!(row.time.value > 0) || !std::isfinite(row.call.bytes.value) ||
          row.call.group.size < 1 || row.call.group.stride < 1)
        std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_twice<LinkFit>(text, link_fit_from_json);
  read_twice<NetworkFit>(text, network_fit_from_json);
  read_rows(text);
  return 0;
}
