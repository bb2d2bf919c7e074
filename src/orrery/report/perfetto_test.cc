#include "orrery/report/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

PredictRequest request_for(const std::string& workload, const std::string& stack) {
  PredictRequest request;
  request.workload = workload;
  request.device = "h200";
  request.stack = stack;
  request.timeline = true;
  return request;
}

PredictAnswer answer_to(const PredictRequest& request) {
  return Session(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                 std::string(ORRERY_SOURCE_DIR) + "/data")
      .predict(request);
}

/// Slices of the track called `name`, in the order they are written.
std::vector<Json> track(const Json& trace, const std::string& name) {
  std::vector<Json> slices;
  for (const Json& named : trace.at("traceEvents"))
    if (named.at("name") == "thread_name" && named.at("args").at("name") == name)
      for (const Json& e : trace.at("traceEvents"))
        if (e.at("ph") == "X" && e.at("tid") == named.at("tid") && e.at("pid") == named.at("pid"))
          slices.push_back(e);
  return slices;
}

/// As Perfetto reads it: CoerceToTs in its json_utils.cc.
int64_t nanoseconds(const Json& microseconds) {
  return static_cast<int64_t>(microseconds.get<double>() * 1000.0);
}
int64_t start_ns(const Json& slice) { return nanoseconds(slice.at("ts")); }
int64_t end_ns(const Json& slice) { return start_ns(slice) + nanoseconds(slice.at("dur")); }

class PerfettoOfStack : public testing::TestWithParam<const char*> {};

TEST_P(PerfettoOfStack, TracksHoldTheStep) {
  PredictRequest request = request_for("bert-base", GetParam());
  request.read.build.sequence = 128;
  if (request.stack == "xla") request.read.build.batch = 32;  // enough work to hide the host's
  const PredictAnswer answer = answer_to(request);
  bool waits = false;
  for (const auto& [cause, seconds] : answer.breakdown)
    waits = waits || cause == "waiting for the host";
  EXPECT_EQ(waits, request.stack == "torch-eager");  // one of each kind
  const Json trace = Json::parse(perfetto_trace(answer, request));
  const auto step = track(trace, "step");
  ASSERT_EQ(step.size(), 1u);
  EXPECT_NEAR(static_cast<double>(end_ns(step[0]) - start_ns(step[0])), answer.latency_s * 1e9,
              1.5);
  EXPECT_EQ(step[0].at("name"), "bert-base");

  const auto stream = track(trace, "stream 0");
  EXPECT_EQ(static_cast<double>(stream.size()), answer.launches);
  double busy = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    busy += stream[i].at("dur").get<double>();
    if (i > 0) {
      EXPECT_LE(end_ns(stream[i - 1]), start_ns(stream[i])) << i;
    }
    EXPECT_GE(start_ns(stream[i]), start_ns(step[0]));
    EXPECT_LE(end_ns(stream[i]), end_ns(step[0]) + 1);
    const Json& a = stream[i].at("args");
    EXPECT_LE(a.at("low_us"), a.at("each_us"));
    EXPECT_GE(a.at("high_us"), a.at("each_us"));
    for (const char* key : {"kind", "bound", "flops", "bytes", "operations", "count"})
      EXPECT_TRUE(a.contains(key)) << key;
  }
  double kernels = 0;
  for (const KernelSummary& k : answer.kernels) kernels += k.time_s;
  EXPECT_NEAR(busy, kernels * 1e6, 1e-3 * static_cast<double>(stream.size()));

  const auto host = track(trace, "dispatch");
  ASSERT_EQ(host.size(), stream.size());
  for (size_t i = 0; i < host.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(end_ns(host[i - 1]), start_ns(host[i])) << i;
    }
    EXPECT_LE(end_ns(host[i]), start_ns(stream[i])) << i;  // no kernel before it was queued
    EXPECT_EQ(host[i].at("name"), stream[i].at("name"));
  }
}
INSTANTIATE_TEST_SUITE_P(Stacks, PerfettoOfStack, testing::Values("xla", "torch-eager"),
                         [](const auto& info) {
                           return std::string(info.param) == "xla" ? "Xla" : "TorchEager";
                         });

TEST(PerfettoTest, PartsLieInsideEachOther) {
  PredictRequest request = request_for("bert-base", "xla");
  const Json trace = Json::parse(perfetto_trace(answer_to(request), request));
  const auto parts = track(trace, "model");
  std::vector<Json> open;
  size_t layers = 0;
  for (const Json& part : parts) {
    while (!open.empty() && end_ns(open.back()) <= start_ns(part)) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end_ns(part), end_ns(open.back())) << part << " in " << open.back();
    }
    open.push_back(part);
    layers += part.at("name") == "layer.11" ? 1 : 0;
  }
  EXPECT_EQ(layers, 1u);
}

/// An answer made by hand, with names no honest file has.
PredictAnswer small_answer() {
  PredictAnswer answer;
  answer.latency_s = 7e-6;
  answer.launches = 5;
  Timeline& t = answer.timeline;
  t.kernels = {{"a\"</script>\xff", "gemm", "dot_general", "memory", 1e-6, 5e-7, 2e-6, 10, 20, 1}};
  t.parts = {{"whole", 0}, {"layer", 0}};
  t.launches = {{0, 1, 1, 1e-6, 2e-6, 0, 1e-6}, {0, 1, 4, 2.5e-6, 6.5e-6, 1e-6, 3e-6}};
  t.folded = true;
  t.step_start_s = 1e-6;
  t.step_end_s = 8e-6;
  t.memory = {{1e-6, 100}, {2.5e-6, 300}};
  return answer;
}

TEST(PerfettoTest, FoldedLaunchesSayTheirCount) {
  const Json trace = Json::parse(perfetto_trace(small_answer(), request_for("w", "xla")));
  const auto stream = track(trace, "stream 0");
  ASSERT_EQ(stream.size(), 2u);
  EXPECT_EQ(stream[1].at("args").at("count"), 4);
  EXPECT_EQ(start_ns(stream[1]), 2500);
  EXPECT_EQ(end_ns(stream[1]), 6500);
  EXPECT_THAT(trace.at("otherData").at("note").get<std::string>(),
              testing::HasSubstr("It has 5 launches"));
}

TEST(PerfettoTest, SlicesThatTouchAreReadAsTouching) {
  // 1.001 · 1000 is 1000.99… as a double, so that 1001 ns would be read as 1000.
  PredictAnswer answer = small_answer();
  answer.timeline.launches = {{0, 1, 1, 2e-6, 3e-6, 0, 1.001e-6},
                              {0, 1, 1, 4e-6, 5e-6, 1.001e-6, 2e-6}};
  const Json trace = Json::parse(perfetto_trace(answer, request_for("w", "xla")));
  const auto host = track(trace, "dispatch");
  EXPECT_EQ(end_ns(host[0]), 1001);
  EXPECT_EQ(start_ns(host[1]), 1001);
}

TEST(PerfettoTest, ReplaysHaveAProcessARank) {
  ReplayAnswer answer;
  answer.timeline = {{0, 1, "mm", "COMP_NODE", false, 0, 0, 1000},
                     {0, 2, "all \"grads\"", "all-reduce", false, 4096, 500, 2500},
                     {1, 1, "from 0", "COMM_RECV_NODE", false, 64, 0, 900},
                     {1, 2, "from 2", "COMM_RECV_NODE", false, 64, 100, 300},
                     {1, 3, "later", "COMM_RECV_NODE", false, 64, 400, 800},
                     {1, 4, "launch", "COMP_NODE", true, 0, 0, 10}};
  const Json trace = Json::parse(perfetto_trace(answer, ReplayRequest()));
  std::vector<std::string> processes;
  for (const Json& e : trace.at("traceEvents"))
    if (e.at("name") == "process_name") processes.push_back(e.at("args").at("name"));
  EXPECT_THAT(processes, ElementsAre("rank 0", "rank 1"));
  const auto communication = track(trace, "communication");
  ASSERT_EQ(communication.size(), 1u);
  EXPECT_EQ(communication[0].at("name"), "all \"grads\"");
  EXPECT_EQ(start_ns(communication[0]), 500);
  EXPECT_EQ(end_ns(communication[0]), 2500);
  // Receives overlap, so that they take two tracks; the third finds room on the second.
  const auto receives = track(trace, "receives");
  ASSERT_EQ(receives.size(), 3u);
  EXPECT_NE(receives[0].at("tid"), receives[1].at("tid"));
  EXPECT_EQ(receives[1].at("tid"), receives[2].at("tid"));
  EXPECT_EQ(track(trace, "host").size(), 1u);
}

TEST(PerfettoTest, NamesAreText) {
  const Json trace = Json::parse(perfetto_trace(small_answer(), request_for("w\"\n", "xla")));
  EXPECT_EQ(track(trace, "stream 0")[0].at("name"), "a\"</script>\xEF\xBF\xBD");
  EXPECT_EQ(track(trace, "step")[0].at("name"), "w\"\n");
}

TEST(PerfettoTest, MemoryIsACounter) {
  const Json trace = Json::parse(perfetto_trace(small_answer(), request_for("w", "xla")));
  std::vector<double> held;
  for (const Json& e : trace.at("traceEvents"))
    if (e.at("ph") == "C") held.push_back(e.at("args").at("bytes"));
  EXPECT_THAT(held, ElementsAre(100, 300));
}

}  // namespace
}  // namespace orrery
