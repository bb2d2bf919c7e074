#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "orrery/workload/mesh.h"

namespace orrery::partition {

inline constexpr int64_t kMaxDevices = int64_t{1} << 20;

/// Shardy's `{"x", "y":(1)2, ?}p1`.
struct WrittenDimension {
  std::vector<AxisReference> axes;
  bool open = false;
  int priority = 0;
};
struct WrittenSharding {
  std::vector<WrittenDimension> dims;
  std::vector<AxisReference> replicated;
};

/// `[{"x"}p1, {?}], replicated={"y"}` of Shardy; nothing for what is not of this form.
std::optional<WrittenSharding> written_sharding(std::string_view text);

/// GSPMD's assignment of devices to tiles: `devices=[tiles]<=[reshape]T(permutation)`, or every
/// device by number where such a reshape and permutation give the same.
struct TileAssignment {
  enum class Kind : uint8_t { kReplicated, kManual, kTiled };
  Kind kind = Kind::kReplicated;
  std::vector<int64_t> tiles;
  std::vector<int64_t> reshape;
  std::vector<int64_t> permutation;
  bool last_replicated = false;
};

/// `{replicated}`, `{manual}` or `{devices=…}`; nothing for other forms.
std::optional<TileAssignment> tile_assignment(std::string_view text);

}  // namespace orrery::partition
