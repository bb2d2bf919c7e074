#include "orrery/hardware/device_reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "orrery/hardware/description_reader.h"
#include "orrery/hardware/schema.h"

namespace orrery {
namespace {

class Reader : private DescriptionReader {
 public:
  Reader(const Source& source, const ParentLoader& parent)
      : DescriptionReader(source), parent_(parent) {}

  DeviceTree read() {
    const YamlNode document = this->document();
    if (const YamlNode* inherits = document.find("inherits"))
      tree_ = parent_(text_of("inherits", *inherits), location(*inherits));
    sources_ = tree_.sources;
    tree_.name = std::filesystem::path(source_.name()).stem().string();
    if (const YamlNode* sources = document.find("sources")) read_sources(*sources);
    tree_.sources = sources_;
    tree_.root.where = {source_.name(), 1, 1};
    read_section(document, "", "");
    check_required();
    return std::move(tree_);
  }

 private:
  /// `inherited` is the citation of the enclosing section, "" for none.
  void read_section(const YamlNode& map, const std::string& path, const std::string& inherited) {
    const std::string cited = section_source(map, inherited);
    for (size_t i = 0; i < map.keys.size(); ++i) {
      if (map.keys[i].text != "source") read_entry(map.keys[i], map.values[i], path, cited);
    }
  }

  void read_entry(const YamlNode& key, const YamlNode& value, const std::string& section,
                  const std::string& section_citation) {
    const std::string path = joined(section, key.text);
    // A key with a dot would pass for a path.
    const SchemaRow* row =
        key.text.find('.') == std::string::npos ? find_schema_row(path) : nullptr;
    if (row == nullptr) fail_unknown_key(key, section, keys_of_section(section));
    if (value.kind == YamlNode::Kind::kNull) {
      const bool removed = row->kind == SchemaRow::Kind::kWord ? tree_.words.erase(path) > 0
                                                               : tree_.root.remove(path);
      if (!removed) fail(key, fmt::format("'{}' has no value, and none to take away", path));
      return;
    }
    switch (row->kind) {
      case SchemaRow::Kind::kSources:
        return;  // read before all else
      case SchemaRow::Kind::kWord:
        return read_word(*row, value);
      case SchemaRow::Kind::kFact:
      case SchemaRow::Kind::kQuantity:
        return tree_.root.set_figure(path, figure(*row, value, section_citation));
      case SchemaRow::Kind::kSection:
        break;
    }
    if (value.kind != YamlNode::Kind::kMap)
      fail(value, fmt::format("'{}' is a section and takes a map", path));
    tree_.root.make_part(path).where = location(key);
    read_section(value, path, section_citation);
  }

  void read_word(const SchemaRow& row, const YamlNode& value) {
    const std::string& text = text_of(row.path, value);
    check_choice(row, value, text);
    if (row.path != "inherits") tree_.words[row.path] = text;
  }

  void check_required() const {
    for (const SchemaRow& row : device_schema()) {
      if (!row.required) continue;
      const size_t dot = row.path.rfind('.');
      const Component* owner = tree_.root.part(
          dot == std::string::npos ? "" : std::string_view(row.path).substr(0, dot));
      if (owner == nullptr || has(row)) continue;
      throw Error(ErrorKind::kInput, owner->where,
                  fmt::format("'{}' is missing ({})", row.path, row.meaning));
    }
    for (const char* rates : {"compute.matrix", "compute.vector"})
      if (const Component* part = tree_.root.part(rates); part != nullptr && !part->figures.empty())
        return;
    throw Error(ErrorKind::kInput, tree_.root.part("compute")->where,
                "'compute' states no peak rate, neither in 'matrix' nor in 'vector'");
  }

  bool has(const SchemaRow& row) const {
    switch (row.kind) {
      case SchemaRow::Kind::kWord:
        return tree_.words.contains(row.path);
      case SchemaRow::Kind::kSection:
        return tree_.root.part(row.path) != nullptr;
      case SchemaRow::Kind::kSources:
        return !tree_.sources.empty();
      case SchemaRow::Kind::kFact:
      case SchemaRow::Kind::kQuantity:
        return tree_.root.figure(row.path) != nullptr;
    }
    return false;
  }

  const ParentLoader& parent_;
  DeviceTree tree_;
};

}  // namespace

DeviceTree read_device(const Source& source, const ParentLoader& parent) {
  return Reader(source, parent).read();
}

}  // namespace orrery
