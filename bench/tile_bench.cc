#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/tile/features.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

const std::string kRoot = ORRERY_SOURCE_DIR;

const Device& h200() {
  static const Device device = Catalogue(kRoot + "/hardware").device("h200");
  return device;
}

/// Operators as they mix in a table of measurements, of random sizes.
std::vector<Kernel> mixed_kernels(size_t count) {
  SplitMix64 random(1);
  const auto size = [&](int64_t most) { return static_cast<int64_t>(1 + random.below(most)); };
  std::vector<Kernel> kernels;
  while (kernels.size() < count) {
    const std::string shape = fmt::format(R"({{"shape": [{}, {}]}})", size(8192), size(8192));
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
        kernels.push_back(operator_kernel(
            "gemm", "bf16",
            fmt::format(R"({{"m": {}, "n": {}, "k": {}}})", size(8192), size(8192), size(8192))));
        break;
      case 3:
        kernels.push_back(
            operator_kernel("bmm", "fp16",
                            fmt::format(R"({{"b": {}, "m": {}, "n": {}, "k": {}}})", size(64),
                                        size(1024), size(1024), size(256))));
        break;
      case 4:
        kernels.push_back(operator_kernel(
            "gemm", "fp32",
            fmt::format(R"({{"m": {}, "n": {}, "k": {}}})", size(4096), size(4096), size(4096))));
        break;
      case 5:
        kernels.push_back(operator_kernel(
            "conv2d", "bf16",
            fmt::format(R"({{"n": {0}, "c": {1}, "h": {2}, "w": {2}, "k": {3}, "r": 3, "pad": 1}})",
                        size(32), 8 * size(64), 3 + size(64), 8 * size(64))));
        break;
      case 6:
      case 7:
        kernels.push_back(operator_kernel(
            "sdpa", "bf16",
            fmt::format(R"({{"b": {}, "h": 32, "kv": 8, "s": {}, "t": {}, "d": 128}})", size(8),
                        random.below(2) == 0 ? 1 : 9 + size(2000), 2048 + size(8192))));
        break;
      case 8:
        kernels.push_back(operator_kernel("add", "bf16", shape));
        break;
      case 9:
        kernels.push_back(operator_kernel("layernorm", "bf16", shape));
        break;
      case 10:
        kernels.push_back(operator_kernel("softmax", "fp32", shape));
        break;
      default:
        kernels.push_back(operator_kernel("transpose", "bf16", shape));
    }
  }
  return kernels;
}

/// By the fit that is shipped.
const Predictor& tile() {
  static const auto predictor =
      Registry<KernelModel>::instance()
          .at("tile", "kernel model")
          .create()
          ->bind(h200(), {.stack = "torch-eager", .data = kRoot + "/data"});
  return *predictor;
}

/// Kernels of all classes in batches: what a search loop pays per kernel.
void BM_TileKernels(benchmark::State& state) {
  const std::vector<Kernel> kernels = mixed_kernels(static_cast<size_t>(state.range(0)));
  std::vector<Estimate> estimates(kernels.size());
  const Predictor& predictor = tile();
  for (auto _ : state) {
    predictor.predict(kernels, {}, estimates);
    benchmark::DoNotOptimize(estimates.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kernels.size()));
}
BENCHMARK(BM_TileKernels)->Arg(64)->Arg(512)->Arg(4096);

/// The same one by one.
void BM_TileKernelsAlone(benchmark::State& state) {
  const std::vector<Kernel> kernels = mixed_kernels(4096);
  const Predictor& predictor = tile();
  size_t next = 0;
  for (auto _ : state) {
    Estimate estimate;
    predictor.predict({&kernels[next], 1}, {}, {&estimate, 1});
    benchmark::DoNotOptimize(estimate.seconds);
    next = (next + 1) % kernels.size();
  }
}
BENCHMARK(BM_TileKernelsAlone);

/// The part of it that describes a kernel.
void BM_DescribeKernels(benchmark::State& state) {
  const std::vector<Kernel> kernels = mixed_kernels(4096);
  const TileGpu gpu(h200());
  TileDescription d;
  for (auto _ : state)
    for (const Kernel& kernel : kernels) {
      gpu.describe(kernel, {}, d);
      benchmark::DoNotOptimize(d.seconds);
    }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kernels.size()));
}
BENCHMARK(BM_DescribeKernels);

}  // namespace
}  // namespace orrery
