#pragma once

#include <map>
#include <string>

#include "orrery/base/source.h"
#include "orrery/hardware/component.h"
#include "orrery/hardware/schema.h"
#include "orrery/hardware/yaml_document.h"

namespace orrery {

/// What readers of devices and of clusters have in common: citations by key, figures that
/// name theirs, and errors with line and column.
class DescriptionReader {
 public:
  explicit DescriptionReader(const Source& source) : source_(source) {}

 protected:
  /// At most so much of a faulty text is shown.
  static std::string shown(const std::string& text);
  static std::string joined(const std::string& path, const std::string& key);

  [[noreturn]] void fail(int64_t line, int64_t column, std::string message) const;
  [[noreturn]] void fail(const YamlNode& at, std::string message) const;
  SourceLocation location(const YamlNode& node) const;

  /// The whole file, a map.
  YamlNode document() const;
  const std::string& text_of(const std::string& path, const YamlNode& value) const;
  void read_sources(const YamlNode& map);
  /// The citation that the source key in `node` stands for.
  const std::string& citation(const YamlNode& node) const;
  /// The section's own citation, or else `inherited`.
  std::string section_source(const YamlNode& map, const std::string& inherited) const;
  void check_choice(const SchemaRow& row, const YamlNode& at, const std::string& text) const;
  /// A fact or a quantity of `row`: a scalar, or {value, source}.
  Figure figure(const SchemaRow& row, const YamlNode& value, const std::string& section) const;
  [[noreturn]] void fail_unknown_key(const YamlNode& key, const std::string& section,
                                     const std::vector<std::string>& allowed) const;

  const Source& source_;                        // NOLINT: for the derived readers
  std::map<std::string, std::string> sources_;  // NOLINT: citations by key
};

}  // namespace orrery
