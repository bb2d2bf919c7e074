#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/base/source.h"
#include "orrery/cluster/training/rank_work.h"

namespace orrery {

TrainingConstants load_training_constants(const std::string& data_folder) {
  const std::string path =
      (std::filesystem::path(data_folder) / "training" / "constants.yaml").string();
  const Source source = Source::from_file(path);
  YAML::Node root;
  try {
    root = YAML::Load(std::string(source.text()));
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
  const auto cited = [&](const char* key, Dimension dimension) {
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
    return 0.0;
  };
  TrainingConstants c;
  const std::pair<const char*, double*> numbers[] = {
      {"attention_backward", &c.attention_backward},
      {"attention_backward_wide", &c.attention_backward_wide},
      {"accumulation", &c.accumulation},
      {"loss", &c.loss},
      {"loss_backward", &c.loss_backward},
      {"hidden_share", &c.hidden_share},
      {"hidden_experts", &c.hidden_experts},
      {"slowdown", &c.slowdown},
      {"structure_spread", &c.structure_spread},
      {"structure_spread_experts", &c.structure_spread_experts}};
  for (const auto& [key, number] : numbers) *number = cited(key, Dimension::kCount);
  c.host = Seconds(cited("host", Dimension::kTime));
  c.gap = Seconds(cited("gap", Dimension::kTime));
  c.bucket = Bytes(cited("bucket", Dimension::kBytes));
  c.context = Bytes(cited("context", Dimension::kBytes));
  return c;
}

}  // namespace orrery
