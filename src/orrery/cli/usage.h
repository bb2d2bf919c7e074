#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery {

/// What may be typed, as the declarations of the commands say it. The help, the
/// manual page and the shells' completions are four ways to write this.
struct OptionUsage {
  std::string name;           ///< "--on"; for a positional its value's name, "WORKLOAD".
  std::string value;          ///< What it takes, "DEVICE"; empty for a flag.
  std::string meaning;        ///< One sentence.
  std::string default_value;  ///< Empty: none, or said in the meaning.
  bool positional = false;
  bool required = false;
  bool repeatable = false;

  /// "--on DEVICE"
  std::string invocation() const { return value.empty() || positional ? name : name + " " + value; }
};

struct CommandUsage {
  std::string name;                  ///< "predict"; "orrery" for the program.
  std::string summary;               ///< One line.
  std::vector<OptionUsage> options;  ///< Positionals first.
  std::string footer;                ///< Examples and tables, laid out by hand.

  /// "orrery predict WORKLOAD --on DEVICE [OPTIONS]": positionals and what is required.
  std::string synopsis() const;
};

/// The program's own options, and those of its commands in order.
struct ProgramUsage {
  CommandUsage program;
  std::vector<CommandUsage> commands;
};

CommandUsage command_usage(const CLI::App& command);
/// Of an app that `declare_commands` has filled.
ProgramUsage program_usage(const CLI::App& app);

/// What `--help` prints, wrapped to 100 columns.
std::string help_text(const CLI::App& app);

}  // namespace orrery
