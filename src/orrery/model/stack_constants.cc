#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "orrery/base/nearest.h"
#include "orrery/model/cited_values.h"
#include "orrery/model/stack.h"

namespace orrery {
namespace {

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
  const CitedValues values(path);
  const YAML::Node& root = values.root();
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
  for (const auto& [key, time] : times) *time = Seconds(values.at(key, Dimension::kTime));
  c.host_spread = values.at("host_spread", Dimension::kCount);
  c.structure_spread = values.at("structure_spread", Dimension::kCount);
  if (const YAML::Node libraries = root["dispatch_of_library"])
    for (const auto& entry : libraries) {
      const auto library = entry.first.as<std::string>();
      constants.dispatch_of_library[library] =
          Seconds(values.at(libraries, library, Dimension::kTime));
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
