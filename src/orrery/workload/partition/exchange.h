#pragma once

#include <string_view>
#include <vector>

#include "orrery/workload/partition/device_grid.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::partition {

using Layout = std::vector<Axes>;  ///< The axes on every dimension of a tensor.

Layout layout_of(const TensorSharding& sharding);

/// A device's part of a tensor, and how it is shared out.
struct Held {
  ValueId value;
  Layout layout;
  Axes partial = {};  ///< Whose devices hold summands that are not added up yet.
};

/// Emits what devices do to have the parts they need.
class Exchange {
 public:
  Exchange(const Workload& whole, const DeviceGrid& grid, WorkloadBuilder& builder)
      : w_(whole), grid_(grid), builder_(builder) {}

  /// The type of a part.
  TypeId local_type(const Type& type, const Layout& layout);

  /// Brings a part of a tensor of this type to another layout: by slices of what a device has,
  /// which need no communication; then by trades of dimensions (all-to-all) and by what is
  /// gathered. The same pieces on other devices are permuted. `offset` is the place in the source.
  ValueId reshard(Held from, const Type& type, const Layout& to, size_t offset);

  /// Sums a result over the devices that have parts of it, and keeps no more than `to` wants.
  Held complete(Held part, const Type& type, Axes partial, const Layout& to, size_t offset);

  /// Ends the request: `what` cannot be followed.
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  ValueId collective(Opcode code, ValueId value, const Axes& axes, TypeId type, size_t offset,
                     int64_t dim = -1, int64_t concatenated = -1);
  ValueId permute(ValueId value, const Layout& from, const Layout& to, size_t offset);
  bool same_pieces(const Layout& a, const Layout& b) const;

  const Workload& w_;
  const DeviceGrid& grid_;
  WorkloadBuilder& builder_;
};

}  // namespace orrery::partition
