#include "orrery/api/model_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orrery/api/session.h"

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr const char* kRow = R"({"op": "add", "dtype": "bf16", "params": {"shape": [16777216]}})";

class ModelChoiceTest : public testing::Test {
 protected:
  ModelChoiceTest() {
    std::ofstream(table_) << "op,dtype,params,us\nadd,bf16,{\"shape\": [16777216]},28\n";
  }
  ~ModelChoiceTest() override { std::filesystem::remove(table_); }

  static Json request(const char* device) {
    return {{"command", "kernel"}, {"on", device}, {"rows", Json::array({Json::parse(kRow)})}};
  }
  Json answer(const Json& request) const {
    return Json::parse(session_.call(request.dump()))["kernels"][0];
  }
  std::string refusal(const Json& request) const {
    try {
      session_.call(request.dump());
    } catch (const Error& e) {
      EXPECT_EQ(e.exit_code(), 2);
      return e.message();
    }
    return "";
  }

  Session session_{std::string(ORRERY_SOURCE_DIR) + "/hardware",
                   std::string(ORRERY_SOURCE_DIR) + "/data"};
  std::string table_ = testing::TempDir() + "model_choice_" + std::to_string(::getpid()) + ".csv";
};

TEST_F(ModelChoiceTest, AProfileIsAnsweredFrom) {
  Json profile = request("h200");
  profile["profile"] = table_;
  EXPECT_EQ(answer(profile)["model"], "profile");
  EXPECT_NEAR(answer(profile)["predicted_us"].get<double>(), 28, 1e-9);
}

TEST_F(ModelChoiceTest, AnOriginScalesIt) {
  Json scaled = request("h200");
  scaled["profile"] = table_;
  scaled["origin"] = "h100-sxm";
  EXPECT_EQ(answer(scaled)["model"], "wave-scaling");
  const double ours = answer(scaled)["predicted_us"].get<double>();
  EXPECT_LT(ours, 28);
  EXPECT_GT(ours, 28 * 3.35 / 4.8);
  scaled["kernel_model"] = "wave-scaling";
  scaled["parameters"] = {{"habitat", 1}};
  EXPECT_NE(answer(scaled)["predicted_us"].get<double>(), ours);
}

TEST_F(ModelChoiceTest, ParametersOfTheModel) {
  Json tpu = request("tpu-v5e");
  tpu["kernel_model"] = "systolic";
  const double plain = answer(tpu)["predicted_us"].get<double>();
  tpu["parameters"] = {{"floor", 3e-6}};
  EXPECT_NEAR(answer(tpu)["predicted_us"].get<double>(), plain + 2, 1e-6);
}

TEST_F(ModelChoiceTest, WhatAModelDoesNotTakeIsRefused) {
  Json wrong = request("h200");
  wrong["kernel_model"] = "roofline";
  wrong["profile"] = table_;
  EXPECT_THAT(refusal(wrong), HasSubstr("'roofline' takes no profile"));
  wrong.erase("profile");
  wrong["origin"] = "h100-sxm";
  EXPECT_THAT(refusal(wrong), HasSubstr("'roofline' takes no origin"));
  wrong.erase("origin");
  wrong["parameters"] = {{"best", 1}};
  EXPECT_THAT(refusal(wrong), HasSubstr("'roofline' has no parameter that can be set"));
  wrong["on"] = "tpu-v5e";
  wrong["kernel_model"] = "systolic";
  wrong["parameters"] = {{"data_flow", 1}};
  EXPECT_THAT(refusal(wrong), HasSubstr("did you mean 'dataflow'"));
  wrong["parameters"] = {{"dataflow", "weights"}};
  EXPECT_THAT(refusal(wrong), HasSubstr("expected a number"));
  Json unknown = request("h200");
  unknown["profile"] = table_;
  unknown["origin"] = "h100-sxn";
  EXPECT_THAT(refusal(unknown), HasSubstr("h100-sxm"));
}

TEST_F(ModelChoiceTest, AnswersSayWhatTheyRestOn) {
  const std::string text =
      session_.call(Json({{"command", "predict"},
                          {"workload", std::string(ORRERY_SOURCE_DIR) + "/examples/gemm.mlir"},
                          {"on", "h200"},
                          {"profile", table_}})
                        .dump());
  const Json answer = Json::parse(text);
  EXPECT_EQ(answer["provenance"]["profile"], table_ + ", 1 rows of 1 kernels");
  EXPECT_THAT(answer["gaps"].dump(), HasSubstr("has no dot_general"));
}

}  // namespace
}  // namespace orrery
