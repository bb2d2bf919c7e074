#include "orrery/api/capacity.h"

#include <gtest/gtest.h>

#include "orrery/api/session.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

CapacityRequest small_request() {
  CapacityRequest request;
  request.serving.engine.model = "llama3-8b";
  request.serving.engine.device = "h100-sxm";
  request.serving.traffic.isl = "512";
  request.serving.traffic.osl = "32";
  request.serving.traffic.count = 400;
  request.promise.level = {Seconds(0.5), Seconds(0.05), {}};
  request.devices = 2;
  return request;
}

TEST(CapacityLayouts, DenseModelsUseTensorAndPipeline) {
  const auto model = load_language_model("llama3-8b");
  const std::vector<ServingLayout> expected = {{4, 1, 1, 0, 1}, {2, 2, 1, 0, 1}, {1, 4, 1, 0, 1}};
  EXPECT_EQ(serving_layouts(model, 4, 8), expected);
  // Tensor ranks stay in a node of two.
  EXPECT_EQ(serving_layouts(model, 4, 2), std::vector(expected.begin() + 1, expected.end()));
}

TEST(CapacityLayouts, ExpertsAreSpreadAndAttentionCopied) {
  const auto model = load_language_model("deepseek-v3");
  const std::vector<ServingLayout> expected = {
      {2, 1, 1, 0, 1}, {2, 1, 1, 0, 2}, {1, 1, 2, 0, 1}, {1, 1, 2, 0, 2}, {1, 2, 1, 0, 1}};
  EXPECT_EQ(serving_layouts(model, 2, 8), expected);
}

TEST(Capacity, TheBestKeepsThePromiseAndALittleMoreBreaksIt) {
  const Session session;
  const CapacityRequest request = small_request();
  const CapacityAnswer answer = session.capacity(request);
  EXPECT_EQ(answer.best.arrangement.devices(), 2);
  EXPECT_TRUE(answer.best.kept.kept());
  ASSERT_TRUE(answer.best.broken);
  EXPECT_FALSE(answer.best.broken->kept());
  EXPECT_LE(answer.best.broken->rate / answer.best.kept.rate, 1.011);
  for (const CapacityCandidate& other : answer.others)
    EXPECT_LE(other.kept.rate, answer.best.kept.rate);
  EXPECT_LT(answer.most_low, answer.most.rate);
  EXPECT_GT(answer.most_high, answer.most.rate);

  ServingRequest serving = request.serving;
  const ArrangedPool& pool = answer.best.arrangement.pools.front();
  serving.engine.layout = pool.layout;
  serving.engine.max_batched_tokens = pool.max_batched_tokens;
  serving.replicas = pool.replicas;
  serving.traffic.rate = answer.best.kept.rate;
  serving.trimming.warm_up = 0.2;
  const ServingMetrics metrics = session.serving(serving).run.metrics;
  EXPECT_NEAR(metrics.ttft.p99.value, answer.best.kept.ttft.value, 1e-9);
  EXPECT_NEAR(metrics.tpot.p99.value, answer.best.kept.tpot.value, 1e-9);
}

TEST(Capacity, TheFewestDevicesForALoadAreOneTooManyForLess) {
  const Session session;
  CapacityRequest request = small_request();
  request.layout = ServingLayout();
  request.fixed_tokens = true;
  request.devices = 1;
  const double one = session.capacity(request).best.kept.rate;
  request.devices = 8;
  // Round-robin over several engines smooths arrivals: three carry what three alone would.
  request.serving.traffic.rate = 2.9 * one;
  const CapacityAnswer answer = session.capacity(request);
  EXPECT_EQ(answer.best.arrangement.devices(), 3);
  EXPECT_DOUBLE_EQ(answer.best.kept.rate, 2.9 * one);
  ASSERT_TRUE(answer.best.broken);
  EXPECT_FALSE(answer.best.broken->kept());
  ASSERT_EQ(answer.frontier.size(), 4U);
  EXPECT_EQ(answer.frontier[1].arrangement.devices(), 4);
  EXPECT_LT(answer.frontier[1].kept.strain, answer.frontier[0].kept.strain);
}

TEST(Capacity, ThreadsChangeNothing) {
  const Session session;
  CapacityRequest request = small_request();
  request.disaggregate = true;
  request.threads = 1;
  const std::string one = to_json(session.capacity(request), request);
  request.threads = 5;
  EXPECT_EQ(to_json(session.capacity(request), request), one);
}

void expect_refusal(const CapacityRequest& request, ErrorKind kind, const std::string& part) {
  try {
    Session().capacity(request);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Capacity, SaysWhatToChange) {
  CapacityRequest request = small_request();
  request.promise.level.tpot = Seconds(1e-4);
  expect_refusal(request, ErrorKind::kInfeasible, "where requests do not even meet");

  request = small_request();
  request.serving.traffic.rate = 1e4;
  expect_refusal(request, ErrorKind::kInfeasible, "need more than 2 devices");

  request = small_request();
  request.serving.engine.model = "llama3-70b";
  request.devices = 1;
  expect_refusal(request, ErrorKind::kInfeasible, "does not fit");

  request = small_request();
  request.promise.level = {{}, Seconds(0.05), {}};
  expect_refusal(request, ErrorKind::kUsage, "promise ttft or e2e");

  request = small_request();
  request.serving.traffic.concurrency = 4;
  expect_refusal(request, ErrorKind::kUsage, "finds when requests come");
}

TEST(Capacity, ByJson) {
  const Session session;
  const CapacityRequest request = small_request();
  EXPECT_EQ(session.call(R"({"command": "capacity", "model": "llama3-8b", "on": "h100-sxm",
                             "isl": 512, "osl": 32, "count": 400, "devices": 2,
                             "slo": {"ttft_s": 0.5, "tpot_s": 0.05}})"),
            to_json(session.capacity(request), request));

  ServingRequest serving = request.serving;
  serving.engine.layout.tensor = 2;
  serving.traffic.rate = 3;
  serving.promise.ttft = Seconds(1);
  EXPECT_EQ(session.call(R"({"command": "serving", "model": "llama3-8b", "on": "h100-sxm",
                             "isl": 512, "osl": 32, "count": 400, "tp": 2, "rate": 3,
                             "slo": {"ttft_s": 1}})"),
            to_json(session.serving(serving), serving));
  for (const char* bad : {R"({"command": "serving", "model": "llama3-8b"})",
                          R"({"command": "serving", "model": "llama3-8b", "on": "h200", "x": 1})",
                          R"({"command": "capacity", "model": "llama3-8b", "on": "h200", "tp": 0})",
                          R"({"command": "capacity", "model": "llama3-8b", "on": "h200",
                              "slo": {"tpft_s": 1}})"})
    EXPECT_THROW(session.call(bad), Error) << bad;
}

}  // namespace
}  // namespace orrery
