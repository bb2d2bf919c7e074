#pragma once

#include <compare>
#include <cstdint>

namespace orrery {

/// An index into one of a table's vectors, typed so that an operation's index
/// cannot be used as a value's.
template <class Tag>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index = kNone;

  constexpr bool valid() const { return index != kNone; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads rewritten comparisons
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace orrery
