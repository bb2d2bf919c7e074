#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "orrery/base/version.h"
#include "orrery/cli/command.h"

namespace orrery {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done; 2 wrong usage; 3 bad input, with file, line and column; 4 does not fit or "
    "cannot be met;\n"
    "70 internal error. Every command takes --json and --help.\n\n"
    "Try:  orrery predict llama3-8b --on h200 --phase prefill --seq 2048\n"
    "      orrery predict model.mlir --on h100-sxm --set memory.bandwidth=6TB/s\n"
    "      orrery inspect model.onnx --bind batch=8";

int report(const Error& error, bool json) {
  if (json) fmt::print("{}\n", to_json(error));
  fmt::print(stderr, "orrery: {}\n", error.what());
  return error.exit_code();
}

}  // namespace

std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> declare_commands(CLI::App& app) {
  app.description(
      "Predicts how long a machine-learning workload takes, how much memory and how much energy.");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("orrery ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough(false);
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;
  for (const auto& entry : Registry<Command>::instance().entries()) {
    auto command = entry.create();
    CLI::App* sub = app.add_subcommand(entry.description.name, entry.description.summary);
    command->declare(*sub);
    commands.emplace_back(sub, std::move(command));
  }
  return commands;
}

int run_program(int argc, const char* const* argv) {
  CLI::App app("", "orrery");
  bool json = false;
  for (int i = 1; i < argc; ++i) json |= std::string_view(argv[i]) == "--json";
  try {
    const auto commands = declare_commands(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& e) {
      return app.exit(e);  // --help and --version
    } catch (const CLI::ParseError& e) {
      // CLI11's own codes are 100 and up; ours is 2 for any wrong usage.
      return report(Error(ErrorKind::kUsage, fmt::format("{} (see --help)", e.what())), json);
    }
    for (const auto& [sub, command] : commands)
      if (sub->parsed()) return command->run();
    return 0;
  } catch (const Error& e) {
    return report(e, json);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::kInternal, "out of memory"), json);
  } catch (const std::exception& e) {
    return report(Error(ErrorKind::kInternal, fmt::format("internal error: {}", e.what())), json);
  }
}

}  // namespace orrery
