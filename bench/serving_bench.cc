// What it costs to simulate requests, the time of a step being one multiplication or two.

#include <benchmark/benchmark.h>

#include "orrery/serving/fleet.h"
#include "orrery/serving/traffic/arrivals.h"

namespace orrery {
namespace {

class LinearTimes final : public StepTimes {
 public:
  StepTime of(const StepShape& shape) const override {
    return {Seconds(6e-3 + 3e-5 * static_cast<double>(shape.prefill_tokens()) +
                    2e-5 * static_cast<double>(shape.decodes) +
                    3e-8 * static_cast<double>(shape.decode_context)),
            Seconds(1e-3)};
  }
  StepLine ahead(const StepShape& shape, int64_t /*growing*/) const override {
    return {of(shape), Seconds(3e-8 * static_cast<double>(shape.decodes)), 4096};
  }
};

/// Mean and spread of the Azure conversation trace of 2023.
LengthSampler azure_like() {
  LengthLaw prompt;
  prompt.kind = LengthLaw::Kind::kLogNormal;
  prompt.mean = 1155;
  prompt.variation = 0.96;
  prompt.most = 14050;
  LengthLaw output = prompt;
  output.mean = 211;
  output.variation = 0.77;
  output.most = 1000;
  return {prompt, output};
}

void serve(benchmark::State& state, const ArrivalProcess& process, int64_t count) {
  const LinearTimes times;
  FleetOptions options;
  ReplicaSpec replica;
  replica.times = &times;
  replica.room.blocks = 30000;
  options.pool.replicas.push_back(replica);
  int64_t steps = 0;
  for (auto _ : state) {
    const auto source = make_arrivals(process, count, azure_like(), 1);
    steps += run_fleet(*source, options).steps;
  }
  state.counters["steps"] =
      benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kAvgIterations);
  state.counters["requests"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void ten_thousand_at_5(benchmark::State& state) {
  ArrivalProcess process;
  process.rate = 5;
  serve(state, process, 10000);
}
BENCHMARK(ten_thousand_at_5)->Unit(benchmark::kMillisecond);

void a_million(benchmark::State& state) {
  ArrivalProcess process;
  process.rate = static_cast<double>(state.range(0));
  serve(state, process, 1000000);
}
BENCHMARK(a_million)->Arg(5)->Arg(15)->Arg(40)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace orrery
