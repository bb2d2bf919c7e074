#pragma once

#include <cstdint>
#include <memory>

#include "orrery/serving/traffic/source.h"

namespace orrery {

/// LoRA adapters that requests ask for: the i-th of `count` with a probability as i^-skew (Zipf;
/// 0: all alike). Turns of a conversation ask for the same one.
struct AdapterMix {
  int32_t count = 0;  ///< 0: none.
  double skew = 0;
};

/// The requests of `source`, each with an adapter. Throws `kUsage` for a mix that makes no sense.
std::unique_ptr<RequestSource> with_adapters(std::unique_ptr<RequestSource> source,
                                             const AdapterMix& mix, uint64_t seed);

}  // namespace orrery
