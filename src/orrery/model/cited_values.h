#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orrery/base/units.h"

namespace YAML {
class Node;
}

namespace orrery {

/// A YAML file of numbers that each say where they come from: `gap: {value: 1 us, source: …}`.
/// What is wrong with it is `kInput`, with line and column.
class CitedValues {
 public:
  explicit CitedValues(const std::string& path);

  /// The quantity at `key` in its base unit; value and source must both be there.
  double at(const std::string& key, Dimension dimension) const;
  /// The same inside a map of the file.
  double at(const YAML::Node& map, const std::string& key, Dimension dimension) const;

  /// What `read` makes of the text of the value at `key`; it throws std::invalid_argument for what
  /// it cannot take.
  void read(const std::string& key, const std::function<void(const std::string&)>& read) const;

  /// The whole file, a map.
  const YAML::Node& root() const { return *root_; }

 private:
  void read(const YAML::Node& map, const std::string& key,
            const std::function<void(const std::string&)>& read) const;

  std::string path_;
  std::shared_ptr<const YAML::Node> root_;
};

}  // namespace orrery
