#include "orrery/cluster/astra/system.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "orrery/hardware/yaml_document.h"
#include "orrery/learn/json_value.h"

namespace orrery::astra {
namespace {

using chakra::Collective;

constexpr size_t kMostDimensions = 16;

/// "direct" with what follows it as a window.
bool read_windowed(std::string_view text, std::string_view word, int& window) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  if (text.empty()) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), window);
  return error == std::errc() && end == text.data() + text.size() && window > 0;
}

Implementation implementation(const JsonValue& value) {
  const std::string text = value.text();
  Implementation i;
  i.one = text.starts_with("one");
  if (text == "ring" || text == "oneRing") {
    i.algorithm = Algorithm::kRing;
  } else if (text == "halvingDoubling" || text == "oneHalvingDoubling") {
    i.algorithm = Algorithm::kHalvingDoubling;
  } else if (text == "doubleBinaryTree") {
    i.algorithm = Algorithm::kDoubleBinaryTree;
  } else if (read_windowed(text, i.one ? "oneDirect" : "direct", i.window)) {
    i.algorithm = Algorithm::kDirect;
  } else {
    value.fail(fmt::format(
        "'{}' is none of ring, oneRing, direct[WINDOW], oneDirect[WINDOW], halvingDoubling, "
        "oneHalvingDoubling, doubleBinaryTree",
        text));
  }
  return i;
}

bool trace_exists(const std::filesystem::path& prefix) {
  std::error_code ignored;
  return std::filesystem::exists(prefix.string() + ".0.et", ignored);
}

/// ASTRA-sim looks from the folder it is started in. Files move more than their places
/// beside each other do, so ever shorter ends of the path are tried beside the JSON too.
std::string found_trace(const Source& json, const std::string& written) {
  if (trace_exists(written)) return written;
  const std::filesystem::path path(written);
  const std::filesystem::path folder = std::filesystem::path(json.name()).parent_path();
  for (auto from = path.begin(); from != path.end(); ++from) {
    std::filesystem::path end;
    for (auto part = from; part != path.end(); ++part) end /= *part;
    if (end.is_relative() && trace_exists(folder / end)) return (folder / end).string();
  }
  throw_input(json.name(), fmt::format("'{}': no such traces, from here or beside this file "
                                       "({}.0.et is the first)",
                                       written, written));
}

bool truth(const JsonValue& value) { return value.whole(-1'000'000, 1'000'000) != 0; }

struct KindName {
  const char* key;
  Collective kind;
};
constexpr KindName kKinds[] = {{"all-reduce", Collective::kAllReduce},
                               {"all-gather", Collective::kAllGather},
                               {"reduce-scatter", Collective::kReduceScatter},
                               {"all-to-all", Collective::kAllToAll}};

void read_collectives(const Source& json, const JsonValue& root, System& s) {
  for (const auto& [key, kind] : kKinds) {
    const std::string native = fmt::format("{}-implementation", key);
    if (root.has(native))
      for (const JsonValue& v : root.member(native).elements(1, kMostDimensions))
        s.implementations[kind].push_back(implementation(v));
    const std::string custom = native + "-custom";
    if (root.has(custom)) {
      const auto files = root.member(custom).elements(1, 1);
      s.implementations[kind] = {
          {.algorithm = Algorithm::kCustom, .custom = found_trace(json, files[0].text())}};
    }
  }
  if (!root.has("per-node-custom-implementation")) return;
  const std::string written = root.member("per-node-custom-implementation").text();
  std::filesystem::path file(written);
  if (!std::filesystem::exists(file))
    file = std::filesystem::path(json.name()).parent_path() / file.filename();
  const Source yaml = Source::from_file(file.string());
  const YamlNode map = parse_yaml(yaml);
  for (size_t i = 0; i < map.keys.size(); ++i) {
    uint64_t id = 0;
    const std::string& text = map.keys[i].text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size())
      throw Error(ErrorKind::kInput, {yaml.name(), map.keys[i].line, map.keys[i].column},
                  fmt::format("'{}' is not the id of a node", text));
    s.of_node[id] = {.algorithm = Algorithm::kCustom,
                     .custom = found_trace(yaml, map.values[i].text)};
  }
}

}  // namespace

System read_system(const Source& json) {
  const JsonValue root = JsonValue::parse(json);
  System s;
  for (const auto& [key, value] : root.members()) {
    if (key == "scheduling-policy") {
      const std::string text = value.text();
      if (text == "LIFO")
        s.scheduling = Scheduling::kLifo;
      else if (text == "FIFO")
        s.scheduling = Scheduling::kFifo;
      else if (text == "EXPLICIT")
        s.scheduling = Scheduling::kExplicit;
      else
        value.fail(fmt::format("'{}' is none of LIFO, FIFO, EXPLICIT", text));
    } else if (key == "collective-optimization") {
      const std::string text = value.text();
      if (text != "localBWAware" && text != "baseline")
        value.fail(fmt::format("'{}' is neither localBWAware nor baseline", text));
      s.bandwidth_aware = text == "localBWAware";
    } else if (key == "endpoint-delay") {
      s.endpoint_delay_ns = static_cast<uint64_t>(value.whole(0, 1'000'000'000));
    } else if (key == "active-chunks-per-dimension") {
      s.active_chunks = static_cast<int>(value.whole(1, 1'000'000));
    } else if (key == "preferred-dataset-splits") {
      s.splits = static_cast<uint64_t>(value.whole(1, 1'000'000));
    } else if (key == "local-mem-bw") {
      s.memory_bytes_per_s = value.number() * 1e9;
      if (!(s.memory_bytes_per_s > 0)) value.fail("expected more than 0 GB/s");
    } else if (key == "peak-perf") {
      s.peak_flops = value.number() * 1e12;
      if (!(s.peak_flops > 0)) value.fail("expected more than 0 TFLOP/s");
    } else if (key == "roofline-enabled") {
      s.roofline = truth(value);
    } else if (key == "replay-only") {
      s.replay_only = truth(value);
    } else if (key == "model-shared-bus") {
      if (value.whole(-1'000'000, 1'000'000) == 1)
        value.fail("the shared memory bus (LogGP) is not modelled; only 0 is taken");
    } else if (key.find("-implementation") == std::string::npos && key != "trace-enabled") {
      s.ignored.push_back(key);
    }
  }
  read_collectives(json, root, s);
  if (s.roofline && (s.peak_flops <= 0 || s.memory_bytes_per_s <= 0))
    throw_input(json.name(), "roofline-enabled needs peak-perf and local-mem-bw");
  return s;
}

}  // namespace orrery::astra
