#include "orrery/workload/partition/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Workload part_of(const std::string& module) {
  const Workload w = read_workload(Source::from_memory("m.mlir", module), {});
  EXPECT_TRUE(needs_partitioning(w));
  return partition_module(w);
}

/// On 8 devices, two by four.
Workload part_on_2x4(const std::string& functions) {
  return part_of(
      "module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
      "sdy.mesh @mesh = <[\"data\"=2, \"model\"=4]>\n" +
      functions + "\n}\n");
}

std::string shape(const Type& type) { return fmt::format("[{}]", fmt::join(type.dims, ",")); }

/// Collectives in order: "all_reduce [4,16] by 4: 0 1 2 3".
std::vector<std::string> collectives(const Workload& w) {
  std::vector<std::string> found;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op_class(op.code()) != OpClass::kCollective) continue;
    std::string text = fmt::format("{} {}", name(op.code()), shape(op.operand_type(0)));
    if (op.result_type(0).dims != op.operand_type(0).dims)
      text += " to " + shape(op.result_type(0));
    const auto groups = op.integers(Attr::kReplicaGroups);
    const auto size = static_cast<size_t>(op.integer(Attr::kReplicaGroupSize, 0));
    if (size > 0) text += fmt::format(" over {}", fmt::join(groups.subspan(0, size), " "));
    found.push_back(text);
  }
  return found;
}

OpView first(const Workload& w, Opcode code, int which = 0) {
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (w.ops()[i].code == code && which-- == 0) return w.view(OpId{i});
  ADD_FAILURE() << "no " << name(code);
  return w.view(OpId{0});
}

int64_t count(const Workload& w, Opcode code) {
  return std::ranges::count_if(w.ops(), [&](const Op& op) { return op.code == code; });
}

constexpr const char* kTwoLayers = R"(
  %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1 = stablehlo.tanh %0 : tensor<8x64xf32>
  %2 = stablehlo.dot_general %1, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
})";

TEST(Partition, TensorParallelLayersEndInOneAllReduce) {
  const Workload w = part_on_2x4(
      std::string("func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                  "[{\"data\"}, {}]>}, %a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                  "[{}, {\"model\"}]>}, %b: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                  "[{\"model\"}, {}]>}) -> tensor<8x16xf32> {") +
      kTwoLayers);
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [4,16] over 0 1 2 3"));
  EXPECT_EQ(shape(first(w, Opcode::k_dot_general).operand_type(0)), "[4,16]");
  EXPECT_EQ(shape(first(w, Opcode::k_dot_general).operand_type(1)), "[16,16]");
  EXPECT_EQ(shape(first(w, Opcode::k_tanh).result_type(0)), "[4,16]");
  EXPECT_EQ(w.partitions(), 8);
  EXPECT_FALSE(needs_partitioning(w));
}

TEST(Partition, GspmdTilesSayTheSame) {
  // [2,1,4] tiles of 8 devices, the last dimension of copies: rows over the major 2. And
  // [1,4,2] of the transposed 2×4: columns over the minor 4.
  const Workload w = part_of(
      std::string("module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
                  "func.func @main(%x: tensor<8x16xf32> {mhlo.sharding = "
                  "\"{devices=[2,1,4]<=[8] last_tile_dim_replicate}\"}, %a: tensor<16x64xf32> "
                  "{mhlo.sharding = \"{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\"}, "
                  "%b: tensor<64x16xf32> {mhlo.sharding = "
                  "\"{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}\"}) -> "
                  "tensor<8x16xf32> {") +
      kTwoLayers + "\n}\n");
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [4,16] over 0 1 2 3"));
  EXPECT_EQ(shape(first(w, Opcode::k_tanh).result_type(0)), "[4,16]");
}

TEST(Partition, AResultSharedOutOverTheSameDevicesIsReduceScattered) {
  const Workload w = part_on_2x4(
      "func.func @main(%h: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, "
      "{\"model\"}]>}, %b: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"model\"}, "
      "{}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"model\"}, {}]>}) {\n"
      "%0 = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, "
      "tensor<64x16xf32>) -> tensor<8x16xf32>\n return %0 : tensor<8x16xf32>\n}");
  EXPECT_THAT(collectives(w), ElementsAre("reduce_scatter [8,16] to [2,16] over 0 1 2 3"));
}

TEST(Partition, SummandsOverTheSameDevicesAreAddedBeforeTheyAreSummed) {
  // Two branches of a parallel block: one all-reduce, not two.
  const Workload w = part_on_2x4(R"(
func.func @main(%h: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %a: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %b: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.dot_general %h, %a, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x16xf32>
  %3 = stablehlo.add %x, %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
})");
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [8,16] over 0 1 2 3"));
  EXPECT_EQ(count(w, Opcode::k_add), 2);
}

TEST(Partition, WeightsSharedOutOverTheBatchsDevicesAreGathered) {
  // Fully sharded data parallel: both hold "data", so that the weight must come together.
  const Workload w = part_on_2x4(
      "func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, "
      "{}]>}, %a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}) -> "
      "(tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}) {\n"
      "%0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x16xf32>, "
      "tensor<16x64xf32>) -> tensor<8x64xf32>\n return %0 : tensor<8x64xf32>\n}");
  EXPECT_THAT(collectives(w), ElementsAre("all_gather [8,64] to [16,64] over 0 4"));
}

std::string constrained(const std::string& from, const std::string& to) {
  return "func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, " + from +
         ">}) -> (tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, " + to +
         ">}) {\n%0 = stablehlo.tanh %x : tensor<16x64xf32>\n return %0 : tensor<16x64xf32>\n}";
}

TEST(Partition, AxesThatTradePlacesAreAnAllToAll) {
  EXPECT_THAT(collectives(part_on_2x4(constrained("[{\"model\"}, {}]", "[{}, {\"model\"}]"))),
              ElementsAre("all_to_all [4,64] to [16,16] over 0 1 2 3"));
}

TEST(Partition, AnAxisThatIsDroppedIsGathered) {
  EXPECT_THAT(
      collectives(part_on_2x4(constrained("[{\"data\", \"model\"}, {}]", "[{\"data\"}, {}]"))),
      ElementsAre("all_gather [2,64] to [8,64] over 0 1 2 3"));
}

TEST(Partition, WhatADeviceHoldsAlreadyIsSlicedWithoutCommunication) {
  const Workload w = part_on_2x4(constrained("[{}, {}]", "[{\"data\"}, {\"model\"}]"));
  EXPECT_THAT(collectives(w), IsEmpty());
  EXPECT_EQ(shape(first(w, Opcode::k_dynamic_slice).result_type(0)), "[8,16]");
}

TEST(Partition, TheSamePiecesOnOtherDevicesArePermuted) {
  const Workload w =
      part_on_2x4(constrained("[{\"model\", \"data\"}, {}]", "[{\"data\", \"model\"}, {}]"));
  EXPECT_THAT(collectives(w), ElementsAre("collective_permute [2,64]"));
  // Device (data d, model m) = 4 d + m holds piece 2 m + d, which belongs on device 2 m + d.
  const auto pairs = first(w, Opcode::k_collective_permute).integers(Attr::kSourceTargetPairs);
  EXPECT_THAT(std::vector<int64_t>(pairs.begin(), pairs.end()),
              ElementsAre(0, 0, 1, 2, 2, 4, 3, 6, 4, 1, 5, 3, 6, 5, 7, 7));
}

TEST(Partition, PartsOfAnAxis) {
  // Of "model" = 4, the major 2 on rows, the minor 2 on columns.
  const Workload w =
      part_on_2x4(constrained("[{\"model\":(1)2}, {\"model\":(2)2}]", "[{\"model\":(1)2}, {}]"));
  EXPECT_THAT(collectives(w), ElementsAre("all_gather [8,32] to [8,64] over 0 1"));
}

TEST(Partition, UnevenPartsAreRoundedUp) {
  const Workload w = part_on_2x4(
      "func.func @main(%x: tensor<10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\", "
      "\"model\"}]>}) -> tensor<10xf32> {\n%0 = stablehlo.tanh %x : tensor<10xf32>\n return %0 : "
      "tensor<10xf32>\n}");
  EXPECT_EQ(shape(first(w, Opcode::k_tanh).result_type(0)), "[2]");
}

TEST(Partition, HeadsAreTheMajorPartOfWhatTheyAreSplitFrom) {
  const Workload w = part_on_2x4(
      "func.func @main(%x: tensor<2x6x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, "
      "{\"model\"}]>}) -> tensor<12x32xf32> {\n"
      "%0 = stablehlo.reshape %x : (tensor<2x6x32xf32>) -> tensor<2x6x8x4xf32>\n"
      "%1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x6x8x4xf32>) -> "
      "tensor<2x8x6x4xf32>\n"
      "%2 = stablehlo.transpose %1, dims = [0, 2, 1, 3] : (tensor<2x8x6x4xf32>) -> "
      "tensor<2x6x8x4xf32>\n"
      "%3 = stablehlo.reshape %2 : (tensor<2x6x8x4xf32>) -> tensor<12x32xf32>\n"
      "return %3 : tensor<12x32xf32>\n}");
  EXPECT_THAT(collectives(w), IsEmpty());
  EXPECT_EQ(shape(first(w, Opcode::k_reshape).result_type(0)), "[2,6,2,4]");
  EXPECT_EQ(shape(first(w, Opcode::k_transpose).result_type(0)), "[2,2,6,4]");
  EXPECT_EQ(shape(first(w, Opcode::k_reshape, 1).result_type(0)), "[12,8]");
}

TEST(Partition, AnEmbeddingSharedOutByWordsIsSummed) {
  const Workload w = part_on_2x4(
      "func.func @main(%t: tensor<1000x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"model\"}, "
      "{}]>}, %i: tensor<8x16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}, {}]>}) "
      "-> tensor<8x16x64xf32> {\n%0 = \"stablehlo.gather\"(%t, %i) <{dimension_numbers = "
      "#stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], "
      "index_vector_dim = 2>, slice_sizes = array<i64: 1, 64>}> : (tensor<1000x64xf32>, "
      "tensor<8x16x1xi32>) -> tensor<8x16x64xf32>\n return %0 : tensor<8x16x64xf32>\n}");
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [4,16,64] over 0 1 2 3"));
  EXPECT_EQ(shape(first(w, Opcode::k_gather).operand_type(0)), "[250,64]");
}

TEST(Partition, ABatchsGradientConvolutionIsSummed) {
  // As JAX writes the gradient of a kernel: the batch stands where features are contracted.
  const Workload w = part_on_2x4(
      "func.func @main(%x: tensor<16x8x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, "
      "{}, {}, {}]>}, %g: tensor<16x8x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, "
      "{}, {}, {}]>}) -> tensor<3x3x4x32xf32> {\n"
      "%0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], "
      "window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : "
      "i64} : (tensor<16x8x8x4xf32>, tensor<16x8x8x32xf32>) -> tensor<3x3x4x32xf32>\n"
      "return %0 : tensor<3x3x4x32xf32>\n}");
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [3,3,4,32] over 0 4"));
  EXPECT_EQ(shape(first(w, Opcode::k_convolution).operand_type(1)), "[8,8,8,32]");
}

TEST(Partition, LoopsStayLoops) {
  const Workload w = part_on_2x4(R"(
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %b: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<8x16xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:4 = stablehlo.while(%i = %c, %h = %x, %u = %a, %v = %b) : tensor<i32>, tensor<8x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  cond {
    %n = stablehlo.constant dense<12> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %1 = stablehlo.dot_general %h, %u, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %2, %u, %v : tensor<i32>, tensor<8x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  }
  return %0#1 : tensor<8x16xf32>
})");
  EXPECT_THAT(collectives(w), ElementsAre("all_reduce [4,16] over 0 1 2 3"));
  const OpView loop = first(w, Opcode::k_while);
  EXPECT_EQ(loop.integer(Attr::kTripCount, -1), 12);
  EXPECT_EQ(shape(loop.result_type(1)), "[4,16]");
  EXPECT_EQ(shape(loop.result_type(2)), "[16,4]");
}

TEST(Partition, AFunctionIsSharedOutAsItsCallsAre) {
  const std::string functions = R"(
func.func private @f(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %0 = stablehlo.tanh %x : tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}
func.func @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %b: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %c: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>) {
  %0 = call @f(%a) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %1 = call @f(%b) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %2 = call @f(%c) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  return %0, %1, %2 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
})";
  const Workload w = part_on_2x4(functions);
  EXPECT_EQ(w.functions().size(), 3u);  // main, f by rows, f by columns
  EXPECT_EQ(first(w, Opcode::k_call).callee(), first(w, Opcode::k_call, 1).callee());
  EXPECT_NE(first(w, Opcode::k_call).callee(), first(w, Opcode::k_call, 2).callee());
  EXPECT_EQ(shape(first(w, Opcode::k_call, 2).result_type(0)), "[16,16]");
  EXPECT_THAT(collectives(w), IsEmpty());
}

TEST(Partition, ConstantsAreMadeWhereAndAsTheyAreNeeded) {
  const Workload w = part_on_2x4(R"(
func.func @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %b: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<16x64xf32>, tensor<16x64xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zs = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
  %0 = stablehlo.maximum %a, %zs : tensor<16x64xf32>
  %1 = stablehlo.maximum %b, %zs : tensor<16x64xf32>
  return %0, %1 : tensor<16x64xf32>, tensor<16x64xf32>
})");
  EXPECT_THAT(collectives(w), IsEmpty());
  EXPECT_EQ(shape(first(w, Opcode::k_broadcast_in_dim).result_type(0)), "[8,64]");
  EXPECT_EQ(shape(first(w, Opcode::k_broadcast_in_dim, 1).result_type(0)), "[16,16]");
  EXPECT_EQ(count(w, Opcode::k_constant), 1);
}

TEST(Partition, WhatIsNotKnownIsGatheredAndSaid) {
  const Workload w = part_on_2x4(
      "func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, "
      "{}]>}) -> tensor<16x64xf32> {\n%0 = stablehlo.custom_call @mystery(%x) : "
      "(tensor<16x64xf32>) -> tensor<16x64xf32>\n return %0 : tensor<16x64xf32>\n}");
  EXPECT_THAT(collectives(w), ElementsAre("all_gather [8,64] to [16,64] over 0 4"));
  ASSERT_EQ(w.notes().size(), 1u);
  EXPECT_THAT(w.notes()[0], HasSubstr("how custom_call mystery is partitioned is not known"));
}

TEST(Partition, ManualComputationsKeepTheirOwnCollectives) {
  const Workload w = part_on_2x4(R"(
func.func @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%p: tensor<8x16xf32>) {
    %1 = "stablehlo.all_gather"(%p) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> : (tensor<8x16xf32>) -> tensor<8x64xf32>
    sdy.return %1 : tensor<8x64xf32>
  } : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %2 = stablehlo.tanh %0 : tensor<16x64xf32>
  return %2 : tensor<16x64xf32>
})");
  EXPECT_THAT(collectives(w), ElementsAre("all_gather [8,16] to [8,64] over 0 1 2 3"));
  EXPECT_EQ(shape(first(w, Opcode::k_tanh).result_type(0)), "[8,64]");
  const Region& body = w.region(w.function(w.entry()).body);
  EXPECT_EQ(shape(w.type(ValueId{body.first_argument})), "[8,16]");  // the sharding reaches back
}

TEST(Partition, PrioritiesDecideConflicts) {
  // Two arguments that want the sum's rows and columns on the same axis: the first round wins.
  const auto sum = [](const std::string& a, const std::string& b) {
    return shape(first(part_on_2x4("func.func @main(%a: tensor<16x64xf32> {sdy.sharding = "
                                   "#sdy.sharding<@mesh, " +
                                   a +
                                   ">}, %b: tensor<16x64xf32> {sdy.sharding = "
                                   "#sdy.sharding<@mesh, " +
                                   b +
                                   ">}) -> tensor<16x64xf32> {\n%0 = stablehlo.add %a, %b : "
                                   "tensor<16x64xf32>\n %1 = stablehlo.tanh %0 : "
                                   "tensor<16x64xf32>\n return %1 : tensor<16x64xf32>\n}"),
                       Opcode::k_tanh)
                     .result_type(0));
  };
  EXPECT_EQ(sum("[{\"model\"}p0, {?}]", "[{?}, {\"model\"}p1]"), "[4,64]");
  EXPECT_EQ(sum("[{\"model\", ?}p1, {?}p1]", "[{?}p1, {\"model\", ?}p0]"), "[16,16]");
}

std::string refusal(const std::string& sharding) {
  try {
    part_on_2x4("func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, " +
                sharding + ">}) -> tensor<16x64xf32> {\n return %x : tensor<16x64xf32>\n}");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "";
}

TEST(Partition, RefusesWhatItCannotFollowWithWhatToGiveInstead) {
  EXPECT_THAT(refusal("[{\"nowhere\"}, {}]"), HasSubstr("no axis \"nowhere\""));
  EXPECT_THAT(refusal("[{\"data\"}]"), HasSubstr("is not read"));
  EXPECT_THAT(refusal("[{\"data\"}, {\"data\"}]"), HasSubstr("uses an axis twice"));
  EXPECT_THAT(refusal("[{\"model\":(1)3}, {}]"), HasSubstr("share no common grid"));
  EXPECT_THAT(refusal("[{\"data\"}]"), HasSubstr("compile().as_text()"));
}

}  // namespace
}  // namespace orrery
