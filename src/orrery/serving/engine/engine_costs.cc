#include "orrery/serving/engine/engine_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"
#include "orrery/base/source.h"

namespace orrery {
namespace {

using Setter = std::function<void(const std::string&)>;

/// Every constant by name, as text is put into it.
std::map<std::string, Setter> setters(EngineCosts& c) {
  const auto time = [](Seconds& to) {
    return [&to](const std::string& text) { to = Seconds(parse_quantity(text, Dimension::kTime)); };
  };
  const auto number = [](double& to) {
    return [&to](const std::string& text) { to = parse_quantity(text, Dimension::kCount); };
  };
  const auto whole = [](int64_t& to) {
    return [&to](const std::string& text) {
      to = static_cast<int64_t>(parse_quantity(text, Dimension::kCount));
    };
  };
  const auto flag = [](bool& to) {
    return [&to](const std::string& text) {
      if (text != "yes" && text != "no") throw std::invalid_argument("expected yes or no");
      to = text == "yes";
    };
  };
  return {{"step", time(c.step)},
          {"sequence", time(c.sequence)},
          {"token", time(c.token)},
          {"ahead", flag(c.ahead)},
          {"gap", time(c.gap)},
          {"before", time(c.before)},
          {"front_end", time(c.front_end)},
          {"after", time(c.after)},
          {"kernels", number(c.kernels)},
          {"captured", whole(c.captured)},
          {"batched_tokens", whole(c.batched_tokens)},
          {"sequences", whole(c.sequences)},
          {"gathers_experts", flag(c.gathers_experts)},
          {"counts_head", flag(c.counts_head)},
          {"custom_all_reduce", flag(c.custom_all_reduce)},
          {"runtime",
           [&c](const std::string& text) {
             c.runtime = Bytes(parse_quantity(text, Dimension::kBytes));
           }},
          {"spread", number(c.spread)},
          {"spread_experts", number(c.spread_experts)}};
}

}  // namespace

EngineCosts load_engine_costs(const std::string& data_folder, const std::string& engine,
                              const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::string path =
      (std::filesystem::path(data_folder) / "serving" / (engine + ".yaml")).string();
  const Source source = Source::from_file(path);
  YAML::Node root;
  try {
    root = YAML::Load(std::string(source.text()));
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
  if (!root.IsMap()) throw_input(path, "expected a map of an engine's constants");
  EngineCosts costs;
  costs.engine = engine;
  costs.version = root["version"] ? root["version"].as<std::string>() : "";
  std::vector<std::string> names;
  for (const auto& [name, set] : setters(costs)) {
    names.push_back(name);
    const YAML::Node node = root[name];
    const auto fail = [&](const YAML::Mark& mark, const std::string& message) {
      throw Error(ErrorKind::kInput, {path, mark.line + 1, mark.column + 1},
                  fmt::format("'{}': {}", name, message));
    };
    if (!node || !node.IsMap() || !node["value"] || !node["source"])
      fail(node ? node.Mark() : root.Mark(), "expected {value: QUANTITY, source: WHERE FROM}");
    try {
      set(node["value"].as<std::string>());
    } catch (const std::invalid_argument& e) {
      fail(node["value"].Mark(), e.what());
    }
  }
  const auto known = setters(costs);
  for (const auto& [setting, value] : settings) {
    const auto found = known.find(setting);
    if (found == known.end())
      throw_usage(fmt::format("the engine {} has no setting '{}'{}; there is {}", engine, setting,
                              did_you_mean(nearest(setting, names)), fmt::join(names, ", ")));
    try {
      found->second(value);
    } catch (const std::invalid_argument& e) {
      throw_usage(fmt::format("engine.{}: {}", setting, e.what()));
    }
  }
  return costs;
}

}  // namespace orrery
