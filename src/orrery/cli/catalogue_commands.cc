#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class HardwareCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("DEVICE", device_.device,
                   "A device or a cluster of the catalogue, or a YAML file; all unless given");
    app.add_option("--set", device_.sets,
                   "What if a figure were another, e.g. memory.bandwidth=6TB/s, or of a cluster "
                   "fabric.nvlink.bandwidth=900GB/s")
        ->type_name("PATH=QUANTITY")
        ->expected(1)
        ->take_all();
    declare_json(app);
    app.footer(
        "Examples:\n  orrery hardware\n  orrery hardware h200\n  orrery hardware dgx-h100\n  "
        "orrery hardware my-device.yaml");
  }
  int run() override {
    const Session session;
    if (json_)
      fmt::print("{}\n", hardware_json(session.catalogue(), device_.device, device_.overrides()));
    else if (device_.device.empty())
      fmt::print("{}", catalogue_text(session.catalogue()));
    else if (session.catalogue().is_cluster(device_.device))
      fmt::print("{}", cluster_text(session.catalogue(), device_.device, device_.overrides()));
    else
      fmt::print("{}", device_text(session.catalogue(), device_.device, device_.overrides()));
    return 0;
  }

 private:
  DeviceOptions device_;
};

class ModelsCommand final : public Command {
 public:
  void declare(CLI::App& app) override { declare_json(app); }
  int run() override {
    const Session session;
    if (json_)
      fmt::print("{}\n", models_json(session));
    else
      fmt::print("{}", models_text(session));
    return 0;
  }
};

class ZooCommand final : public Command {
 public:
  void declare(CLI::App& app) override { declare_json(app); }
  int run() override {
    if (json_)
      fmt::print("{}\n", zoo_json());
    else
      fmt::print("{}", zoo_text());
    return 0;
  }
};

const Registration<Command> kHardware(
    {.name = "hardware",
     .summary = "The devices and clusters known, or one of them with the source of every figure",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<HardwareCommand>(); });
const Registration<Command> kModels(
    {.name = "models",
     .summary = "Readers, kernel models, stacks and collectives, with their equations and sources",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<ModelsCommand>(); });
const Registration<Command> kZoo(
    {.name = "zoo",
     .summary = "Models that can be had by name, with the choices each leaves open",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<ZooCommand>(); });

}  // namespace
}  // namespace orrery
