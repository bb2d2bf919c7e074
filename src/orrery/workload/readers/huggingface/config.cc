#include "orrery/workload/readers/huggingface/config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery::huggingface {
namespace {

using Json = nlohmann::json;

/// The largest known description, with a line for every expert, has 3 MB.
constexpr size_t kMaxBytes = size_t{32} << 20;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxShown = 60;

/// Overwrites NaN, Infinity and -Infinity by null, keeping every other byte where
/// it was, and refuses nesting that no configuration has.
std::string sanitise(const Source& source) {
  std::string text(source.text());
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if ((c == '{' || c == '[') && ++depth > kMaxDepth)
      source.fail(i, fmt::format("nested deeper than {} levels", kMaxDepth));
    if (c == '}' || c == ']') --depth;
    if (c != 'N' && c != 'I' && c != '-') continue;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (text.compare(i, word.size(), word) != 0) continue;
      // "NaN" is shorter than "null": a zero stands for it.
      const std::string_view instead = word.size() < 4 ? "0" : "null";
      text.replace(i, word.size(),
                   std::string(instead) + std::string(word.size() - instead.size(), ' '));
      i += word.size() - 1;
      break;
    }
  }
  return text;
}

/// A value as it may stand in a message: short, on one line.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

}  // namespace

struct Config::Node {
  std::shared_ptr<const Json> root;
  const Json* value = nullptr;
};

Config::Config(std::shared_ptr<const Source> source, std::shared_ptr<const Node> node)
    : source_(std::move(source)), node_(std::move(node)) {}

Config Config::parse(std::shared_ptr<const Source> source) {
  if (source->text().size() > kMaxBytes)
    throw_input(source->name(),
                fmt::format("larger than {} MiB, which no model description is", kMaxBytes >> 20));
  auto root = std::make_shared<Json>();
  try {
    *root = Json::parse(sanitise(*source));
  } catch (const Json::parse_error& e) {
    // nlohmann names its own line and column first; ours are in the location.
    std::string message = e.what();
    const size_t colon = message.find(": ");
    if (colon != std::string::npos) message = message.substr(colon + 2);
    source->fail(e.byte == 0 ? 0 : e.byte - 1, "not JSON: " + message);
  } catch (const Json::exception& e) {
    source->fail(0, fmt::format("not JSON: {}", e.what()));
  }
  if (!root->is_object()) source->fail(0, "expected a JSON object, found " + shown(*root));
  auto node = std::make_shared<Node>();
  node->root = root;
  node->value = root.get();
  return Config(std::move(source), std::move(node));
}

namespace {

const Json* member(const Json& object, std::string_view name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

const Json* first_present(const Json& object, Config::Names names, std::string_view* found) {
  for (const std::string_view name : names) {
    if (const Json* value = member(object, name)) {
      *found = name;
      return value;
    }
  }
  return nullptr;
}

/// True and false, 0 and 1, and whole numbers written as 8.0.
std::optional<int64_t> as_whole(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number >= -1e15 && number <= 1e15 &&
        number == static_cast<double>(static_cast<int64_t>(number)))
      return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace

bool Config::has(std::string_view name) const { return member(*node_->value, name) != nullptr; }

void Config::fail(std::string_view name, std::string message) const {
  const size_t at = source_->text().find(fmt::format("\"{}\"", name));
  source_->fail(at == std::string_view::npos ? 0 : at, std::move(message));
}

int64_t Config::whole(Names names, int64_t least, std::optional<int64_t> otherwise) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) {
    if (otherwise) return *otherwise;
    source_->fail(0, fmt::format("'{}' is missing", *names.begin()));
  }
  const std::optional<int64_t> number = value->is_boolean() ? std::nullopt : as_whole(*value);
  if (!number || *number < least || *number > kMaxSize)
    fail(found, fmt::format("'{}' must be a {} integer{}, found {}", found,
                            least > 0 ? "positive" : "non-negative",
                            number && *number > kMaxSize ? " of at most 2^31" : "", shown(*value)));
  return *number;
}

int64_t Config::size(Names names) const { return whole(names, 1, std::nullopt); }
int64_t Config::size_or(Names names, int64_t otherwise) const { return whole(names, 1, otherwise); }
int64_t Config::count_or(Names names, int64_t otherwise) const {
  return whole(names, 0, otherwise);
}

double Config::real_or(Names names, double otherwise) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) return otherwise;
  if (!value->is_number())
    fail(found, fmt::format("'{}' must be a number, found {}", found, shown(*value)));
  return value->get<double>();
}

bool Config::flag_or(Names names, bool otherwise) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean())
    fail(found, fmt::format("'{}' must be true or false, found {}", found, shown(*value)));
  return value->get<bool>();
}

std::string Config::text_or(Names names, std::string_view otherwise) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string())
    fail(found, fmt::format("'{}' must be a string, found {}", found, shown(*value)));
  return value->get<std::string>();
}

std::vector<std::string> Config::texts(Names names) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) return {};
  if (!value->is_array())
    fail(found, fmt::format("'{}' must be a list of strings, found {}", found, shown(*value)));
  std::vector<std::string> texts;
  for (const Json& entry : *value) {
    if (!entry.is_string())
      fail(found,
           fmt::format("'{}' must be a list of strings, found {} in it", found, shown(entry)));
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::vector<int64_t> Config::numbers(Names names) const {
  std::string_view found;
  const Json* value = first_present(*node_->value, names, &found);
  if (value == nullptr) return {};
  if (!value->is_array())
    fail(found, fmt::format("'{}' must be a list of integers, found {}", found, shown(*value)));
  std::vector<int64_t> numbers;
  for (const Json& entry : *value) {
    const std::optional<int64_t> number = as_whole(entry);
    if (!number || *number < 0 || *number > kMaxSize)
      fail(found, fmt::format("'{}' must be a list of integers from 0 to 2^31, found {} in it",
                              found, shown(entry)));
    numbers.push_back(*number);
  }
  return numbers;
}

bool Config::is_list(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  return value != nullptr && value->is_array();
}

const Config::Node& Config::entry(std::string_view name, int64_t layer, Node& place) const {
  const Json* list = member(*node_->value, name);
  if (list == nullptr || !list->is_array())
    fail(name, fmt::format("'{}' must be a list with an entry for every layer", name));
  if (layer < 0 || static_cast<size_t>(layer) >= list->size())
    fail(name, fmt::format("'{}' has {} entries, layer {} needs one", name, list->size(), layer));
  place.value = &(*list)[static_cast<size_t>(layer)];
  return place;
}

int64_t Config::number_at(std::string_view name, int64_t layer) const {
  Node place;
  const Json& value = *entry(name, layer, place).value;
  const std::optional<int64_t> number = as_whole(value);
  if (!number || *number < 0 || *number > kMaxSize)
    fail(name, fmt::format("'{}' must be a list of integers from 0 to 2^31, found {} in it", name,
                           shown(value)));
  return *number;
}

std::string Config::text_at(std::string_view name, int64_t layer) const {
  Node place;
  const Json& value = *entry(name, layer, place).value;
  if (!value.is_string())
    fail(name, fmt::format("'{}' must be a list of strings, found {} in it", name, shown(value)));
  return value.get<std::string>();
}

bool Config::lists_layer(std::string_view name, int64_t layer) const {
  const Json* list = member(*node_->value, name);
  if (list == nullptr) return false;
  if (!list->is_array() || list->size() > static_cast<size_t>(kMaxLayers))
    fail(name, fmt::format("'{}' must be a list of layers, found {}", name, shown(*list)));
  for (const Json& value : *list)
    if (as_whole(value) == layer) return true;
  return false;
}

bool Config::is_text(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  return value != nullptr && value->is_string();
}

std::optional<Config> Config::object(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object())
    fail(name, fmt::format("'{}' must be an object, found {}", name, shown(*value)));
  auto node = std::make_shared<Node>();
  node->root = node_->root;
  node->value = value;
  return Config(source_, std::move(node));
}

std::vector<Config> Config::objects(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  if (value == nullptr) return {};
  if (!value->is_array())
    fail(name, fmt::format("'{}' must be a list of objects, found {}", name, shown(*value)));
  std::vector<Config> objects;
  for (const Json& entry : *value) {
    if (!entry.is_object())
      fail(name, fmt::format("'{}' must be a list of objects, found {} in it", name, shown(entry)));
    auto node = std::make_shared<Node>();
    node->root = node_->root;
    node->value = &entry;
    objects.push_back(Config(source_, std::move(node)));
  }
  return objects;
}

std::vector<std::string> Config::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : node_->value->items()) names.push_back(name);
  return names;
}

}  // namespace orrery::huggingface
