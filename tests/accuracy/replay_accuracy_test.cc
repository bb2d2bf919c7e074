// Does a replay give what ASTRA-sim 2 gives for the same files? Its figures are those of its
// analytical networks on its own microbenchmarks and its ResNet-50, to the nanosecond.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/cluster/replay.h"

namespace orrery {
namespace {

struct Reference {
  const char* trace;
  uint64_t aware_ns;
  uint64_t unaware_ns;
};

constexpr Reference kReferences[] = {
    {"all_reduce/8npus_1MB/all_reduce", 57'426, 55'222},
    {"all_gather/8npus_1MB/all_gather", 44'058, 34'908},
    {"reduce_scatter/8npus_1MB/reduce_scatter", 28'950, 27'810},
    {"all_to_all/8npus_1MB/all_to_all", 114'000, 109'668},
    {"resnet50_dlrm_8npu/Resnet50_DataParallel", 1'082'502'830, 1'082'502'800},
};

TEST(ReplayAccuracy, IsThatOfAstraSim) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "chakra");
  for (const Reference& reference : kReferences)
    for (bool congestion : {true, false})
      for (bool exact : {true, false}) {
        ReplayRequest request;
        request.prefix = fmt::format("{}/et/{}", folder, reference.trace);
        request.network = folder + "/config/HGX-H100-validated.yml";
        request.system = folder + "/config/HGX-H100-validated.json";
        request.congestion = congestion;
        request.exact = exact;
        const ReplayAnswer answer = replay(request);
        EXPECT_EQ(answer.total_ns, congestion ? reference.aware_ns : reference.unaware_ns)
            << reference.trace;
        EXPECT_NE(answer.folded, exact) << reference.trace;
        ASSERT_EQ(answer.ranks.size(), 8u);
        for (const ReplayRank& rank : answer.ranks) EXPECT_EQ(rank, answer.ranks[0]);
      }
}

TEST(ReplayAccuracy, ComputationIsWhatWasTraced) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "chakra");
  ReplayRequest request;
  request.prefix = folder + "/et/resnet50_dlrm_8npu/Resnet50_DataParallel";
  request.network = folder + "/config/HGX-H100-validated.yml";
  request.system = folder + "/config/HGX-H100-validated.json";
  const ReplayAnswer answer = replay(request);
  EXPECT_EQ(answer.ranks[0].compute_ns, 1'082'450'000u);
  EXPECT_EQ(answer.ranks[0].exposed_communication_ns(), 52'830u);
}

TEST(ReplayAccuracy, OneRankTellsOfAllRanks) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "chakra");
  ReplayRequest request;
  request.prefix = folder + "/et/all_reduce/8npus_1MB/all_reduce";
  request.network = folder + "/config/switch_64.yml";
  request.ranks = 64;
  for (const char* system : {"sys_1d.json", "sys_1d_direct.json", "sys_1d_hd.json"})
    for (bool congestion : {true, false}) {
      request.system = fmt::format("{}/config/{}", folder, system);
      request.congestion = congestion;
      request.exact = false;
      const ReplayAnswer folded = replay(request);
      request.exact = true;
      const ReplayAnswer every = replay(request);
      EXPECT_TRUE(folded.folded);
      EXPECT_FALSE(every.folded);
      EXPECT_EQ(folded.ranks, every.ranks) << system;
    }
}

}  // namespace
}  // namespace orrery
