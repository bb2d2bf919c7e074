// What instructions of compiled HLO share, overwrite and keep; totals where XLA told them.

#include "orrery/model/compiled_memory.h"

#include <gtest/gtest.h>

#include "orrery/model/memory_order.h"
#include "orrery/workload/readers/hlo/hlo_for_test.h"

namespace orrery {
namespace {

using hlo::module_of;
using hlo::read_text;

BufferPlan plan_of(const std::string& text, std::vector<int64_t> region_bytes = {}) {
  const Workload w = read_text(text);
  region_bytes.resize(w.regions().size());
  const MemoryGraph graph = compiled_memory(w, w.entry(), region_bytes);
  return plan_buffers(graph, order_as_written(graph), MemoryLayout{});
}

constexpr int64_t kVector = 4096;  // bytes of f32[1024]

TEST(CompiledMemory, ALibraryCallHasItsWorkspaceAndATable) {
  // XLA 0.11 on an H200 for this module: 67,108,864 of arguments, 33,554,432 of
  // outputs, 33,554,688 of temporaries.
  const BufferPlan p = plan_of(module_of(R"(
  a = bf16[4096,4096] parameter(0)
  b = bf16[4096,4096] parameter(1)
  call = (bf16[4096,4096], s8[33554432]) custom-call(a, b), custom_call_target="other"
  ROOT out = bf16[4096,4096] get-tuple-element(call), index=0)"));
  EXPECT_EQ(p.arguments, 67108864);
  EXPECT_EQ(p.results, 33554432);
  EXPECT_EQ(p.temporaries, 33554688);
}

TEST(CompiledMemory, BitcastsAndTuplesHoldNothing) {
  const BufferPlan p = plan_of(module_of(R"(
  a = f32[1024] parameter(0)
  c = f32[1024] copy(a)
  v = f32[32,32] bitcast(c)
  t = (f32[32,32], f32[1024]) tuple(v, a)
  w = f32[32,32] get-tuple-element(t), index=0
  ROOT n = f32[32,32] transpose(w), dimensions={1,0})"));
  EXPECT_EQ(p.temporaries, kVector);
  EXPECT_EQ(p.results, kVector);
}

constexpr const char* kFusions = R"(
overwrites {
  p = f32[1024] parameter(0)
  q = f32[1024] parameter(1)
  e = f32[1024] exponential(p)
  ROOT s = f32[1024] add(e, q)
}
turns {
  p = f32[1024] parameter(0)
  ROOT r = f32[1024] reverse(p), dimensions={0}
}
updates {
  p = f32[1024] parameter(0)
  u = f32[1] parameter(1)
  i = s32[] parameter(2)
  ROOT d = f32[1024] dynamic-update-slice(p, u, i)
})";

/// Two copies of the argument, then a fusion of them, then a result of another size.
std::string with_fusion(const std::string& called, const std::string& operands) {
  return module_of(
      "  a = f32[1024] parameter(0)\n  u = f32[1] parameter(1)\n"
      "  i = s32[] parameter(2)\n  c = f32[1024] copy(a)\n"
      "  f = f32[1024] fusion(" +
          operands + "), kind=kLoop, calls=" + called +
          "\n  ROOT s = f32[1] slice(f), slice={[0:1]}",
      kFusions);
}

TEST(CompiledMemory, AFusionOverwritesAnOperandItReadsWhereItWrites) {
  EXPECT_EQ(plan_of(with_fusion("overwrites", "c, a")).temporaries, kVector);
  EXPECT_EQ(plan_of(with_fusion("turns", "c")).temporaries, 2 * kVector);
}

TEST(CompiledMemory, AnUpdateIsInPlace) {
  EXPECT_EQ(plan_of(with_fusion("updates", "c, u, i")).temporaries, kVector);
}

TEST(CompiledMemory, AliasedOutputsTakeTheirParametersMemory) {
  const BufferPlan p = plan_of(
      "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n" + std::string(kFusions) +
      "\nENTRY main {\n  a = f32[1024] parameter(0)\n  u = f32[1] parameter(1)\n"
      "  i = s32[] parameter(2)\n  f = f32[1024] fusion(a, u, i), kind=kLoop, calls=updates\n"
      "  s = f32[1] slice(f), slice={[0:1]}\n  ROOT t = (f32[1], f32[1024]) tuple(s, f)\n}\n");
  EXPECT_EQ(p.arguments, kVector + 4 + 4);
  EXPECT_EQ(p.results, kVector + 4);
  EXPECT_EQ(p.aliased, kVector);
  EXPECT_EQ(p.temporaries, 0);
}

constexpr const char* kLoop = R"(
body {
  t = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[1024] get-tuple-element(t), index=1
  y = f32[1024] reverse(x), dimensions={0}
  ROOT r = (s32[], f32[1024]) tuple(i, y)
}
cond {
  t = (s32[], f32[1024]) parameter(0)
  ROOT c = pred[] constant(true)
})";

TEST(CompiledMemory, ALoopCarriesItsOperandsAndNeedsWhatItsBodyNeeds) {
  const std::string text = module_of(R"(
  i = s32[] parameter(0)
  a = f32[1024] parameter(1)
  j = s32[] copy(i)
  c = f32[1024] copy(a)
  t = (s32[], f32[1024]) tuple(j, c)
  w = (s32[], f32[1024]) while(t), condition=cond, body=body
  x = f32[1024] get-tuple-element(w), index=1
  ROOT s = f32[1] slice(x), slice={[0:1]})",
                                     kLoop);
  // The carried vector and a table of two pointers; the counter is in the result's memory.
  EXPECT_EQ(plan_of(text).temporaries, kVector + 256);
  const Workload w = read_text(text);
  std::vector<int64_t> bytes(w.regions().size());
  for (uint32_t f = 0; f < w.functions().size(); ++f)
    if (w.string(w.functions()[f].name) == "body") bytes[w.functions()[f].body.index] = 10000;
  const BufferPlan p = plan_of(text, bytes);
  EXPECT_EQ(p.live_temporaries, 10000 + kVector);
}

TEST(CompiledMemory, AnAsynchronousPairKeepsItsOperandsUntilItIsDone) {
  // The operand must not be overwritten while the copy runs: three buffers alive. The
  // pair's token is in the result's memory.
  const BufferPlan p = plan_of(module_of(R"(
  a = f32[1024] parameter(0)
  c = f32[1024] copy(a)
  s = (f32[1024], f32[1024], u32[]) copy-start(c)
  o = f32[1024] reverse(a), dimensions={0}
  d = f32[1024] copy-done(s)
  x = f32[1] slice(d), slice={[0:1]}
  y = f32[1] slice(o), slice={[0:1]}
  ROOT t = f32[1] add(x, y))"));
  EXPECT_EQ(p.live_temporaries, 3 * kVector);
}

TEST(CompiledMemory, AliasesThatNameNothingAreLeftOut) {
  const BufferPlan p = plan_of(module_of(R"(
  a = f32[1024] parameter(0)
  c = f32[1024] copy(a)
  ROOT f = f32[1024] custom-call(c), custom_call_target="x", output_to_operand_aliasing={{7}: (9, {})})"));
  EXPECT_EQ(p.results, kVector);
  EXPECT_EQ(p.temporaries, kVector);
}

}  // namespace
}  // namespace orrery
