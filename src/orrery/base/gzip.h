#pragma once

#include <cstddef>
#include <string>

#include "orrery/base/source.h"

namespace orrery {

/// Compressed inputs may grow to this when inflated.
inline constexpr size_t kMostInflatedBytes = size_t{1} << 30;

/// `source` inflated where it is gzip (RFC 1952, one member or several), known by
/// its first two bytes; else `source` itself. Throws `kInput` for data that is cut
/// short or damaged, and for more than `most` bytes, before they take memory.
Source inflated(const Source& source, size_t most = kMostInflatedBytes);

}  // namespace orrery
