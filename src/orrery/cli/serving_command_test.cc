#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "orrery/cli/command.h"
#include "orrery/cli/usage.h"

namespace orrery {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What the program says instead of an answer.
std::string refusal(const std::string& arguments) {
  CLI::App app("", "orrery");
  const auto commands = declare_commands(app);
  try {
    app.parse("serving llama3-8b " + arguments);
    for (const auto& [sub, command] : commands)
      if (sub->parsed()) command->run();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(ServingCommand, ChecksTheRangesOfItsOptions) {
  for (const char* rate : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(refusal(std::string("--on h100-sxm --rate=") + rate),
                AllOf(HasSubstr("--rate"), HasSubstr("give a number above 0")))
        << rate;
  EXPECT_THAT(refusal("--on h100-sxm --requests x.csv --speed 0"), HasSubstr("above 0"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --turns 2 --pause=-1"), HasSubstr("0 or more"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --swing 0.5 --period 0"), HasSubstr("above 0"));
  EXPECT_THAT(refusal("--on h100-sxm --disaggregate --rate 1 --transfer 0GB/s"),
              HasSubstr("--transfer 0GB/s: give more than 0"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --kv-host-memory 1GB --host-link 0GB/s"),
              HasSubstr("--host-link 0GB/s: give more than 0"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --slo ttft=-1s"), HasSubstr("--slo ttft"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --slo tpot=0s"),
              HasSubstr("--slo tpot 0s: give more than 0"));
}

TEST(ServingCommand, RefusesWhatHasNoUse) {
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --speed 2"), HasSubstr("--speed requires"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --pause 2"), HasSubstr("--pause requires"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --draft 2"), HasSubstr("--draft requires"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --acceptance 0.5"),
              HasSubstr("--acceptance requires"));
  for (const char* scheduler : {"sarathi", "orca", "static"})
    EXPECT_THAT(
        refusal(std::string("--on h100-sxm --rate 1 --max-batched-tokens 512 --scheduler ") +
                scheduler),
        HasSubstr("no use for max_batched_tokens"));
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --disaggregate --replicas 4"),
              HasSubstr("--replicas has no use with --disaggregate"));
}

// Each pool begins as what is said for all.
TEST(ServingCommand, EnginesOfBothKindsHaveTheCommonLayout) {
  EXPECT_THAT(refusal("--on h100-sxm --rate 1 --disaggregate --tp 3"),
              HasSubstr("by 3 tensor ranks"));
}

}  // namespace
}  // namespace orrery
