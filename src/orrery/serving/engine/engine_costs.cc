#include "orrery/serving/engine/engine_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"
#include "orrery/model/cited_values.h"

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
          {"launch", time(c.launch)},
          {"ahead", flag(c.ahead)},
          {"gap", time(c.gap)},
          {"before", time(c.before)},
          {"front_end", time(c.front_end)},
          {"stream", time(c.stream)},
          {"after", time(c.after)},
          {"kernels", number(c.kernels)},
          {"captured", whole(c.habits.captured)},
          {"batched_tokens", whole(c.batched_tokens)},
          {"sequences", whole(c.sequences)},
          {"few_tokens", whole(c.few_tokens)},
          {"few_sequences", whole(c.few_sequences)},
          {"gathers_experts", flag(c.habits.gathers_experts)},
          {"fuses_norms", flag(c.habits.fuses_norms)},
          {"counts_ends", flag(c.counts_ends)},
          {"custom_all_reduce", flag(c.custom_all_reduce)},
          {"host_link", number(c.host_link)},
          {"runtime",
           [&c](const std::string& text) {
             c.runtime = Bytes(parse_quantity(text, Dimension::kBytes));
           }},
          {"spread", number(c.spread)},
          {"spread_experts", number(c.spread_experts)},
          {"spread_first", number(c.spread_first)}};
}

}  // namespace

EngineCosts load_engine_costs(const std::string& data_folder, const std::string& engine,
                              const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::filesystem::path folder = std::filesystem::path(data_folder) / "serving";
  std::vector<std::string> engines;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") engines.push_back(entry.path().stem().string());
  std::ranges::sort(engines);
  if (std::ranges::find(engines, engine) == engines.end())
    throw_usage(fmt::format("unknown engine '{}'{}; there is {}", engine,
                            did_you_mean(nearest(engine, engines)), fmt::join(engines, ", ")));
  const CitedValues values((folder / (engine + ".yaml")).string());
  EngineCosts costs;
  costs.engine = engine;
  if (const YAML::Node version = values.root()["version"])
    costs.version = version.as<std::string>("");
  const auto known = setters(costs);
  std::vector<std::string> names;
  for (const auto& [name, set] : known) {
    names.push_back(name);
    const bool of_small_devices = name.starts_with("few_");
    if (!of_small_devices || values.root()[name]) values.read(name, set);
  }
  if (costs.few_tokens == 0) costs.few_tokens = costs.batched_tokens;
  if (costs.few_sequences == 0) costs.few_sequences = costs.sequences;
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
