#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <stdexcept>

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

}  // namespace

StackConstants load_stack_constants(const std::string& data_folder, const std::string& name) {
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
  return constants;
}

}  // namespace orrery
