// What one training strategy costs to evaluate, and a whole search.

#include <benchmark/benchmark.h>

#include "orrery/api/session.h"

namespace orrery {
namespace {

Strategy of_llama3(int gpus) {
  Strategy s;
  framework("megatron-core").apply(s);
  s.gpus = gpus;
  s.tensor = 8;
  s.sequence = true;
  s.pipeline = 16;
  s.chunks = 8;
  s.global_batch = 2048;
  s.length = 8192;
  return s;
}

void one_strategy(benchmark::State& state) {
  const TrainingModel model = Session().training_model("llama3-405b", "dgx-h100", {});
  const Strategy s = of_llama3(16384);
  for (auto _ : state) benchmark::DoNotOptimize(model.evaluate(s));
}
BENCHMARK(one_strategy)->Unit(benchmark::kMicrosecond);

void memory_of_one_strategy(benchmark::State& state) {
  const TrainingModel model = Session().training_model("llama3-405b", "dgx-h100", {});
  const Strategy s = of_llama3(16384);
  for (auto _ : state) benchmark::DoNotOptimize(model.memory(s));
}
BENCHMARK(memory_of_one_strategy)->Unit(benchmark::kMicrosecond);

void plan_on_16384(benchmark::State& state) {
  const TrainingModel model = Session().training_model("llama3-405b", "dgx-h100", {});
  PlanQuestion question;
  question.fixed = of_llama3(16384);
  question.gpus = {16384};
  question.threads = 1;
  size_t considered = 0;
  for (auto _ : state) considered += make_plan(model, question).considered;
  state.counters["strategies"] =
      benchmark::Counter(static_cast<double>(considered), benchmark::Counter::kIsRate);
}
BENCHMARK(plan_on_16384)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
