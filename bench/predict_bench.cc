#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/module_text.h"
#include "orrery/api/session.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/stack.h"

namespace orrery {
namespace {

const std::string kRoot = ORRERY_SOURCE_DIR;

/// One batch of roofline predictions: what a search loop pays per kernel.
void BM_RooflineKernels(benchmark::State& state) {
  const Device device = Catalogue(kRoot + "/hardware").device("h200");
  const auto predictor =
      Registry<KernelModel>::instance().at("roofline", "kernel model").create()->bind(device, {});
  std::vector<Kernel> kernels;
  for (int i = 0; i < 1000; ++i)
    kernels.push_back(operator_kernel(
        "gemm", "bf16", fmt::format(R"({{"m": {}, "n": 4096, "k": 4096}})", 16 * (i + 1))));
  std::vector<Estimate> estimates(kernels.size());
  for (auto _ : state) {
    predictor->predict(kernels, {}, estimates);
    benchmark::DoNotOptimize(estimates.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kernels.size()));
}
BENCHMARK(BM_RooflineKernels);

/// An operator row from its JSON to a kernel.
void BM_OperatorKernel(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(
        operator_kernel("gemm", "bf16", R"({"m": 512, "n": 4096, "k": 4096})"));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_OperatorKernel);

/// Lowering alone, 30,000 operations.
void BM_LowerLayers(benchmark::State& state) {
  const Workload w = read_workload(Source::from_memory("layers.mlir", layered_module(1800)), {});
  const Device device = Catalogue(kRoot + "/hardware").device("h200");
  const FusionRules rules = Registry<Stack>::instance().at("xla", "stack").create()->rules();
  for (auto _ : state) benchmark::DoNotOptimize(lower(w, device, rules));
}
BENCHMARK(BM_LowerLayers)->Unit(benchmark::kMillisecond);

/// From the file to the answer, all of `orrery predict` but the process and the printing.
void predict_file(benchmark::State& state, const std::string& path) {
  const Session session(kRoot + "/hardware", kRoot + "/data");
  PredictRequest request;
  request.workload = path;
  request.device = "h200";
  for (auto _ : state) benchmark::DoNotOptimize(session.predict(request));
}

/// A module of 30,601 operations.
void BM_PredictLayers(benchmark::State& state) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "orrery_layers.mlir";
  std::ofstream(path) << layered_module(1800);
  predict_file(state, path.string());
  std::filesystem::remove(path);
}
BENCHMARK(BM_PredictLayers)->Unit(benchmark::kMillisecond);

/// A training step of 40,551 operations, from its description.
void BM_PredictTraining(benchmark::State& state) {
  const Session session(kRoot + "/hardware", kRoot + "/data");
  PredictRequest request;
  request.workload = "llama3-405b";
  request.device = "h200";
  request.read.build.phase = "train";
  request.read.build.sequence = 4096;
  for (auto _ : state) benchmark::DoNotOptimize(session.predict(request));
}
BENCHMARK(BM_PredictTraining)->Unit(benchmark::kMillisecond);

void register_files() {
  const std::filesystem::path root = kRoot;
  const char* shared = std::getenv("ORRERY_SHARED_DATA");
  const std::filesystem::path data = shared != nullptr ? shared : root / ".." / "shared" / "data";
  for (const auto& path :
       {root / "examples" / "llama2_7b_prefill.mlir",
        data / "stablehlo/hespas/resnet_50_train_step_4_devices_1024_batch.mlir"}) {
    if (!std::filesystem::exists(path)) continue;
    benchmark::RegisterBenchmark(
        ("BM_PredictFile/" + path.filename().string()).c_str(),
        [path](benchmark::State& state) { predict_file(state, path.string()); })
        ->Unit(benchmark::kMillisecond);
  }
}
const bool kRegistered = (register_files(), true);

}  // namespace
}  // namespace orrery
