#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery::partition {

/// A prime factor of the device grid, major to minor. Mesh axes and tile assignments are runs of
/// these, and so is every part of an axis: an axis of 8 is three of them.
using Axis = uint16_t;
using Axes = std::vector<Axis>;

bool contains(const Axes& axes, Axis axis);

struct DimensionSharding {
  Axes axes;          ///< Major to minor; they split the dimension one after the other.
  bool open = false;  ///< Propagation may add axes.
  int priority = 0;   ///< Of what the file wrote: 0 goes first.
  bool operator==(const DimensionSharding&) const = default;
};

struct TensorSharding {
  std::vector<DimensionSharding> dims;
  Axes replicated;      ///< Axes that may not be added.
  bool manual = false;  ///< GSPMD's {manual}: the tensor is one device's own.
};

/// The devices that all shardings of a module speak of, and what the shardings mean on it: Shardy's
/// meshes and axes, GSPMD's tile assignments `{devices=[4,1,2]<=[2,4]T(1,0)}`.
class DeviceGrid {
 public:
  /// Throws `kInput` for meshes and assignments that share no common refinement.
  explicit DeviceGrid(const Workload& workload);

  int64_t devices() const { return devices_; }
  int64_t size(Axis axis) const { return sizes_[axis]; }
  int64_t ways(std::span<const Axis> axes) const;
  size_t axis_count() const { return sizes_.size(); }

  /// What `id` says of a tensor of this rank.
  TensorSharding sharding(ShardingId id, int rank) const;
  /// The axes of a mesh by name, as `manual_axes` lists them: "x,y".
  Axes named(std::string_view names) const;

  /// Groups of devices that differ in `axes` only, one after the other.
  std::vector<int64_t> groups(std::span<const Axis> axes) const;
  /// Pairs of source and target where what `from` places moves to where `to` places it; both
  /// split into the same sizes.
  std::vector<int64_t> moves(std::span<const Axis> from, std::span<const Axis> to) const;

 private:
  TensorSharding shardy(const Sharding& sharding, int rank) const;
  TensorSharding gspmd(const Sharding& sharding, int rank) const;
  /// The axes between two products of sizes counted from the major end.
  Axes between(int64_t major, int64_t minor) const;
  [[noreturn]] void refuse(std::string_view what) const;

  const Workload& workload_;
  int64_t devices_ = 1;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> device_ids_;
};

/// How many pieces, rounded up to whole elements.
int64_t split(int64_t size, int64_t ways);

/// Ends a message about a module that is not partitioned here.
inline constexpr std::string_view kExportInstead =
    "; give the partitioned program instead: in JAX, jit(f).lower(...).compile().as_text()";

}  // namespace orrery::partition
