#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "orrery/report/capacity_text.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/serving_text.h"

namespace orrery {
namespace {

RequestRecord record(double arrival, double scheduled, double first, double end) {
  RequestRecord r;
  r.arrival = Seconds(arrival);
  r.scheduled = Seconds(scheduled);
  r.first_token = Seconds(first);
  r.end = Seconds(end);
  r.prompt = 100;
  r.output = 5;
  r.state = RequestRecord::State::kDone;
  return r;
}

ServingEvent step(double begin, double end, int32_t decodes, int32_t prefill_tokens) {
  return {ServingEvent::Kind::kStep, 0, Seconds(begin), Seconds(end), decodes, prefill_tokens};
}

struct Served {
  ServingRequest request;
  ServingAnswer answer;

  Served() {
    request.engine.model = "a<b";
    request.engine.device = "h200";
    answer.devices = 1;
    answer.run.kv_blocks = 10;
    answer.run.requests = {record(0, 1, 2, 10), record(1, 2, 3, 6)};
    answer.run.requests.push_back({});
    answer.run.requests.back().state = RequestRecord::State::kRejected;
    answer.run.series = {{Seconds(0), Seconds(2), 1, 50, 5, 3}};
    // A pipeline: two batches at once.
    answer.run.events = {step(0, 2, 0, 100), step(1, 3, 2, 0), step(2, 4, 1, 50)};
    PoolAnswer pool;
    pool.role = "engines";
    pool.device = "h200";
    pool.step = {{"linear layers", 0.75}, {"between steps", 0.25}};
    answer.pools = {pool};
  }
};

TEST(ServingPage, HoldsRequestsAndShares) {
  const Served served;
  const std::string page = serving_page(served.answer, served.request);
  EXPECT_NE(page.find("<h1>a&lt;b</h1>"), std::string::npos);
  // 1160 wide for ten seconds: the first request waits for one, is read in one, written in eight.
  EXPECT_NE(page.find(R"(<rect x="0.0" y="0" width="116.0" height="7" fill="#c6ccd6"/>)"
                      R"(<rect x="116.0" y="0" width="116.0" height="7" fill="#f28e2b"/>)"
                      R"(<rect x="232.0" y="0" width="928.0" height="7" fill="#4e79a7"/>)"),
            std::string::npos);
  EXPECT_NE(page.find("flex:0 0 75.00%"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("Under other loads"), std::string::npos);
}

TEST(ServingTimeline, StepsThatOverlapHaveLinesOfTheirOwn) {
  const Served served;
  const auto trace = nlohmann::json::parse(perfetto_trace(served.answer, served.request));
  std::vector<std::pair<int, int>> steps;  // line, decodes
  int begun = 0, ended = 0;
  double full = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") steps.emplace_back(event.at("tid"), event.at("args").at("decodes"));
    begun += event.at("ph") == "b";
    ended += event.at("ph") == "e";
    if (event.at("name") == "KV cache") full = event.at("args").at("percent");
  }
  EXPECT_EQ(steps, (std::vector<std::pair<int, int>>{{0, 0}, {1, 2}, {0, 1}}));
  EXPECT_EQ(begun, 2 * 4);  // whole, queue, prompt, answer; who was rejected has none
  EXPECT_EQ(ended, begun);
  EXPECT_EQ(full, 50);
}

TEST(ServingText, SaysWhatEachPoolHadOfTheWork) {
  Served served;
  PoolAnswer& fast = served.answer.pools[0];
  fast.use = {30, 3000, 90, Seconds(5)};
  fast.request_share = 0.75;
  fast.busy = 0.5;
  fast.mean_power_w = 300;
  fast.price_per_hour = 3;
  PoolAnswer slow = fast;
  slow.device = "l40s";
  slow.replicas = 2;
  slow.use = {10, 1000, 30, Seconds(9)};
  slow.request_share = 0.25;
  served.answer.pools.push_back(slow);
  served.answer.price_per_hour = 6;
  const std::string text = serving_text(served.answer, served.request);
  EXPECT_NE(text.find("a<b on 1 × h200 + 2 × l40s"), std::string::npos);
  EXPECT_NE(text.find("h200: 1 × (tp 1)        1    75.0 %         75.0 %         75.0 %  50.0 %"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("25.0 %  50.0 %              600 W              3"), std::string::npos)
      << text;
  const std::string page = serving_page(served.answer, served.request);
  EXPECT_NE(page.find("<h2>Pools of engines</h2>"), std::string::npos);
  EXPECT_NE(page.find("<td>l40s: 2 × (tp 1)</td><td>2</td><td>25.0 %</td>"), std::string::npos);
  EXPECT_NE(perfetto_trace(served.answer, served.request).find("engine 0, h200"),
            std::string::npos);
}

TEST(CapacityText, NamesTheLimitAndTheRunnerUp) {
  CapacityRequest request;
  request.serving.engine.model = "m";
  request.serving.engine.device = "d";
  request.promise.level = {Seconds(1), Seconds(0.05), {}};
  CapacityAnswer answer;
  answer.cluster = "c";
  answer.best.arrangement.pools = {{"engines", "d", {4, 1, 1, 0, 1}, 2, 1024}};
  answer.best.kept.load = answer.best.kept.rate = 16;
  answer.most = answer.best.kept;
  answer.most_low = 12;
  answer.most_high = 20;
  answer.best.broken = LoadPoint();
  answer.best.broken->load = 16.1;
  answer.best.broken->tpot = Seconds(0.051);
  answer.best.broken->tightest = PromiseTerm::kTpot;
  answer.others = {answer.best};
  answer.others[0].arrangement.pools[0].layout.tensor = 8;
  answer.others[0].kept.load = 14;
  const std::string text = capacity_text(answer, request);
  EXPECT_NE(text.find("m on d (c), p99 of requests: ttft 1.00 s, tpot 50.0 ms"), std::string::npos);
  EXPECT_NE(text.find("16 requests/s on 8 devices (12 … 20 by the model's error), 2 a device"),
            std::string::npos);
  EXPECT_NE(text.find("2 × (tp 4), 1024 tokens a step at most"), std::string::npos);
  EXPECT_NE(text.find("p99 tpot 51.0 ms at 16.1 requests/s"), std::string::npos);
  EXPECT_NE(text.find("2 × (tp 8)"), std::string::npos);
}

}  // namespace
}  // namespace orrery
