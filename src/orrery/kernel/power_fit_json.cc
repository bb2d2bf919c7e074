#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/power.h"
#include "orrery/learn/json_value.h"

namespace orrery {
namespace {

struct NamedCoefficient {
  std::string_view name;
  double PowerCoefficients::*member;
};
constexpr std::array<NamedCoefficient, 11> kCoefficients = {{
    {"idle", &PowerCoefficients::idle},
    {"busy", &PowerCoefficients::busy},
    {"matrix_byte", &PowerCoefficients::matrix_byte},
    {"matrix_half", &PowerCoefficients::matrix_half},
    {"matrix_single", &PowerCoefficients::matrix_single},
    {"vector", &PowerCoefficients::vector},
    {"memory", &PowerCoefficients::memory},
    {"burst", &PowerCoefficients::burst},
    {"still", &PowerCoefficients::still},
    {"stir", &PowerCoefficients::stir},
    {"warm", &PowerCoefficients::warm},
}};
/// No unit draws more than a few times the limit of its board.
constexpr double kMostCoefficient = 100;

PowerCorrection correction_from_json(const JsonValue& value, TileClass tile_class) {
  value.expect_only({"rows", "features", "trees"});
  PowerCorrection read;
  read.rows = static_cast<size_t>(value.member("rows").whole(0, int64_t{1} << 40));
  const auto names = TileGpu::feature_names(tile_class);
  const auto features = value.member("features").elements(names.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i)
    if (features[i].text() != names[i])
      features[i].fail(fmt::format("this build has '{}' here: fit the device again", names[i]));
  read.trees = trees_from_json(value.member("trees"));
  if (read.trees.features() != names.size())
    value.member("trees").fail(
        fmt::format("takes {} features of {}", read.trees.features(), names.size()));
  return read;
}

}  // namespace

std::string to_json(const PowerFit& fit) {
  std::string out = fmt::format(
      "{{\"schema\":\"orrery-power-fit\",\"version\":{},\n\"device\":{},\n\"command\":{},\n"
      "\"sources\":[",
      PowerFit::kVersion, json_string(fit.device), json_string(fit.command));
  for (size_t i = 0; i < fit.sources.size(); ++i)
    out += (i > 0 ? "," : "") + json_string(fit.sources[i]);
  out += fmt::format("],\n\"rows\":{},\n\"coefficients\":{{", fit.rows);
  for (const NamedCoefficient& c : kCoefficients)
    out += fmt::format("{}\n{}:{}", c.name == kCoefficients.front().name ? "" : ",",
                       json_string(c.name), json_number(fit.coefficients.*c.member));
  out += "},\n\"corrections\":{";
  bool first = true;
  for (size_t c = 0; c < kTileClassCount; ++c) {
    if (!fit.corrections[c]) continue;
    const auto tile_class = static_cast<TileClass>(c);
    out += fmt::format("{}\n{}:{{\"rows\":{},\n\"features\":[", first ? "" : ",",
                       json_string(name(tile_class)), fit.corrections[c]->rows);
    first = false;
    const auto names = TileGpu::feature_names(tile_class);
    for (size_t i = 0; i < names.size(); ++i) out += (i > 0 ? "," : "") + json_string(names[i]);
    out += "],\n\"trees\":" + to_json(fit.corrections[c]->trees) + "}";
  }
  return out + "}}\n";
}

PowerFit power_fit_from_json(const JsonValue& value) {
  value.expect_only(
      {"schema", "version", "device", "command", "sources", "rows", "coefficients", "corrections"});
  if (value.member("schema").text() != "orrery-power-fit")
    value.member("schema").fail("expected \"orrery-power-fit\"");
  value.member("version").whole(PowerFit::kVersion, PowerFit::kVersion);
  PowerFit fit;
  fit.device = value.member("device").text();
  fit.command = value.member("command").text();
  for (const JsonValue& source : value.member("sources").elements(0, 256))
    fit.sources.push_back(source.text());
  fit.rows = static_cast<size_t>(value.member("rows").whole(0, int64_t{1} << 40));
  const JsonValue coefficients = value.member("coefficients");
  for (const auto& member : coefficients.members()) {
    const JsonValue& number = member.second;
    const auto* known =
        std::find_if(kCoefficients.begin(), kCoefficients.end(),
                     [&](const NamedCoefficient& c) { return c.name == member.first; });
    if (known == kCoefficients.end()) number.fail("no such coefficient");
    const double read = number.number();
    if (read < 0 || read > kMostCoefficient)
      number.fail(fmt::format("must lie within 0 and {}", kMostCoefficient));
    fit.coefficients.*known->member = read;
  }
  for (const NamedCoefficient& c : kCoefficients) coefficients.member(c.name);
  for (const auto& [class_name, one] : value.member("corrections").members()) {
    size_t c = 0;
    while (c < kTileClassCount && name(static_cast<TileClass>(c)) != class_name) ++c;
    if (c == kTileClassCount) one.fail("no such class of kernels");
    fit.corrections[c] = correction_from_json(one, static_cast<TileClass>(c));
  }
  return fit;
}

}  // namespace orrery
