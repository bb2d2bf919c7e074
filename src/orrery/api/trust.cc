#include "orrery/api/trust.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>

namespace orrery {

Trust trust_of(const std::string& data_folder, const std::string& device, const std::string& stack,
               const std::string& kernel_model) {
  Trust trust;
  const std::string path = (std::filesystem::path(data_folder) / "validation.yaml").string();
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::Exception& e) {
    throw Error(ErrorKind::kInput, {path, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
  std::string elsewhere;  // on another device under this stack, else under another
  bool same_stack = false;
  for (const YAML::Node& record : root["records"]) {
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

}  // namespace orrery
