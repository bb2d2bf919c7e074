#include "orrery/kernel/tile/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {
namespace {

/// How much wider an interval gets for each power of two outside the measured range, and
/// when it gets no wider. The first is of our own products, fitted to those of at most 4,096 or
/// 8,192 columns, terms, and 2,048 or 4,096 rows: nine in ten of the rest lie inside in the mean of
/// the six (76 to 98 %). The second is a stated prior.
constexpr double kFarPerOctave = 0.45;
constexpr double kMostOctaves = 12;

/// Nothing measured tells apart boards of one chip, their clocks and runs: a device is taken to be
/// no nearer than such boards lie (A100 of 40 and 80 GB 0.3, H100 and H200 0.6), a stated prior,
/// set with NeuSight's rows for testing in view.
constexpr double kBoardsApart = 0.5;

/// No fit to measurements comes near these; they keep answers finite whatever a file says.
constexpr double kMostFactor = 1e4;
constexpr double kMostSpread = 2;
constexpr double kMostLaunchSpread = 1e-3;

std::string json_list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (size_t i = 0; i < texts.size(); ++i) out += (i > 0 ? "," : "") + json_string(texts[i]);
  return out + "]";
}

std::string json_figures(const std::vector<GpuFigures>& figures) {
  std::string out = "[";
  for (const GpuFigures& of_one : figures) {
    out += out.size() > 1 ? ",[" : "[";
    for (size_t i = 0; i < of_one.size(); ++i)
      out += (i > 0 ? "," : "") + fmt::format("{:.3f}", of_one[i]);
    out += "]";
  }
  return out + "]";
}

constexpr std::array<std::string_view, 2> kMultiplied = {"multiplied", "multiplied_in_batches"};
static_assert(kElementTypeCount <= 64);

size_t in_batches(const Kernel& kernel) {
  const auto* p = std::get_if<ProductShape>(&kernel.shape);
  return p != nullptr && p->batch > 1 ? 1 : 0;
}

std::string json_types(uint64_t types) {
  std::vector<std::string> names;
  for (int i = 0; i < kElementTypeCount; ++i)
    if ((types >> i & 1) != 0) names.emplace_back(mlir_name(static_cast<ElementType>(i)));
  return json_list(names);
}

uint64_t types_from_json(const JsonValue& value) {
  uint64_t types = 0;
  for (const JsonValue& name : value.elements(0, kElementTypeCount)) {
    const std::optional<ElementType> type = element_type_from_mlir(name.text());
    if (!type) name.fail("no such type");
    types |= uint64_t{1} << static_cast<int>(*type);
  }
  return types;
}

}  // namespace

ClassFit seen_from(const GpuFigures& device, const TileFit& fit, const ClassFit& one) {
  ClassFit seen = one;
  if (fit.figures.empty()) return seen;
  double nearest = std::numeric_limits<double>::infinity();
  for (const GpuFigures& measured : fit.figures)
    nearest = std::min(nearest, octaves_apart(device, measured));
  nearest = std::max(nearest, kBoardsApart);
  const double wider = 1 + one.growth * nearest;
  seen.low *= wider;
  seen.high *= wider;
  seen.growth = 0;
  return seen;
}

TileFit seen_from(const GpuFigures& device, const TileFit& fit) {
  TileFit seen = fit;
  for (std::optional<ClassFit>& one : seen.classes)
    if (one) one = seen_from(device, fit, *one);
  seen.figures.clear();
  return seen;
}

void add_multiplied(ClassFit& fit, const Kernel& kernel) {
  if (kernel.cost.matrix_flops > 0)
    fit.multiplied[in_batches(kernel)] |= uint64_t{1} << static_cast<int>(kernel.cost.matrix_type);
}

bool knows_type(const ClassFit& fit, const Kernel& kernel) {
  if (kernel.cost.matrix_flops <= 0 || (fit.multiplied[0] | fit.multiplied[1]) == 0) return true;
  return (fit.multiplied[in_batches(kernel)] >> static_cast<int>(kernel.cost.matrix_type) & 1) != 0;
}

double widening(double octaves) { return 1 + kFarPerOctave * octaves; }

double octaves_outside(const ClassFit& fit, std::span<const float> features) {
  const size_t count = std::min(features.size(), fit.range.size());
  int outside = 0;  // most kernels are not, which takes a third of the time to see
  for (size_t i = 0; i < count; ++i)
    outside |=
        (features[i] < fit.range[i].first ? 1 : 0) | (features[i] > fit.range[i].second ? 1 : 0);
  if (outside == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto [low, high] = fit.range[i];
    sum += std::max(0.0f, low - features[i]) + std::max(0.0f, features[i] - high);
  }
  return std::min(sum, kMostOctaves);
}

Estimate estimate_of(const ClassFit& fit, const TileDescription& description, double wider) {
  const std::span<const float> x = description.values();
  return estimate_of(fit, description, fit.centre.predict(x), fit.spread.predict(x), wider);
}

Estimate estimate_of(const ClassFit& fit, const TileDescription& description, float centre,
                     float spread, double wider) {
  const double scale = wider * std::min(kMostSpread, std::exp(static_cast<double>(spread))) *
                       widening(octaves_outside(fit, description.values()));
  Estimate e;
  const double factor = std::exp(static_cast<double>(centre));
  e.seconds =
      Seconds(std::max(description.least_seconds,
                       description.seconds * std::clamp(factor, 1 / kMostFactor, kMostFactor)));
  const double deviation = scale * (fit.high - fit.low) / (2 * kNinetyPercent);
  const double launch = fit.launch_spread / e.seconds.value;
  e.own_spread =
      static_cast<float>(std::sqrt(deviation * deviation * (1 - fit.shared) + launch * launch));
  e.loadings[static_cast<size_t>(ErrorFactor::kFamily)] =
      static_cast<float>(deviation * std::sqrt(fit.shared));
  e.loadings[static_cast<size_t>(ErrorFactor::kDevice)] = static_cast<float>(fit.machine_spread);
  e.skew = static_cast<float>(scale * (fit.high + fit.low) / 2);
  return e;
}

std::string to_json(const TileFit& fit) {
  std::string out = fmt::format(
      "{{\"schema\":\"orrery-tile-fit\",\"version\":{},\n\"device\":{},\"devices\":{},"
      "\"stack\":{},\n\"command\":{},\n\"sources\":{}",
      TileFit::kVersion, json_string(fit.device), json_list(fit.devices), json_string(fit.stack),
      json_string(fit.command), json_list(fit.sources));
  out +=
      fmt::format(",\n\"quantizes\":{},\"warm\":{},\"eager\":{},\n", fit.protocol.quantizes ? 1 : 0,
                  fit.protocol.warm ? 1 : 0, fit.protocol.eager ? 1 : 0);
  if (!fit.figures.empty()) out += "\"figures\":" + json_figures(fit.figures) + ",\n";
  out += "\"classes\":{";
  bool first = true;
  for (size_t c = 0; c < kTileClassCount; ++c) {
    if (!fit.classes[c]) continue;
    const ClassFit& one = *fit.classes[c];
    const auto tile_class = static_cast<TileClass>(c);
    out += fmt::format(
        "{}\n{}:{{\"rows\":{},\"error\":{},\"low\":{},\"high\":{},\"shared\":{},"
        "\"launch_spread_us\":{},\"machine_spread\":{},{}",
        first ? "" : ",", json_string(name(tile_class)), one.rows, json_number(one.error),
        json_number(one.low), json_number(one.high), json_number(one.shared),
        json_number(one.launch_spread * 1e6), json_number(one.machine_spread),
        one.growth > 0 ? fmt::format("\"growth\":{},", json_number(one.growth)) : "");
    first = false;
    for (size_t i = 0; i < kMultiplied.size(); ++i)
      if (one.multiplied[i] != 0)
        out += fmt::format("\n\"{}\":{},", kMultiplied[i], json_types(one.multiplied[i]));
    out += "\n\"features\":[";
    const auto names = TileGpu::feature_names(tile_class);
    for (size_t i = 0; i < names.size(); ++i)
      out += fmt::format("{}[{},{},{}]", i > 0 ? "," : "", json_string(names[i]),
                         json_number(one.range[i].first), json_number(one.range[i].second));
    out += "],\n\"centre\":" + to_json(one.centre) + ",\n\"spread\":" + to_json(one.spread) + "}";
  }
  out += "}}\n";
  return out;
}

TileFit tile_fit_from_json(const JsonValue& value) {
  value.expect_only({"schema", "version", "device", "devices", "stack", "command", "sources",
                     "quantizes", "warm", "eager", "figures", "classes"});
  if (value.member("schema").text() != "orrery-tile-fit")
    value.member("schema").fail("expected \"orrery-tile-fit\"");
  value.member("version").whole(TileFit::kVersion, TileFit::kVersion);
  TileFit fit;
  fit.device = value.member("device").text();
  for (const JsonValue& device : value.member("devices").elements(0, 256))
    fit.devices.push_back(device.text());
  fit.stack = value.member("stack").text();
  fit.command = value.member("command").text();
  for (const JsonValue& source : value.member("sources").elements(0, 256))
    fit.sources.push_back(source.text());
  fit.protocol.quantizes = value.member("quantizes").whole(0, 1) == 1;
  fit.protocol.warm = value.member("warm").whole(0, 1) == 1;
  fit.protocol.eager = value.member("eager").whole(0, 1) == 1;
  if (value.has("figures"))
    for (const JsonValue& of_one :
         value.member("figures").elements(fit.devices.size(), fit.devices.size())) {
      GpuFigures figures;
      std::ranges::copy(of_one.numbers(figures.size()), figures.begin());
      fit.figures.push_back(figures);
    }
  for (const auto& [class_name, one] : value.member("classes").members()) {
    size_t c = 0;
    while (c < kTileClassCount && name(static_cast<TileClass>(c)) != class_name) ++c;
    if (c == kTileClassCount) one.fail("no such class of kernels");
    one.expect_only({"rows", "error", "low", "high", "shared", "launch_spread_us", "machine_spread",
                     "growth", "multiplied", "multiplied_in_batches", "features", "centre",
                     "spread"});
    ClassFit read;
    read.rows = static_cast<size_t>(one.member("rows").whole(0, int64_t{1} << 40));
    read.error = one.member("error").number();
    read.low = one.member("low").number();
    read.high = one.member("high").number();
    read.shared = one.member("shared").number();
    const JsonValue launch = one.member("launch_spread_us");
    read.launch_spread = launch.number() * 1e-6;
    if (read.launch_spread < 0 || read.launch_spread > kMostLaunchSpread)
      launch.fail(fmt::format("must lie within 0 and {}", kMostLaunchSpread * 1e6));
    const JsonValue machine = one.member("machine_spread");
    read.machine_spread = machine.number();
    if (read.machine_spread < 0 || read.machine_spread > kMostSpread)
      machine.fail(fmt::format("must lie within 0 and {}", kMostSpread));
    if (one.has("growth")) {
      const JsonValue growth = one.member("growth");
      read.growth = growth.number();
      if (read.growth < 0 || read.growth > kMostMultiplier)
        growth.fail(fmt::format("must lie within 0 and {}", kMostMultiplier));
      if (fit.figures.empty()) growth.fail("needs the devices' 'figures'");
    }
    if (read.high < read.low) one.member("high").fail("lies below 'low'");
    for (const char* end : {"low", "high"})
      if (std::abs(one.member(end).number()) > kMostMultiplier)
        one.member(end).fail(fmt::format("must lie within {} of 0", kMostMultiplier));
    if (read.shared < 0 || read.shared > 1) one.member("shared").fail("must lie within 0 and 1");
    for (size_t i = 0; i < kMultiplied.size(); ++i)
      if (one.has(kMultiplied[i])) read.multiplied[i] = types_from_json(one.member(kMultiplied[i]));
    const auto names = TileGpu::feature_names(static_cast<TileClass>(c));
    const JsonValue listed = one.member("features");
    const auto features = listed.elements(names.size(), names.size());
    for (size_t i = 0; i < features.size(); ++i) {
      const auto parts = features[i].elements(3, 3);
      if (parts[0].text() != names[i])
        parts[0].fail(fmt::format("this build has '{}' here: fit the device again", names[i]));
      read.range.emplace_back(static_cast<float>(parts[1].number()),
                              static_cast<float>(parts[2].number()));
    }
    read.centre = trees_from_json(one.member("centre"));
    read.spread = trees_from_json(one.member("spread"));
    for (const char* part : {"centre", "spread"}) {
      const BoostedTrees& trees = part == std::string_view("centre") ? read.centre : read.spread;
      if (trees.features() != names.size())
        one.member(part).fail(
            fmt::format("takes {} features of {}", trees.features(), names.size()));
    }
    fit.classes[c] = std::move(read);
  }
  return fit;
}

}  // namespace orrery
