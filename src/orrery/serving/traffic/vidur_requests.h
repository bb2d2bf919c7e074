#pragma once

#include <cstdint>
#include <memory>

#include "orrery/serving/traffic/source.h"

namespace orrery {

/// How VIDUR draws requests.
struct VidurRequests {
  double rate = 1;  ///< A second; gaps of more than 3 / rate are cut to that.
  int64_t count = 1;
  int64_t least = 128, most = 512;  ///< Of prompt and answer together, uniform.
  double ratio = 20;                ///< Prompt tokens for one of the answer.
  uint32_t seed = 42;
};

/// The very requests that VIDUR's synthetic generator gives for a seed: Python's Mersenne twister,
/// one number for a gap, −ln(1 − u) / rate, then one for the length (vidur/request_generator,
/// 2024). Throws `kUsage` for a rate or lengths that make no sense.
std::unique_ptr<RequestSource> make_vidur_requests(const VidurRequests& requests);

}  // namespace orrery
