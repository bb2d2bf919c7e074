#include "orrery/api/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orrery/api/session.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

const Session& session() {
  static const Session shared;
  return shared;
}

PlanRequest request() {
  PlanRequest r;
  r.model = "llama3-8b";
  r.cluster = "dgx-h100";
  r.gpus = {8, 16};
  r.strategy.global_batch = 64;
  r.strategy.length = 4096;
  return r;
}

TEST(Plan, ListsWhatFitsQuickestFirst) {
  const PlanAnswer a = session().plan(request());
  ASSERT_GT(a.plan.layouts.size(), 3u);
  EXPECT_EQ(a.plan.layouts.front().strategy.gpus, 16);
  for (size_t i = 0; i < a.plan.layouts.size(); ++i) {
    const PlannedStep& step = a.plan.layouts[i];
    EXPECT_LE(step.estimate.memory.total().value, a.capacity_bytes);
    if (i > 0) {
      EXPECT_GE(step.estimate.step.value, a.plan.layouts[i - 1].estimate.step.value);
    }
  }
}

TEST(Plan, FindsWhatEvaluatingItByHandGives) {
  // The best layout's step is that which `train` gives for the same strategy.
  const PlanAnswer a = session().plan(request());
  const Strategy& s = a.plan.layouts.front().strategy;
  TrainRequest train;
  train.model = "llama3-8b";
  train.cluster = "dgx-h100";
  train.strategy = s;
  train.given = {"zero", "overlap-tensor"};
  EXPECT_EQ(session().train(train).estimate.step.value, a.plan.layouts.front().estimate.step.value);
}

TEST(Plan, RecomputesSingleModulesBeforeLayers) {
  PlanRequest asked = request();
  asked.model = "deepseek-v3";
  asked.gpus = {256};
  asked.strategy.global_batch = 2048;
  const Plan plan = session().plan(asked).plan;
  ASSERT_FALSE(plan.layouts.empty());
  EXPECT_TRUE(std::ranges::any_of(plan.layouts, [](const PlannedStep& step) {
    return step.strategy.recompute == Recompute::kModules;
  }));
  // What is recomputed is asked for by memory: with less of it there is too little.
  for (const PlannedStep& step : plan.layouts) {
    if (step.strategy.recompute == Recompute::kNone) continue;
    TrainRequest train;
    train.model = asked.model;
    train.cluster = asked.cluster;
    train.strategy = step.strategy;
    train.given = {"zero", "overlap-tensor"};
    set_recompute(train.strategy, "none");
    EXPECT_FALSE(session().train(train).fits) << in_words(step.strategy);
  }
}

TEST(Plan, RunsStrategiesAsAsked) {
  PlanRequest asked = request();
  asked.given = {"overlap-tensor", "gradients"};
  asked.strategy.overlap_tensor = false;
  asked.strategy.wide_gradients = false;
  asked.strategy.graphs = true;
  const Plan plan = session().plan(asked).plan;
  ASSERT_FALSE(plan.layouts.empty());
  for (const PlannedStep& step : plan.layouts) {
    EXPECT_FALSE(step.strategy.overlap_tensor);
    EXPECT_FALSE(step.strategy.wide_gradients);
    EXPECT_TRUE(step.strategy.graphs);
  }
}

TEST(Plan, TensorTrafficHidesUnlessAskedNotTo) {
  PlanRequest shown = request();
  shown.given = {"overlap-tensor"};
  const auto quickest = [](const PlanRequest& r) {
    const Plan plan = session().plan(r).plan;
    const auto found = std::ranges::find_if(
        plan.layouts, [](const PlannedStep& l) { return l.strategy.tensor > 1; });
    return found == plan.layouts.end() ? 0 : found->estimate.step.value.value;
  };
  EXPECT_GT(quickest(shown), quickest(request()));
}

TEST(Plan, ReadsHowFromItsRequest) {
  const auto answer = nlohmann::json::parse(session().call(
      R"({"command": "plan", "model": "llama3-8b", "on": "dgx-h100", "gpus": 8, "global_batch": 64,
          "schedule": "gpipe", "plain_first": 2, "overlap_tensor": false, "top": 1})"));
  EXPECT_EQ(answer["best"][0]["strategy"]["schedule"], "gpipe");
  EXPECT_EQ(answer["best"][0]["strategy"]["plain_first"], 2);
}

TEST(Plan, FrontIsNotBeaten) {
  const Plan& plan = session().plan(request()).plan;
  ASSERT_FALSE(plan.front.empty());
  for (const PlannedStep& a : plan.front)
    for (const PlannedStep& b : plan.layouts) {
      const bool better = b.estimate.step.value < a.estimate.step.value &&
                          b.estimate.memory.total() < a.estimate.memory.total() &&
                          b.strategy.gpus <= a.strategy.gpus;
      EXPECT_FALSE(better);
    }
  // Eight devices hold the model too, and sixteen are quicker: both are on the front.
  EXPECT_TRUE(std::ranges::any_of(plan.front, [](auto& p) { return p.strategy.gpus == 8; }));
}

TEST(Plan, IsTheSameOnAnyNumberOfThreads) {
  const TrainingModel model = session().training_model("llama3-8b", "dgx-h100", {});
  PlanQuestion question;
  question.fixed.global_batch = 64;
  question.fixed.length = 4096;
  question.gpus = {16};
  question.threads = 1;
  const Plan one = make_plan(model, question);
  question.threads = 3;
  const Plan three = make_plan(model, question);
  ASSERT_EQ(one.layouts.size(), three.layouts.size());
  for (size_t i = 0; i < one.layouts.size(); ++i) {
    EXPECT_EQ(one.layouts[i].strategy, three.layouts[i].strategy);
    EXPECT_EQ(one.layouts[i].estimate.step.value, three.layouts[i].estimate.step.value);
  }
}

TEST(Plan, SaysWhatIsMissingWhereNothingFits) {
  PlanRequest r = request();
  r.model = "llama3-405b";
  r.gpus = {8};
  r.strategy.global_batch = 8;
  try {
    session().plan(r);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInfeasible);
    // 406 G parameters of 2 bytes, 4 of gradients and 12 of optimiser state are 7.3 TB on 8 GPUs.
    EXPECT_NE(std::string(e.what()).find("does not fit"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("more GPUs"), std::string::npos);
  }
}

TEST(Plan, RefusesWhatDoesNotDivide) {
  PlanRequest r = request();
  r.gpus = {7};
  r.strategy.global_batch = 5;
  r.strategy.length = 1000;
  EXPECT_THROW(session().plan(r), Error);
  r.gpus = {1 << 19};
  EXPECT_THROW(session().plan(r), Error);
}

TEST(Plan, FindsTheLayoutThatLlama3WasTrainedWith) {
  // Dubey et al. 2024, table 4: 16,384 H100, TP 8, CP 1, PP 16, DP 128, 16 M tokens.
  PlanRequest r = request();
  r.model = "llama3-405b";
  r.cluster = "meta-grand-teton-h100";
  r.gpus = {16384};
  r.strategy.global_batch = 2048;
  r.strategy.length = 8192;
  const Plan& plan = session().plan(r).plan;
  const auto found = std::ranges::find_if(plan.layouts, [](const PlannedStep& p) {
    const Strategy& s = p.strategy;
    return s.tensor == 8 && s.context == 1 && s.pipeline == 16 && s.data() == 128;
  });
  ASSERT_NE(found, plan.layouts.end());
  EXPECT_LE(found - plan.layouts.begin(), 4);
}

TEST(Plan, AnswersJson) {
  const auto json = nlohmann::json::parse(session().call(
      R"({"command":"plan","model":"llama3-8b","on":"dgx-h100","gpus":[8],"global_batch":32,"top":2})"));
  EXPECT_EQ(json["schema"], "orrery.plan/1");
  ASSERT_EQ(json["best"].size(), 2u);
  EXPECT_EQ(json["best"][0]["why"], "");
  EXPECT_NE(json["best"][1]["why"], "");
  const auto train = nlohmann::json::parse(session().call(
      R"({"command":"train","model":"llama3-8b","on":"dgx-h100","dp":8,"global_batch":32,"zero":1})"));
  EXPECT_EQ(train["strategy"]["gpus"], 8);
}

TEST(Plan, SaysWhyAnotherIsSlower) {
  PlannedStep best, other;
  best.estimate.step.value = Seconds(10);
  best.estimate.forward = Seconds(10);
  other.estimate.step.value = Seconds(12);
  other.estimate.forward = Seconds(10.5);
  other.estimate.bubble = Seconds(1.5);
  EXPECT_EQ(why_slower(other, best),
            "waits longer for other stages (+15.0 %), computes longer (+5.0 %)");
}

}  // namespace
}  // namespace orrery
