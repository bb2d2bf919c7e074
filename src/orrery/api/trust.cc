#include "orrery/api/trust.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "orrery/base/error.h"

namespace orrery {
namespace {

YAML::Node records(const std::string& data_folder) {
  const std::string path = (std::filesystem::path(data_folder) / "validation.yaml").string();
  try {
    return YAML::LoadFile(path)["records"];
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
}

}  // namespace

Trust trust_of(const std::string& data_folder, const std::string& device, const std::string& stack,
               const std::string& kernel_model) {
  Trust trust;
  std::string elsewhere;  // on another device under this stack, else under another
  bool same_stack = false;
  for (const YAML::Node& record : records(data_folder)) {
    if (record["kind"].as<std::string>() != "program" ||
        record["kernel_model"].as<std::string>() != kernel_model)
      continue;
    const std::string seen =
        fmt::format("{} on {} with {}: mean error {} over {} cases, worst {}",
                    record["what"].as<std::string>(), record["device"].as<std::string>(),
                    record["stack"].as<std::string>(), record["mean_error"].as<std::string>(),
                    record["cases"].as<std::string>(), record["worst_error"].as<std::string>());
    if (record["device"].as<std::string>() == device &&
        record["stack"].as<std::string>() == stack) {
      trust.verdict = "validated";
      trust.detail = seen;
      return trust;
    }
    const bool under_it = record["stack"].as<std::string>() == stack;
    if (elsewhere.empty() || (under_it && !same_stack)) elsewhere = seen;
    same_stack |= under_it;
  }
  if (!elsewhere.empty()) {
    trust.verdict = "extrapolated";
    trust.detail = "checked elsewhere only: " + elsewhere;
  } else {
    trust.detail = fmt::format("no measurement of {} with {} was compared with kernel model {}",
                               device, stack, kernel_model);
  }
  return trust;
}

Trust trust_of(const std::string& data_folder, const DeploymentKind& kind) {
  const auto seen = [](const YAML::Node& record) {
    const auto text = [&](const char* key) { return record[key].as<std::string>(); };
    return fmt::format(
        "{} measured {} deployments of {} models with {} on {}: time per token off by {} (median) "
        "and {} (p90), first token by {} and {}",
        text("cases"), text("arrangement"),
        text("model") == "experts" ? "mixture-of-experts" : "dense", text("engine"), text("device"),
        text("tpot_median_error"), text("tpot_p90_error"), text("ttft_median_error"),
        text("ttft_p90_error"));
  };
  YAML::Node nearest;
  int nearness = -1;
  for (const YAML::Node& record : records(data_folder)) {
    const auto is = [&](const char* key, std::string_view value) {
      return record[key].as<std::string>() == value;
    };
    if (!is("kind", "deployment") || !is("engine", kind.engine)) continue;
    const int near =
        (is("model", kind.experts ? "experts" : "dense") ? 4 : 0) +
        (is("arrangement", kind.disaggregated ? "disaggregated" : "aggregated") ? 2 : 0) +
        (is("device", kind.device) ? 1 : 0);
    if (near > nearness) {
      nearness = near;
      nearest.reset(record);
    }
  }
  Trust trust;
  constexpr int kAlike = 7;
  if (nearness < 0) {
    trust.detail = fmt::format("no measured deployment with {} was compared", kind.engine);
  } else if (nearness == kAlike && kind.unusual.empty()) {
    trust.verdict = "validated";
    trust.detail = seen(nearest);
  } else {
    trust.verdict = "extrapolated";
    trust.detail = nearness == kAlike ? fmt::format("checked without {} only: {}",
                                                    fmt::join(kind.unusual, ", "), seen(nearest))
                                      : fmt::format("checked elsewhere only: {}", seen(nearest));
  }
  return trust;
}

}  // namespace orrery
