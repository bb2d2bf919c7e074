#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/hardware/device.h"

namespace orrery {

/// A what-if: {"memory.bandwidth", "6 TB/s"}.
using Override = std::pair<std::string, std::string>;

/// The hardware the project knows: one YAML file a device under `folder`.
class Catalogue {
 public:
  explicit Catalogue(std::string folder) : folder_(std::move(folder)) {}

  /// Names, sorted.
  std::vector<std::string> names() const;

  /// A device by catalogue name, or by the path of a user's own YAML file, with
  /// `overrides` applied. Unknown names are `kUsage` with the nearest names;
  /// faults in a file are `kInput` with line and column.
  Device device(const std::string& name_or_path, const std::vector<Override>& overrides = {}) const;

 private:
  std::string folder_;
};

}  // namespace orrery
