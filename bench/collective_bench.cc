// What one closed-form collective costs.

#include <benchmark/benchmark.h>

#include "orrery/base/registry.h"
#include "orrery/cluster/collective.h"
#include "orrery/hardware/catalogue.h"

namespace orrery {
namespace {

const std::string kRoot = ORRERY_SOURCE_DIR;

void predict(benchmark::State& state, const char* library, const char* cluster, RankGroup group) {
  const auto predictor =
      Registry<CollectiveLibrary>::instance()
          .at(library, "library")
          .create()
          ->bind(Catalogue(kRoot + "/hardware").cluster(cluster), kRoot + "/data");
  double bytes = 1024;
  for (auto _ : state) {
    bytes = bytes > 1e9 ? 1024 : bytes * 1.01;
    benchmark::DoNotOptimize(
        predictor->predict({CollectiveKind::kAllReduce, Bytes(bytes), group, ElementType::kBF16}));
  }
}

BENCHMARK_CAPTURE(predict, nccl_one_node, "nccl", "dgx-h100", RankGroup{8, 1});
BENCHMARK_CAPTURE(predict, nccl_many_nodes, "nccl", "dgx-h100", RankGroup{1024, 8});
BENCHMARK_CAPTURE(predict, vllm_custom, "vllm-custom", "dgx-h100", RankGroup{8, 1});
BENCHMARK_CAPTURE(predict, torus, "alpha-beta", "tpu-v5p-pod", RankGroup{256, 1});

}  // namespace
}  // namespace orrery
