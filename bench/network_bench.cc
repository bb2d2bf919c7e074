#include <benchmark/benchmark.h>

#include <cmath>

#include "orrery/cluster/network/cluster_for_test.h"
#include "orrery/cluster/network/simulate_collective.h"

namespace orrery::fabric {
namespace {

void simulate(benchmark::State& state, const Cluster& cluster, CollectiveKind kind, int ranks,
              const std::string& algorithm, const FabricConditions& conditions = {}) {
  FlowOptions options;
  options.algorithm = algorithm;
  options.conditions = conditions;
  CollectiveSimulation simulation;
  for (auto _ : state)
    simulation =
        simulate_collective(cluster, {kind, Bytes(1e9), {ranks, 1}, ElementType::kBF16}, options);
  state.counters["flows"] = static_cast<double>(simulation.work.flows);
  state.counters["events"] = static_cast<double>(simulation.work.events);
  state.counters["simulated_ms"] = simulation.time.value * 1e3;
}

void ring_all_reduce(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_ring(ranks), CollectiveKind::kAllReduce, ranks, "ring");
}
BENCHMARK(ring_all_reduce)->Arg(1024)->Arg(4096)->Arg(65536)->Unit(benchmark::kMillisecond);

void ring_with_slow_link(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  FabricConditions slow;
  slow.links.push_back({"10", "11", 0.5});
  simulate(state, test_ring(ranks), CollectiveKind::kAllReduce, ranks, "ring", slow);
}
BENCHMARK(ring_with_slow_link)->Arg(1024)->Arg(65536)->Unit(benchmark::kMillisecond);

void ring_with_straggler(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  FabricConditions late;
  late.stragglers.push_back({10, Seconds(1e-3), 1});
  simulate(state, test_ring(ranks), CollectiveKind::kAllReduce, ranks, "ring", late);
}
BENCHMARK(ring_with_straggler)->Arg(1024)->Arg(65536)->Unit(benchmark::kMillisecond);

void ring_over_nodes(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "ring");
}
BENCHMARK(ring_over_nodes)->Arg(1024)->Arg(65536)->Unit(benchmark::kMillisecond);

void ring_over_nodes_with_straggler(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  FabricConditions late;
  late.stragglers.push_back({10, Seconds(1e-3), 1});
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "ring", late);
}
BENCHMARK(ring_over_nodes_with_straggler)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(16384)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);

void hierarchical_over_nodes(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "hierarchical");
}
BENCHMARK(hierarchical_over_nodes)->Arg(4096)->Arg(65536)->Unit(benchmark::kMillisecond);

void hierarchical_over_oversubscribed_tree(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8, FabricShape::kFatTree, 32, 2), CollectiveKind::kAllReduce,
           ranks, "hierarchical");
}
BENCHMARK(hierarchical_over_oversubscribed_tree)
    ->Arg(4096)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);

void hierarchical_over_oversubscribed_tree_with_straggler(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  FabricConditions late;
  late.stragglers.push_back({10, Seconds(1e-3), 1});
  simulate(state, test_nodes(ranks / 8, FabricShape::kFatTree, 32, 2), CollectiveKind::kAllReduce,
           ranks, "hierarchical", late);
}
BENCHMARK(hierarchical_over_oversubscribed_tree_with_straggler)
    ->Arg(1024)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);

/// 8 × 512 as a torus of two dimensions, and cubes.
void torus_8_by_512(benchmark::State& state) {
  simulate(state, test_torus({8, 512}), CollectiveKind::kAllReduce, 4096, "hierarchical");
}
BENCHMARK(torus_8_by_512)->Unit(benchmark::kMillisecond);

void torus_cube(benchmark::State& state) {
  const int edge = static_cast<int>(state.range(0));
  simulate(state, test_torus({edge, edge, edge}), CollectiveKind::kAllReduce, edge * edge * edge,
           "torus");
}
BENCHMARK(torus_cube)->Arg(16)->Arg(40)->Unit(benchmark::kMillisecond);

void halving_doubling(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "halving-doubling");
}
BENCHMARK(halving_doubling)->Arg(4096)->Arg(65536)->Unit(benchmark::kMillisecond);

void double_binary_tree(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "double-binary-tree");
}
BENCHMARK(double_binary_tree)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

void all_to_all(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllToAll, ranks, "direct");
}
BENCHMARK(all_to_all)->Arg(4096)->Arg(65536)->Unit(benchmark::kMillisecond);

void quickest_algorithm(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  simulate(state, test_nodes(ranks / 8), CollectiveKind::kAllReduce, ranks, "");
}
BENCHMARK(quickest_algorithm)->Arg(1024)->Arg(65536)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::fabric
