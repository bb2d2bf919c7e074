#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "orrery/kernel/kernel.h"

namespace orrery {

/// Where a kernel lies among others: kernels of one `kind` (operator, element types and
/// what a library chooses its code by: head size, causal, layout, window, stride …) differ
/// in sizes alone, which are its coordinates.
struct KernelPlace {
  static constexpr size_t kMostCoordinates = 7;

  uint64_t kind = 0;
  uint64_t identity = 0;  ///< Hash of kind, sizes and cost: equal for equal kernels.
  uint8_t count = 0;
  std::array<float, kMostCoordinates> lg{};  ///< log2 of the sizes.

  std::span<const float> coordinates() const { return {lg.data(), count}; }
};

KernelPlace place_of(const Kernel& kernel);

}  // namespace orrery
