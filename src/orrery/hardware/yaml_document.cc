#include "orrery/hardware/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>

namespace orrery {
namespace {

constexpr size_t kMostNodes = 10'000;
constexpr size_t kDeepest = 16;

/// Length of the well-formed UTF-8 sequence at `at`, or 0.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

/// yaml-cpp takes byte 4 for the end of its input, guesses UTF-16 and UTF-32 from
/// zero bytes and passes broken UTF-8 on; none of that belongs in a description.
void check_characters(const Source& source) {
  const std::string_view text = source.text();
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F)
      source.fail(at, fmt::format("control character 0x{:02x}; a YAML text was expected", c));
    const size_t length = utf8_length(text, at);
    if (length == 0) source.fail(at, fmt::format("byte 0x{:02x} is not valid UTF-8", c));
    at += length;
  }
}

/// Builds the tree from yaml-cpp's events. Its own `YAML::Node` would expand
/// aliases on each walk, merge keys written twice and know no limits.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Source& source) : source_(source) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) fail(mark, "a second document; one was expected");
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, "", anchor, YamlNode::Kind::kNull);
    leave();
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // An unquoted ~ or null reaches here as text; quoted text carries the tag "!".
    const bool is_null = tag != "!" && (value == "~" || value == "null" || value.empty());
    add(mark, tag, anchor, is_null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar).text = value;
    leave();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    add(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    add(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { leave(); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    fail(mark, "anchors are not supported; write the value out");
  }

  [[noreturn]] void fail(const YAML::Mark& mark, std::string message) const {
    throw Error(ErrorKind::kInput, {source_.name(), mark.line + 1, mark.column + 1},
                std::move(message));
  }

 private:
  YamlNode& add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                YamlNode::Kind kind) {
    if (anchor != 0) fail(mark, "anchors are not supported; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("the tag '{}' is not supported; remove it", tag));
    if (++nodes_ > kMostNodes) fail(mark, fmt::format("more than {} nodes", kMostNodes));
    if (open_.size() >= kDeepest) fail(mark, fmt::format("nested over {} levels deep", kDeepest));
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    YamlNode* place = &root_;
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      YamlNode& parent = *open_.back();
      const bool is_key =
          parent.kind == YamlNode::Kind::kMap && parent.keys.size() == parent.values.size();
      if (is_key && kind != YamlNode::Kind::kScalar) fail(mark, "a map's key must be a word");
      auto& siblings = is_key ? parent.keys : parent.values;
      siblings.push_back(std::move(node));
      place = &siblings.back();
    }
    // Only the innermost open node's children grow, so these pointers stay good.
    open_.push_back(place);
    return *place;
  }

  void leave() {
    const YamlNode* done = open_.back();
    open_.pop_back();
    if (open_.empty()) return;
    const YamlNode& parent = *open_.back();
    if (parent.kind == YamlNode::Kind::kMap && parent.keys.size() > parent.values.size())
      check_new_key(parent, *done);
  }

  void check_new_key(const YamlNode& map, const YamlNode& key) const {
    for (size_t i = 0; i + 1 < map.keys.size(); ++i) {
      if (map.keys[i].text != key.text) continue;
      throw Error(
          ErrorKind::kInput, {source_.name(), key.line, key.column},
          fmt::format("the key '{}' stands twice, first in line {}", key.text, map.keys[i].line));
    }
  }

  const Source& source_;
  YamlNode root_;
  std::vector<YamlNode*> open_;
  size_t nodes_ = 0;
  bool started_ = false;
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].text == key) return &values[i];
  return nullptr;
}

YamlNode parse_yaml(const Source& source) {
  if (source.text().size() > kLargestYamlFile)
    throw_input(source.name(), fmt::format("is {} bytes long; a description of hardware has at "
                                           "most {}",
                                           source.text().size(), kLargestYamlFile));
  check_characters(source);
  TreeBuilder builder(source);
  std::istringstream stream{std::string(source.text())};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    builder.fail(e.mark, e.msg);
  }
  return builder.take();
}

}  // namespace orrery
