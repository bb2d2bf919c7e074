#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "bench/module_text.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

void read(benchmark::State& state, const Source& source) {
  size_t memory = 0, operations = 0;
  for (auto _ : state) {
    const Workload w = read_workload(source, {});
    memory = w.memory_bytes();
    operations = w.ops().size();
    benchmark::DoNotOptimize(w.ops().data());
  }
  const auto bytes = static_cast<double>(source.text().size());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * source.text().size()));
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["memory/text"] = static_cast<double>(memory) / bytes;
}

/// A module of about 30,000 operations, made here.
void BM_ReadLayers(benchmark::State& state) {
  read(state, Source::from_memory("layers.mlir", layered_module(static_cast<int>(state.range(0)))));
}
BENCHMARK(BM_ReadLayers)->Arg(180)->Arg(1800)->Unit(benchmark::kMillisecond);

/// Files named here: examples of the project, and measured modules where they are.
void register_files() {
  const std::filesystem::path root = ORRERY_SOURCE_DIR;
  const char* shared = std::getenv("ORRERY_SHARED_DATA");
  const std::filesystem::path data = shared != nullptr ? shared : root / ".." / "shared" / "data";
  for (const auto& path :
       {root / "examples" / "llama2_7b_prefill.mlir", root / "examples" / "mlp.mlir.bc",
        data / "h200/stablehlo/gpt2_b8_s1024_train.mlir",
        data / "stablehlo/public/GleasonK_stablehlo-exports/pt_bert.mlir.bc",
        data / "stablehlo/public/GleasonK_stablehlo-exports/alphafold.mlir.bc",
        data / "stablehlo/hespas/resnet_50_train_step_4_devices_1024_batch.mlir",
        data / "stablehlo/sharded/resnet50_dp8_train.spmd.hlo",
        data / "onnx/torch/bert_base_b1_s128.onnx"}) {
    if (!std::filesystem::exists(path)) continue;
    benchmark::RegisterBenchmark(
        ("BM_ReadFile/" + path.filename().string()).c_str(),
        [path](benchmark::State& state) { read(state, Source::from_file(path.string())); })
        ->Unit(benchmark::kMillisecond);
  }
}
const bool kRegistered = (register_files(), true);

}  // namespace
}  // namespace orrery
