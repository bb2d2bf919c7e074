#include "orrery/model/cited_values.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/base/source.h"

namespace orrery {

CitedValues::CitedValues(const std::string& path) : path_(path) {
  const Source source = Source::from_file(path);
  try {
    root_ = std::make_shared<const YAML::Node>(YAML::Load(std::string(source.text())));
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
  if (!root_->IsMap()) throw_input(path, "expected a map of values with their sources");
}

double CitedValues::at(const std::string& key, Dimension dimension) const {
  return at(*root_, key, dimension);
}

double CitedValues::at(const YAML::Node& map, const std::string& key, Dimension dimension) const {
  double value = 0;
  read(map, key, [&](const std::string& text) { value = parse_quantity(text, dimension); });
  return value;
}

void CitedValues::read(const std::string& key,
                       const std::function<void(const std::string&)>& read) const {
  this->read(*root_, key, read);
}

void CitedValues::read(const YAML::Node& map, const std::string& key,
                       const std::function<void(const std::string&)>& read) const {
  const YAML::Node node = map[key];
  const auto fail = [&](const YAML::Mark& mark, const std::string& message) {
    throw Error(ErrorKind::kInput, {path_, mark.line + 1, mark.column + 1},
                fmt::format("'{}': {}", key, message));
  };
  if (!node || !node.IsMap() || !node["value"] || !node["source"])
    fail(node ? node.Mark() : map.Mark(), "expected {value: QUANTITY, source: WHERE FROM}");
  try {
    read(node["value"].as<std::string>());
  } catch (const std::invalid_argument& e) {
    fail(node["value"].Mark(), e.what());
  } catch (const YAML::Exception&) {
    fail(node["value"].Mark(), "expected a quantity");
  }
}

}  // namespace orrery
