#include "orrery/report/train_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "orrery/report/perfetto.h"
#include "orrery/report/train_text.h"

namespace orrery {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Two stages of two micro-batches: f = 2 s, b = 4 s with 1 s of it computed again; 0.5 s of tensor
/// traffic that nothing hides in each pass. 2 · 7 s, 7 s of waiting, 1 s of gradients, half of it
/// hidden, 0.5 s of the optimiser.
TrainAnswer answer(int64_t micro_batches = 2) {
  TrainAnswer a;
  a.strategy.gpus = 8;
  a.strategy.tensor = 2;
  a.strategy.pipeline = 2;
  a.strategy.global_batch = 2 * micro_batches;
  const auto tensor = static_cast<size_t>(TrafficCause::kTensor);
  const auto gradients = static_cast<size_t>(TrafficCause::kGradients);
  ChunkTimes chunk;
  chunk.forward.kernels = Seconds(2);
  chunk.backward.kernels = Seconds(3);
  chunk.again.kernels = Seconds(1);
  for (PassTime* pass : {&chunk.forward, &chunk.backward})
    pass->exposed[tensor] = pass->traffic[tensor] = Seconds(0.5);
  a.costs.stages = {{chunk}, {chunk}};
  a.costs.data = {{TrafficCause::kGradients, Seconds(1), Seconds(0.5)}};
  a.costs.optimizer = Seconds(0.5);
  StepEstimate& e = a.estimate;
  const auto m = static_cast<double>(micro_batches);
  e.forward = Seconds(2 * m);
  e.backward = Seconds(3 * m);
  e.again = Seconds(m);
  e.exposed[tensor] = e.traffic[tensor] = Seconds(m);
  e.exposed[gradients] = Seconds(0.5);
  e.traffic[gradients] = Seconds(1);
  e.bubble = Seconds(7);
  e.optimizer = Seconds(0.5);
  e.step = {Seconds(7 * m + 8), Seconds(7 * m + 6), Seconds(7 * m + 12)};
  e.memory.weights = Bytes(30e9);
  e.memory.activations = Bytes(50e9);
  a.memory_by_stage = {e.memory, e.memory};
  a.memory_by_stage[1].activations = Bytes(10e9);
  a.capacity_bytes = 40e9;
  a.fits = false;
  a.gaps = {"this & that"};
  return a;
}

TrainRequest request() {
  TrainRequest r;
  r.model = "model<1>";
  r.cluster = "somewhere";
  return r;
}

TEST(TrainPage, NeedsNothingBesideItselfAndEscapesNames) {
  const std::string page = training_page(answer(), request());
  for (const char* outside :
       {"http://", "https://", "src=", "href=", "url(", "@import", "<script", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("<h1>model&lt;1&gt;</h1>"));
  EXPECT_THAT(page, HasSubstr("this &amp; that"));
}

TEST(TrainPage, PlacesWhatAddsUp) {
  const std::string page = training_page(answer(), request());
  EXPECT_THAT(page, HasSubstr(R"(<dd class="figure">22.0 s</dd>)"));
  EXPECT_THAT(page, HasSubstr(R"(<dd class="figure bad">DOES NOT FIT</dd>)"));
  // 6 of 22 s go backward.
  EXPECT_THAT(page,
              HasSubstr(R"(title="backward: 6.00 s" style="background:#59a14f;flex:0 0 27.27%")"));
  // The first forward pass runs for 2 of 22 s, on the second stage from 2.5 s on.
  EXPECT_THAT(page, HasSubstr(R"(<rect x="0.00" width="90.91" height="10" fill="#4e79a7">)"));
  EXPECT_THAT(page, HasSubstr(R"(<rect x="113.64" width="90.91" height="10" fill="#4e79a7">)"));
  // 80 of 80 GB hold the first stage, 40 the second and the device.
  EXPECT_THAT(page,
              HasSubstr(R"(<i style="left:50.00%"></i></div><span class="amount bad">80.0 GB)"));
  EXPECT_THAT(page, HasSubstr(R"(<i style="left:50.00%"></i></div><span class="amount">40.0 GB)"));
  EXPECT_THAT(page, HasSubstr("the other 3 ranks of the stage do the same"));
  EXPECT_THAT(page, Not(HasSubstr("not drawn")));
}

TEST(TrainPage, LongSchedulesStayBounded) {
  const std::string page = training_page(answer(1'000'000), request());
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_THAT(page, HasSubstr("Of 1000000 micro-batches 999250 in the middle are not drawn"));
}

TEST(TrainPage, StragglersAreNamed) {
  TrainAnswer a = answer();
  a.stragglers.ranks = {{5, 5, 0.8}};
  a.step_without = Seconds(20);
  EXPECT_THAT(train_text(a, request()),
              HasSubstr("stragglers   cost 2.00 s, 10.0 %: without them 20.0 s"));
  const std::string page = training_page(a, request());
  EXPECT_THAT(page, HasSubstr("+10.0 %"));
  EXPECT_THAT(page, HasSubstr("ranks 5 to 5 at 0.8 of the speed"));
}

TEST(TrainPerfetto, SlicesOfEachStageEndWithTheStepAndAddUp) {
  for (const int64_t micro_batches : {2, 100'000}) {
    const TrainAnswer a = answer(micro_batches);
    const auto trace = nlohmann::json::parse(perfetto_trace(a, request()));
    EXPECT_EQ(trace["otherData"]["step_s"], a.estimate.step.value.value);
    EXPECT_EQ(trace["otherData"]["ranks"],
              "one rank of each stage, which stands for 2 that share its micro-batches and for "
              "those of 2 data ranks");
    double last = 0;
    std::map<int, double> compute, free;
    std::vector<std::string> processes;
    for (const auto& event : trace["traceEvents"]) {
      if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
      if (event["ph"] != "X") continue;
      const double start = event["ts"].get<double>() / 1e6;
      const double length = event["dur"].get<double>() / 1e6;
      const int process = event["pid"], track = event["tid"];
      double& busy = free[8 * process + track];
      EXPECT_GE(start, busy - 1e-8);
      busy = start + length;
      last = std::max(last, busy);
      if (track != 1 || event["name"] == "optimiser") continue;
      compute[process] +=
          event["args"].contains("compute_s") ? event["args"]["compute_s"].get<double>() : length;
    }
    const double step = a.estimate.step.value.value;
    EXPECT_NEAR(last, step, 1e-7 * step);
    EXPECT_EQ(processes.size(), 2U);
    EXPECT_THAT(processes.back(), HasSubstr("stage 1: rank 4"));
    for (const auto& [process, time] : compute)
      EXPECT_NEAR(time, a.estimate.compute().value, 1e-7 * step) << process;
    EXPECT_EQ(trace["otherData"]["micro_batches_not_drawn"], micro_batches == 2 ? 0 : 95'000);
  }
}

}  // namespace
}  // namespace orrery
