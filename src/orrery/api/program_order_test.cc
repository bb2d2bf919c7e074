#include "orrery/api/program_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using stablehlo::read_text;
using testing::ElementsAre;

/// "whole/encoder/layer.0"
std::string way(const ProgramOrder& order, uint32_t part) {
  const auto& parts = order.parts.parts();
  return part == 0 ? "" : way(order, parts[part].parent) + "/" + parts[part].name;
}

/// Launches as "OPERATION ×COUNT at PART".
std::vector<std::string> told(const Workload& w, const std::vector<Launch>& launches,
                              const ProgramOrder& order) {
  std::vector<std::string> lines;
  for (const OrderedLaunch& l : order.launches) {
    std::string line(name(w.op(launches[l.launch].op).code));
    if (l.count != 1) line += " ×" + std::to_string(static_cast<int>(l.count));
    lines.push_back(line + " at " + way(order, l.part));
  }
  return lines;
}

/// One launch for each operation with this code, in the order of the file.
void launch(const Workload& w, Opcode code, double count, std::vector<Launch>& launches) {
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (w.ops()[i].code == code) {
      Launch l;
      l.op = OpId{i};
      l.count = count;
      launches.push_back(l);
    }
}

constexpr const char* kCallsAndALoop = R"(
func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = func.call @layer(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = func.call @layer(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %3:2 = stablehlo.while(%x = %2, %i = %zero) : tensor<8xf32>, tensor<i32>
   cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %y = stablehlo.cosine %x : tensor<8xf32>
    stablehlo.return %y, %j : tensor<8xf32>, tensor<i32>
  }
  %4 = stablehlo.negate %3#0 : tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func private @layer(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %a : tensor<8xf32>
  %1 = stablehlo.sqrt %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
})";

std::vector<Launch> launches_of_calls_and_a_loop(const Workload& w) {
  std::vector<Launch> launches;  // function by function, as `lower` gives them
  launch(w, Opcode::k_tanh, 1, launches);
  launch(w, Opcode::k_negate, 1, launches);
  launch(w, Opcode::k_cosine, 3, launches);
  launch(w, Opcode::k_sine, 2, launches);
  launch(w, Opcode::k_sqrt, 2, launches);
  return launches;
}

TEST(ProgramOrderTest, FollowsCallsAndUnrollsLoops) {
  const Workload w = read_text(kCallsAndALoop);
  const auto launches = launches_of_calls_and_a_loop(w);
  const ProgramOrder order = order_program(w, launches, 9);
  EXPECT_FALSE(order.folded);
  EXPECT_THAT(told(w, launches, order),
              ElementsAre("tanh at ", "sine at /layer", "sqrt at /layer", "sine at /layer #2",
                          "sqrt at /layer #2", "cosine at /loop of 3", "cosine at /loop of 3",
                          "cosine at /loop of 3", "negate at "));
  std::vector<Opcode> steps;
  for (const OrderedLaunch& l : order.launches) steps.push_back(w.op(l.step).code);
  EXPECT_THAT(steps, ElementsAre(Opcode::k_tanh, Opcode::k_call, Opcode::k_call, Opcode::k_call,
                                 Opcode::k_call, Opcode::k_while, Opcode::k_while, Opcode::k_while,
                                 Opcode::k_negate));
}

TEST(ProgramOrderTest, FoldsWhatIsTooLong) {
  const Workload w = read_text(kCallsAndALoop);
  const auto launches = launches_of_calls_and_a_loop(w);
  const ProgramOrder order = order_program(w, launches, 8);
  EXPECT_TRUE(order.folded);
  EXPECT_THAT(told(w, launches, order),
              ElementsAre("tanh at ", "sine ×2 at /layer", "sqrt ×2 at /layer",
                          "cosine ×3 at /loop of 3", "negate at "));
}

TEST(ProgramOrderTest, AKernelNamedAfterAnEarlierOperationStaysBehindItsPredecessor) {
  const Workload w = read_text(kCallsAndALoop);
  std::vector<Launch> launches;
  launch(w, Opcode::k_sqrt, 2, launches);
  launch(w, Opcode::k_sine, 2, launches);  // in a kernel that ends after the first
  const ProgramOrder order = order_program(w, launches, 100);
  EXPECT_THAT(told(w, launches, order), ElementsAre("sqrt at /layer", "sine at /layer",
                                                    "sqrt at /layer #2", "sine at /layer #2"));
}

TEST(ProgramOrderTest, LaunchesOfAnInlinedFunctionRunAtItsCalls) {
  const Workload w = read_text(kCallsAndALoop);
  std::vector<Launch> launches;
  launch(w, Opcode::k_sine, 1, launches);  // one of each call, as if inlined in main
  launch(w, Opcode::k_sine, 1, launches);
  const ProgramOrder order = order_program(w, launches, 100);
  ASSERT_EQ(order.launches.size(), 2u);
  EXPECT_EQ(order.launches[0].launch, 0u);
  EXPECT_EQ(order.launches[1].launch, 1u);
  EXPECT_THAT(told(w, launches, order), ElementsAre("sine at /layer", "sine at /layer #2"));
}

TEST(ProgramOrderTest, WhatNoCallReachesIsNotLost) {
  const Workload w = read_text(kCallsAndALoop);
  std::vector<Launch> launches;
  launch(w, Opcode::k_sine, 5, launches);  // three more than there are calls
  const ProgramOrder order = order_program(w, launches, 100);
  EXPECT_THAT(told(w, launches, order), ElementsAre("sine at /layer", "sine at /layer #2",
                                                    "sine at ", "sine at ", "sine at "));
}

TEST(ProgramOrderTest, ABranchThatIsNotTakenDoesNotHoldTheWalkUp) {
  // Ten functions that call the next a hundred times each, in a branch without launches
  // of its own; the last is also called once.
  std::string text = R"(
func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %which = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.case"(%which) ({
    %1 = func.call @f0(%a) : (tensor<8xf32>) -> tensor<8xf32>
    stablehlo.return %1 : tensor<8xf32>
  }, {
    stablehlo.return %a : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %2 = func.call @f10(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.negate %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}
)";
  for (int f = 0; f < 10; ++f) {
    text += "func.func private @f" + std::to_string(f) + "(%a: tensor<8xf32>) -> tensor<8xf32> {\n";
    for (int i = 0; i < 100; ++i)
      text += "  %" + std::to_string(i) + " = func.call @f" + std::to_string(f + 1) +
              "(%a) : (tensor<8xf32>) -> tensor<8xf32>\n";
    text += "  return %99 : tensor<8xf32>\n}\n";
  }
  text += R"(func.func private @f10(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %a : tensor<8xf32>
  return %0 : tensor<8xf32>
})";
  const Workload w = read_text(text);
  std::vector<Launch> launches;
  launch(w, Opcode::k_negate, 1, launches);
  launch(w, Opcode::k_sine, 1, launches);
  EXPECT_EQ(order_program(w, launches, 100).launches.size(), 2u);
}

TEST(ProgramOrderTest, LocationsNameParts) {
  const Workload w = read_text(R"(
#loc1 = loc("jit(f)/mlp/up/dot_general")
func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %a : tensor<8xf32> loc(#loc1)
  %1 = stablehlo.cosine %0 : tensor<8xf32> loc("/home/me/model.py":12:3)
  return %1 : tensor<8xf32>
})");
  std::vector<Launch> launches;
  launch(w, Opcode::k_sine, 1, launches);
  launch(w, Opcode::k_cosine, 1, launches);
  EXPECT_THAT(told(w, launches, order_program(w, launches, 100)),
              ElementsAre("sine at /jit(f)/mlp/up", "cosine at /model.py:12"));
}

TEST(ProgramOrderTest, ScopesAreSplitIntoParts) {
  EXPECT_THAT(split_scope("encoder/layer/3/query", false),
              ElementsAre("encoder", "layer.3", "query"));
  EXPECT_THAT(split_scope("/bert/layer.0/MatMul", true), ElementsAre("bert", "layer.0"));
  EXPECT_THAT(split_scope("MatMul_12", true), ElementsAre());
  EXPECT_THAT(split_scope("/", true), ElementsAre());
  EXPECT_THAT(split_scope("7/x", false), ElementsAre("7", "x"));
  EXPECT_THAT(split_scope("a/b.py:12", true), ElementsAre("b.py:12"));
}

}  // namespace
}  // namespace orrery
