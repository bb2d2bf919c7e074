#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "orrery/base/version.h"
#include "orrery/cli/command.h"
#include "orrery/cli/usage.h"

namespace orrery {
namespace {

/// The code point that starts at `at`, which moves past it. The texts are our own,
/// so they are UTF-8.
uint32_t next_code_point(const std::string& text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  uint32_t point = length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length && at + i < text.size(); ++i)
    point = point << 6 | (byte(at + i) & 0x3FU);
  at += length;
  return point;
}

/// As roff reads it back: hyphens that can be copied as ASCII, no control lines,
/// nothing beyond ASCII but by its number.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_code_point(text, at);
    if (line_start && (point == '.' || point == '\'')) out += "\\&";
    if (point == '\\')
      out += "\\e";
    else if (point == '-')
      out += "\\-";
    else if (point == '\'')
      out += "\\(aq";
    else if (point == '~')
      out += "\\(ti";
    else if (point == '^')
      out += "\\(ha";
    else if (point == '`')
      out += "\\(ga";
    else if (point < 0x80)
      out += static_cast<char>(point);
    else
      out += fmt::format("\\[u{:04X}]", point);
    line_start = point == '\n';
  }
  return out;
}

std::string option_text(const OptionUsage& o) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(o.name));
  if (!o.positional && !o.value.empty()) text += fmt::format(" \\fI{}\\fR", roff(o.value));
  text += "\n" + roff(o.meaning) + ".";
  if (!o.default_value.empty()) text += fmt::format("\nDefault: {}.", roff(o.default_value));
  if (o.required) text += "\nRequired.";
  if (o.repeatable) text += "\nMay be given again.";
  return text + "\n";
}

std::string as_laid_out(const std::string& text) { return ".PP\n.nf\n" + roff(text) + "\n.fi\n"; }

std::string manual(const ProgramUsage& usage) {
  std::string text = fmt::format(
      ".\\\" Written by 'orrery man' from the help texts.\n"
      ".TH ORRERY 1 \"\" \"orrery {}\" \"User Commands\"\n"
      ".SH NAME\norrery \\- {}\n.SH SYNOPSIS\n",
      kVersion, roff([&] {
        std::string line = usage.program.summary;
        line[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(line[0])));
        return line;
      }()));
  for (size_t i = 0; i < usage.commands.size(); ++i)
    text += fmt::format("{}{}\n", i == 0 ? "" : ".br\n", roff(usage.commands[i].synopsis()));
  text +=
      ".SH DESCRIPTION\n"
      "Orrery reads what a framework exported (StableHLO, HLO, ONNX, a Hugging Face\n"
      "model description) or a model of its zoo, and predicts how long one step takes on a\n"
      "device, which kernels take the time, and how much memory and energy it needs.\n"
      "Each answer has an interval and says what was not modelled and how far such answers\n"
      "were checked against real machines.\n";
  text += ".SH OPTIONS\n";
  for (const OptionUsage& o : usage.program.options) text += option_text(o);
  text += ".SH COMMANDS\n";
  for (const CommandUsage& c : usage.commands) {
    text += fmt::format(".SS {}\n{}.\n.PP\n\\fB{}\\fR\n", roff(c.name), roff(c.summary),
                        roff(c.synopsis()));
    for (const OptionUsage& o : c.options) text += option_text(o);
    if (!c.footer.empty()) text += as_laid_out(c.footer);
  }
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] :
       {std::pair{"0", "Done."}, std::pair{"2", "Wrong usage: an unknown option, command or name."},
        std::pair{"3", "Bad input: the message names file, line, column and what was expected."},
        std::pair{"4", "Does not fit the device, or cannot be met."},
        std::pair{"70", "Internal error: a fault of the program."}})
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", code, roff(meaning));
  text +=
      ".SH ENVIRONMENT\n.TP\n\\fBORRERY_DATA\\fR\n"
      "The folder that holds \\fIhardware\\fR (the catalogue) and \\fIdata\\fR (fitted models),\n"
      "in place of those that came with the program.\n";
  text += ".SH EXAMPLES\n" + as_laid_out(kExamples);
  return text;
}

class ManualCommand final : public Command {
 public:
  void declare(CLI::App& app) override { app.footer("Example:\n  orrery man | man -l -"); }
  int run() override {
    CLI::App app("", "orrery");
    const auto commands = declare_commands(app);
    fmt::print("{}", manual(program_usage(app)));
    return 0;
  }
};

const Registration<Command> kManual({.name = "man",
                                     .summary = "The manual page, orrery(1), from these help texts",
                                     .source = "",
                                     .parameters = {}},
                                    [] { return std::make_unique<ManualCommand>(); });

}  // namespace
}  // namespace orrery
