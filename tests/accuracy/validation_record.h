#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace orrery {

/// The record in data/validation.yaml of one comparison; the trust verdict cites it.
inline YAML::Node record_of(const std::string& data, const std::string& kernel_model) {
  const YAML::Node root = YAML::LoadFile(ORRERY_SOURCE_DIR "/data/validation.yaml");
  for (const YAML::Node& r : root["records"])
    if (r["data"].as<std::string>() == data && r["kernel_model"].as<std::string>() == kernel_model)
      return r;
  return {};
}

/// Of one comparison: relative errors, and how many truths lie inside their interval.
struct Errors {
  double mean_percent = 0;
  double worst_percent = 0;
  size_t cases = 0;
  size_t inside = 0;

  void add(double predicted, double low, double high, double truth) {
    const double error = 100 * std::abs(predicted / truth - 1);
    mean_percent += error;
    worst_percent = std::max(worst_percent, error);
    inside += low <= truth && truth <= high ? 1 : 0;
    ++cases;
  }
  void check(const std::string& data, const std::string& kernel_model) {
    mean_percent /= static_cast<double>(cases);
    const YAML::Node record = record_of(data, kernel_model);
    ASSERT_TRUE(record.IsDefined() && record.IsMap())
        << "data/validation.yaml has no record of " << data << " with " << kernel_model;
    fmt::print(
        "{} with {}: mean error {:.1f} %, worst {:.1f} %, {} of {} inside the 90 % interval\n",
        data, kernel_model, mean_percent, worst_percent, inside, cases);
    EXPECT_EQ(record["cases"].as<size_t>(), cases);
    EXPECT_NEAR(std::strtod(record["mean_error"].as<std::string>().c_str(), nullptr), mean_percent,
                0.5);
    EXPECT_NEAR(std::strtod(record["worst_error"].as<std::string>().c_str(), nullptr),
                worst_percent, 0.5);
    EXPECT_EQ(record["inside_interval"].as<size_t>(), inside);
  }
};

}  // namespace orrery
