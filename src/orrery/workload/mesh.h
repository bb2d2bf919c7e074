#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery {

/// A mesh axis, or the part of it that `(pre)size` names: of an axis of 8,
/// (2)4 is the minor 4 after a major 2.
struct AxisReference {
  std::string name;
  int64_t pre_size = 1;
  int64_t size = 0;  ///< 0: the whole axis.
};

/// Devices that communicate when a collective runs over `axes` of `mesh`: groups
/// one after the other, each of the product of the axes' sizes, in row-major
/// order of the axes as listed. Nothing when an axis is unknown, a part does not
/// divide it, or there are more than 2^20 devices.
std::optional<std::vector<int64_t>> device_groups(const Mesh& mesh,
                                                  std::span<const AxisReference> axes,
                                                  int64_t* group_size);

}  // namespace orrery
