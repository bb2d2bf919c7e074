#include "orrery/cluster/nccl/network_fit.h"

#include <fmt/format.h>

#include <filesystem>

namespace orrery {

std::string network_key(CollectiveKind kind, std::string_view algorithm, Protocol protocol) {
  return fmt::format("{} {} {}", name(kind), algorithm, name(protocol));
}

NetworkConstants NetworkFit::of(CollectiveKind kind, std::string_view algorithm, Protocol protocol,
                                double unmeasured) const {
  if (const auto own = constants.find(network_key(kind, algorithm, protocol));
      own != constants.end())
    return own->second;
  const std::string ending = fmt::format(" {} {}", algorithm, name(protocol));
  for (const auto& [key, of_other] : constants)
    if (key.ends_with(ending)) return of_other;
  return {0, 1, unmeasured};
}

std::string to_json(const NetworkFit& fit) {
  const auto rounded = [](double value) { return fmt::format("{:.4g}", value); };
  std::string text = fmt::format("{{\n \"system\": {},\n \"command\": {},\n \"tables\": [",
                                 json_string(fit.system), json_string(fit.command));
  for (size_t i = 0; i < fit.tables.size(); ++i)
    text += (i > 0 ? ", " : "") + json_string(fit.tables[i]);
  text += "],\n \"constants\": {";
  const char* separator = "\n  ";
  for (const auto& [key, c] : fit.constants) {
    text += fmt::format("{}{}: [{}, {}, {}]", separator, json_string(key), rounded(c.wait_us),
                        rounded(c.hop), rounded(c.share));
    separator = ",\n  ";
  }
  text += fmt::format("}},\n \"spread\": {},\n \"held_out\": {{", rounded(fit.spread));
  separator = "";
  for (const auto& [name, error] : fit.held_out) {
    text += fmt::format("{}{}: {}", separator, json_string(name), rounded(error));
    separator = ", ";
  }
  return text + "}\n}\n";
}

NetworkFit network_fit_from_json(const JsonValue& value) {
  value.expect_only({"system", "command", "tables", "constants", "spread", "held_out"});
  NetworkFit fit;
  fit.system = value.member("system").text();
  fit.command = value.member("command").text();
  for (const JsonValue& table : value.member("tables").elements(0, 100))
    fit.tables.push_back(table.text());
  for (const auto& [key, constants] : value.member("constants").members()) {
    const std::vector<double> c = constants.numbers(3);
    if (c[0] < 0 || c[1] <= 0 || c[2] <= 0)
      constants.fail("expected a time, a multiple and a share, the last two above 0");
    fit.constants[key] = {c[0], c[1], c[2]};
  }
  fit.spread = value.member("spread").number();
  for (const auto& [name, error] : value.member("held_out").members())
    fit.held_out[name] = error.number();
  return fit;
}

NetworkFit load_network_fit(const Device& device, const std::string& data) {
  const auto load = [&](const std::string& system, NetworkFit& fit) {
    const std::filesystem::path path =
        std::filesystem::path(data) / "collectives" / (system + ".network.json");
    std::error_code code;
    if (!std::filesystem::exists(path, code)) return false;
    fit = network_fit_from_json(JsonValue::parse(Source::from_file(path.string())));
    return true;
  };
  NetworkFit generic, own;
  load("generic", generic);
  if (!load(device.name, own) && (device.kernels_like.empty() || !load(device.kernels_like, own)))
    return generic;
  own.constants.merge(generic.constants);
  return own;
}

}  // namespace orrery
