#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "orrery/base/nearest.h"
#include "orrery/base/source.h"
#include "orrery/model/stack.h"

namespace orrery {
namespace {

/// { value: 1 us, source: … } at `key`; both must be there.
double cited(const YAML::Node& root, const std::string& key, Dimension dimension,
             const std::string& path) {
  const YAML::Node node = root[key];
  const auto fail = [&](const YAML::Mark& mark, const std::string& message) {
    throw Error(ErrorKind::kInput, {path, mark.line + 1, mark.column + 1},
                fmt::format("'{}': {}", key, message));
  };
  if (!node || !node.IsMap() || !node["value"] || !node["source"])
    fail(node ? node.Mark() : root.Mark(), "expected {value: QUANTITY, source: WHERE FROM}");
  try {
    return parse_quantity(node["value"].as<std::string>(), dimension);
  } catch (const std::invalid_argument& e) {
    fail(node["value"].Mark(), e.what());
  }
  return 0;
}

/// One setting of the user's; choices are those the stack's file lists.
void set(StackConstants& constants, const YAML::Node& choices, const std::string& stack,
         const std::string& setting, const std::string& value) {
  const std::map<std::string, Seconds*> times = {{"dispatch", &constants.costs.dispatch},
                                                 {"gap", &constants.costs.gap},
                                                 {"call", &constants.costs.call}};
  if (const auto time = times.find(setting); time != times.end()) {
    try {
      *time->second = Seconds(parse_quantity(value, Dimension::kTime));
    } catch (const std::invalid_argument& e) {
      throw_usage(fmt::format("stack.{}: {}", setting, e.what()));
    }
    if (setting == "dispatch") constants.dispatch_of_library.clear();
    return;
  }
  std::vector<std::string> names = {"call", "dispatch", "gap"};
  if (choices)
    for (const auto& entry : choices) {
      names.push_back(entry.first.as<std::string>());
      if (names.back() != setting) continue;
      const auto values = entry.second["values"].as<std::vector<std::string>>();
      if (std::ranges::find(values, value) == values.end())
        throw_usage(fmt::format("stack.{}={}: it must be one of {}", setting, value,
                                fmt::join(values, ", ")));
      constants.choices[setting] = value;
      return;
    }
  throw_usage(fmt::format("the stack {} has no setting '{}'{}; there is {}", stack, setting,
                          did_you_mean(nearest(setting, names)), fmt::join(names, ", ")));
}

}  // namespace

StackConstants load_stack_constants(
    const std::string& data_folder, const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::string path =
      (std::filesystem::path(data_folder) / "stacks" / (name + ".yaml")).string();
  const Source source = Source::from_file(path);
  YAML::Node root;
  try {
    root = YAML::Load(std::string(source.text()));
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
  if (!root.IsMap()) throw_input(path, "expected a map of a stack's constants");
  StackConstants constants;
  constants.version = root["version"] ? root["version"].as<std::string>() : "";
  constants.measured_on = root["measured_on"] ? root["measured_on"].as<std::string>() : "";
  LaunchCosts& c = constants.costs;
  const std::pair<const char*, Seconds*> times[] = {{"gap", &c.gap},
                                                    {"graph_gap", &c.graph_gap},
                                                    {"call_gap", &c.call_gap},
                                                    {"dispatch", &c.dispatch},
                                                    {"library", &c.library},
                                                    {"graph_node", &c.graph_node},
                                                    {"graph_update", &c.graph_update},
                                                    {"call", &c.call},
                                                    {"argument", &c.argument},
                                                    {"wait", &c.wait}};
  for (const auto& [key, time] : times) *time = Seconds(cited(root, key, Dimension::kTime, path));
  c.host_spread = cited(root, "host_spread", Dimension::kCount, path);
  c.structure_spread = cited(root, "structure_spread", Dimension::kCount, path);
  if (const YAML::Node libraries = root["dispatch_of_library"])
    for (const auto& entry : libraries) {
      const auto library = entry.first.as<std::string>();
      constants.dispatch_of_library[library] =
          Seconds(cited(libraries, library, Dimension::kTime, path));
    }
  const YAML::Node choices = root["choices"];
  if (choices)
    for (const auto& entry : choices)
      constants.choices[entry.first.as<std::string>()] =
          entry.second["values"][0].as<std::string>();
  for (const auto& [setting, value] : settings) set(constants, choices, name, setting, value);
  return constants;
}

}  // namespace orrery
