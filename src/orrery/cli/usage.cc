#include "orrery/cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "orrery/report/table.h"

namespace orrery {
namespace {

OptionUsage option_usage(const CLI::Option& option) {
  OptionUsage usage;
  usage.positional = option.get_positional();
  usage.meaning = option.get_description();
  usage.required = option.get_required();
  usage.default_value = option.get_default_str();
  usage.repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (usage.positional) {
    usage.name = usage.value = option.get_name(true);
    return usage;
  }
  usage.name = option.get_lnames().empty() ? "-" + option.get_snames().front()
                                           : "--" + option.get_lnames().front();
  if (option.get_items_expected_max() > 0) {
    // A check writes what it allows behind the name: "REGIME:{burst,sustained}".
    const std::string value = option.get_type_name();
    usage.value = value.substr(0, value.find(':'));
  }
  return usage;
}

/// Names to the left, their meanings wrapped beside them.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t names = 0;
  for (const auto& [name, meaning] : rows) names = std::max(names, display_width(name));
  std::string text;
  for (const auto& [name, meaning] : rows)
    text += hanging(fmt::format("  {:<{}}  ", name, names), meaning);
  return text;
}

std::string options_text(const std::vector<OptionUsage>& options, bool positional) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OptionUsage& o : options) {
    if (o.positional != positional) continue;
    std::string meaning = o.meaning;
    if (!o.default_value.empty()) meaning += fmt::format(" [{}]", o.default_value);
    if (o.required && !o.positional) meaning += " (required)";
    if (o.repeatable) meaning += " (may be given again)";
    rows.emplace_back(o.invocation(), std::move(meaning));
  }
  if (rows.empty()) return {};
  return fmt::format("\n{}:\n{}", positional ? "Arguments" : "Options", two_columns(rows));
}

}  // namespace

std::string CommandUsage::synopsis() const {
  std::string text = name == "orrery" ? "orrery COMMAND" : "orrery " + name;
  for (const OptionUsage& o : options)
    if (o.positional || o.required)
      text += o.required ? " " + o.invocation() : fmt::format(" [{}]", o.invocation());
  return text + " [OPTIONS]";
}

CommandUsage command_usage(const CLI::App& command) {
  CommandUsage usage;
  usage.name = command.get_name();
  usage.summary = command.get_description();
  usage.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options())
    usage.options.push_back(option_usage(*option));
  std::stable_partition(usage.options.begin(), usage.options.end(),
                        [](const OptionUsage& o) { return o.positional; });
  return usage;
}

ProgramUsage program_usage(const CLI::App& app) {
  ProgramUsage usage;
  usage.program = command_usage(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    usage.commands.push_back(command_usage(*command));
  return usage;
}

std::string help_text(const CLI::App& app) {
  const ProgramUsage usage = program_usage(app);
  std::string text =
      fmt::format("{}.\n\nUsage: {}\n", usage.program.summary, usage.program.synopsis());
  if (!usage.commands.empty()) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const CommandUsage& c : usage.commands) rows.emplace_back(c.name, c.summary);
    text += "\nCommands:\n" + two_columns(rows);
  }
  text += options_text(usage.program.options, true);
  text += options_text(usage.program.options, false);
  if (!usage.program.footer.empty()) text += "\n" + usage.program.footer + "\n";
  return text;
}

}  // namespace orrery
