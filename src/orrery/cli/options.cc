#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "orrery/base/parse_number.h"
#include "orrery/cli/command.h"

namespace orrery {

void Command::declare_json(CLI::App& app) {
  app.add_flag("--json", json_, "Print the answer as JSON (docs/json.md) instead of a table");
}

std::pair<std::string, std::string> split_pair(const std::string& text, const std::string& option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw_usage(fmt::format("{} expects NAME=VALUE, found '{}'", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void WorkloadOptions::declare(CLI::App& app) {
  app.add_option("WORKLOAD", workload,
                 "A file (StableHLO .mlir or .mlir.bc, HLO text, .onnx, a Hugging Face "
                 "config.json) or a name that 'orrery zoo' lists")
      ->required();
  app.add_option("--phase", read.build.phase,
                 "Of a model description: forward, prefill, decode or train")
      ->type_name("PHASE")
      ->capture_default_str();
  app.add_option("--batch", read.build.batch, "Of a model description: sequences or images")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seq", read.build.sequence, "Of a model description: new tokens a sequence")
      ->type_name("N");
  app.add_option("--context", read.build.context,
                 "Of a model description: tokens in the cache, for decode")
      ->type_name("N");
  app.add_option("--dtype", read.build.dtype,
                 "Of a model description: bf16, fp16, fp32 … (its own unless given)")
      ->type_name("DTYPE");
  app.add_option("--choose", choices,
                 "Of a model description: a question it leaves open, e.g. logits=all (see 'orrery "
                 "zoo')")
      ->type_name("NAME=CHOICE")
      ->expected(1)
      ->take_all();
  app.add_option("--bind", bindings, "Size of an open dimension; '?=SIZE' for those without a name")
      ->type_name("NAME=SIZE")
      ->expected(1)
      ->take_all();
  app.add_option("--trip-count", read.trip_count,
                 "Times to run loops whose count cannot be inferred")
      ->type_name("N");
}

ReadOptions WorkloadOptions::resolved() const {
  ReadOptions resolved = read;
  for (const std::string& text : bindings) {
    const auto [name, value] = split_pair(text, "--bind");
    const auto size = parse_number<int64_t>(value);
    if (!size || *size < 0) throw_usage(fmt::format("--bind {}: '{}' is not a size", name, value));
    resolved.bindings[name] = *size;
  }
  for (const std::string& text : choices) {
    const auto [name, value] = split_pair(text, "--choose");
    resolved.build.choices[name] = value;
  }
  if (resolved.trip_count < 0) throw_usage("--trip-count must not be negative");
  return resolved;
}

namespace {

void declare_device(CLI::App& app, std::string& device, const std::string& of_clusters) {
  app.add_option("--on", device,
                 "The device: a name that 'orrery hardware' lists, or a YAML file of your own" +
                     of_clusters)
      ->type_name("DEVICE")
      ->required();
}

void declare_changes(CLI::App& app, std::vector<std::string>& sets, const std::string& of_stacks) {
  app.add_option(
         "--set", sets,
         "What if a figure were another, e.g. memory.bandwidth=6TB/s ('orrery hardware DEVICE' "
         "lists the paths)" +
             of_stacks)
      ->type_name("PATH=QUANTITY")
      ->expected(1)
      ->take_all();
}

}  // namespace

void DeviceOptions::declare_for_program(CLI::App& app) {
  declare_device(app, device, "; of a cluster one device, with collectives on its network");
  declare_set(app, sets);
}

void DeviceOptions::declare_for_operators(CLI::App& app) {
  declare_device(app, device, "");
  declare_changes(app, sets, "");
}

void declare_set(CLI::App& app, std::vector<std::string>& sets, const std::string& others) {
  declare_changes(app, sets, ", or " + others);
}

std::vector<Override> read_overrides(const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  overrides.reserve(sets.size());
  for (const std::string& text : sets) overrides.push_back(split_pair(text, "--set"));
  return overrides;
}

void ChoiceOptions::declare(CLI::App& app) {
  app.add_option("--kernel-model", chosen.kernel_model,
                 "How kernels are timed (see 'orrery models')")
      ->type_name("MODEL")
      ->capture_default_str();
  app.add_option("--fit", chosen.fit,
                 "A fit that 'orrery calibrate' wrote, instead of what is shipped")
      ->type_name("FILE");
  app.add_option("--profile", chosen.profile,
                 "A measured table of your own (docs/commands.md), for profile and wave-scaling")
      ->type_name("FILE");
  app.add_option("--origin", chosen.origin,
                 "The GPU that --profile was measured on, for wave-scaling")
      ->type_name("DEVICE");
  app.add_option("--parameter", parameters,
                 "A parameter of the kernel model, e.g. dataflow=1 ('orrery models' lists them)")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
}

void ModelOptions::declare(CLI::App& app) {
  model.declare(app);
  app.add_option("--regime", regime, "Clock: burst (cool, full) or sustained (at the power limit)")
      ->type_name("REGIME")
      ->check(CLI::IsMember({"burst", "sustained"}))
      ->capture_default_str();
  app.add_option("--sm-mhz", sm_mhz, "Clock: fixed to this many MHz")
      ->type_name("MHZ")
      ->check(CLI::PositiveNumber);
}

ModelChoice ChoiceOptions::choice() const {
  ModelChoice choice = chosen;
  for (const std::string& text : parameters) {
    const auto [name, value] = split_pair(text, "--parameter");
    const auto number = parse_number<double>(value);
    if (!number || !std::isfinite(*number))
      throw_usage(fmt::format("--parameter {}: '{}' is not a number", name, value));
    choice.parameters[name] = *number;
  }
  return choice;
}

OperatingPoint ModelOptions::point() const {
  OperatingPoint p;
  p.regime =
      regime == "sustained" ? OperatingPoint::Regime::kSustained : OperatingPoint::Regime::kBurst;
  p.clock = Hertz(sm_mhz * 1e6);
  return p;
}

}  // namespace orrery
