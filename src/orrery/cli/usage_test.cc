#include "orrery/cli/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "orrery/cli/command.h"
#include "orrery/report/table.h"

namespace orrery {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The program's own commands, as a user meets them.
class Commands : public ::testing::Test {
 protected:
  Commands() : app_("", "orrery"), commands_(declare_commands(app_)), usage_(program_usage(app_)) {}

  const CommandUsage& command(const std::string& name) const {
    for (const CommandUsage& c : usage_.commands)
      if (c.name == name) return c;
    throw std::out_of_range(name);
  }

  CLI::App app_;
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands_;
  ProgramUsage usage_;
};

TEST_F(Commands, EveryLineOfHelpFitsA100ColumnTerminal) {
  std::vector<std::string> pages = {help_text(app_)};
  for (const auto& [sub, command] : commands_) pages.push_back(help_text(*sub));
  for (const std::string& page : pages) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 100u) << line;
  }
}

TEST_F(Commands, EveryOptionSaysWhatItIsAndTakes) {
  ASSERT_GE(usage_.commands.size(), 8u);
  for (const CommandUsage& c : usage_.commands) {
    EXPECT_NE(c.summary, "") << c.name;
    EXPECT_NE(c.summary.back(), '.') << c.name;
    for (const OptionUsage& o : c.options) {
      EXPECT_NE(o.meaning, "") << c.name << " " << o.name;
      // What CLI11 writes where a declaration gives no name: completion would know nothing.
      EXPECT_THAT(o.value, Not(AnyOf("TEXT", "INT", "UINT", "FLOAT"))) << c.name << " " << o.name;
    }
  }
}

TEST_F(Commands, TheSynopsisShowsWhatIsRequired) {
  EXPECT_EQ(command("predict").synopsis(), "orrery predict WORKLOAD --on DEVICE [OPTIONS]");
  EXPECT_EQ(command("hardware").synopsis(), "orrery hardware [DEVICE] [OPTIONS]");
  EXPECT_EQ(usage_.program.synopsis(), "orrery COMMAND [OPTIONS]");
}

TEST(CommandUsage, ReadsADeclaration) {
  CLI::App app("Does it", "it");
  std::string file, name = "a";
  std::vector<std::string> pairs;
  bool flag = false;
  app.set_help_flag();
  app.add_flag("--flag", flag, "A flag");
  app.add_option("--name", name, "A name")
      ->type_name("NAME")
      ->check(CLI::IsMember({"a", "b"}))
      ->capture_default_str();
  app.add_option("--pair", pairs, "Pairs")->type_name("K=V")->expected(1)->take_all();
  app.add_option("FILE", file, "A file")->required();
  const CommandUsage usage = command_usage(app);
  ASSERT_EQ(usage.options.size(), 4u);
  EXPECT_TRUE(usage.options[0].positional);
  EXPECT_EQ(usage.options[0].invocation(), "FILE");
  EXPECT_EQ(usage.options[1].invocation(), "--flag");
  EXPECT_EQ(usage.options[2].invocation(), "--name NAME");
  EXPECT_EQ(usage.options[2].default_value, "a");
  EXPECT_FALSE(usage.options[2].repeatable);
  EXPECT_TRUE(usage.options[3].repeatable);
  EXPECT_THAT(help_text(app), HasSubstr("--pair K=V   Pairs (may be given again)"));
}

}  // namespace
}  // namespace orrery
