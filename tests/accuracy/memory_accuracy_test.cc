#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measured_rows_for_test.h"
#include "orrery/api/session.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

/// Scalars as what they look like: options of `orrery train` are counts, flags and words.
nlohmann::json as_json(const YAML::Node& node) {
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

/// "82.4 GiB".
double bytes_of(const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"GB", 1e9}, {"GiB", std::pow(2, 30)}, {"MiB", std::pow(2, 20)}};
  const size_t space = text.find(' ');
  return std::stod(text.substr(0, space)) * kUnits.at(text.substr(space + 1));
}

// Peak memory a GPU of training runs that others measured and described
// (published_memory.yaml), without what lies outside PyTorch's allocator.
TEST(TrainingMemory, PublishedPeaks) {
  ORRERY_SHARED_DATA_OR_SKIP(configs, "model_configs");
  const YAML::Node file = YAML::LoadFile(ORRERY_SOURCE_DIR "/tests/accuracy/published_memory.yaml");
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("published_memory_{}", ::getpid());
  std::filesystem::create_directories(folder);
  double sum = 0, worst = 0;
  int rows = 0, near = 0;
  for (const YAML::Node& node : file["rows"]) {
    // A row may begin as another one.
    nlohmann::json row = as_json(node);
    std::string model = row.at("model");
    if (const YAML::Node own = file["models"][model]) {
      const std::filesystem::path path = folder / (model + ".json");
      std::ofstream(path) << as_json(own).dump();
      model = path.string();
    } else if (model.ends_with(".json")) {
      model = fmt::format("{}/{}", configs, model);
    }
    nlohmann::json request = row.at("train");
    request["command"] = "train";
    request["model"] = model;
    const nlohmann::json memory =
        nlohmann::json::parse(session().call(request.dump())).at("memory");
    const auto stages = memory.at("by_stage_bytes").get<std::vector<double>>();
    const double predicted =
        (row.value("rank", "largest") == "last" ? stages.back()
                                                : *std::ranges::max_element(stages)) -
        memory.at("other_bytes").get<double>();
    const double published = bytes_of(row.at("published"));
    const double error = predicted / published - 1;
    fmt::print("  {:<62} {:>6.2f} GB {}, {:>6.2f} predicted, {:+6.1f} %\n",
               row.at("name").get<std::string>(), published / 1e9,
               row.at("counts").get<std::string>(), predicted / 1e9, 100 * error);
    EXPECT_TRUE(file["sources"][row.at("source").get<std::string>()]) << row.at("name");
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    ++rows;
    near += std::abs(error) <= 0.1 ? 1 : 0;
  }
  std::filesystem::remove_all(folder);
  fmt::print("published peaks of memory: {} rows, mean {:.1f} %, worst {:.1f} %, {} within 10 %\n",
             rows, 100 * sum / rows, 100 * worst, near);
  EXPECT_LT(sum / rows, 0.08);
  EXPECT_LT(worst, 0.25);
}

}  // namespace
}  // namespace orrery
