#pragma once

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <string>

namespace orrery {

/// Scalars as what they look like: options of `orrery train` are counts, flags and words.
inline nlohmann::json as_json(const YAML::Node& node) {
  if (node.IsNull()) return nullptr;
  if (node.IsSequence()) {
    nlohmann::json list = nlohmann::json::array();
    for (const YAML::Node& item : node) list.push_back(as_json(item));
    return list;
  }
  if (node.IsMap()) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (key == "<<")
        map.update(as_json(entry.second));
      else
        map[key] = as_json(entry.second);
    }
    return map;
  }
  int64_t count = 0;
  double number = 0;
  bool flag = false;
  if (YAML::convert<int64_t>::decode(node, count)) return count;
  if (YAML::convert<double>::decode(node, number)) return number;
  if (YAML::convert<bool>::decode(node, flag)) return flag;
  return node.as<std::string>();
}

}  // namespace orrery
