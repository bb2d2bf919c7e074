#include "orrery/hardware/device_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "orrery/base/nearest.h"
#include "orrery/hardware/schema.h"
#include "orrery/hardware/yaml_document.h"

namespace orrery {
namespace {

constexpr size_t kLongestShown = 60;
constexpr size_t kLongestText = 2000;

std::string shown(const std::string& text) {
  if (text.size() <= kLongestShown) return text;
  size_t end = kLongestShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

class Reader {
 public:
  Reader(const Source& source, const ParentLoader& parent) : source_(source), parent_(parent) {}

  DeviceTree read() {
    const YamlNode document = parse_yaml(source_);
    if (document.kind != YamlNode::Kind::kMap)
      fail(std::max<int64_t>(1, document.line), std::max<int64_t>(1, document.column),
           "a map was expected that begins with 'title:' or 'inherits:'");
    if (const YamlNode* inherits = document.find("inherits"))
      tree_ = parent_(text_of("inherits", *inherits), location(*inherits));
    tree_.name = std::filesystem::path(source_.name()).stem().string();
    if (const YamlNode* sources = document.find("sources")) read_sources(*sources);
    tree_.root.where = {source_.name(), 1, 1};
    read_section(document, "", "");
    check_required();
    return std::move(tree_);
  }

 private:
  [[noreturn]] void fail(int64_t line, int64_t column, std::string message) const {
    throw Error(ErrorKind::kInput, {source_.name(), line, column}, std::move(message));
  }
  [[noreturn]] void fail(const YamlNode& at, std::string message) const {
    fail(at.line, at.column, std::move(message));
  }
  SourceLocation location(const YamlNode& node) const {
    return {source_.name(), node.line, node.column};
  }

  const std::string& text_of(const std::string& path, const YamlNode& value) const {
    if (value.kind != YamlNode::Kind::kScalar) fail(value, fmt::format("'{}' takes a text", path));
    if (value.text.size() > kLongestText)
      fail(value, fmt::format("'{}' is longer than {} bytes", path, kLongestText));
    return value.text;
  }

  void read_sources(const YamlNode& map) {
    if (map.kind != YamlNode::Kind::kMap) fail(map, "'sources' takes a map from keys to citations");
    for (size_t i = 0; i < map.keys.size(); ++i) {
      const std::string& key = map.keys[i].text;
      const std::string& citation = text_of(joined("sources", shown(key)), map.values[i]);
      if (citation.empty()) fail(map.values[i], "an empty citation");
      tree_.sources[key] = citation;
    }
  }

  /// The citation that the source key in `node` stands for.
  const std::string& citation(const YamlNode& node) const {
    const std::string& key = text_of("source", node);
    const auto at = tree_.sources.find(key);
    if (at != tree_.sources.end()) return at->second;
    std::vector<std::string> known;
    for (const auto& entry : tree_.sources) known.push_back(entry.first);
    fail(node, fmt::format("no source is called '{}'; 'sources' has: {}", shown(key),
                           known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", "))));
  }

  /// `inherited` is the citation of the enclosing section, "" for none.
  void read_section(const YamlNode& map, const std::string& path, const std::string& inherited) {
    const YamlNode* own = map.find("source");
    const std::string section_source = own != nullptr ? citation(*own) : inherited;
    for (size_t i = 0; i < map.keys.size(); ++i) {
      if (map.keys[i].text != "source")
        read_entry(map.keys[i], map.values[i], path, section_source);
    }
  }

  void read_entry(const YamlNode& key, const YamlNode& value, const std::string& section,
                  const std::string& section_source) {
    const std::string path = joined(section, key.text);
    // A key with a dot would pass for a path.
    const SchemaRow* row =
        key.text.find('.') == std::string::npos ? find_schema_row(path) : nullptr;
    if (row == nullptr) fail_unknown_key(key, section);
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
        return read_figure(*row, value, section_source);
      case SchemaRow::Kind::kSection:
        break;
    }
    if (value.kind != YamlNode::Kind::kMap)
      fail(value, fmt::format("'{}' is a section and takes a map", path));
    tree_.root.make_part(path).where = location(key);
    read_section(value, path, section_source);
  }

  [[noreturn]] void fail_unknown_key(const YamlNode& key, const std::string& section) const {
    const std::vector<std::string> allowed = keys_of_section(section);
    const auto near = nearest(key.text, allowed, 1);
    fail(key, fmt::format("unknown key '{}' {}{}", shown(key.text),
                          section.empty() ? "at the top" : fmt::format("in '{}'", section),
                          near.empty() ? fmt::format("; allowed: {}", fmt::join(allowed, ", "))
                                       : did_you_mean(near)));
  }

  void read_word(const SchemaRow& row, const YamlNode& value) {
    const std::string& text = text_of(row.path, value);
    check_choice(row, value, text);
    if (row.path != "inherits") tree_.words[row.path] = text;
  }

  void check_choice(const SchemaRow& row, const YamlNode& at, const std::string& text) const {
    if (text.empty()) fail(at, fmt::format("'{}' is empty", row.path));
    if (row.choices.empty() ||
        std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end())
      return;
    fail(at, fmt::format("'{}' cannot be '{}'; it is one of {}", row.path, shown(text),
                         fmt::join(row.choices, ", ")));
  }

  void read_figure(const SchemaRow& row, const YamlNode& value, const std::string& section_source) {
    const YamlNode* written = &value;
    std::string source = section_source;
    if (value.kind == YamlNode::Kind::kMap) {
      for (const YamlNode& key : value.keys)
        if (key.text != "value" && key.text != "source")
          fail(key, fmt::format("unknown key '{}' in the figure '{}'; allowed: value, source",
                                shown(key.text), row.path));
      written = value.find("value");
      if (written == nullptr) fail(value, fmt::format("'{}' lacks its 'value'", row.path));
      if (const YamlNode* own = value.find("source")) source = citation(*own);
    }
    if (written->kind != YamlNode::Kind::kScalar)
      fail(*written, fmt::format("'{}' takes {}", row.path,
                                 row.kind == SchemaRow::Kind::kFact ? "a word" : "a quantity"));
    if (source.empty())
      fail(*written, fmt::format("'{0}' has no source; give its section 'source: KEY', or write "
                                 "{{value: {1}, source: KEY}}",
                                 row.path, shown(written->text)));
    Figure figure{"", written->text, 0, std::move(source), location(*written)};
    if (row.kind == SchemaRow::Kind::kFact) {
      check_choice(row, *written, written->text);
    } else {
      try {
        if (written->text.size() > kLongestShown)
          throw std::invalid_argument(fmt::format("'{}' is not a quantity", shown(written->text)));
        figure.value = parse_figure(written->text, row);
      } catch (const std::invalid_argument& e) {
        fail(*written, fmt::format("{}: {}", row.path, e.what()));
      }
    }
    tree_.root.set_figure(row.path, std::move(figure));
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

  const Source& source_;
  const ParentLoader& parent_;
  DeviceTree tree_;
};

}  // namespace

DeviceTree read_device(const Source& source, const ParentLoader& parent) {
  return Reader(source, parent).read();
}

}  // namespace orrery
