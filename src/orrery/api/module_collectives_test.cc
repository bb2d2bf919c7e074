#include "orrery/api/module_collectives.h"

#include <gtest/gtest.h>

#include "orrery/api/session.h"
#include "orrery/cluster/collectives_for_test.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

Workload read(const std::string& body) {
  const std::string text =
      "module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas "
      "= 1 : i32} {\n func.func public @main(%x: tensor<1024xf32>) -> " +
      body + "\n}\n}\n";
  return read_workload(Source::from_memory("m.mlir", text), {});
}

ModuleCall call_of(const Workload& w, Opcode code) {
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (w.ops()[i].code == code) return collective_call(w, OpId{i}).value();
  ADD_FAILURE() << "no such operation";
  return {};
}

constexpr const char* kSum =
    "({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n %s = stablehlo.add %a, %b : tensor<f32>\n"
    " stablehlo.return %s : tensor<f32>\n})";

TEST(ModuleCollectives, AnAllReduceCountsItsOperandAndGroups) {
  const Workload w =
      read(std::string("tensor<1024xf32> {\n %y = \"stablehlo.all_reduce\"(%x) ") + kSum +
           " {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : "
           "tensor<2x4xi64>} : (tensor<1024xf32>) -> tensor<1024xf32>\n"
           " return %y : tensor<1024xf32>");
  const ModuleCall c = call_of(w, Opcode::k_all_reduce);
  EXPECT_EQ(c.call.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(c.call.bytes.value, 4096);
  EXPECT_EQ(c.call.group, (RankGroup{4, 2}));
  EXPECT_EQ(c.call.type, ElementType::kF32);
  EXPECT_FALSE(c.uneven);
}

TEST(ModuleCollectives, AnAllGatherCountsItsResult) {
  const Workload w = read(
      "tensor<8192xf32> {\n %y = \"stablehlo.all_gather\"(%x) {all_gather_dim = 0 : i64, "
      "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<1024xf32>) "
      "-> tensor<8192xf32>\n return %y : tensor<8192xf32>");
  const ModuleCall c = call_of(w, Opcode::k_all_gather);
  EXPECT_EQ(c.call.bytes.value, 32768);
  EXPECT_EQ(c.call.group, (RankGroup{8, 1}));
}

TEST(ModuleCollectives, GroupsThatAreNotEvenlySpacedAreSaid) {
  const Workload w =
      read(std::string("tensor<1024xf32> {\n %y = \"stablehlo.all_reduce\"(%x) ") + kSum +
           " {replica_groups = dense<[[0, 1, 2, 7], [3, 4, 5, 6]]> : "
           "tensor<2x4xi64>} : (tensor<1024xf32>) -> tensor<1024xf32>\n"
           " return %y : tensor<1024xf32>");
  const ModuleCall c = call_of(w, Opcode::k_all_reduce);
  EXPECT_TRUE(c.uneven);
  EXPECT_EQ(c.call.group, (RankGroup{4, 2}));  // (7 − 0) / 3, rounded down
}

TEST(ModuleCollectives, APermutationReachesItsFarthestTarget) {
  const Workload w = read(
      "tensor<1024xf32> {\n %y = \"stablehlo.collective_permute\"(%x) {source_target_pairs = "
      "dense<[[0, 1], [1, 2], [7, 0]]> : tensor<3x2xi64>} : (tensor<1024xf32>) -> "
      "tensor<1024xf32>\n return %y : tensor<1024xf32>");
  const ModuleCall c = call_of(w, Opcode::k_collective_permute);
  EXPECT_EQ(c.call.kind, CollectiveKind::kSendReceive);
  EXPECT_EQ(c.call.group, (RankGroup{2, 7}));
}

/// A millisecond for every MiB, nothing else.
class ByBytes final : public CollectivePredictor {
 public:
  CollectiveEstimate predict(const CollectiveCall& call) const override {
    CollectiveEstimate e;
    e.estimate.seconds = Seconds(1e-3 * call.bytes.value / (1024 * 1024));
    return e;
  }
  CollectiveTrust trust(const CollectiveCall& /*call*/) const override { return {}; }
  std::vector<std::string> gaps() const override { return {}; }
  std::vector<std::pair<std::string, std::string>> provenance() const override { return {}; }
};

TEST(ModuleCollectives, TakeTheLibrarysTimeInTheProgram) {
  const Workload w =
      read(std::string("tensor<1024xf32> {\n %y = \"stablehlo.all_reduce\"(%x) ") + kSum +
           " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : "
           "(tensor<1024xf32>) -> tensor<1024xf32>\n return %y : tensor<1024xf32>");
  const Session session;
  const Program program = lower(w, session.catalogue().device("h200"), {});
  std::vector<Estimate> estimates(program.launches.size());
  const ByBytes library;
  const ModuleCollectives network(w, program, library, true);
  network.put(estimates);
  double total = 0;
  for (size_t i = 0; i < estimates.size(); ++i)
    if (network.holds(i)) total += estimates[i].seconds.value;
  EXPECT_DOUBLE_EQ(total, 1e-3 * 4096 / (1024 * 1024));
}

double time_of_two(const std::string& second_of) {
  const std::string groups =
      " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : "
      "(tensor<1024xf32>) -> tensor<1024xf32>\n";
  const Workload w = read(std::string("(tensor<1024xf32>, tensor<1024xf32>) {\n %y = "
                                      "\"stablehlo.all_reduce\"(%x) ") +
                          kSum + groups + " %t = stablehlo.tanh " + second_of +
                          " : tensor<1024xf32>\n %z = \"stablehlo.all_reduce\"(%t) " + kSum +
                          groups + " return %y, %z : tensor<1024xf32>, tensor<1024xf32>");
  const Program program = lower(w, Session().catalogue().device("h200"), {});
  std::vector<Estimate> estimates(program.launches.size());
  const ModuleCollectives network(w, program, MillisecondCalls(), true);
  network.put(estimates);
  double total = 0;
  for (size_t i = 0; i < estimates.size(); ++i)
    if (network.holds(i)) total += estimates[i].seconds.value;
  return total;
}

TEST(ModuleCollectives, OnlyThoseThatDoNotWaitForOneAnotherGoTogether) {
  EXPECT_DOUBLE_EQ(time_of_two("%x"), 1e-3);
  EXPECT_DOUBLE_EQ(time_of_two("%y"), 2e-3);
}

TEST(ModuleCollectives, AClusterTimesThemOnItsNetwork) {
  PredictRequest request;
  request.workload = std::string(ORRERY_SOURCE_DIR) + "/examples/moe_8dev.mlir";
  request.device = "dgx-h100";
  const PredictAnswer fast = Session().predict(request);
  request.overrides = {{"fabric.nvlink.bandwidth", "45 GB/s"}};
  const PredictAnswer slow = Session().predict(request);
  EXPECT_GT(slow.latency_s, fast.latency_s);
  bool found = false;
  for (const KernelSummary& kernel : fast.kernels) found |= kernel.bound == "network";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace orrery
