#include "orrery/cluster/nccl/link_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace orrery {
namespace {

namespace fs = std::filesystem;

std::string array_text(const auto& values) {
  std::string text = "[";
  for (double v : values) text += (text.size() > 1 ? ", " : "") + json_number(v);
  return text + "]";
}

/// Five digits: what the fit can tell.
double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

std::string key(std::string_view kind, std::string_view algorithm, std::string_view protocol) {
  return fmt::format("{} {} {}", kind, algorithm, protocol);
}

std::string_view kind_name(size_t measured) { return name(static_cast<MeasuredKind>(measured)); }

/// Between which of the measured rank counts `count` lies, and how near to the second.
struct Between {
  size_t low = 0, high = 0;
  double part = 0;
};
Between between(const std::vector<int>& ranks, int count) {
  size_t above = 0;
  while (above < ranks.size() && ranks[above] < count) ++above;
  if (above == ranks.size()) return {ranks.size() - 1, ranks.size() - 1, 0};
  if (above == 0 || ranks[above] == count) return {above, above, 0};
  return {above - 1, above,
          std::log(static_cast<double>(count) / ranks[above - 1]) /
              std::log(static_cast<double>(ranks[above]) / ranks[above - 1])};
}

}  // namespace

std::string_view name(MeasuredKind kind) {
  return kind == MeasuredKind::kNvls ? "nvls" : name(static_cast<CollectiveKind>(kind));
}

MeasuredKind measured_kind(CollectiveKind kind, std::string_view algorithm) {
  if (algorithm.starts_with("nvls")) return MeasuredKind::kNvls;
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBarrier:
      return MeasuredKind::kAllReduce;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      return MeasuredKind::kAllGather;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kReduce:
      return MeasuredKind::kReduceScatter;
    default:
      return MeasuredKind::kAllToAll;
  }
}

bool is_measured(CollectiveKind kind) { return kind <= CollectiveKind::kAllToAll; }

LinkConstants LinkFit::of(MeasuredKind kind, std::string_view algorithm, Protocol protocol) const {
  const auto find = [&](MeasuredKind of_kind, std::string_view with, Protocol by) {
    const auto at = constants.find(key(name(of_kind), with, name(by)));
    return at == constants.end() ? nullptr : &at->second;
  };
  if (const auto* own = find(kind, algorithm, protocol)) return *own;
  if (kind == MeasuredKind::kNvls) {
    if (const auto* nvls = find(kind, "nvls", protocol)) return *nvls;
    return of(MeasuredKind::kAllReduce, "ring", protocol);
  }
  if (const auto* ring = find(kind, "ring", protocol)) return *ring;
  // A ring passes on chunks whatever they are for; another protocol has another share of the link.
  if (kind != MeasuredKind::kAllToAll)
    for (const auto other :
         {MeasuredKind::kReduceScatter, MeasuredKind::kAllGather, MeasuredKind::kAllReduce})
      if (const auto* ring = find(other, "ring", protocol)) return *ring;
  for (const auto other : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128})
    for (const std::string_view with : {algorithm, std::string_view("ring")})
      if (const auto* any = find(kind, with, other)) return *any;
  return {};
}

double LinkFit::correction(MeasuredKind kind, int count, double bytes) const {
  const std::vector<Curve>& curves = corrections[static_cast<size_t>(kind)];
  if (curves.empty()) return 0;
  const double octave = std::clamp(std::log2(std::max(1.0, bytes)) - kFirstOctave, 0.0,
                                   static_cast<double>(kOctaves - 1));
  const auto at = std::min(static_cast<size_t>(octave), static_cast<size_t>(kOctaves - 2));
  const double part = octave - static_cast<double>(at);
  const auto value = [&](size_t i) {
    return curves[i][at] * (1 - part) + curves[i][at + 1] * part;
  };
  const Between at_ranks = between(ranks, count);
  return value(at_ranks.low) * (1 - at_ranks.part) + value(at_ranks.high) * at_ranks.part;
}

double LinkFit::byte_correction(MeasuredKind kind, int count, Protocol protocol) const {
  const auto& added = one_byte[static_cast<size_t>(kind)];
  if (added.empty()) return 0;
  const Between at = between(ranks, count);
  const auto p = static_cast<size_t>(protocol);
  return added[at.low][p] * (1 - at.part) + added[at.high][p] * at.part;
}

CollectiveTrust trust_of(const LinkFit& fit, const Cluster& cluster, const CollectiveCall& call) {
  const auto figure = [&](const char* key) {
    const auto at = fit.held_out.find(key);
    return at == fit.held_out.end() ? 0 : at->second;
  };
  const std::string seen = fmt::format("{:.1f} % mean error on {:.0f} rows held out of the fit",
                                       100 * figure("mean"), figure("rows"));
  const bool one_node = place_group(cluster, call.group).nodes == 1;
  const FabricTier& inside = cluster.tiers.front();
  if (fit.system != cluster.device.name || inside.name != fit.fabric)
    return {"extrapolated",
            fmt::format("constants of {} systems over {}: {}", fit.system, fit.fabric, seen)};
  if (!one_node) {
    const auto& of_nodes = fit.network.held_out;
    if (of_nodes.empty())
      return {"extrapolated", "inside a node " + seen + "; no rows of several nodes were fitted"};
    return {
        "extrapolated",
        fmt::format("over two nodes of {} {:.0f} % mean error on {:.0f} rows held out of the fit; "
                    "hosts differ by more",
                    fit.network.system == "generic" ? "H100 and of B200" : fit.network.system,
                    100 * of_nodes.at("mean"), of_nodes.at("rows"))};
  }
  if (!is_measured(call.kind))
    return {"extrapolated",
            fmt::format("a {} was not measured; of others {}", name(call.kind), seen)};
  if (std::abs(inside.bandwidth.value / fit.bandwidth - 1) > 1e-6)
    return {"extrapolated", "measured at another bandwidth: " + seen};
  if (std::ranges::find(fit.ranks, call.group.size) == fit.ranks.end())
    return {"extrapolated", fmt::format("{} ranks were not measured but {}: {}", call.group.size,
                                        fmt::join(fit.ranks, ", "), seen)};
  return {"validated", fmt::format("{} over {}: {}", fit.system, fit.fabric, seen)};
}

std::string to_json(const LinkFit& fit) {
  std::string text = "{\n";
  text += fmt::format(" \"system\": {},\n \"fabric\": {},\n \"bandwidth\": {},\n",
                      json_string(fit.system), json_string(fit.fabric), json_number(fit.bandwidth));
  text += fmt::format(" \"command\": {},\n \"tables\": [", json_string(fit.command));
  for (size_t i = 0; i < fit.tables.size(); ++i)
    text += (i > 0 ? ", " : "") + json_string(fit.tables[i]);
  text += fmt::format(
      "],\n \"tuning\": {{\"bus_share\": {}, \"ll_scale\": {}, \"nvls_share\": {}}},\n",
      json_number(fit.bus_share), json_number(fit.ll_scale), json_number(fit.nvls_share));
  text += " \"constants\": {";
  const char* separator = "\n  ";
  for (const auto& [name, c] : fit.constants) {
    text += fmt::format(
        "{}{}: {}", separator, json_string(name),
        array_text(std::array{rounded(c.launch_us), rounded(c.hop_us), rounded(c.share)}));
    separator = ",\n  ";
  }
  text += "},\n \"ranks\": [";
  for (size_t i = 0; i < fit.ranks.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(fit.ranks[i]);
  text += "],\n \"corrections\": {";
  for (size_t k = 0; k < kMeasuredKindCount; ++k) {
    text += fmt::format("{}\n  \"{}\": [", k > 0 ? "," : "", kind_name(k));
    for (size_t i = 0; i < fit.corrections[k].size(); ++i) {
      LinkFit::Curve curve = fit.corrections[k][i];
      for (double& v : curve) v = std::stod(fmt::format("{:.4f}", v));
      text += (i > 0 ? ",\n   " : "\n   ") + array_text(curve);
    }
    text += "]";
  }
  text += "},\n \"one_byte\": {";
  for (size_t k = 0; k < kMeasuredKindCount; ++k) {
    text += fmt::format("{}\n  \"{}\": [", k > 0 ? "," : "", kind_name(k));
    for (size_t i = 0; i < fit.one_byte[k].size(); ++i) {
      auto values = fit.one_byte[k][i];
      for (double& v : values) v = std::stod(fmt::format("{:.4f}", v));
      text += (i > 0 ? ", " : "") + array_text(values);
    }
    text += "]";
  }
  text += "},\n \"spreads\": {";
  for (size_t k = 0; k < kMeasuredKindCount; ++k) {
    text += fmt::format("{}\n  \"{}\": [", k > 0 ? "," : "", kind_name(k));
    for (size_t p = 0; p < kProtocolCount; ++p)
      text += (p > 0 ? ", " : "") + array_text(std::array{rounded(fit.spreads[k][p].skew),
                                                          rounded(fit.spreads[k][p].spread)});
    text += "]";
  }
  if (!fit.eager_host_us.empty()) {
    text += fmt::format("}},\n \"eager\": {{\"copy_share\": {}",
                        json_number(rounded(fit.eager_copy_share)));
    for (const auto& [algorithm, us] : fit.eager_host_us)
      text += fmt::format(", {}: {}", json_string(algorithm), json_number(rounded(us)));
  }
  text += "},\n \"held_out\": {";
  separator = "";
  for (const auto& [name, error] : fit.held_out) {
    text += fmt::format("{}{}: {}", separator, json_string(name), json_number(rounded(error)));
    separator = ", ";
  }
  return text + "}\n}\n";
}

LinkFit link_fit_from_json(const JsonValue& value) {
  value.expect_only({"system", "fabric", "bandwidth", "command", "tables", "tuning", "constants",
                     "ranks", "corrections", "one_byte", "spreads", "eager", "held_out"});
  LinkFit fit;
  fit.system = value.member("system").text();
  fit.fabric = value.member("fabric").text();
  fit.bandwidth = value.member("bandwidth").number();
  fit.command = value.member("command").text();
  for (const JsonValue& table : value.member("tables").elements(0, 100))
    fit.tables.push_back(table.text());
  const JsonValue tuning = value.member("tuning");
  fit.bus_share = tuning.member("bus_share").number();
  fit.ll_scale = tuning.member("ll_scale").number();
  fit.nvls_share = tuning.member("nvls_share").number();
  for (const auto& [name, constants] : value.member("constants").members()) {
    const std::vector<double> c = constants.numbers(3);
    if (c[0] < 0 || c[1] < 0 || c[2] <= 0) constants.fail("expected two times and a share above 0");
    fit.constants[name] = {c[0], c[1], c[2]};
  }
  for (const JsonValue& count : value.member("ranks").elements(0, 64)) {
    fit.ranks.push_back(static_cast<int>(count.whole(2, 1'000'000)));
    if (fit.ranks.size() > 1 && fit.ranks.back() <= fit.ranks[fit.ranks.size() - 2])
      count.fail("expected counts that rise");
  }
  for (size_t k = 0; k < kMeasuredKindCount; ++k) {
    const std::string kind(kind_name(k));
    for (const JsonValue& curve : value.member("corrections").member(kind).elements(0, 64)) {
      const std::vector<double> numbers = curve.numbers(LinkFit::kOctaves);
      LinkFit::Curve octaves{};
      std::copy(numbers.begin(), numbers.end(), octaves.begin());
      fit.corrections[k].push_back(octaves);
    }
    if (!fit.corrections[k].empty() && fit.corrections[k].size() != fit.ranks.size())
      value.member("corrections").member(kind).fail("expected as many curves as ranks");
    for (const JsonValue& added : value.member("one_byte").member(kind).elements(0, 64)) {
      const std::vector<double> numbers = added.numbers(kProtocolCount);
      fit.one_byte[k].emplace_back();
      std::copy(numbers.begin(), numbers.end(), fit.one_byte[k].back().begin());
    }
    if (!fit.one_byte[k].empty() && fit.one_byte[k].size() != fit.ranks.size())
      value.member("one_byte").member(kind).fail("expected as many rows as ranks");
    const auto spreads =
        value.member("spreads").member(kind).elements(kProtocolCount, kProtocolCount);
    for (size_t p = 0; p < kProtocolCount; ++p) {
      const std::vector<double> pair = spreads[p].numbers(2);
      fit.spreads[k][p] = {pair[0], pair[1]};
    }
  }
  if (value.has("eager"))
    for (const auto& [algorithm, number] : value.member("eager").members())
      (algorithm == "copy_share" ? fit.eager_copy_share : fit.eager_host_us[algorithm]) =
          number.number();
  for (const auto& [name, error] : value.member("held_out").members())
    fit.held_out[name] = error.number();
  return fit;
}

LinkFit load_generic_link_fit(const std::string& fabric, const std::string& data) {
  const fs::path path =
      fs::path(data) / "collectives" / fmt::format("generic.{}.nccl.json", fabric);
  return link_fit_from_json(JsonValue::parse(Source::from_file(path.string())));
}

LinkFit load_link_fit(const Cluster& cluster, const std::string& data, std::string_view library) {
  const std::string& fabric = cluster.tiers.front().name;
  const std::string& generation = cluster.device.architecture;
  const bool older = generation == "ampere" || generation == "volta" || generation == "pascal";
  const fs::path folder = fs::path(data) / "collectives";
  std::error_code code;
  std::vector<std::string> systems{cluster.device.name + "." + fabric};
  if (!cluster.device.kernels_like.empty())
    systems.push_back(cluster.device.kernels_like + "." + fabric);
  systems.push_back((older ? "a100-sxm-80gb." : "generic.") + fabric);
  systems.push_back("l40s." + fabric);  // all that is known of PCIe
  fs::path path = folder / fmt::format("generic.nvlink.{}.json", library);
  for (const std::string& system : systems) {
    const fs::path own = folder / fmt::format("{}.{}.json", system, library);
    if (!fs::exists(own, code)) continue;
    path = own;
    break;
  }
  LinkFit fit = link_fit_from_json(JsonValue::parse(Source::from_file(path.string())));
  fit.network = load_network_fit(cluster.device, data);
  return fit;
}

}  // namespace orrery
