#include "orrery/api/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "orrery/api/session.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const Session& session() {
  static const Session kSession(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  return kSession;
}

/// Llama-3 8B on 16 H100: tp 2, pp 2, dp 4; 8 micro-batches.
TrainRequest request() {
  TrainRequest r;
  r.model = "llama3-8b";
  r.cluster = "dgx-h100";
  r.strategy.gpus = 0;
  r.strategy.tensor = r.strategy.pipeline = 2;
  r.strategy.sequence = true;
  r.strategy.global_batch = 32;
  r.strategy.length = 4096;
  r.data = 4;
  return r;
}

/// What `train` throws.
std::pair<ErrorKind, std::string> refusal(const TrainRequest& r) {
  try {
    session().train(r);
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << "not refused";
  return {};
}

TEST(Train, JsonHoldsTheStrategyAndPartsThatAddUp) {
  const TrainRequest r = request();
  const TrainAnswer answer = session().train(r);
  const Json json = Json::parse(to_json(answer, r));
  EXPECT_EQ(json["schema"], "orrery.train/1");
  EXPECT_EQ(json["model"], "llama3-8b");
  EXPECT_EQ(json["cluster"], "dgx-h100");
  EXPECT_EQ(json["framework"], "megatron-core");
  const Json strategy = {{"gpus", 16},
                         {"tp", 2},
                         {"pp", 2},
                         {"vpp", 1},
                         {"cp", 1},
                         {"dp", 4},
                         {"ep", 1},
                         {"sp", true},
                         {"micro_batch", 1},
                         {"global_batch", 32},
                         {"micro_batches", 8},
                         {"seq", 4096},
                         {"dtype", "bf16"},
                         {"plain_first", 0},
                         {"plain_last", 0},
                         {"mtp", 0},
                         {"recompute", "none"},
                         {"layers", "fused"},
                         {"loss", "fp32"},
                         {"weights", "bf16"},
                         {"moments", "fp32"},
                         {"gradients", "fp32"},
                         {"attention", "fused"},
                         {"overlap_tensor", false},
                         {"overlap_gradients", true},
                         {"overlap_experts", false},
                         {"dispatch", "by-node"},
                         {"fused_router", false},
                         {"graphs", false},
                         {"schedule", "1f1b"},
                         {"zero", 1}};
  EXPECT_EQ(json["strategy"], strategy);
  double sum = 0;
  for (const auto& part : json["breakdown"]) sum += part.get<double>();
  const double step = json["step_s"];
  EXPECT_NEAR(sum, step, 1e-9 * step);
  EXPECT_LT(json["step_low_s"], step);
  EXPECT_GT(json["step_high_s"], step);
  double compute = 0;
  for (const auto& part : json["compute"]) compute += part.get<double>();
  EXPECT_NEAR(compute, json["breakdown"]["compute"], 1e-9 * step);
  double exposed = 0;
  for (const auto& cause : json["communication"]) {
    exposed += cause["exposed"].get<double>();
    EXPECT_LE(cause["exposed"], cause["total"]);
  }
  EXPECT_NEAR(exposed, json["breakdown"]["exposed_communication"], 1e-9 * step);
  EXPECT_EQ(json["communication"].size(), 6U);
  double memory = 0;
  for (const char* part : {"weights_bytes", "gradients_bytes", "optimizer_bytes",
                           "activations_bytes", "working_bytes", "other_bytes"})
    memory += json["memory"][part].get<double>();
  EXPECT_NEAR(memory, json["memory"]["total_bytes"], 1);
  EXPECT_TRUE(json["memory"]["fits"]);
  EXPECT_EQ(json["provenance"]["framework"], "megatron-core");
  EXPECT_TRUE(json["gaps"].is_array());
}

TEST(Train, ThroughputFollowsFromTheStep) {
  const TrainAnswer a = session().train(request());
  const double step = a.estimate.step.value.value;
  EXPECT_DOUBLE_EQ(a.tokens_per_s_per_gpu, 32.0 * 4096 / step / 16);
  EXPECT_DOUBLE_EQ(a.tflops_per_gpu, a.estimate.model_flops / step / 16 / 1e12);
  EXPECT_NEAR(a.mfu, a.tflops_per_gpu / 989.4, 1e-3);  // dense bf16 peak of an H100 SXM
  EXPECT_NEAR(a.estimate.parameters, 8.03e9, 0.01e9);
  // 6·N a token for all but the embedding's 0.525 billion, and 6·L·s·h of causal scores.
  const double token = 6 * (8.03e9 - 0.525e9) + 6.0 * 32 * 4096 * 4096;
  EXPECT_NEAR(a.estimate.model_flops, token * 32 * 4096, 0.002 * token * 32 * 4096);
}

TEST(Train, WhatWasAskedForStaysWhateverTheFramework) {
  TrainRequest r = request();
  r.strategy.zero = 0;
  EXPECT_EQ(session().train(r).strategy.zero, 1);
  r.given = {"zero"};
  EXPECT_EQ(session().train(r).strategy.zero, 0);
  r.strategy.fused_attention = false;
  r.given = {"attention"};
  EXPECT_FALSE(session().train(r).strategy.fused_attention);
}

TEST(Train, GpusFollowFromTheProduct) {
  EXPECT_EQ(session().train(request()).strategy.gpus, 16);
  TrainRequest r = request();
  r.data = 0;
  r.strategy.gpus = 32;
  EXPECT_EQ(session().train(r).strategy.data(), 8);
  r.data = 4;
  EXPECT_EQ(refusal(r), std::pair(ErrorKind::kUsage,
                                  std::string("tp 2 × pp 2 × cp 1 × dp 4 is 16 GPUs, not 32")));
}

TEST(Train, AStrategyThatCannotRunIsInfeasible) {
  TrainRequest r = request();
  r.strategy.global_batch = 30;
  r.strategy.chunks = 40;
  const auto [kind, says] = refusal(r);
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_EQ(static_cast<int>(kind), 4);
  EXPECT_THAT(says, AllOf(HasSubstr("a global batch of 30 sequences does not divide"),
                          HasSubstr("32 layers do not fill pp 2 × 40 chunks")));
}

TEST(Train, SizesBeyondTheClusterOrAnyNumberAreInfeasible) {
  TrainRequest r = request();
  r.data = 1 << 20;
  r.strategy.global_batch = 1 << 20;
  EXPECT_THAT(refusal(r), testing::Pair(ErrorKind::kInfeasible, HasSubstr("devices at most")));
  r.strategy.tensor = r.strategy.pipeline = r.strategy.context = 1 << 20;
  EXPECT_THAT(refusal(r), testing::Pair(ErrorKind::kInfeasible, HasSubstr("GPUs")));
}

TEST(Train, MemoryThatDoesNotHoldItIsSaidInTheAnswer) {
  TrainRequest r = request();
  r.model = "llama3-70b";
  const TrainAnswer answer = session().train(r);
  EXPECT_FALSE(answer.fits);
  EXPECT_EQ(Json::parse(to_json(answer, r))["memory"]["fits"], false);
}

TEST(Train, UnknownNamesAreRefusedWithTheNearest) {
  TrainRequest r = request();
  r.framework = "fsd";
  EXPECT_THAT(refusal(r), testing::Pair(ErrorKind::kUsage,
                                        AllOf(HasSubstr("framework 'fsd'"), HasSubstr("fsdp"))));
  r = request();
  r.model = "llama3-8bb";
  EXPECT_THAT(refusal(r), testing::Pair(ErrorKind::kUsage, HasSubstr("llama3-8b")));
  EXPECT_THROW(training_precision("fp12"), Error);
  Strategy s;
  EXPECT_THROW(set_recompute(s, "half"), Error);
  EXPECT_THROW(set_recompute(s, "mlp,"), Error);
  try {
    set_recompute(s, "none,moe");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'none' stands alone"));
  }
  EXPECT_THROW(loss_kernel("fp8"), Error);
  EXPECT_THROW(pipeline_schedule("2f2b"), Error);
}

TEST(Train, NamesOfChoicesGoBothWays) {
  for (const char* text : {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"})
    EXPECT_EQ(name(training_precision(text)), text);
  for (const char* text : {"none", "selective", "experts", "operators", "full", "moe_act",
                           "layernorm,moe_act", "core_attn,mla_up_proj,mlp,moe,shared_experts"}) {
    Strategy s;
    set_recompute(s, text);
    EXPECT_EQ(recompute_in_words(s), text);
  }
  for (const char* text : {"fp32", "operators", "compiled", "fused"})
    EXPECT_EQ(name(loss_kernel(text)), text);
  for (const char* text : {"1f1b", "gpipe", "zero-bubble"})
    EXPECT_EQ(name(pipeline_schedule(text)), text);
}

TEST(Train, StragglersCostWhatTheSlowestPipelineDoes) {
  TrainRequest r = request();
  const double without = session().train(r).estimate.step.value.value;
  r.stragglers = {"0-15=0.5"};
  const TrainAnswer all = session().train(r);
  EXPECT_DOUBLE_EQ(all.step_without.value, without);
  // Kernels and the optimiser take twice as long; traffic and gaps stay.
  EXPECT_GT(all.estimate.step.value.value, 1.6 * without);
  EXPECT_LT(all.estimate.step.value.value, 2 * without);
  r.stragglers = {"9=0.5x"};
  const TrainAnswer one = session().train(r);
  // Rank 9 is on the second stage: of ranks 8 to 15, the first data rank.
  EXPECT_EQ(one.costs.data_rank, 0);
  EXPECT_GT(one.estimate.step.value.value, without);
  EXPECT_LT(one.estimate.step.value.value, all.estimate.step.value.value);
  const Json json = Json::parse(to_json(one, r));
  EXPECT_EQ(json["stragglers"]["ranks"], Json::parse(R"([{"first":9,"last":9,"speed":0.5}])"));
  EXPECT_DOUBLE_EQ(json["stragglers"]["cost_s"], one.estimate.step.value.value - without);
  EXPECT_FALSE(Json::parse(to_json(session().train(request()), request())).contains("stragglers"));
}

TEST(Train, ASlowNodeCostsWhereTrafficLeavesIt) {
  TrainRequest r = request();
  const double without = session().train(r).estimate.step.value.value;
  r.slow_nodes = {"1=0.25"};
  EXPECT_GT(session().train(r).estimate.step.value.value, without);
  // Within one node nothing uses the network.
  r.strategy.pipeline = 1;
  EXPECT_EQ(refusal(r).second, "slow nodes 1 to 1: nodes are 0 to 0 here");
  r.slow_nodes = {"0=0.25"};
  const TrainAnswer inside = session().train(r);
  EXPECT_EQ(inside.estimate.step.value, inside.step_without);
}

TEST(Train, StragglersThatCannotBeReadAreRefused) {
  for (const char* text : {"5", "5=", "=0.5", "a=0.5", "1-=0.5", "1-2-3=0.5", "5=0.5y", "-1=0.5"}) {
    TrainRequest r = request();
    r.stragglers = {text};
    EXPECT_EQ(refusal(r).first, ErrorKind::kUsage) << text;
    EXPECT_THAT(refusal(r).second, HasSubstr("--straggler " + std::string(text))) << text;
  }
  TrainRequest r = request();
  r.stragglers = {"5=0"};
  EXPECT_EQ(refusal(r).second, "slow ranks 5 to 5: 0 is not a share above 0 and at most 1");
  r.stragglers = {};
  r.slow_nodes = {"0=nan"};
  EXPECT_EQ(refusal(r).second, "--slow-node 0=nan: give a share above 0 and at most 1");
}

}  // namespace
}  // namespace orrery
