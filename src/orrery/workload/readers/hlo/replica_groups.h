#pragma once

#include <cstdint>
#include <vector>

#include "orrery/workload/readers/hlo/cursor.h"
#include "orrery/workload/workload.h"

namespace orrery::hlo {

/// Ten times the largest machines announced; a list beyond it is no honest file.
inline constexpr int64_t kMaxDevices = int64_t{1} << 20;

/// Who talks to whom in a collective. No groups: every device takes part.
struct ReplicaGroups {
  std::vector<int64_t> ranks;  ///< Groups one after the other.
  std::vector<int64_t> sizes;  ///< Of each group.

  /// The largest group's; 0 when every device takes part.
  int64_t group_size() const;
  bool ragged() const;
};

/// Reads any of XLA's forms:
///   `{{0,1},{2,3}}`           a list of lists
///   `[2,4]<=[8]`              2 groups of 4 cut from 0 … 7 in order
///   `[2,4]<=[4,2]T(1,0)`      the same after arranging 0 … 7 as 4×2 and transposing
///   `mesh['x'=2,'y'=4] {'y'}` groups along axes of a mesh; `'y':(2)2` is the part of
///                             an axis that has 2 before it and 2 in it
ReplicaGroups read_replica_groups(Cursor cursor);

/// `mesh['x'=2,'y'=4]` or `mesh['x'=8], device_ids=(7,6,…)`, without a name.
Mesh read_mesh(Cursor& cursor);

}  // namespace orrery::hlo
