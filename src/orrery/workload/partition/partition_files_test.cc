#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/partition/partition.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

/// What XLA made of the same module (`*.spmd.hlo`, by its CPU compiler) against our partitioning:
/// tensors that each kind of collective carries, by their elements, and products of matrices. Types
/// are left out, because the CPU's collectives carry f32 for bf16; so is how tensors are put
/// together in one collective.
struct Exchanged {
  std::map<std::pair<std::string, int64_t>, int> tensors;  ///< By kind and elements.
  std::map<std::string, int64_t> elements;                 ///< By kind.
  std::map<std::string, std::map<int64_t, int>> groups;    ///< By kind: ranks a group.
  double products = 0;
  double arguments = 0;
  double outputs = 0;
};

Exchanged exchanged(const Workload& w) {
  Exchanged found;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op_class(op.code()) != OpClass::kCollective) continue;
    const std::string kind(name(op.code()));
    int64_t pieces = 0;
    for (uint32_t o = 0; o < op.operand_count(); ++o) {
      const int64_t elements = op.operand_type(o).elements;
      // HLO writes the pieces of an all-to-all one by one.
      if (op.code() == Opcode::k_all_to_all) {
        pieces += elements;
      } else {
        ++found.tensors[{kind, elements}];
      }
      found.elements[kind] += elements;
    }
    if (pieces > 0) ++found.tensors[{kind, pieces}];
    ++found.groups[kind][op.integer(Attr::kReplicaGroupSize, 0)];
  }
  const TotalCost total = total_cost(w, w.entry());
  found.products = total.flops(Unit::kMatrix);
  const Function& entry = w.function(w.entry());
  const Region& body = w.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count; ++i)
    found.arguments += static_cast<double>(w.type(ValueId{body.first_argument + i}).bytes);
  for (const TypeId t : entry.result_types) found.outputs += static_cast<double>(w.type(t).bytes);
  return found;
}

class ShardedModules : public ::testing::TestWithParam<const char*> {};

TEST_P(ShardedModules, ExchangeAndComputeWhatXlasPartitionsDo) {
  const std::string base = std::string("stablehlo/sharded/") + GetParam();
  ORRERY_SHARED_DATA_OR_SKIP(module, base + ".mlir");
  ORRERY_SHARED_DATA_OR_SKIP(truth, base + ".spmd.hlo");
  const Workload whole = load_workload(module, {});
  ASSERT_TRUE(needs_partitioning(whole));
  const Workload part = partition_module(whole);
  const Exchanged ours = exchanged(part);
  const Exchanged xla = exchanged(load_workload(truth, {}));
  EXPECT_EQ(ours.tensors, xla.tensors);
  EXPECT_EQ(ours.elements, xla.elements);
  for (const auto& [kind, sizes] : xla.groups) {
    ASSERT_TRUE(ours.groups.contains(kind));
    EXPECT_EQ(ours.groups.at(kind).begin()->first, sizes.begin()->first) << kind;
    EXPECT_EQ(ours.groups.at(kind).size(), sizes.size()) << kind;
  }
  EXPECT_NEAR(ours.products / xla.products, 1, xla.products > 0 ? 1e-9 : 0) << ours.products;
  EXPECT_EQ(ours.arguments, xla.arguments);
  EXPECT_EQ(ours.outputs, xla.outputs);
  EXPECT_TRUE(part.notes().empty());
}

INSTANTIATE_TEST_SUITE_P(, ShardedModules,
                         ::testing::Values("gemm_8dev_allgather", "gemm_8dev_allreduce",
                                           "gemm_8dev_reducescatter", "moe_8dev_alltoall",
                                           "resnet50_dp8_train", "llama3_1b_4l_dp2_tp4_prefill"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ShardedModule, ARingKeepsItsPermutation) {
  ORRERY_SHARED_DATA_OR_SKIP(module, "stablehlo/sharded/ring_8dev_permute.mlir");
  ORRERY_SHARED_DATA_OR_SKIP(truth, "stablehlo/sharded/ring_8dev_permute.spmd.hlo");
  const Exchanged ours = exchanged(partition_module(load_workload(module, {})));
  EXPECT_EQ(ours.tensors, exchanged(load_workload(truth, {})).tensors);
}

TEST(ShardedModule, DataParallelTrainingSumsEveryGradientOnce) {
  ORRERY_SHARED_DATA_OR_SKIP(module, "stablehlo/sharded/gpt2_dp8_train.mlir");
  const Workload whole = load_workload(module, {});
  const Exchanged ours = exchanged(partition_module(whole));
  // Every parameter: 12 layers of 12 · 768² weights and 4 · 768 of normalisation, the last
  // normalisation, and the tables of words at either end, which this model keeps apart; and the
  // loss.
  EXPECT_EQ(ours.elements,
            (std::map<std::string, int64_t>{
                {"all_reduce", 12 * (12 * 768 * 768 + 4 * 768) + 2 * 768 + 2 * 50257 * 768 + 1}}));
  EXPECT_NEAR(8 * ours.products / total_cost(whole, whole.entry()).flops(Unit::kMatrix), 1, 1e-9);
}

}  // namespace
}  // namespace orrery
