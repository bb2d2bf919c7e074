// Every form of HLO text the reader knows, a few lines each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/hlo/hlo_for_test.h"
#include "orrery/workload/readers/hlo/instruction_names.h"

namespace orrery::hlo {
namespace {

using Ints = std::vector<int64_t>;

constexpr std::string_view kAdd = R"(
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}
)";

TEST(HloReader, IsFoundByTheHeader) {
  const std::string text =
      "// dumped by XLA\n/* twice */ " + module_of("ROOT c = f32[] constant(1)");
  EXPECT_EQ(read_workload(Source::from_memory("m.txt", text), {}).format(), "hlo");
  const auto reader = Registry<Reader>::instance().at("hlo", "reader").create();
  EXPECT_FALSE(reader->recognises(Source::from_memory("m", "module @m {}")));
  EXPECT_FALSE(reader->recognises(Source::from_memory("m", "/* HloModule m")));
  EXPECT_FALSE(reader->recognises(Source::from_memory("m", "")));
}

TEST(HloReader, ReadsTheHeader) {
  const Workload w = read_text(R"(HloModule jit_step.12, is_scheduled=true,
    input_output_alias={ {0}: (1, {}, may-alias), {2}: (0, {}, must-alias) },
    buffer_donor={ (3, {}) },
    entry_computation_layout={(f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0})->(f32[2]{0}, f32[2]{0}, f32[2]{0})},
    replica_count=2, num_partitions=4, allow_spmd_sharding_propagation_to_output={true},
    frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}

FileNames
1 "a (file).py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=54 end_line=54 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (a: f32[2], b: f32[2], c: f32[2], d: f32[2]) -> (f32[2], f32[2], f32[2]) {
  %d = f32[2]{0} parameter(3)
  %c = f32[2]{0} parameter(2), sharding={devices=[2]<=[2]}
  %b = f32[2]{0} parameter(1), metadata={op_name="state[\'w\']"}
  %a = f32[2]{0} parameter(0)
  ROOT %t = (f32[2]{0}, f32[2]{0}, f32[2]{0}) tuple(%b, %c, %a)
})");
  EXPECT_EQ(w.name(), "jit_step.12");
  EXPECT_EQ(w.partitions(), 4);
  EXPECT_EQ(w.replicas(), 2);
  const Function& f = w.function(w.entry());
  ASSERT_EQ(f.arguments.size(), 4u);
  EXPECT_EQ(f.arguments[0].aliased_output, 2);
  EXPECT_EQ(f.arguments[1].aliased_output, 0);
  EXPECT_EQ(f.arguments[2].aliased_output, -1);
  EXPECT_TRUE(f.arguments[0].donated && f.arguments[1].donated && f.arguments[3].donated);
  EXPECT_FALSE(f.arguments[2].donated);
  EXPECT_EQ(f.arguments[3].aliased_output, -1);
  EXPECT_EQ(w.string(f.arguments[0].name), "a");
  EXPECT_EQ(w.string(f.arguments[1].name), "state['w']");
  EXPECT_EQ(w.shardings()[f.arguments[2].sharding.index].text, "{devices=[2]<=[2]}");
  // Arguments are in the order of their numbers, not of the text.
  const OpView t = named(w, "t");
  EXPECT_EQ(t.operand(2).index, w.region(f.body).first_argument);
}

TEST(HloReader, AnOutputThatIsNoTupleIsAliasedByAnEmptyIndex) {
  const Workload w = read_text(
      "HloModule m, input_output_alias={ {}: (0, {}) }\nENTRY e { ROOT a = f32[] parameter(0) }");
  EXPECT_EQ(w.function(w.entry()).arguments[0].aliased_output, 0);
}

TEST(HloReader, OperandsWithAndWithoutTypesAndSigils) {
  const std::string with = module_of(
      "  %a = f32[2]{0} parameter(0)\n  %p = (f32[2]{0}, s32[]) parameter(1)\n"
      "  %g = f32[2]{0} get-tuple-element((f32[2]{0}, s32[]) %p), index=0\n"
      "  ROOT %s = f32[2]{0} add(f32[2]{0} %a, f32[2]{0} %g)");
  const std::string without = module_of(
      "  a = f32[2]{0} parameter(0)\n  p = (f32[2]{0}, s32[]) parameter(1)\n"
      "  g = f32[2]{0} get-tuple-element(p), index=0\n  ROOT s = f32[2]{0} add(a, g)");
  for (const std::string& text : {with, without}) {
    const Workload w = read_text(text);
    const OpView sum = named(w, "s");
    EXPECT_EQ(sum.code(), Opcode::k_add);
    ASSERT_EQ(sum.operand_count(), 2u);
    EXPECT_EQ(sum.operand(1), named(w, "g").result(0));
    EXPECT_EQ(sum.operand(0).index, w.region(w.function(w.entry()).body).first_argument);
  }
}

TEST(HloReader, MembersOfTuplesByTheirNumber) {
  const Workload w =
      read_text(module_of("  %p = (f32[2]{0}, (f32[2]{0}, s32[])) parameter(0)\n"
                          "  %s = f32[2]{0} add(%p#0, %p#1#0)\n"
                          "  ROOT %t = f32[2]{0} multiply(%p#0, %s)"));
  const OpView sum = named(w, "s");
  ASSERT_EQ(sum.operand_count(), 2u);
  const OpView first = named(w, "p#0");
  EXPECT_EQ(first.code(), Opcode::k_get_tuple_element);
  EXPECT_EQ(first.integer(Attr::kIndex, -1), 0);
  EXPECT_EQ(sum.operand(0), first.result(0));
  const OpView nested = named(w, "p#1#0");
  EXPECT_EQ(sum.operand(1), nested.result(0));
  EXPECT_EQ(nested.operand(0), named(w, "p#1").result(0));
  // A member is taken out once, however often it is used.
  EXPECT_EQ(named(w, "t").operand(0), first.result(0));
  EXPECT_EQ(w.ops().size(), 6u);  // three members, sum, product, return
}

TEST(HloReader, Shapes) {
  const Workload w = read_text(module_of(R"(
  a = bf16[8,128]{0,1:T(8,128)(2,1)S(1)} parameter(0)
  b = f32[8,128]{1,0} parameter(1)
  c = pred[<=10,4]{1,0} parameter(2)
  d = (f32[2]{0}, (s4[3]{0:E(4)}, token[]), /*index=2*/()) parameter(3)
  e = f8e4m3fn[16]{0} parameter(4)
  f = opaque[] parameter(5)
  ROOT g = f32[8,128]{1,0} copy(b))"));
  const uint32_t first = w.region(w.function(w.entry()).body).first_argument;
  const auto type = [&](uint32_t i) -> const Type& { return w.type(ValueId{first + i}); };
  EXPECT_EQ(type(0).minor_to_major, (Ints{0, 1}));
  EXPECT_EQ(type(0).bytes, 8 * 128 * 2);
  EXPECT_TRUE(type(1).minor_to_major.empty());  // Row-major.
  EXPECT_EQ(type(2).dims, (Ints{10, 4}));
  ASSERT_EQ(type(3).members.size(), 3u);
  const Type& inner = w.type(type(3).members[1]);
  EXPECT_EQ(w.type(inner.members[0]).bytes, 2);  // Three of 4 bits.
  EXPECT_EQ(w.type(inner.members[1]).kind, Type::Kind::kToken);
  EXPECT_TRUE(w.type(type(3).members[2]).members.empty());
  EXPECT_EQ(type(4).element, ElementType::kF8E4M3FN);
  EXPECT_EQ(type(5).kind, Type::Kind::kToken);
  // What is not kept is said.
  EXPECT_THAT(w.notes(), testing::UnorderedElementsAre(testing::HasSubstr("tiled layouts"),
                                                       testing::HasSubstr("memory spaces"),
                                                       testing::HasSubstr("bound")));
}

TEST(HloReader, OpenDimensionsStayOpenUnlessBound) {
  const std::string text = module_of("ROOT a = f32[?,4]{1,0} parameter(0)");
  const Workload open = read_text(text);
  EXPECT_EQ(open.types()[0].dims, (Ints{kDynamic, 4}));
  ReadOptions options;
  options.bindings["?"] = 16;
  EXPECT_EQ(read_text(text, options).types()[0].dims, (Ints{16, 4}));
}

TEST(HloReader, ReversedOrderOfTextAndRootInTheMiddle) {
  const Workload w = read_text(module_of(R"(
  a = f32[] parameter(0)
  ROOT b = f32[] negate(a)
  c = f32[] sine(a))"));
  const Op& last = w.ops().back();
  ASSERT_EQ(last.code, Opcode::k_return);
  EXPECT_EQ(w.operands(last)[0], named(w, "b").result(0));
}

TEST(HloReader, Contractions) {
  const Workload w = read_text(module_of(R"(
  a = bf16[4,8,16]{2,1,0} parameter(0)
  b = bf16[4,16,32]{2,1,0} parameter(1)
  d = bf16[4,8,32]{2,1,0} dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2},
      rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={default,highest},
      algorithm=dot_tf32_tf32_f32
  x = f32[2,9,9,6]{3,2,1,0} parameter(2)
  k = f32[3,3,2,12]{3,2,1,0} parameter(3)
  ROOT c = f32[2,5,5,12]{3,2,1,0} convolution(x, k), window={size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=3, batch_group_count=1)"));
  const OpView dot = named(w, "d");
  EXPECT_EQ(dot.code(), Opcode::k_dot_general);
  EXPECT_EQ(list(dot, Attr::kLhsBatching), (Ints{0}));
  EXPECT_EQ(list(dot, Attr::kRhsBatching), (Ints{0}));
  EXPECT_EQ(list(dot, Attr::kLhsContracting), (Ints{2}));
  EXPECT_EQ(list(dot, Attr::kRhsContracting), (Ints{1}));
  EXPECT_EQ(dot.integer(Attr::kPrecision, -1), 2);
  EXPECT_EQ(dot.integer(Attr::kComputeType, -1), static_cast<int64_t>(ElementType::kTF32));
  const OpView conv = named(w, "c");
  EXPECT_EQ(list(conv, Attr::kWindowSize), (Ints{3, 3}));
  EXPECT_EQ(list(conv, Attr::kWindowStrides), (Ints{2, 2}));
  EXPECT_EQ(list(conv, Attr::kPaddingLow), (Ints{1, 1}));
  EXPECT_EQ(list(conv, Attr::kBaseDilation), (Ints{1, 1}));
  EXPECT_EQ(conv.integer(Attr::kInputBatch, -1), 0);
  EXPECT_EQ(conv.integer(Attr::kInputFeature, -1), 3);
  EXPECT_EQ(list(conv, Attr::kInputSpatial), (Ints{1, 2}));
  EXPECT_EQ(list(conv, Attr::kKernelSpatial), (Ints{0, 1}));
  EXPECT_EQ(conv.integer(Attr::kKernelInput, -1), 2);
  EXPECT_EQ(conv.integer(Attr::kKernelOutput, -1), 3);
  EXPECT_EQ(list(conv, Attr::kOutputSpatial), (Ints{1, 2}));
  EXPECT_EQ(conv.integer(Attr::kFeatureGroups, 0), 3);
}

TEST(HloReader, ChannelsFirstConvolution) {
  const Workload w = read_text(module_of(R"(
  x = f32[2,6,9]{2,1,0} parameter(0)
  k = f32[12,6,3]{2,1,0} parameter(1)
  ROOT c = f32[2,12,7]{2,1,0} convolution(x, k), window={size=3}, dim_labels=bf0_oi0->bf0)"));
  const OpView conv = named(w, "c");
  EXPECT_EQ(conv.integer(Attr::kInputFeature, -1), 1);
  EXPECT_EQ(list(conv, Attr::kInputSpatial), (Ints{2}));
  EXPECT_EQ(conv.integer(Attr::kKernelOutput, -1), 0);
  EXPECT_EQ(conv.integer(Attr::kKernelInput, -1), 1);
  EXPECT_FALSE(conv.has(Attr::kWindowStrides));
}

TEST(HloReader, DataMovement) {
  const Workload w = read_text(module_of(R"(
  a = f32[8,16]{1,0} parameter(0)
  z = f32[] constant(0)
  i = s32[] constant(3)
  t = f32[16,8]{1,0} transpose(a), dimensions={1,0}
  b = f32[8,16,4]{2,1,0} broadcast(a), dimensions={0,1}
  s = f32[4,8]{1,0} slice(a), slice={[0:8:2], [4:12]}
  p = f32[9,33]{1,0} pad(a, z), padding=0_1x-1_3_1
  ds = f32[1,16]{1,0} dynamic-slice(a, i, i), dynamic_slice_sizes={1,16}
  du = f32[8,16]{1,0} dynamic-update-slice(a, ds, i, i)
  c = f32[16,16]{1,0} concatenate(a, du), dimensions={0}
  r = f32[8,16]{1,0} reverse(a), dimensions={1}
  io = s32[8,16]{1,0} iota(), iota_dimension=1
  n = s32[] get-dimension-size(a), dimensions={1}
  ROOT bc = u32[8,16]{1,0} bitcast-convert(a))"));
  EXPECT_EQ(list(named(w, "t"), Attr::kDimensions), (Ints{1, 0}));
  EXPECT_EQ(named(w, "b").code(), Opcode::k_broadcast_in_dim);
  EXPECT_EQ(list(named(w, "b"), Attr::kDimensions), (Ints{0, 1}));
  EXPECT_EQ(list(named(w, "s"), Attr::kStart), (Ints{0, 4}));
  EXPECT_EQ(list(named(w, "s"), Attr::kLimit), (Ints{8, 12}));
  EXPECT_EQ(list(named(w, "s"), Attr::kStride), (Ints{2, 1}));
  EXPECT_EQ(list(named(w, "p"), Attr::kPaddingLow), (Ints{0, -1}));
  EXPECT_EQ(list(named(w, "p"), Attr::kPaddingHigh), (Ints{1, 3}));
  EXPECT_EQ(list(named(w, "p"), Attr::kPaddingInterior), (Ints{0, 1}));
  EXPECT_EQ(list(named(w, "ds"), Attr::kSliceSizes), (Ints{1, 16}));
  EXPECT_EQ(named(w, "du").operand_count(), 4u);
  EXPECT_EQ(list(named(w, "io"), Attr::kDimensions), (Ints{1}));
  EXPECT_EQ(named(w, "bc").code(), Opcode::k_bitcast_convert);
}

TEST(HloReader, GatherAndScatterWithBatchingDimensions) {
  const Workload w = read_text(module_of(R"(
  a = f32[4,10,8]{2,1,0} parameter(0)
  i = s32[4,3,1]{2,1,0} parameter(1)
  u = f32[4,3,8]{2,1,0} gather(a, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,8}, indices_are_sorted=true
  ROOT s = f32[4,10,8]{2,1,0} scatter(a, i, u), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, unique_indices=true, to_apply=add)",
                                         kAdd));
  const OpView g = named(w, "u");
  EXPECT_EQ(list(g, Attr::kCollapsedSliceDims), (Ints{1}));
  EXPECT_EQ(list(g, Attr::kOperandBatchingDims), (Ints{0}));
  EXPECT_EQ(list(g, Attr::kStartIndicesBatchingDims), (Ints{0}));
  const OpView s = named(w, "s");
  EXPECT_EQ(list(s, Attr::kInsertedWindowDims), (Ints{1}));
  EXPECT_EQ(list(s, Attr::kStartIndexMap), (Ints{1}));
  EXPECT_EQ(list(s, Attr::kOperandBatchingDims), (Ints{0}));
  EXPECT_EQ(w.string(w.function(s.callee()).name), "add");
}

TEST(HloReader, ReductionsCallTheirComputation) {
  const Workload w = read_text(module_of(R"(
  a = f32[8,16]{1,0} parameter(0)
  z = f32[] constant(0)
  r = f32[8]{0} reduce(a, z), dimensions={1}, to_apply=add
  v = (f32[8]{0}, f32[8]{0}) reduce(a, a, z, z), dimensions={1}, to_apply=add2
  p = f32[4,16]{1,0} reduce-window(a, z), window={size=2x1 stride=2x1}, to_apply=add
  s = f32[8,16]{1,0} select-and-scatter(a, p, z), window={size=2x1 stride=2x1}, select=ge, scatter=add
  o = f32[8,16]{1,0} sort(a), dimensions={1}, is_stable=true, to_apply=ge
  m = f32[8,16]{1,0} map(a, a), dimensions={0,1}, to_apply=add
  ROOT t = (f32[8,4]{1,0}, s32[8,4]{1,0}) topk(a), k=4, largest=true)",
                                         std::string(kAdd) + R"(
add2 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(a, c)
  f = f32[] add(b, d)
  ROOT t = (f32[], f32[]) tuple(e, f)
}
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT g = pred[] compare(a, b), direction=GE, type=TOTALORDER
})"));
  const auto callee = [&](const char* op, Attr key = Attr::kCallee) {
    return w.string(w.function(named(w, op).callee(key)).name);
  };
  EXPECT_EQ(callee("r"), "add");
  EXPECT_EQ(callee("v"), "add2");
  EXPECT_EQ(named(w, "v").operand_count(), 4u);
  EXPECT_EQ(list(named(w, "p"), Attr::kWindowSize), (Ints{2, 1}));
  EXPECT_EQ(callee("s"), "add");
  EXPECT_EQ(callee("s", Attr::kCondition), "ge");
  EXPECT_EQ(callee("o"), "ge");
  EXPECT_EQ(callee("m"), "add");
  EXPECT_EQ(named(w, "g").string(Attr::kCompare), "GE");
  // The topk is the last operation but the return.
  EXPECT_EQ(w.ops()[w.ops().size() - 2].code, Opcode::k_top_k);
  EXPECT_EQ(w.view(OpId{static_cast<uint32_t>(w.ops().size() - 2)}).integer(Attr::kK, 0), 4);
}

TEST(HloReader, WhileWithItsTripCount) {
  const std::string computations = R"(
body {
  p = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4]{0} get-tuple-element(p), index=1
  ROOT t = (s32[], f32[4]{0}) tuple(i, x)
}
condition {
  p = (s32[], f32[4]{0}) parameter(0)
  ROOT c = pred[] constant(false)
}
)";
  for (const std::string config :
       {R"({"known_trip_count":{"n":"32"},"known_init_step":{"init":"0","step":"1"}})",
        R"({"known_trip_count":{"n":32}})", R"("{\"known_trip_count\":{\"n\":\"32\"}}")"}) {
    const Workload w = read_text(
        module_of("p = (s32[], f32[4]{0}) parameter(0)\nROOT w = (s32[], f32[4]{0}) while(p), "
                  "condition=%condition, body=%body, backend_config=" +
                      config,
                  computations));
    const OpView loop = named(w, "w");
    EXPECT_EQ(loop.code(), Opcode::k_while);
    EXPECT_EQ(loop.integer(Attr::kTripCount, 0), 32) << config;
    EXPECT_EQ(w.string(w.function(loop.callee()).name), "body");
    EXPECT_EQ(w.string(w.function(loop.callee(Attr::kCondition)).name), "condition");
    EXPECT_EQ(loop.bodies().size(), 2u);
  }
}

TEST(HloReader, CallsBranchesAndFusions) {
  const Workload w = read_text(module_of(R"(
  p = pred[] parameter(0)
  i = s32[] parameter(1)
  x = f32[] parameter(2)
  a = f32[] conditional(p, x, x), true_computation=sine, false_computation=cosine
  b = f32[] conditional(i, x, x, x), branch_computations={sine, cosine, sine}
  c = f32[] call(x), to_apply=sine
  ROOT f = f32[] fusion(c), kind=kLoop, calls=%sine, output_to_operand_aliasing={{}: (0, {})}, backend_config={"fusion_config":{"kind":"__triton"}})",
                                         R"(
sine { x = f32[] parameter(0)
  ROOT s = f32[] sine(x) }
%cosine (y: f32[]) -> f32[] { y = f32[] parameter(0)
  ROOT c = f32[] cosine(y) }, execution_thread="main"
)"));
  EXPECT_EQ(named(w, "a").code(), Opcode::k_if);
  const Ints two = list(named(w, "a"), Attr::kBranches);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(w.string(w.functions()[static_cast<size_t>(two[0])].name), "sine");
  EXPECT_EQ(w.string(w.functions()[static_cast<size_t>(two[1])].name), "cosine");
  EXPECT_EQ(named(w, "b").code(), Opcode::k_case);
  EXPECT_EQ(list(named(w, "b"), Attr::kBranches), (Ints{two[0], two[1], two[0]}));
  const OpView fusion = named(w, "f");
  EXPECT_EQ(fusion.string(Attr::kFusionKind), "kLoop");
  EXPECT_EQ(fusion.string(Attr::kConfig), R"({"fusion_config":{"kind":"__triton"}})");
  EXPECT_EQ(list(fusion, Attr::kOutputAliases), (Ints{0, 0}));
  EXPECT_EQ(w.string(w.function(fusion.callee()).name), "sine");
}

TEST(HloReader, Collectives) {
  const Workload w = read_text(module_of(R"(
  a = f32[8,16]{1,0} parameter(0)
  r = f32[8,16]{1,0} all-reduce(a), channel_id=7, replica_groups={}, use_global_device_ids=true, constrain_layout=true, to_apply=add
  u = f32[8,16]{1,0} all-reduce(a), replica_groups={{0,1,2},{3}}, to_apply=add
  g = f32[8,64]{1,0} all-gather(a), replica_groups=[2,4]<=[8], dimensions={1}
  s = f32[2,16]{1,0} reduce-scatter(a), replica_groups=mesh['x'=2,'y'=4], device_ids=(0,1,2,3,4,5,6,7) {'y'}, dimensions={0}, to_apply=add
  t = f32[8,16]{1,0} all-to-all(a), replica_groups={{0,1,2,3}}, dimensions={1}
  p = f32[8,16]{1,0} collective-permute(a), source_target_pairs={{0,1},{1,0}}
  b = f32[8,16]{1,0} collective-broadcast(a), replica_groups={{1,0}}
  ROOT o = f32[8,16]{1,0} cross-replica-sum(a), to_apply=add)",
                                         kAdd));
  EXPECT_FALSE(named(w, "r").has(Attr::kReplicaGroups));
  EXPECT_FALSE(named(w, "r").has(Attr::kReplicaGroupSize));
  EXPECT_EQ(named(w, "r").integer(Attr::kChannel, 0), 7);
  EXPECT_EQ(named(w, "r").integer(Attr::kUseGlobalIds, 0), 1);
  EXPECT_EQ(list(named(w, "u"), Attr::kRaggedGroups), (Ints{3, 1}));
  EXPECT_EQ(named(w, "u").integer(Attr::kReplicaGroupSize, 0), 3);
  EXPECT_EQ(named(w, "g").integer(Attr::kReplicaGroupSize, 0), 4);
  EXPECT_FALSE(named(w, "g").has(Attr::kRaggedGroups));
  EXPECT_EQ(list(named(w, "g"), Attr::kDimensions), (Ints{1}));
  EXPECT_EQ(named(w, "s").integer(Attr::kReplicaGroupSize, 0), 4);
  EXPECT_EQ(list(named(w, "s"), Attr::kDimensions), (Ints{0}));
  EXPECT_EQ(named(w, "t").integer(Attr::kSplitDimension, -1), 1);
  EXPECT_EQ(named(w, "t").integer(Attr::kConcatDimension, -1), 1);
  EXPECT_EQ(named(w, "t").integer(Attr::kSplitCount, -1), 4);
  EXPECT_EQ(list(named(w, "p"), Attr::kSourceTargetPairs), (Ints{0, 1, 1, 0}));
  EXPECT_EQ(list(named(w, "b"), Attr::kReplicaGroups), (Ints{1, 0}));
  EXPECT_EQ(named(w, "o").code(), Opcode::k_all_reduce);
}

TEST(HloReader, AsynchronousPairs) {
  const Workload w = read_text(module_of(R"(
  a = f32[8]{0} parameter(0)
  rs = f32[8]{0} all-reduce-start(a), replica_groups={{0,1}}, to_apply=add, backend_config={"collective_backend_config":{"is_sync":true}}
  rd = f32[8]{0} all-reduce-done(rs)
  gs = (f32[8]{0}, f32[16]{0}) all-gather-start(a), replica_groups={{0,1}}, dimensions={0}
  gd = f32[16]{0} all-gather-done(gs)
  ps = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,1}}
  pd = f32[8]{0} collective-permute-done(ps)
  cs = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(a), cross_program_prefetch_index=0
  cd = f32[8]{0} copy-done(cs)
  ss = ((f32[8]{0}), f32[4]{0}) reduce-scatter-start(a), replica_groups={{0,1}}, dimensions={0}, to_apply=add
  sd = f32[4]{0} reduce-scatter-done(ss)
  xs = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(a), async_execution_thread="parallel", calls=wrapped
  xu = ((f32[8]{0}), f32[8]{0}, u32[]) async-update(xs), calls=wrapped
  xd = f32[8]{0} async-done(xu), calls=wrapped
  fs = ((f32[8]{0}), f32[8]{0}) fusion-start(a), kind=kCustom, calls=wrapped
  fd = f32[8]{0} fusion-done(fs)
  k = token[] after-all()
  vs = (f32[8]{0}, u32[], token[]) send(a, k), channel_id=1, is_host_transfer=true
  vd = token[] send-done(vs), channel_id=1
  ws = (f32[8]{0}, u32[], token[]) recv(k), channel_id=2
  ROOT wd = (f32[8]{0}, token[]) recv-done(ws), channel_id=2)",
                                         std::string(kAdd) + R"(
wrapped {
  x = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(x)
})"));
  const auto expect = [&](const char* op, Opcode code, int64_t async) {
    EXPECT_EQ(named(w, op).code(), code) << op;
    EXPECT_EQ(named(w, op).integer(Attr::kAsync, 0), async) << op;
  };
  expect("rs", Opcode::k_all_reduce, 1);
  expect("rd", Opcode::k_async_done, 2);
  EXPECT_EQ(named(w, "rd").operand(0), named(w, "rs").result(0));
  EXPECT_EQ(named(w, "rs").string(Attr::kConfig),
            R"({"collective_backend_config":{"is_sync":true}})");
  expect("gs", Opcode::k_all_gather, 1);
  EXPECT_EQ(named(w, "gs").result_type(0).members.size(), 2u);
  expect("gd", Opcode::k_async_done, 2);
  expect("ps", Opcode::k_collective_permute, 1);
  expect("cs", Opcode::k_copy, 1);
  expect("cd", Opcode::k_async_done, 2);
  expect("ss", Opcode::k_reduce_scatter, 1);
  expect("xs", Opcode::k_async_start, 1);
  EXPECT_TRUE(named(w, "xs").callee().valid());
  expect("xu", Opcode::k_async_update, 0);
  expect("xd", Opcode::k_async_done, 2);
  EXPECT_FALSE(named(w, "xd").callee().valid());  // Or its work would count twice.
  EXPECT_FALSE(named(w, "xu").callee().valid());
  expect("fs", Opcode::k_fusion, 1);
  expect("vs", Opcode::k_send, 1);
  expect("vd", Opcode::k_send_done, 2);
  expect("ws", Opcode::k_recv, 1);
  expect("wd", Opcode::k_recv_done, 2);
}

TEST(HloReader, Constants) {
  const Workload w = read_text(module_of(R"(
  a = s32[] constant(-7)
  b = f32[] constant(1e+09)
  c = pred[] constant(true)
  d = s32[2,3]{1,0} constant({ { 1, 2, 3 }, { 4, 5, 6 } })
  e = s32[2,2]{1,0} constant({ /*i0=0*/ { 9, 9 }, /*i0=1*/ { 9, 9 } })
  f = f32[3]{0} constant({0.5, 0.5, 0.5})
  g = f32[3]{0} constant({1, 2, 3})
  h = f32[1000]{0} constant({...})
  i = f32[] constant(-inf)
  j = f32[] constant(nan)
  k = u64[] constant(18446744073709551615)
  l = (s32[], f32[2]{0}) constant((3, {1, 2}))
  m = f32[2]{0} constant(f32[2] {2.5, 2.5})
  n = c64[] constant((1, 2))
  o = s32[0]{0} constant({})
  ROOT p = bf16[] constant(-nan(0x7f)))"));
  EXPECT_EQ(list(named(w, "a"), Attr::kValue), (Ints{-7}));
  EXPECT_EQ(named(w, "b").real(Attr::kRealValue, 0), 1e9);
  EXPECT_EQ(list(named(w, "c"), Attr::kValue), (Ints{1}));
  EXPECT_EQ(list(named(w, "d"), Attr::kValue), (Ints{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(list(named(w, "e"), Attr::kValue), (Ints{9}));
  EXPECT_EQ(named(w, "f").real(Attr::kRealValue, 0), 0.5);
  EXPECT_FALSE(named(w, "g").has(Attr::kRealValue));
  EXPECT_FALSE(named(w, "h").has(Attr::kRealValue));
  EXPECT_TRUE(std::isinf(named(w, "i").real(Attr::kRealValue, 0)));
  EXPECT_TRUE(std::isnan(named(w, "j").real(Attr::kRealValue, 0)));
  EXPECT_EQ(list(named(w, "k"), Attr::kValue), (Ints{-1}));  // The same 64 bits.
  EXPECT_FALSE(named(w, "l").has(Attr::kValue));
  EXPECT_EQ(named(w, "m").real(Attr::kRealValue, 0), 2.5);
  EXPECT_FALSE(named(w, "o").has(Attr::kValue));
  EXPECT_TRUE(std::isnan(named(w, "p").real(Attr::kRealValue, 0)));
}

TEST(HloReader, ManyDifferentIntegersAreNotKept) {
  std::string numbers = "{0";
  for (int i = 1; i < 65; ++i) numbers += "," + std::to_string(i);
  const Workload w = read_text(module_of("ROOT a = s32[65]{0} constant(" + numbers + "})"));
  EXPECT_FALSE(named(w, "a").has(Attr::kValue));
}

TEST(HloReader, SmallSettings) {
  const Workload w = read_text(module_of(R"(
  a = f32[8,8]{1,0} parameter(0)
  s = f32[8]{0} parameter(1)
  u = u64[2]{0} parameter(2)
  f = c64[8,5]{1,0} fft(a), fft_type=RFFT, fft_length={8}
  c = f32[8,8]{1,0} cholesky(a), lower=true
  t = f32[8,8]{1,0} triangular-solve(c, a), left_side=true, lower=false, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  b = (f32[8,8]{1,0}, f32[8]{0}, f32[8]{0}) batch-norm-training(a, s, s), epsilon=0.001, feature_index=1
  g = (u64[2]{0}, u32[4]{0}) rng-bit-generator(u), algorithm=rng_default
  ROOT r = f32[8,8]{1,0} reduce-precision(a), exponent_bits=5, mantissa_bits=10)"));
  EXPECT_EQ(list(named(w, "f"), Attr::kLength), (Ints{8}));
  EXPECT_EQ(named(w, "c").integer(Attr::kLower, -1), 1);
  EXPECT_EQ(named(w, "t").integer(Attr::kLower, -1), 0);
  EXPECT_EQ(named(w, "t").integer(Attr::kLeftSide, -1), 1);
  EXPECT_EQ(named(w, "b").real(Attr::kEpsilon, 0), 0.001);
  EXPECT_FALSE(named(w, "g").has(Attr::kComputeType));
  EXPECT_EQ(count(w, Opcode::k_unknown), 0);
  EXPECT_TRUE(w.notes().empty());
}

TEST(HloReader, LibraryCallsSayWhatTheyCompute) {
  const Workload w = read_text(module_of(R"hlo(
  a = bf16[512,1024]{1,0} parameter(0)
  b = bf16[1024,256]{1,0} parameter(1)
  q = bf16[4,256,16,64]{3,2,1,0} parameter(2)
  k = bf16[4,256,8,64]{3,2,1,0} parameter(3)
  x = f32[2,9,9,6]{3,2,1,0} parameter(4)
  f = f32[3,3,6,12]{3,2,1,0} parameter(5)
  gemm = (bf16[512,256]{1,0}, s8[4194304]{0}) custom-call(a, b), custom_call_target="__cublas$gemm", backend_config={"operation_queue_id":"0","gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},"precision_config":{"operand_precision":["DEFAULT","HIGHEST"],"algorithm":"ALG_DOT_TF32_TF32_F32"},"epilogue":"DEFAULT"},"force_earliest_schedule":false}
  old = bf16[512,256]{1,0} custom-call(a, b), custom_call_target="__cublas$lt$matmul", backend_config="{\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"0\"]}}"
  conv = (f32[2,5,5,12]{3,2,1,0}, u8[0]{0}) custom-call(x, f), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=1, custom_call_target="__cudnn$convForward", backend_config={"cudnn_conv_backend_config":{"conv_result_scale":1}}
  attn = (bf16[4,256,16,64]{3,2,1,0}, u8[0]{0}) custom-call(q, k, k), custom_call_target="__cudnn$fmhaSoftmax", operand_layout_constraints={bf16[4,256,16,64]{3,2,1,0}}, api_version=API_VERSION_STATUS_RETURNING, backend_config={"cudnn_fmha_backend_config":{"fmha_scale":0.125,"intermediate_tensor_shape":{"element_type":"BF16","dimensions":["4","16","256","256"]},"bmm1_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],"rhs_contracting_dimensions":["3"],"lhs_batch_dimensions":["0","2"],"rhs_batch_dimensions":["0","2"]},"mask_type":"CAUSAL","sliding_window_length":128}}
  top = (f32[8,5]{1,0}, s32[8,5]{1,0}) custom-call(a), custom_call_target="TopK", called_computations={add}
  ROOT other = f32[] custom-call(a), custom_call_target="my\"call", custom_call_has_side_effect=true)hlo",
                                         kAdd));
  const OpView gemm = named(w, "gemm");
  EXPECT_EQ(gemm.code(), Opcode::k_custom_call);
  EXPECT_EQ(gemm.string(Attr::kTarget), "__cublas$gemm");
  EXPECT_EQ(list(gemm, Attr::kLhsContracting), (Ints{1}));
  EXPECT_EQ(list(gemm, Attr::kRhsContracting), (Ints{0}));
  EXPECT_FALSE(gemm.has(Attr::kLhsBatching));
  EXPECT_EQ(gemm.integer(Attr::kPrecision, 0), 2);
  EXPECT_EQ(gemm.integer(Attr::kComputeType, -1), static_cast<int64_t>(ElementType::kTF32));
  EXPECT_THAT(std::string(gemm.string(Attr::kConfig)), testing::HasSubstr("epilogue"));
  EXPECT_EQ(list(named(w, "old"), Attr::kLhsContracting), (Ints{1}));
  EXPECT_EQ(list(named(w, "conv"), Attr::kWindowStrides), (Ints{2, 2}));
  EXPECT_EQ(named(w, "conv").integer(Attr::kInputFeature, -1), 3);
  const OpView attention = named(w, "attn");
  EXPECT_EQ(attention.integer(Attr::kHeads, 0), 16);
  EXPECT_EQ(attention.integer(Attr::kKeyValueHeads, 0), 8);
  EXPECT_EQ(attention.integer(Attr::kCausal, 0), 1);
  EXPECT_EQ(attention.integer(Attr::kWindow, 0), 128);
  EXPECT_EQ(list(attention, Attr::kScores), (Ints{4, 16, 256, 256}));
  EXPECT_FALSE(attention.has(Attr::kLhsContracting));  // It is more than one product.
  EXPECT_EQ(named(w, "top").integer(Attr::kK, 0), 5);
  EXPECT_EQ(named(w, "other").string(Attr::kTarget), "my\"call");
  EXPECT_TRUE(w.notes().empty());
}

// A 3×3 convolution of stride 2 from 9×9×6 to 5×5×12, batch 2. Each of its three
// products multiplies 2·5·5·12 outputs by 3·3·6 inputs.
TEST(HloReader, GradientsOfConvolutionsAreConvolutionsOfTheirOperands) {
  const Workload w = read_text(module_of(R"hlo(
  x = f32[2,9,9,6]{3,2,1,0} parameter(0)
  k = f32[12,3,3,6]{3,2,1,0} parameter(1)
  y = f32[2,5,5,12]{3,2,1,0} parameter(2)
  dx = (f32[2,9,9,6]{3,2,1,0}, u8[0]{0}) custom-call(y, k), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, custom_call_target="__cudnn$convBackwardInput"
  ROOT dk = (f32[12,3,3,6]{3,2,1,0}, u8[0]{0}) custom-call(x, y), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, custom_call_target="__cudnn$convBackwardFilter")hlo"));
  const OpView dx = named(w, "dx");
  EXPECT_EQ(dx.integer(Attr::kKernelInput, -1), 0);   // Of k: 12, summed over.
  EXPECT_EQ(dx.integer(Attr::kKernelOutput, -1), 3);  // Of k: 6.
  EXPECT_EQ(list(dx, Attr::kKernelSpatial), (Ints{1, 2}));
  EXPECT_EQ(list(dx, Attr::kBaseDilation), (Ints{2, 2}));
  EXPECT_FALSE(dx.has(Attr::kWindowStrides));
  const OpView dk = named(w, "dk");
  EXPECT_EQ(dk.integer(Attr::kInputFeature, -1), 0);  // Of x: the batch, summed over.
  EXPECT_EQ(dk.integer(Attr::kInputBatch, -1), 3);
  EXPECT_EQ(dk.integer(Attr::kKernelInput, -1), 0);   // Of y: the batch.
  EXPECT_EQ(dk.integer(Attr::kKernelOutput, -1), 3);  // Of y: 12.
  EXPECT_EQ(list(dk, Attr::kKernelSpatial), (Ints{1, 2}));
  EXPECT_EQ(list(dk, Attr::kWindowDilation), (Ints{2, 2}));
  EXPECT_EQ(list(dk, Attr::kOutputSpatial), (Ints{1, 2}));
}

TEST(HloReader, LibraryCallsWithoutTheirConfigurationAreNoted) {
  for (const std::string config :
       {"", ", backend_config={}", ", backend_config={\"gemm_backend_config\":3}",
        ", backend_config={\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[{}]}}",
        ", backend_config=\"not json\""}) {
    const Workload w =
        read_text(module_of("a = f32[8,8] parameter(0)\nROOT g = f32[8,8] custom-call(a, a), "
                            "custom_call_target=\"__cublas$gemm\"" +
                            config));
    ASSERT_EQ(w.notes().size(), 1u) << config;
    EXPECT_THAT(w.notes()[0], testing::HasSubstr("cuBLAS"));
  }
}

TEST(HloReader, ShardingsOfEveryForm) {
  const Workload w = read_text(module_of(R"(
  a = f32[8]{0} parameter(0), sharding={replicated}
  b = f32[8]{0} parameter(1), sharding={mesh['x'=2,'y'=4], [{'x','y'}]}
  c = f32[8]{0} parameter(2), sharding={mesh['x'=2,'y'=4], [{}], replicated={'x'}}
  ROOT t = (f32[8]{0}, f32[8]{0}) tuple(a, b), sharding={{replicated}, {devices=[8]<=[8]}})"));
  const Function& f = w.function(w.entry());
  const auto sharding = [&](size_t i) { return w.shardings()[f.arguments[i].sharding.index]; };
  EXPECT_EQ(sharding(0).text, "{replicated}");
  EXPECT_EQ(sharding(1).text, R"([{"x","y"}])");
  EXPECT_EQ(sharding(2).text, R"([{}], replicated={"x"})");
  EXPECT_EQ(sharding(1).mesh, sharding(2).mesh);
  ASSERT_EQ(w.meshes().size(), 1u);
  EXPECT_EQ(w.shardings()[f.results[0].sharding.index].text, "{{replicated}, {devices=[8]<=[8]}}");
  EXPECT_TRUE(named(w, "t").has(Attr::kSharding));
}

TEST(HloReader, ScopeComesFromMetadata) {
  const Workload w = read_text(module_of(R"(
  a = f32[] parameter(0)
  ROOT b = f32[] tanh(a), metadata={op_type="tanh" op_name="jit(f)/\"q\"/tanh" source_file="a,b}.py" source_line=3 profile_type={1}}, frontend_attributes={k="v}",j={a=1}}, control-predecessors={%a}, result_accuracy={mode=highest})"));
  EXPECT_EQ(named(w, "b").string(Attr::kScope), "jit(f)/\"q\"/tanh");
  EXPECT_TRUE(w.notes().empty());
}

TEST(HloReader, LiteralsOfCustomCallsAreSteppedOver) {
  const Workload w = read_text(module_of(R"(
  a = f32[] custom-call(), custom_call_target="x", literal=f32[] 0.1
  b = f32[] custom-call(a), literal=s32[2]{0} {1, 2}, custom_call_target="y"
  ROOT c = f32[] custom-call(b), custom_call_target="z", literal=( s32[1]{0} {4}, pred[] 1 ))"));
  EXPECT_EQ(named(w, "b").string(Attr::kTarget), "y");
  EXPECT_EQ(named(w, "c").operand(0), named(w, "b").result(0));
}

TEST(HloReader, WhatIsNotKnownIsSaid) {
  const Workload w = read_text(module_of(R"(
  a = f32[] parameter(0)
  ROOT b = f32[] frobnicate(a), colour=blue)"));
  EXPECT_EQ(named(w, "b").code(), Opcode::k_unknown);
  EXPECT_THAT(w.notes(), testing::ElementsAre(testing::HasSubstr("'frobnicate'"),
                                              testing::HasSubstr("'colour'")));
}

TEST(HloReader, AComputationMayBeCalledBeforeItsText) {
  const Workload w = read_text(R"(HloModule m
ENTRY main { a = f32[] parameter(0)
  ROOT c = f32[] call(a), to_apply=later }
later { ROOT x = f32[] parameter(0) })");
  EXPECT_EQ(w.string(w.function(named(w, "c").callee()).name), "later");
  EXPECT_EQ(w.string(w.function(w.entry()).name), "main");
}

// hlo_opcode.h of XLA (2025), every name.
TEST(HloReader, KnowsEveryInstructionOfXla) {
  const std::string names =
      "abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start "
      "all-reduce all-reduce-done all-reduce-start all-to-all and asin asinh async-done "
      "async-start async-update atan atan2 atanh batch-norm-grad batch-norm-inference "
      "batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky clamp "
      "collective-broadcast collective-permute collective-permute-done collective-permute-start "
      "collective-reduce compare complex concatenate conditional constant convert convolution "
      "copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide domain dot "
      "dynamic-reshape dynamic-slice dynamic-update-slice erf exponential exponential-minus-one "
      "fft floor fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite "
      "log log-plus-one logistic map maximum minimum mulhi multiply negate not opt-barrier or "
      "outfeed pad parameter partition-id popcnt power ragged-all-to-all ragged-dot real recv "
      "recv-done reduce reduce-precision reduce-scatter reduce-window remainder replica-id "
      "reshape reverse rng rng-bit-generator rng-get-and-update-state round-nearest-afz "
      "round-nearest-even rsqrt scaled-dot scan scatter select select-and-scatter send send-done "
      "set-dimension-size shift-left shift-right-arithmetic shift-right-logical shuffle sign "
      "sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk transpose "
      "triangular-solve tuple while xor";
  size_t start = 0;
  while (start < names.size()) {
    const size_t end = std::min(names.find(' ', start), names.size());
    const std::string name = names.substr(start, end - start);
    const auto kind = instruction_kind(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_NE(kind->code, Opcode::k_unknown) << name;
    start = end + 1;
  }
  EXPECT_FALSE(instruction_kind("attention").has_value());  // Ours, not XLA's.
  EXPECT_FALSE(instruction_kind("dot_general").has_value());
  EXPECT_FALSE(instruction_kind("-start").has_value());
}

}  // namespace
}  // namespace orrery::hlo
