// What the xla rules fuse, how often kernels run, and what memory a program needs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/model/stack.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using stablehlo::function_of;
using stablehlo::read_text;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const Device& h200() {
  static const Device device =
      Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
  return device;
}

FusionRules rules_of(const std::string& stack) {
  return Registry<Stack>::instance().at(stack, "stack").create()->rules();
}

Program lower_text(const std::string& text, const std::string& stack = "xla") {
  return lower(read_text(text), h200(), rules_of(stack));
}

std::vector<Opcode> codes(const Program& program) {
  std::vector<Opcode> found;
  for (const Launch& l : program.launches) found.push_back(l.kernel.code);
  return found;
}

constexpr double kMatrix = 2048 * 2048 * 4;  // bytes of tensor<2048x2048xf32>
const std::string kM = "tensor<2048x2048xf32>";

std::string dot(const std::string& result, const std::string& a, const std::string& b) {
  return "  " + result + " = stablehlo.dot_general " + a + ", " + b +
         ", contracting_dims = [1] x [0] : (" + kM + ", " + kM + ") -> " + kM + "\n";
}

// --- fusion -----------------------------------------------------------------

TEST(Lowering, ElementwiseChainsAreOneKernel) {
  const std::string text =
      function_of("(%a: " + kM + ", %b: " + kM + ") -> " + kM,
                  "  %0 = stablehlo.add %a, %b : " + kM + "\n  %1 = stablehlo.tanh %0 : " + kM +
                      "\n  %2 = stablehlo.multiply %1, %b : " + kM + "\n  return %2 : " + kM);
  const Program fused = lower_text(text);
  ASSERT_EQ(fused.launches.size(), 1u);
  EXPECT_EQ(fused.launches[0].fused, 3u);
  const Cost& c = fused.launches[0].kernel.cost;
  EXPECT_EQ(c.bytes_read, 2 * kMatrix);  // %b once, though it is used twice
  EXPECT_EQ(c.bytes_written, kMatrix);
  EXPECT_EQ(c.vector_flops, 2 * 2048 * 2048);
  EXPECT_EQ(c.transcendental_flops, 2048 * 2048);
  // Eager PyTorch runs them one by one.
  EXPECT_THAT(codes(lower_text(text, "torch-eager")),
              ElementsAre(Opcode::k_add, Opcode::k_tanh, Opcode::k_multiply));
}

TEST(Lowering, AProductAddsItsBias) {
  const std::string text = function_of(
      "(%a: " + kM + ", %b: " + kM + ", %bias: tensor<2048xf32>) -> " + kM,
      dot("%0", "%a", "%b") +
          "  %1 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<2048xf32>) -> " + kM +
          "\n  %2 = stablehlo.add %0, %1 : " + kM + "\n  return %2 : " + kM);
  const Program p = lower_text(text);
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_dot_general));
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_read, 2 * kMatrix + 8192);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, kMatrix);
  EXPECT_EQ(p.launches[0].kernel.cost.vector_flops, 0);  // in the library's epilogue
  EXPECT_THAT(codes(lower_text(text, "torch-eager")),
              ElementsAre(Opcode::k_dot_general, Opcode::k_add));
}

TEST(Lowering, ReductionsTakeInTheirProducers) {
  const Program p = lower_text(function_of(
      "(%a: " + kM + ", %z: tensor<f32>) -> tensor<2048xf32>",
      "  %0 = stablehlo.multiply %a, %a : " + kM +
          "\n  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] : "
          "(" +
          kM + ", tensor<f32>) -> tensor<2048xf32>\n  return %1 : tensor<2048xf32>"));
  ASSERT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(p.launches[0].kernel.family, KernelFamily::kReduction);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_read, kMatrix + 4);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, 8192);
}

TEST(Lowering, ReadersOfOneTensorAreOneKernelOfSeveralResults) {
  const std::string body = "  %0 = stablehlo.add %a, %b : " + kM +
                           "\n  %1 = stablehlo.tanh %0 : " + kM +
                           "\n  %2 = stablehlo.exponential %0 : " + kM + "\n  return ";
  const std::string arguments = "(%a: " + kM + ", %b: " + kM + ") -> ";
  const Program two = lower_text(
      function_of(arguments + "(" + kM + ", " + kM + ")", body + "%1, %2 : " + kM + ", " + kM));
  ASSERT_EQ(two.launches.size(), 1u);
  EXPECT_EQ(two.launches[0].fused, 3u);
  EXPECT_EQ(two.launches[0].kernel.cost.bytes_read, 2 * kMatrix);
  EXPECT_EQ(two.launches[0].kernel.cost.bytes_written, 2 * kMatrix);
  const Program three =
      lower_text(function_of(arguments + "(" + kM + ", " + kM + ", " + kM + ")",
                             body + "%0, %1, %2 : " + kM + ", " + kM + ", " + kM));
  ASSERT_EQ(three.launches.size(), 1u);
  EXPECT_EQ(three.launches[0].kernel.cost.bytes_read, 2 * kMatrix);
  EXPECT_EQ(three.launches[0].kernel.cost.bytes_written, 3 * kMatrix);
}

TEST(Lowering, WhatACallReadsIsStored) {
  const Program p = lower_text(
      "func.func @main(%a: " + kM + ") -> " + kM + " {\n  %0 = stablehlo.negate %a : " + kM +
      "\n  %1 = call @f(%0) : (" + kM + ") -> " + kM + "\n  %2 = stablehlo.tanh %0 : " + kM +
      "\n  %3 = stablehlo.add %1, %2 : " + kM + "\n  return %3 : " + kM +
      "\n}\nfunc.func private @f(%x: " + kM + ") -> " + kM + " {\n" + dot("%0", "%x", "%x") +
      "  return %0 : " + kM + "\n}\n");
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_negate, Opcode::k_add, Opcode::k_dot_general));
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, kMatrix);
}

TEST(Lowering, AnArgumentThatWasNotDonatedIsCopiedBeforeItIsUpdated) {
  const auto update = [](const std::string& attributes) {
    return lower_text(function_of(
        "(%a: " + kM + attributes + ", %u: tensor<1x2048xf32>, %i: tensor<i32>) -> " + kM,
        "  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (" + kM +
            ", tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> " + kM + "\n  return %0 : " + kM));
  };
  // A row read and written, two indices read; the copy reads and writes everything.
  const double row = 2048 * 4;
  const Program kept = update("");
  ASSERT_EQ(kept.launches.size(), 1u);
  EXPECT_EQ(kept.launches[0].kernel.cost.bytes_written, kMatrix + row);
  const Program donated = update(" {tf.aliasing_output = 0 : i32}");
  ASSERT_EQ(donated.launches.size(), 1u);
  EXPECT_EQ(donated.launches[0].kernel.cost.bytes_written, row);
  EXPECT_EQ(kept.launches[0].kernel.cost.bytes() - donated.launches[0].kernel.cost.bytes(),
            2 * kMatrix);
}

TEST(Lowering, AResultThatIsAnArgumentIsCopiedOut) {
  const Program p = lower_text(function_of("(%a: " + kM + ") -> " + kM, "  return %a : " + kM));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_copy));
  EXPECT_EQ(p.launches[0].kernel.cost.bytes(), 2 * kMatrix);
}

TEST(Lowering, CompiledModulesAreNotFusedAgain) {
  const Workload w =
      read_workload(Source::from_memory("m.hlo",
                                        "HloModule m, is_scheduled=true\n\n"
                                        "ENTRY %main (a: f32[2048,2048]) -> f32[2048,2048] {\n"
                                        "  %a = f32[2048,2048]{1,0} parameter(0)\n"
                                        "  %n = f32[2048,2048]{1,0} negate(%a)\n"
                                        "  ROOT %t = f32[2048,2048]{1,0} tanh(%n)\n}\n"),
                    {});
  EXPECT_THAT(codes(lower(w, h200(), rules_of("xla"))),
              ElementsAre(Opcode::k_negate, Opcode::k_tanh));
}

TEST(Lowering, TransposesBeforeProductsAreFree) {
  const Program p =
      lower_text(function_of("(%a: " + kM + ", %b: " + kM + ") -> " + kM,
                             "  %0 = stablehlo.transpose %b, dims = [1, 0] : (" + kM + ") -> " +
                                 kM + "\n" + dot("%1", "%a", "%0") + "  return %1 : " + kM));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general));
}

TEST(Lowering, SinglePrecisionProductsRunInTf32UnlessAskedOtherwise) {
  const auto type = [](const std::string& precision, const std::string& stack) {
    return lower_text(function_of("(%a: " + kM + ", %b: " + kM + ") -> " + kM,
                                  "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x "
                                  "[0], precision = [" +
                                      precision + ", " + precision + "] : (" + kM + ", " + kM +
                                      ") -> " + kM + "\n  return %0 : " + kM),
                      stack)
        .launches[0]
        .kernel.cost.matrix_type;
  };
  EXPECT_EQ(type("DEFAULT", "xla"), ElementType::kTF32);
  EXPECT_EQ(type("HIGHEST", "xla"), ElementType::kF32);
  EXPECT_EQ(type("DEFAULT", "torch-eager"), ElementType::kF32);
}

TEST(Lowering, UpdatesInPlaceWriteTheUpdateAlone) {
  const Program p = lower_text(function_of(
      "(%a: " + kM +
          " {tf.aliasing_output = 0 : i32}, %u: tensor<1x2048xf32>, %i: tensor<i32>) "
          "-> " +
          kM,
      "  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (" + kM +
          ", tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> " + kM + "\n  return %0 : " + kM));
  ASSERT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, 8192);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_read, 8192 + 4);  // the update and its place
}

// --- counts -----------------------------------------------------------------

TEST(Lowering, CallsAndLoopsMultiplyCounts) {
  const Program p = lower_text(
      "func.func @main(%x: " + kM + ") -> " + kM + " {\n  %0 = call @f(%x) : (" + kM + ") -> " +
      kM + "\n  %1 = call @f(%0) : (" + kM + ") -> " + kM +
      "\n  %c = stablehlo.constant dense<0> : tensor<i32>\n"
      "  %2:2 = stablehlo.while(%i = %c, %v = %1) : tensor<i32>, " +
      kM +
      "\n   cond {\n    %n = stablehlo.constant dense<7> : tensor<i32>\n"
      "    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %t : tensor<i1>\n  } do {\n"
      "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
      "    %j = stablehlo.add %i, %one : tensor<i32>\n    %u = func.call @f(%v) : (" +
      kM + ") -> " + kM + "\n    %w = func.call @f(%u) : (" + kM + ") -> " + kM +
      "\n    stablehlo.return %j, %w : tensor<i32>, " + kM + "\n  }\n  return %2#1 : " + kM +
      "\n}\nfunc.func private @f(%x: " + kM + ") -> " + kM + " {\n" + dot("%0", "%x", "%x") +
      "  return %0 : " + kM + "\n}\n");
  double dots = 0, others = 0;
  for (const Launch& l : p.launches)
    (l.kernel.code == Opcode::k_dot_general ? dots : others) += l.count;
  EXPECT_EQ(dots, 2 + 7 * 2);
  EXPECT_EQ(others, 7 + 7);  // the counter's add and compare
}

TEST(Lowering, SmallFunctionsFuseWithWhatSurroundsThem) {
  for (const std::string& call :
       {"call @relu(%0) : (" + kM + ") -> " + kM,
        "stablehlo.composite \"my.relu\" %0 {decomposition = @relu} : (" + kM + ") -> " + kM}) {
    const Program p =
        lower_text("func.func @main(%a: " + kM + ", %b: " + kM + ") -> " + kM +
                   " {\n  %0 = stablehlo.add %a, %b : " + kM + "\n  %1 = " + call +
                   "\n  return %1 : " + kM + "\n}\nfunc.func private @relu(%x: " + kM + ") -> " +
                   kM + " {\n  %z = stablehlo.constant dense<0.0> : " + kM +
                   "\n  %0 = stablehlo.maximum %x, %z : " + kM + "\n  return %0 : " + kM + "\n}\n");
    ASSERT_EQ(p.launches.size(), 1u) << call;
    EXPECT_EQ(p.launches[0].fused, 2u) << call;
    EXPECT_EQ(p.launches[0].kernel.cost.vector_flops, 2 * 2048 * 2048) << call;
  }
}

TEST(Lowering, OfAConditionalTheCostliestBranchRunsAndThatIsSaid) {
  const Program p = lower_text(
      function_of("(%p: tensor<i1>, %x: " + kM + ") -> " + kM,
                  "  %0 = \"stablehlo.if\"(%p) ({\n    stablehlo.return %x : " + kM + "\n  }, {\n" +
                      dot("%1", "%x", "%x") + "    stablehlo.return %1 : " + kM +
                      "\n  }) : (tensor<i1>) -> " + kM + "\n  return %0 : " + kM));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general));
  EXPECT_THAT(p.gaps, Contains(HasSubstr("the costliest is counted")));
}

TEST(Lowering, ABranchIsWeighedWithWhatItCalls) {
  const Program p = lower_text(
      "func.func @main(%p: tensor<i1>, %x: " + kM + ") -> " + kM +
      " {\n  %0 = \"stablehlo.if\"(%p) ({\n    %1 = stablehlo.tanh %x : " + kM +
      "\n    stablehlo.return %1 : " + kM + "\n  }, {\n    %1 = func.call @f(%x) : (" + kM +
      ") -> " + kM + "\n    stablehlo.return %1 : " + kM + "\n  }) : (tensor<i1>) -> " + kM +
      "\n  return %0 : " + kM + "\n}\nfunc.func private @f(%x: " + kM + ") -> " + kM + " {\n" +
      dot("%0", "%x", "%x") + "  return %0 : " + kM + "\n}\n");
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general));
}

TEST(Lowering, AValueOfManyReadersIsLoweredInTime) {
  std::string body = "  %0 = stablehlo.tanh %a : tensor<4xf32>\n";
  for (int i = 0; i < 30000; ++i) {
    const std::string name = "%v" + std::to_string(i);
    body += "  " + name + " = stablehlo.custom_call @f(%0) : (tensor<4xf32>) -> tensor<f32>\n";
  }
  EXPECT_EQ(lower_text(function_of("(%a: tensor<4xf32>)", body + "  return")).launches.size(),
            30001u);
}

TEST(Lowering, UnknownTripCountsAreSaid) {
  const Program p = lower_text(function_of(
      "(%n: tensor<i32>) -> tensor<i32>",
      "  %0 = stablehlo.while(%i = %n) : tensor<i32>\n   cond {\n"
      "    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %t : tensor<i1>\n  } do {\n"
      "    %1 = stablehlo.add %i, %i : tensor<i32>\n    stablehlo.return %1 : tensor<i32>\n  }\n"
      "  return %0 : tensor<i32>"));
  EXPECT_THAT(p.gaps, Contains(HasSubstr("--trip-count")));
}

TEST(Lowering, OpenDimensionsCannotBeSized) {
  try {
    lower_text(function_of("(%a: tensor<?xf32>) -> tensor<?xf32>",
                           "  %0 = stablehlo.tanh %a : tensor<?xf32>\n  return %0 : "
                           "tensor<?xf32>"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.what(), HasSubstr("--bind '?=SIZE'"));
  }
}

// --- memory -----------------------------------------------------------------

TEST(Memory, TemporariesLiveUntilTheirLastReader) {
  const Program p =
      lower_text(function_of("(%a: " + kM + ") -> " + kM,
                             dot("%0", "%a", "%a") + dot("%1", "%0", "%a") + dot("%2", "%1", "%a") +
                                 dot("%3", "%2", "%a") + "  return %3 : " + kM),
                 "torch-eager");
  EXPECT_EQ(p.memory.arguments, kMatrix);
  EXPECT_EQ(p.memory.outputs, kMatrix);
  EXPECT_EQ(p.memory.temporaries, 2 * kMatrix);  // a product and the one it reads
  EXPECT_EQ(p.memory.peak(), 4 * kMatrix);
}

TEST(Memory, ValuesInsideAFusionTakeNone) {
  const Program p = lower_text(
      function_of("(%a: " + kM + ") -> " + kM,
                  "  %0 = stablehlo.tanh %a : " + kM + "\n  %1 = stablehlo.negate %0 : " + kM +
                      "\n  %2 = stablehlo.add %1, %a : " + kM + "\n  return %2 : " + kM));
  EXPECT_EQ(p.memory.temporaries, 0);
}

TEST(Memory, UpdatesInPlaceShareTheirBuffer) {
  const std::string update =
      ", %u, %i, %i : (" + kM + ", tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> " + kM + "\n";
  const Program p =
      lower_text(function_of("(%a: " + kM + ", %u: tensor<1x2048xf32>, %i: tensor<i32>) -> " + kM,
                             dot("%0", "%a", "%a") + "  %1 = stablehlo.dynamic_update_slice %0" +
                                 update + "  %2 = stablehlo.dynamic_update_slice %1" + update +
                                 dot("%3", "%2", "%a") + "  return %3 : " + kM),
                 "torch-eager");
  EXPECT_EQ(p.memory.temporaries, kMatrix);  // three values, one buffer
}

TEST(Memory, DonatedArgumentsGiveTheirBuffersToResults) {
  const auto plan = [](const std::string& a, const std::string& b) {
    return lower_text("func.func @main(%a: " + kM + a + ", %b: tensor<8xf32>" + b + ") -> (" + kM +
                          ", " + kM + ") {\n" + dot("%0", "%a", "%a") + dot("%1", "%0", "%a") +
                          "  return %0, %1 : " + kM + ", " + kM + "\n}\n",
                      "torch-eager")
        .memory;
  };
  EXPECT_EQ(plan("", "").aliased, 0);
  EXPECT_EQ(plan(" {tf.aliasing_output = 1 : i32}", "").aliased, kMatrix);
  EXPECT_EQ(plan(" {jax.buffer_donor = true}", "").aliased, kMatrix);
  EXPECT_EQ(plan("", " {jax.buffer_donor = true}").aliased, 0);       // no result of its shape
  EXPECT_EQ(plan(" {tf.aliasing_output = 9 : i32}", "").aliased, 0);  // no such result
  EXPECT_EQ(plan(" {tf.aliasing_output = 0 : i32}", "").peak(),
            kMatrix + 32 + 2 * kMatrix - kMatrix);
}

TEST(Memory, ACalleesTemporariesCountWhereItRuns) {
  const Program p =
      lower_text("func.func @main(%a: " + kM + ") -> " + kM + " {\n" + dot("%0", "%a", "%a") +
                     "  %1 = call @f(%0) : (" + kM + ") -> " + kM + "\n" + dot("%2", "%1", "%0") +
                     "  return %2 : " + kM + "\n}\nfunc.func private @f(%x: " + kM + ") -> " + kM +
                     " {\n" + dot("%0", "%x", "%x") + dot("%1", "%0", "%x") +
                     dot("%2", "%1", "%x") + "  return %2 : " + kM + "\n}\n",
                 "torch-eager");
  // While @f runs: its argument and result, and two of its own.
  EXPECT_EQ(p.memory.temporaries, 4 * kMatrix);
}

TEST(Memory, LargeConstantsArePartOfTheProgram) {
  const Program p =
      lower_text("func.func @main(%a: " + kM + ") -> " + kM +
                 " {\n  %0 = stablehlo.constant dense_resource<w> : " + kM +
                 "\n  %s = stablehlo.constant dense<1.0> : " + kM + "\n" + dot("%1", "%a", "%0") +
                 "  %2 = stablehlo.add %1, %s : " + kM + "\n  return %2 : " + kM + "\n}\n");
  EXPECT_EQ(p.memory.constants, kMatrix);  // a splat is no table
}

TEST(Memory, TellsWhereThePeakIsAndWhoHoldsIt) {
  const std::string type = "tensor<512x512xf32>";
  constexpr double kBytes = 512 * 512 * 4;
  const auto product = [&](const std::string& result, const std::string& a, const std::string& b) {
    return "  " + result + " = stablehlo.dot_general " + a + ", " + b +
           ", contracting_dims = [1] x [0] : (" + type + ", " + type + ") -> " + type + "\n";
  };
  const Program p = lower_text(function_of("(%a: " + type + ") -> " + type,
                                           product("%0", "%a", "%a") + product("%1", "%0", "%a") +
                                               product("%2", "%1", "%0") +
                                               product("%3", "%2", "%2") + "  return %3 : " + type),
                               "torch-eager");
  EXPECT_EQ(p.memory.temporaries, 3 * kBytes);  // %0 and %1 while %2 is made of them
  EXPECT_EQ(p.memory.peak_at, "dot_general f32[512,512]");
  ASSERT_EQ(p.memory.holders.size(), 3u);
  EXPECT_EQ(p.memory.holders[0].name, "dot_general f32[512,512] ×3");
  EXPECT_EQ(p.memory.holders[0].bytes, 3 * kBytes);
  EXPECT_EQ(p.memory.holders[1].name, "arguments");
  EXPECT_EQ(p.memory.holders[2].name, "result dot_general f32[512,512]");
  std::vector<double> held;
  for (const MemoryPoint& point : p.memory.timeline) held.push_back(point.bytes / kBytes);
  // The argument and the result, and one, two, three, one more.
  EXPECT_THAT(held, ElementsAre(3, 4, 5, 3));
}

TEST(Memory, TheWorkspaceOfALibraryCounts) {
  const std::string type = "tensor<4096x4096xbf16>";
  const std::string text =
      function_of("(%a: " + type + ", %b: " + type + ") -> " + type,
                  "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (" + type +
                      ", " + type + ") -> " + type + "\n  return %0 : " + type);
  // XLA's own count for gemm_4096_bf16: 32 MiB and a table of two pointers.
  const Program p = lower_text(text);
  EXPECT_EQ(p.memory.temporaries, 33554688);
  ASSERT_FALSE(p.memory.holders.empty());
  EXPECT_EQ(p.memory.holders[1].name, "result dot_general bf16[4096,4096]");
  EXPECT_EQ(p.memory.holders[2].name, "workspace of dot_general bf16[4096,4096]");
  EXPECT_EQ(lower_text(text, "torch-eager").memory.temporaries, 0);
}

TEST(Memory, ALoopThatOnlyReadsAnArgumentNeedsNoCopyOfIt) {
  const auto temporaries = [](const std::string& next) {
    return lower_text(
               "func.func @main(%a: " + kM + ", %n: tensor<i32>) -> " + kM + " {\n" +
                   "  %0:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, " + kM +
                   "\n  cond {\n    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) "
                   "-> "
                   "tensor<i1>\n    stablehlo.return %c : tensor<i1>\n  } do {\n"
                   "    %j = stablehlo.add %i, %i : tensor<i32>\n    %y = stablehlo.negate %x : " +
                   kM + "\n    stablehlo.return %j, " + next + " : tensor<i32>, " + kM + "\n  }\n" +
                   dot("%1", "%0#1", "%a") + dot("%2", "%1", "%a") + "  return %2 : " + kM +
                   "\n}\n",
               "torch-eager")
        .memory.temporaries;
  };
  const double reads = temporaries("%x");
  const double changes = temporaries("%y");
  EXPECT_NEAR(changes - reads, kMatrix, 256);  // the loop's counter is aligned
}

/// How far peak memory is from XLA's buffer assignment on the programs of
/// h200/jax_models.csv.
TEST(Memory, PeaksAreNearThoseOfXla) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "h200/jax_models.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(file));
  const size_t name = table.required_column("case");
  size_t within_one_percent = 0;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string module(table.at(i, name));
    ORRERY_SHARED_DATA_OR_SKIP(path, "h200/stablehlo/" + module + ".mlir");
    const Workload w = read_workload(Source::from_file(path), ReadOptions{});
    const MemoryPlan memory = lower(w, h200(), rules_of("xla")).memory;
    const auto measured = [&](const char* column) {
      return std::atof(std::string(table.at(i, table.required_column(column))).c_str());
    };
    const double peak = measured("arg_bytes") + measured("out_bytes") + measured("temp_bytes") -
                        measured("alias_bytes");
    const double error = memory.peak() / peak - 1;
    RecordProperty(module, std::to_string(100 * error));
    within_one_percent += std::abs(error) <= 0.01 ? 1 : 0;
    EXPECT_LE(std::abs(error), 0.08) << module;
  }
  EXPECT_GE(within_one_percent, 15u);
}

TEST(Memory, ArgumentsAndOutputsEqualThoseOfXla) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "h200/jax_models.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(file));
  const size_t name = table.required_column("case");
  ASSERT_EQ(table.rows(), 16u);
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string module(table.at(i, name));
    ORRERY_SHARED_DATA_OR_SKIP(path, "h200/stablehlo/" + module + ".mlir");
    const Workload w = read_workload(Source::from_file(path), ReadOptions{});
    const MemoryPlan memory = lower(w, h200(), rules_of("xla")).memory;
    const auto measured = [&](const char* column) {
      return std::atof(std::string(table.at(i, table.required_column(column))).c_str());
    };
    EXPECT_EQ(memory.arguments, measured("arg_bytes")) << module;
    EXPECT_EQ(memory.outputs, measured("out_bytes")) << module;
    EXPECT_EQ(memory.aliased, measured("alias_bytes")) << module;
  }
}

}  // namespace
}  // namespace orrery
