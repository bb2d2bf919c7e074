#include "orrery/api/capacity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

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

/// With nothing to choose.
CapacityRequest one_engine() {
  CapacityRequest request = small_request();
  request.layout = ServingLayout();
  request.fixed_tokens = true;
  request.devices = 1;
  return request;
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
  CapacityRequest request = one_engine();
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

TEST(Capacity, TheBestOfFewerDevicesIsWhatTheyCarryAlone) {
  const Session session;
  CapacityRequest request = small_request();
  request.disaggregate = true;
  request.devices = 4;
  const CapacityAnswer answer = session.capacity(request);
  ASSERT_GE(answer.frontier.size(), 3U);
  request.devices = 2;
  const CapacityAnswer two = session.capacity(request);
  EXPECT_EQ(answer.frontier[1].arrangement.devices(), 2);
  EXPECT_NEAR(answer.frontier[1].kept.load / two.best.kept.load, 1, 0.03);
}

TEST(Capacity, SearchesTheLimitThatTheSchedulerHas) {
  const Session session;
  CapacityRequest request = one_engine();
  request.fixed_tokens = false;
  request.serving.scheduler.name = "sarathi";
  const CapacityAnswer chunks = session.capacity(request);
  const ArrangedPool& best = chunks.best.arrangement.pools.front();
  EXPECT_GT(best.chunk_size, 0);
  EXPECT_EQ(best.max_batched_tokens, 0);
  ASSERT_FALSE(chunks.others.empty());
  EXPECT_NE(chunks.others.front().arrangement.pools.front().chunk_size, best.chunk_size);
  request.serving.scheduler.chunk_size = 128;
  const CapacityAnswer given = session.capacity(request);
  EXPECT_EQ(given.best.arrangement.pools.front().chunk_size, 128);
  EXPECT_TRUE(given.others.empty());
  EXPECT_LT(given.best.kept.load, chunks.best.kept.load);

  request.serving.scheduler = {};
  request.serving.scheduler.name = "orca";
  const CapacityAnswer neither = session.capacity(request);
  EXPECT_TRUE(neither.others.empty());
  EXPECT_EQ(to_json(neither, request).find("max_batched_tokens"), std::string::npos);
}

TEST(Capacity, OfALoadLooksNoFurtherThanTheLoadTakes) {
  const Session session;
  CapacityRequest request = one_engine();
  request.devices = 0;  // 16,384 of the cluster
  request.serving.traffic.isl = "128";
  request.serving.traffic.rate = 200;
  EXPECT_LT(session.capacity(request).best.arrangement.devices(), 16);
  // Requests get to the engines one after the other: no number of them is enough.
  request.serving.traffic.rate = 1e5;
  expect_refusal(request, ErrorKind::kInfeasible, "whatever the number of devices");
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
  request.serving.traffic.rate = 4;
  expect_refusal(request, ErrorKind::kUsage, "one of --requests FILE, --rate R");

  request = small_request();
  request.on = {"h100-sxm", "l40s"};
  request.serving.prices.named = {{"h100-sxm", 2.5}};
  expect_refusal(request, ErrorKind::kUsage, "none of l40s");
}

TEST(Capacity, TheMostUsersAreAWholeNumber) {
  const Session session;
  CapacityRequest request = one_engine();
  request.serving.traffic.concurrency = 1;
  request.most = true;
  const CapacityAnswer answer = session.capacity(request);
  const double users = answer.best.kept.load;
  EXPECT_EQ(users, std::round(users));
  EXPECT_LE(answer.best.broken->load, std::max(users + 1, users * 1.01 + 1));
  EXPECT_FALSE(answer.best.broken->kept());
  // Little's law: users = requests a second times the time that each takes.
  ServingRequest serving = request.serving;
  serving.traffic.concurrency = static_cast<int64_t>(users);
  const ServingMetrics metrics = session.serving(serving).run.metrics;
  EXPECT_NEAR(metrics.requests_per_s * metrics.e2e.mean.value / users, 1, 0.1);
  // One engine is enough for them, and two are needed for twice as many and a few.
  request.most = false;
  request.devices = 8;
  request.serving.traffic.concurrency = static_cast<int64_t>(users);
  EXPECT_EQ(session.capacity(request).best.arrangement.devices(), 1);
}

TEST(Capacity, ATableOfEvenGapsHoldsTheRateOfAMetronome) {
  const Session session;
  CapacityRequest request = one_engine();
  request.serving.traffic.variation = 0;
  const double rate = session.capacity(request).best.kept.rate;

  const std::string file = testing::TempDir() + "orrery_even_gaps.csv";
  {
    std::ofstream table(file);
    table << "arrived_at,num_prefill_tokens,num_decode_tokens\n";
    for (int i = 0; i < 400; ++i) table << 0.5 * i << ",512,32\n";
  }
  request.serving.traffic = {};
  request.serving.traffic.requests = file;
  request.serving.traffic.count = 400;
  request.most = true;
  const CapacityAnswer answer = session.capacity(request);
  // Two requests a second as they were seen.
  EXPECT_NEAR(2 * answer.best.kept.load / rate, 1, 0.02);
  EXPECT_NEAR(answer.best.kept.rate, 2 * answer.best.kept.load, 1e-6 * rate);
  request.most = false;
  request.serving.traffic.speed = 0.9 * answer.best.kept.load;
  EXPECT_EQ(session.capacity(request).best.arrangement.devices(), 1);
}

TEST(Capacity, TheCheapestKindOfDeviceCarriesALoad) {
  const Session session;
  CapacityRequest request = small_request();
  request.on = {"h100-sxm", "l40s"};
  request.devices = 4;
  request.fixed_tokens = true;
  request.serving.traffic.rate = 4;
  request.promise.level = {Seconds(1), Seconds(0.1), {}};
  for (const auto& [cheap, dear] : {std::pair("h100-sxm", "l40s"), std::pair("l40s", "h100-sxm")}) {
    request.serving.prices.named = {{cheap, 1.0}, {dear, 100.0}};
    const CapacityAnswer answer = session.capacity(request);
    ASSERT_EQ(answer.best.arrangement.pools.size(), 1U);
    EXPECT_EQ(answer.best.arrangement.pools.front().device, cheap);
    EXPECT_DOUBLE_EQ(answer.best.price_per_hour, answer.best.arrangement.devices());
    EXPECT_DOUBLE_EQ(answer.run.price_per_hour, answer.best.price_per_hour);
  }
}

TEST(Serving, TwoPoolsAlikeAreOneOfTheSum) {
  const Session session;
  ServingRequest one = small_request().serving;
  one.traffic.rate = 40;
  one.traffic.count = 300;
  one.replicas = 2;
  one.prices.otherwise = 2;
  ServingRequest two = one;
  two.pools = {{"engines", one.engine, 1}, {"engines", one.engine, 1}};
  const ServingAnswer a = session.serving(one), b = session.serving(two);
  EXPECT_DOUBLE_EQ(a.run.metrics.ttft.p99.value, b.run.metrics.ttft.p99.value);
  EXPECT_DOUBLE_EQ(a.run.metrics.e2e.mean.value, b.run.metrics.e2e.mean.value);
  EXPECT_EQ(a.devices, b.devices);
  EXPECT_DOUBLE_EQ(a.price_per_hour, 4);
  EXPECT_DOUBLE_EQ(b.price_per_hour, 4);
  ASSERT_EQ(b.pools.size(), 2U);
  EXPECT_EQ(b.pools[0].use.requests, 150);
  EXPECT_DOUBLE_EQ(b.pools[1].request_share, 0.5);
  EXPECT_EQ(a.pools[0].use.output_tokens, 300 * 32);
  EXPECT_EQ(b.pools[0].use.output_tokens + b.pools[1].use.output_tokens, 300 * 32);
}

TEST(Serving, PoolsOnDifferentDevices) {
  const Session session;
  ServingRequest request = small_request().serving;
  request.traffic.rate = 40;
  request.router = "least-outstanding";
  request.prices.named = {{"h100-sxm", 2.5}, {"l40s", 0.9}};
  EngineRequest slow = request.engine;
  slow.device = "l40s";
  request.pools = {{"engines", request.engine, 1}, {"engines", slow, 2}};
  const ServingAnswer answer = session.serving(request);
  EXPECT_EQ(devices_text(answer.pools), "1 × h100-sxm + 2 × l40s");
  EXPECT_DOUBLE_EQ(answer.price_per_hour, 2.5 + 2 * 0.9);
  EXPECT_DOUBLE_EQ(answer.pools[0].request_share + answer.pools[1].request_share, 1);
  // An H100 has more than three times the bandwidth of an L40S.
  EXPECT_GT(answer.pools[0].request_share, 1.5 * answer.pools[1].request_share / 2);

  request.pools = {{"decode", slow, 2}, {"prefill", request.engine, 1}};
  const ServingAnswer split = session.serving(request);
  EXPECT_EQ(split.pools[0].role, "prefill");
  EXPECT_EQ(split.pools[0].device, "h100-sxm");
  EXPECT_EQ(split.pools[0].use.output_tokens, 400);
  EXPECT_EQ(split.pools[1].use.output_tokens, 400 * 31);
  EXPECT_EQ(split.pools[1].use.prompt_tokens, 0);

  request.pools[1].role = "engines";
  EXPECT_THROW(session.serving(request), Error);
  request.pools.pop_back();
  EXPECT_THROW(session.serving(request), Error);
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
