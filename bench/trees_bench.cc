#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/learn/fit_trees.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

struct Table {
  Matrix features;
  std::vector<float> target;
};

/// Continuous features, of which the first five matter.
Table table(size_t rows, size_t columns) {
  SplitMix64 random(1);
  Table made{Matrix(rows, columns), {}};
  for (size_t r = 0; r < rows; ++r) {
    const std::span<float> x = made.features.row(r);
    for (float& value : x) value = static_cast<float>(random.uniform());
    made.target.push_back(static_cast<float>(std::sin(10 * x[0] * x[1]) + x[2] * x[2] -
                                             std::abs(x[3] - 0.5) + 0.3 * x[4] +
                                             0.1 * random.uniform()));
  }
  return made;
}

void BM_FitTrees(benchmark::State& state) {
  const Table data = table(10000, 40);
  TreeOptions options;
  options.threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const BoostedTrees trees = fit_trees(data.features, data.target, {}, options);
    benchmark::DoNotOptimize(trees.tree_count());
  }
}
BENCHMARK(BM_FitTrees)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

/// 300 trees of depth 6 over 40 features, as calibrations ask for them.
const BoostedTrees& fitted() {
  static const BoostedTrees trees = [] {
    const Table data = table(5000, 40);
    TreeOptions options;
    options.trees = 300;
    options.leaf_unit = 1e-3;
    options.short_leaves = true;
    return fit_trees(data.features, data.target, {}, options);
  }();
  return trees;
}

void BM_PredictOneRow(benchmark::State& state) {
  const Table data = table(1000, 40);
  const BoostedTrees& trees = fitted();
  size_t row = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(trees.predict(data.features.row(row)));
    row = (row + 1) % 1000;
  }
}
BENCHMARK(BM_PredictOneRow);

void BM_PredictBatch(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const Table data = table(rows, 40);
  const BoostedTrees& trees = fitted();
  std::vector<float> out(rows);
  for (auto _ : state) {
    trees.predict(data.features, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["row"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsIterationInvariantRate |
                                                        benchmark::Counter::kInvert);
}
BENCHMARK(BM_PredictBatch)->Arg(8)->Arg(32)->Arg(1000);

void BM_ReadTrees(benchmark::State& state) {
  const Source source = Source::from_memory("trees.json", to_json(fitted()));
  for (auto _ : state)
    benchmark::DoNotOptimize(trees_from_json(JsonValue::parse(source)).tree_count());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * source.text().size()));
  state.counters["bytes"] = static_cast<double>(source.text().size());
}
BENCHMARK(BM_ReadTrees)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
