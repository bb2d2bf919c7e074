#pragma once

#include <cstdint>
#include <limits>

#include "orrery/serving/request.h"

namespace orrery {

inline constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

/// Where requests come from. It is asked for one after another, and told when they end, so that
/// a million of them need no room.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  /// When the next one arrives; `kNever` when there is none, or none before another one ends.
  virtual Seconds next_arrival() const = 0;
  /// Takes it.
  virtual Request take() = 0;
  /// The request of this tag has ended, or was turned away.
  virtual void ended(uint32_t tag, Seconds now) { (void)tag, (void)now; }
};

}  // namespace orrery
