// Real modules of eight devices. Counts come from grep over the files:
//   instructions  grep -cE '^ +(ROOT )?%[A-Za-z0-9_.-]+ = '
//   parameters    grep -c ' parameter('
//   computations  grep -c '^}'

#include <gtest/gtest.h>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/hlo/hlo_for_test.h"

namespace orrery::hlo {
namespace {

struct Expected {
  const char* file;
  int64_t instructions, parameters, computations;
  int64_t fusions, dots, convolutions;
  Opcode collective;
  int64_t collectives, group_size;
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.file; }

class HloFile : public testing::TestWithParam<Expected> {};

TEST_P(HloFile, IsReadWhole) {
  const Expected& expected = GetParam();
  ORRERY_SHARED_DATA_OR_SKIP(path, std::string("stablehlo/sharded/") + expected.file + ".spmd.hlo");
  const Workload w = read_workload(Source::from_file(path), {});
  EXPECT_EQ(w.format(), "hlo");
  EXPECT_EQ(w.partitions(), 8);
  EXPECT_EQ(w.replicas(), 1);
  EXPECT_EQ(count(w, Opcode::k_unknown), 0);
  EXPECT_TRUE(w.notes().empty()) << w.notes().front();
  EXPECT_EQ(static_cast<int64_t>(w.functions().size()), expected.computations);
  // Parameters are arguments, and every computation returns.
  EXPECT_EQ(static_cast<int64_t>(w.ops().size()),
            expected.instructions - expected.parameters + expected.computations);
  int64_t arguments = 0;
  for (const Function& f : w.functions()) arguments += static_cast<int64_t>(f.arguments.size());
  EXPECT_EQ(arguments, expected.parameters);
  EXPECT_EQ(count(w, Opcode::k_fusion), expected.fusions);
  EXPECT_EQ(count(w, Opcode::k_dot_general), expected.dots);
  EXPECT_EQ(count(w, Opcode::k_convolution), expected.convolutions);
  EXPECT_EQ(count(w, expected.collective), expected.collectives);
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op.code() == Opcode::k_fusion) {
      EXPECT_TRUE(op.callee().valid());
      EXPECT_FALSE(op.string(Attr::kFusionKind).empty());
    }
    if (op.code() == expected.collective) {
      EXPECT_EQ(op.integer(Attr::kReplicaGroupSize, 0), expected.group_size);
      if (expected.group_size > 0) {
        EXPECT_EQ(op.integers(Attr::kReplicaGroups).size(), 8u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sharded, HloFile,
    testing::Values(
        Expected{"gemm_8dev_allgather", 15, 6, 4, 3, 1, 0, Opcode::k_all_gather, 1, 8},
        Expected{"gemm_8dev_allreduce", 16, 8, 5, 3, 1, 0, Opcode::k_all_reduce, 1, 8},
        Expected{"gemm_8dev_reducescatter", 16, 8, 5, 3, 1, 0, Opcode::k_reduce_scatter, 1, 8},
        Expected{"llama3_1b_4l_dp2_tp4_prefill", 1102, 302, 133, 107, 37, 0, Opcode::k_all_reduce,
                 8, 4},
        Expected{"moe_8dev_alltoall", 135, 36, 20, 19, 1, 0, Opcode::k_all_to_all, 2, 8},
        Expected{"resnet50_dp8_train", 17400, 5038, 2230, 1705, 3, 158, Opcode::k_all_reduce, 100,
                 8},
        Expected{"ring_8dev_permute", 8, 3, 3, 2, 0, 0, Opcode::k_collective_permute, 1, 0}),
    [](const auto& info) { return std::string(info.param.file); });

TEST(HloFiles, LlamaKeepsArgumentsGroupsAndScopes) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "stablehlo/sharded/llama3_1b_4l_dp2_tp4_prefill.spmd.hlo");
  const Workload w = read_workload(Source::from_file(path), {});
  EXPECT_EQ(w.name(), "jit_tf_fwd");
  const Function& entry = w.function(w.entry());
  EXPECT_EQ(w.string(entry.name).substr(0, 4), "main");
  ASSERT_EQ(entry.arguments.size(), 40u);
  EXPECT_EQ(w.string(entry.arguments[36].name), "P['emb']");
  EXPECT_EQ(w.string(entry.arguments[39].name), "ids");
  const Sharding& emb = w.shardings()[entry.arguments[36].sharding.index];
  EXPECT_EQ(emb.form, Sharding::Form::kGspmd);
  EXPECT_EQ(emb.text, "{replicated}");
  const Sharding& ids = w.shardings()[entry.arguments[39].sharding.index];
  EXPECT_EQ(ids.form, Sharding::Form::kShardy);
  EXPECT_EQ(ids.text, R"([{"data"}, {}])");
  const Mesh& mesh = w.meshes()[ids.mesh.index];
  ASSERT_EQ(mesh.axes.size(), 2u);
  EXPECT_EQ(mesh.axes[1].name, "model");
  EXPECT_EQ(mesh.axes[1].size, 4);
  const Region& body = w.region(entry.body);
  const Type& table = w.type(ValueId{body.first_argument + 36});
  EXPECT_EQ(table.dims, (std::vector<int64_t>{128256, 2048}));
  EXPECT_EQ(table.element, ElementType::kBF16);
  ASSERT_EQ(entry.result_types.size(), 1u);
  EXPECT_EQ(w.type(entry.result_types[0]).dims, (std::vector<int64_t>{4, 1024, 32064}));

  const OpView reduce = named(w, "all-reduce.9");
  EXPECT_EQ(list(reduce, Attr::kReplicaGroups), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(reduce.integer(Attr::kChannel, 0), 2);
  EXPECT_EQ(reduce.integer(Attr::kUseGlobalIds, 0), 1);
  EXPECT_EQ(reduce.string(Attr::kScope), "jit(tf_fwd)/dot_general");
  EXPECT_EQ(w.string(w.function(reduce.callee()).name), "add.1.clone_promoted");
  EXPECT_EQ(reduce.result_type(0).bytes, 4LL * 1024 * 2048 * 4);

  const OpView gather = named(w, "gather.4");
  EXPECT_EQ(list(gather, Attr::kOffsetDims), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(list(gather, Attr::kStartIndexMap), (std::vector<int64_t>{0}));
  EXPECT_EQ(list(gather, Attr::kSliceSizes), (std::vector<int64_t>{1, 2048}));
  EXPECT_EQ(gather.integer(Attr::kIndexVectorDim, -1), 1);
}

TEST(HloFiles, ResnetKeepsWindowsAndTuples) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "stablehlo/sharded/resnet50_dp8_train.spmd.hlo");
  const Workload w = read_workload(Source::from_file(path), {});
  const Function& entry = w.function(w.entry());
  EXPECT_EQ(entry.arguments.size(), 162u);
  ASSERT_EQ(entry.result_types.size(), 1u);
  const Type& result = w.type(entry.result_types[0]);
  ASSERT_EQ(result.kind, Type::Kind::kTuple);
  EXPECT_EQ(w.type(result.members[0]).dims.size(), 0u);  // The loss.

  const OpView conv = named(w, "convolution-window-dilated.15");
  EXPECT_EQ(list(conv, Attr::kWindowSize), (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(list(conv, Attr::kPaddingLow), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(list(conv, Attr::kPaddingHigh), (std::vector<int64_t>{-1, -1}));
  EXPECT_EQ(list(conv, Attr::kWindowDilation), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(conv.integer(Attr::kKernelInput, -1), 2);
  EXPECT_EQ(conv.integer(Attr::kKernelOutput, -1), 3);

  const OpView reduce = named(w, "all-reduce.534");
  EXPECT_EQ(reduce.operand_count(), 4u);
  EXPECT_EQ(reduce.result_type(0).members.size(), 4u);
  EXPECT_EQ(reduce.result_type(0).bytes, (256 + 256 + 64 + 64) * 4);

  const OpView scatter = named(w, "scatter.2");
  EXPECT_EQ(list(scatter, Attr::kUpdateWindowDims), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_TRUE(scatter.has(Attr::kInsertedWindowDims));
  EXPECT_EQ(list(scatter, Attr::kStartIndexMap), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(HloFiles, RingNamesItsPairs) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "stablehlo/sharded/ring_8dev_permute.spmd.hlo");
  const Workload w = read_workload(Source::from_file(path), {});
  EXPECT_EQ(list(named(w, "ppermute.3"), Attr::kSourceTargetPairs),
            (std::vector<int64_t>{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 0}));
}

TEST(HloFiles, MoeSplitsOverEightRanks) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "stablehlo/sharded/moe_8dev_alltoall.spmd.hlo");
  const Workload w = read_workload(Source::from_file(path), {});
  const OpView op = named(w, "all-to-all.1");
  EXPECT_EQ(op.operand_count(), 8u);
  EXPECT_EQ(op.integer(Attr::kSplitCount, 0), 8);
  EXPECT_EQ(op.result_type(0).bytes, 8LL * 512 * 14336 * 4);
  EXPECT_EQ(named(w, "get-tuple-element.33").integer(Attr::kIndex, -1), 7);
}

}  // namespace
}  // namespace orrery::hlo
