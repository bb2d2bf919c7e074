#include "orrery/api/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

/// A sum of two tensors of 2^26 floats: 2^26 FLOP, 3·2^28 B, on no device bound by arithmetic.
class CompareTest : public testing::Test {
 protected:
  CompareTest()
      : session_(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                 std::string(ORRERY_SOURCE_DIR) + "/data"),
        file_((std::filesystem::path(testing::TempDir()) /
               ("compare_test_" + std::to_string(::getpid()) + ".mlir"))
                  .string()) {
    std::ofstream(file_) << "func.func @main(%a: tensor<67108864xf32>, %b: tensor<67108864xf32>) "
                            "-> tensor<67108864xf32> {\n"
                            "  %0 = stablehlo.add %a, %b : tensor<67108864xf32>\n"
                            "  return %0 : tensor<67108864xf32>\n}\n";
  }
  ~CompareTest() override { std::filesystem::remove(file_); }

  CompareRequest request(std::initializer_list<const char*> on) const {
    CompareRequest request;
    request.workload = file_;
    for (const char* entry : on) request.on.push_back(read_compare_entry(entry));
    return request;
  }
  std::string refusal(const CompareRequest& asked) const {
    try {
      session_.compare(asked);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }

  Session session_;
  std::string file_;
};

double part(const Compared& c, Cause cause) { return c.difference[static_cast<size_t>(cause)]; }

TEST_F(CompareTest, TwiceTheBandwidthHalvesTheKernelsAndIsTheWholeCause) {
  CompareRequest asked = request({"h200", "h200:memory.bandwidth=9.6TB/s"});
  asked.kernel_model = "roofline";
  const CompareAnswer answer = session_.compare(asked);
  ASSERT_EQ(answer.on.size(), 2U);
  const Compared &slow = answer.on[0], &fast = answer.on[1];
  const double kernel = 3 * 268435456.0 / 4.8e12;  // 167.8 µs
  EXPECT_DOUBLE_EQ(slow.prediction.composition.kernels_s, kernel);
  EXPECT_DOUBLE_EQ(fast.prediction.composition.kernels_s, kernel / 2);
  EXPECT_NEAR(part(fast, Cause::kBandwidth), -kernel / 2, 1e-15);
  for (Cause other : {Cause::kArithmetic, Cause::kClock, Cause::kEfficiency, Cause::kKernels,
                      Cause::kLaunches, Cause::kHost})
    EXPECT_NEAR(part(fast, other), 0, 1e-18) << name(other);
  // The kernel errs alike on both, the gaps do not err: at the ends of the roofline's interval,
  // 0.95 and 5 times the kernel's time, the ratio is a little nearer to one or to a half.
  const double gap = slow.prediction.composition.gaps_s;
  const auto ratio_at = [&](double times) {
    return (times * kernel / 2 + gap) / (times * kernel + gap);
  };
  EXPECT_DOUBLE_EQ(fast.ratio.value, ratio_at(1));
  EXPECT_NEAR(fast.ratio.low, ratio_at(5), 1e-3);
  EXPECT_NEAR(fast.ratio.high, ratio_at(0.95), 1e-3);
  EXPECT_THAT(answer.gaps, Contains(HasSubstr("what-ifs of one device")));
}

TEST_F(CompareTest, TheFirstIsTheBaseline) {
  const CompareAnswer answer = session_.compare(request({"h200", "l4", "h100-sxm"}));
  EXPECT_EQ(answer.on[0].ratio.value, 1);
  EXPECT_EQ(answer.on[0].ratio.high, 1);
  EXPECT_THAT(answer.on[0].difference, testing::Each(0.0));
  for (const Compared& c : answer.on) {
    const double difference = c.prediction.latency_s - answer.on[0].prediction.latency_s;
    EXPECT_NEAR(std::accumulate(c.difference.begin(), c.difference.end(), 0.0), difference,
                1e-12 * c.prediction.latency_s);
    EXPECT_DOUBLE_EQ(c.ratio.value, c.prediction.latency_s / answer.on[0].prediction.latency_s);
    EXPECT_LE(c.ratio.low, c.ratio.value);
    EXPECT_GE(c.ratio.high, c.ratio.value);
  }
  // 300 GB/s against 4.8 TB/s.
  EXPECT_GT(answer.on[1].ratio.low, 8);
  EXPECT_GT(part(answer.on[1], Cause::kBandwidth), 0);
}

TEST_F(CompareTest, CausesAddUpWhateverTheModelsAndStacks) {
  CompareRequest asked = request({"h200", "tpu-v5p", "h200:stack=torch-eager", "l4"});
  asked.workload = "bert-base";
  asked.read.build.phase = "train";
  const CompareAnswer answer = session_.compare(asked);
  for (size_t i = 0; i < answer.on.size(); ++i) {
    const Compared& c = answer.on[i];
    EXPECT_NEAR(std::accumulate(c.difference.begin(), c.difference.end(), 0.0),
                c.prediction.latency_s - answer.on[0].prediction.latency_s,
                1e-10 * c.prediction.latency_s);
    double families = 0;
    for (const FamilyTimes& f : answer.families) families += f.seconds[i];
    EXPECT_NEAR(families, c.prediction.latency_s, 1e-10 * c.prediction.latency_s);
  }
  double before = INFINITY;
  for (const FamilyTimes& f : answer.families) {
    double largest = 0;
    for (double s : f.seconds) largest = std::max(largest, std::abs(s - f.seconds[0]));
    EXPECT_LE(largest, before) << f.name;
    before = largest;
  }
}

TEST_F(CompareTest, CountsTokensAndSamples) {
  CompareRequest asked = request({"h200", "l4"});
  asked.workload = "bert-base";
  asked.read.build.batch = 4;
  asked.read.build.sequence = 128;
  const Compared bert = session_.compare(asked).on[0];
  EXPECT_DOUBLE_EQ(bert.samples_per_s, 4 / bert.prediction.latency_s);
  EXPECT_DOUBLE_EQ(bert.tokens_per_s, 512 / bert.prediction.latency_s);
  asked.workload = "resnet-50";
  asked.read.build.sequence = 0;
  const Compared resnet = session_.compare(asked).on[0];
  EXPECT_DOUBLE_EQ(resnet.samples_per_s, 4 / resnet.prediction.latency_s);
  EXPECT_EQ(resnet.tokens_per_s, 0);
  EXPECT_EQ(session_.compare(request({"h200", "l4"})).on[0].samples_per_s, 0);
}

TEST_F(CompareTest, TellsWhereItFits) {
  CompareRequest asked = request({"l4", "h200"});
  asked.workload = "llama2-70b";
  asked.read.build.phase = "decode";
  asked.read.build.context = 1024;
  const CompareAnswer answer = session_.compare(asked);
  EXPECT_FALSE(answer.on[0].prediction.memory.fits);
  EXPECT_TRUE(answer.on[1].prediction.memory.fits);
  EXPECT_TRUE(answer.fits_somewhere());
  asked.on.back().device = "h100-sxm";
  EXPECT_FALSE(session_.compare(asked).fits_somewhere());
}

TEST_F(CompareTest, WhatAllLackIsListedOnce) {
  CompareRequest asked = request({"h100-sxm", "l4"});
  asked.kernel_model = "roofline";
  const CompareAnswer answer = session_.compare(asked);
  EXPECT_THAT(answer.gaps, Contains(HasSubstr("shortest time of a kernel")));
  for (const Compared& c : answer.on) {
    EXPECT_THAT(c.gaps, Not(Contains(HasSubstr("shortest time of a kernel"))));
    EXPECT_THAT(c.gaps, Contains(HasSubstr("taken for " + c.entry.device)));
  }
}

TEST_F(CompareTest, AnEntryHasWhatIfsAndAStackOfItsOwn) {
  const CompareEntry plain = read_compare_entry("h200");
  EXPECT_EQ(plain.device, "h200");
  EXPECT_EQ(plain.stack, "");
  EXPECT_THAT(plain.overrides, IsEmpty());
  const CompareEntry entry =
      read_compare_entry("my/gpu.yaml:stack=torch-eager:memory.bandwidth=6 TB/s:stack.call=1us");
  EXPECT_EQ(entry.device, "my/gpu.yaml");
  EXPECT_EQ(entry.stack, "torch-eager");
  EXPECT_THAT(entry.overrides,
              ElementsAre(Pair("memory.bandwidth", "6 TB/s"), Pair("stack.call", "1us")));
  EXPECT_EQ(read_compare_entry(to_text(entry)), entry);
  for (const char* bad :
       {"", ":stack=xla", "h200:", "h200:stack", "h200:stack=", "h200:=1", "h200::"})
    EXPECT_THROW(read_compare_entry(bad), Error) << bad;
}

TEST_F(CompareTest, AnEntrysOwnWhatIfsComeAfterThoseOfAll) {
  CompareRequest asked = request({"h200", "h200:memory.bandwidth=9.6TB/s"});
  asked.kernel_model = "roofline";
  asked.overrides = {{"memory.bandwidth", "2.4TB/s"}};
  const CompareAnswer answer = session_.compare(asked);
  EXPECT_DOUBLE_EQ(answer.on[0].prediction.composition.kernels_s, 3 * 268435456.0 / 2.4e12);
  EXPECT_DOUBLE_EQ(answer.on[1].prediction.composition.kernels_s, 3 * 268435456.0 / 9.6e12);
}

TEST_F(CompareTest, RefusesWhatCannotBeCompared) {
  EXPECT_THAT(refusal(request({"h200"})), HasSubstr("two devices or more"));
  EXPECT_THAT(refusal(request({"h200", "h200"})), HasSubstr("stands there twice"));
  EXPECT_THAT(refusal(request({"h200", "h200:stack=xla"})), HasSubstr("stands there twice"));
  EXPECT_THAT(refusal(request({"h200", "h201"})), HasSubstr("h201"));
  EXPECT_THAT(refusal(request({"h200", "h200:stack=xlaa"})), HasSubstr("xlaa"));
}

TEST_F(CompareTest, AnswersRequestsInJson) {
  const Json asked = {{"command", "compare"},
                      {"workload", file_},
                      {"on", {"h200", "l4:memory.bandwidth=600GB/s"}},
                      {"kernel_model", "roofline"}};
  const std::string text = session_.call(asked.dump());
  EXPECT_EQ(text, session_.call(asked.dump()));
  const Json answer = Json::parse(text);
  EXPECT_EQ(answer["schema"], "orrery.compare/1");
  EXPECT_EQ(answer["on"][1]["name"], "l4:memory.bandwidth=600GB/s");
  EXPECT_EQ(answer["on"][1]["set"]["memory.bandwidth"], "600GB/s");
  EXPECT_EQ(answer["on"][1]["stack"], "xla");
  // Of 4.8 TB/s an eighth: 167.8 µs become 1.342 ms.
  const double longer = 7 * 3 * 268435456.0 / 4.8e12;
  EXPECT_NEAR(answer["on"][1]["difference_s"].get<double>(), longer, 1e-12);
  EXPECT_NEAR(answer["on"][1]["difference"]["memory bandwidth"].get<double>(), longer, 1e-12);
  EXPECT_TRUE(answer["on"][0]["tokens_per_s"].is_null());
  for (const char* on : {R"("h200")", "[1, 2]", R"(["h200"])"})
    EXPECT_THROW(
        session_.call(std::string(R"({"command": "compare", "workload": "resnet-50", "on": )") +
                      on + "}"),
        Error)
        << on;
}

}  // namespace
}  // namespace orrery
