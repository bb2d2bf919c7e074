#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// One node of a YAML file, with the place where it stands.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  std::string text;              ///< Of a scalar, as written.
  std::vector<YamlNode> keys;    ///< Of a map: scalars, all different.
  std::vector<YamlNode> values;  ///< Of a map, in the order of `keys`; or a sequence's items.
  int64_t line = 0;              ///< From 1.
  int64_t column = 0;            ///< From 1, in bytes.

  /// The value of `key` in a map, or null.
  const YamlNode* find(std::string_view key) const;
};

/// The one document in `source`, a subset of YAML: maps with scalar keys,
/// sequences and scalars, without anchors, aliases and tags. Throws `kInput` with
/// line and column for whatever else it meets: broken syntax, a key written
/// twice, a second document, or a file over the limits (1 MB, 10,000 nodes, 16
/// levels), which lie far above any description of hardware.
YamlNode parse_yaml(const Source& source);

/// The most bytes `parse_yaml` reads.
inline constexpr size_t kLargestYamlFile = 1 << 20;

}  // namespace orrery
