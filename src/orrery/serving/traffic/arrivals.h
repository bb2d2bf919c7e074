#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "orrery/serving/traffic/lengths.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// How requests that wait for nobody follow each other.
struct ArrivalProcess {
  double rate = 0;  ///< Requests a second, on average.
  /// Coefficient of variation of the gaps, which follow a gamma law: 1 is Poisson's process, 0 a
  /// metronome. vLLM's `burstiness` is 1 / variation².
  double variation = 1;
  /// The rate swings as 1 + swing · sin(2π t / period); 0: it does not.
  double swing = 0;
  Seconds period{86400};
};

/// A system prompt that some of the requests begin with.
struct SharedPrefixes {
  int32_t tokens = 0;  ///< Of each, before the prompt that is drawn.
  int32_t count = 1;   ///< Different ones, each as likely.
};

/// `count` requests at the times of `process`. Throws `kUsage` for a rate that is not above 0.
std::unique_ptr<RequestSource> make_arrivals(const ArrivalProcess& process, int64_t count,
                                             LengthSampler lengths, uint64_t seed,
                                             SharedPrefixes prefixes = {});

}  // namespace orrery
