#include "orrery/hardware/description_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "orrery/base/nearest.h"

namespace orrery {
namespace {

constexpr size_t kLongestShown = 60;
constexpr size_t kLongestText = 2000;

}  // namespace

std::string DescriptionReader::shown(const std::string& text) {
  if (text.size() <= kLongestShown) return text;
  size_t end = kLongestShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

std::string DescriptionReader::joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

void DescriptionReader::fail(int64_t line, int64_t column, std::string message) const {
  throw Error(ErrorKind::kInput, {source_.name(), line, column}, std::move(message));
}

void DescriptionReader::fail(const YamlNode& at, std::string message) const {
  fail(at.line, at.column, std::move(message));
}

SourceLocation DescriptionReader::location(const YamlNode& node) const {
  return {source_.name(), node.line, node.column};
}

YamlNode DescriptionReader::document() const {
  YamlNode document = parse_yaml(source_);
  if (document.kind != YamlNode::Kind::kMap)
    fail(std::max<int64_t>(1, document.line), std::max<int64_t>(1, document.column),
         "a map was expected that begins with 'title:' or 'inherits:'");
  return document;
}

const std::string& DescriptionReader::text_of(const std::string& path,
                                              const YamlNode& value) const {
  if (value.kind != YamlNode::Kind::kScalar) fail(value, fmt::format("'{}' takes a text", path));
  if (value.text.size() > kLongestText)
    fail(value, fmt::format("'{}' is longer than {} bytes", path, kLongestText));
  return value.text;
}

void DescriptionReader::read_sources(const YamlNode& map) {
  if (map.kind != YamlNode::Kind::kMap) fail(map, "'sources' takes a map from keys to citations");
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const std::string& key = map.keys[i].text;
    const std::string& citation = text_of(joined("sources", shown(key)), map.values[i]);
    if (citation.empty()) fail(map.values[i], "an empty citation");
    sources_[key] = citation;
  }
}

const std::string& DescriptionReader::citation(const YamlNode& node) const {
  const std::string& key = text_of("source", node);
  const auto at = sources_.find(key);
  if (at != sources_.end()) return at->second;
  std::vector<std::string> known;
  for (const auto& entry : sources_) known.push_back(entry.first);
  fail(node, fmt::format("no source is called '{}'; 'sources' has: {}", shown(key),
                         known.empty() ? "nothing" : fmt::format("{}", fmt::join(known, ", "))));
}

std::string DescriptionReader::section_source(const YamlNode& map,
                                              const std::string& inherited) const {
  const YamlNode* own = map.find("source");
  return own != nullptr ? citation(*own) : inherited;
}

void DescriptionReader::fail_unknown_key(const YamlNode& key, const std::string& section,
                                         const std::vector<std::string>& allowed) const {
  const auto near = nearest(key.text, allowed, 1);
  fail(key, fmt::format("unknown key '{}' {}{}", shown(key.text),
                        section.empty() ? "at the top" : fmt::format("in '{}'", section),
                        near.empty() ? fmt::format("; allowed: {}", fmt::join(allowed, ", "))
                                     : did_you_mean(near)));
}

void DescriptionReader::check_choice(const SchemaRow& row, const YamlNode& at,
                                     const std::string& text) const {
  if (text.empty()) fail(at, fmt::format("'{}' is empty", row.path));
  if (row.choices.empty() ||
      std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end())
    return;
  fail(at, fmt::format("'{}' cannot be '{}'; it is one of {}", row.path, shown(text),
                       fmt::join(row.choices, ", ")));
}

Figure DescriptionReader::figure(const SchemaRow& row, const YamlNode& value,
                                 const std::string& section) const {
  const YamlNode* written = &value;
  std::string source = section;
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
    return figure;
  }
  try {
    if (written->text.size() > kLongestShown)
      throw std::invalid_argument(fmt::format("'{}' is not a quantity", shown(written->text)));
    figure.value = parse_figure(written->text, row);
  } catch (const std::invalid_argument& e) {
    fail(*written, fmt::format("{}: {}", row.path, e.what()));
  }
  return figure;
}

}  // namespace orrery
