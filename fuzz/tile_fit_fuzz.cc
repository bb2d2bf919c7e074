// Reads arbitrary bytes as a fit of the tile model. Whatever they are, the answer is an
// orrery::Error or a fit that writes itself as it was read and predicts finite times.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/error.h"
#include "orrery/kernel/tile/fit.h"

namespace {

orrery::TileFit read(std::string text) {
  using namespace orrery;
  return tile_fit_from_json(JsonValue::parse(Source::from_memory("fuzz.json", std::move(text))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const TileFit fit = read(std::string(reinterpret_cast<const char*>(data), size));
    const std::string written = to_json(fit);
    if (to_json(read(written)) != written) std::abort();
    for (size_t c = 0; c < kTileClassCount; ++c) {
      const ClassFit* one = fit.find(static_cast<TileClass>(c));
      if (one == nullptr) continue;
      TileDescription description;
      description.tile_class = static_cast<TileClass>(c);
      description.seconds = 1e-5;
      description.count = one->centre.features();
      const Estimate estimate = estimate_of(*one, description);
      if (!std::isfinite(estimate.seconds.value) || !std::isfinite(interval(estimate).high.value) ||
          interval(estimate).low.value <= 0)
        std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
