#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "orrery/cluster/training/rank_work.h"
#include "orrery/model/cited_values.h"

namespace orrery {

TrainingConstants load_training_constants(const std::string& data_folder,
                                          const std::string& architecture) {
  const CitedValues values(
      (std::filesystem::path(data_folder) / "training" / "constants.yaml").string());
  TrainingConstants c;
  const std::pair<const char*, double*> numbers[] = {
      {"attention_backward", &c.attention_backward},
      {"attention_backward_wide", &c.attention_backward_wide},
      {"accumulation", &c.accumulation},
      {"loss", &c.loss},
      {"loss_backward", &c.loss_backward},
      {"cast", &c.cast},
      {"scan", &c.scan},
      {"scan_backward", &c.scan_backward},
      {"scan_products", &c.scan_products},
      {"convolution", &c.convolution},
      {"convolution_backward", &c.convolution_backward},
      {"gated_norm", &c.gated_norm},
      {"gated_norm_backward", &c.gated_norm_backward},
      {"router", &c.router},
      {"router_backward", &c.router_backward},
      {"hidden_share", &c.hidden_share},
      {"hidden_experts", &c.hidden_experts},
      {"slowdown", &c.slowdown},
      {"card_spread", &c.card_spread},
      {"structure_spread", &c.structure_spread},
      {"structure_spread_experts", &c.structure_spread_experts}};
  const YAML::Node own = values.root()[architecture];
  const auto at = [&](const char* key, Dimension dimension) {
    return own && own[key] ? values.at(own, key, dimension) : values.at(key, dimension);
  };
  for (const auto& [key, number] : numbers) *number = at(key, Dimension::kCount);
  c.host = Seconds(at("host", Dimension::kTime));
  c.gap = Seconds(at("gap", Dimension::kTime));
  c.bucket = Bytes(at("bucket", Dimension::kBytes));
  c.context = Bytes(at("context", Dimension::kBytes));
  return c;
}

}  // namespace orrery
