#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "orrery/base/nearest.h"
#include "orrery/base/version.h"
#include "orrery/cli/command.h"
#include "orrery/cli/usage.h"

namespace orrery {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 2 wrong usage; 3 bad input, with file, line and column; 4 does not fit "
    "or\n"
    "cannot be met; 70 internal error. 'orrery COMMAND --help' tells more about each command.";

/// CLI11's message, and for a word it did not expect what may have been meant.
std::string explained(const CLI::App& app, const CLI::ParseError& error, int argc,
                      const char* const* argv) {
  const auto chosen = app.get_subcommands();
  const ProgramUsage usage = program_usage(app);
  if (chosen.empty()) {
    const std::string word = argv[1];
    if (word.starts_with('-')) return fmt::format("unknown option '{}' (see --help)", word);
    std::vector<std::string> names;
    for (const CommandUsage& command : usage.commands) names.push_back(command.name);
    return fmt::format("unknown command '{}'{}", word, suggestion(word, names));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> names;
    for (const OptionUsage& option : command_usage(*chosen.front()).options)
      if (!option.positional) names.push_back(option.name);
    for (int i = 2; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (!word.starts_with("--") || std::ranges::find(names, word) != names.end()) continue;
      return fmt::format("{} has no option '{}'{} (see orrery {} --help)",
                         chosen.front()->get_name(), word, did_you_mean(nearest(word, names)),
                         chosen.front()->get_name());
    }
  }
  return fmt::format("{} (see orrery {} --help)", error.what(), chosen.front()->get_name());
}

int report(const Error& error, bool json) {
  if (json) fmt::print("{}\n", to_json(error));
  fmt::print(stderr, "orrery: {}\n", error.what());
  return error.exit_code();
}

}  // namespace

std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> declare_commands(CLI::App& app) {
  app.description(
      "Predicts how long a machine-learning workload takes, how much memory and how much energy");
  app.footer(fmt::format("{}\n\nExamples:\n{}", kExitCodes, kExamples));
  app.formatter_fn([](const CLI::App* shown, const std::string&, CLI::AppFormatMode) {
    return help_text(*shown);
  });
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag("--version", std::string("orrery ") + kVersion,
                       "Print the version and exit");
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
    if (argc < 2) {
      fmt::print(stderr, "{}", help_text(app));
      return static_cast<int>(ErrorKind::kUsage);
    }
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& e) {
      return app.exit(e);  // --help and --version
    } catch (const CLI::ParseError& e) {
      // CLI11's own codes are 100 and up; ours is 2 for any wrong usage.
      return report(Error(ErrorKind::kUsage, explained(app, e, argc, argv)), json);
    }
    for (const auto& [sub, command] : commands)
      if (sub->parsed()) {
        const int exit_code = command->run();
        // A full disk shows only when what was buffered is written.
        if (std::fflush(stdout) != 0) throw_usage("standard output could not be written in full");
        return exit_code;
      }
    return 0;
  } catch (const Error& e) {
    return report(e, json);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::kInternal, "out of memory"), json);
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0)
      return report(Error(ErrorKind::kUsage,
                          fmt::format("standard output could not be written: {}", e.what())),
                    false);
    return report(Error(ErrorKind::kInternal, fmt::format("internal error: {}", e.what())), json);
  }
}

}  // namespace orrery
