#include "orrery/api/session.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orrery/base/csv.h"
#include "orrery/model/stack.h"

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// A session on the source tree's catalogue, and a product of 4096³ in bf16 as a file.
class SessionTest : public testing::Test {
 protected:
  SessionTest()
      : session_(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                 std::string(ORRERY_SOURCE_DIR) + "/data"),
        file_((std::filesystem::path(testing::TempDir()) /
               ("session_test_" + std::to_string(::getpid()) + ".mlir"))
                  .string()) {
    std::ofstream(file_) << "func.func @main(%a: tensor<4096x4096xbf16>, %b: "
                            "tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {\n"
                            "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
                            "(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> "
                            "tensor<4096x4096xbf16>\n  return %0 : tensor<4096x4096xbf16>\n}\n";
  }
  ~SessionTest() override { std::filesystem::remove(file_); }

  /// What the stack adds to a call of one kernel on the device, from its data file.
  static double gap() {
    const LaunchCosts costs =
        load_stack_constants(std::string(ORRERY_SOURCE_DIR) + "/data", "xla").costs;
    return costs.gap.value + costs.call_gap.value;
  }
  /// By the roofline, whose times can be worked out by hand.
  Json request() const {
    return {
        {"command", "predict"}, {"workload", file_}, {"on", "h200"}, {"kernel_model", "roofline"}};
  }
  std::string refusal(const Json& json) const {
    try {
      session_.call(json.dump());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }

  Session session_;
  std::string file_;
};

TEST_F(SessionTest, PredictsAProduct) {
  PredictRequest request;
  request.workload = file_;
  request.device = "h200";
  request.kernel_model = "roofline";
  const PredictAnswer a = session_.predict(request);
  // 2·4096³ FLOP at 989.4 TFLOP/s and one launch gap.
  EXPECT_NEAR(a.latency_s, 138.912e-6 + gap(), 1e-9);
  EXPECT_LT(a.latency_low_s, a.latency_s);
  EXPECT_GT(a.latency_high_s, a.latency_s);
  EXPECT_EQ(a.flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(a.bytes, 3.0 * 4096 * 4096 * 2);
  EXPECT_EQ(a.memory.arguments_bytes, 67108864);
  EXPECT_EQ(a.memory.outputs_bytes, 33554432);
  EXPECT_TRUE(a.memory.fits);
  ASSERT_EQ(a.kernels.size(), 1u);
  EXPECT_EQ(a.kernels[0].name, "dot_general bf16 4096×4096×4096");
  EXPECT_EQ(a.kernels[0].bound, "compute");
}

TEST_F(SessionTest, TheJsonAnswerIsTheStructsAnswer) {
  PredictRequest request;
  request.workload = file_;
  request.device = "h200";
  request.kernel_model = "roofline";
  const PredictAnswer a = session_.predict(request);
  const Json json = Json::parse(session_.call(this->request().dump()));
  EXPECT_EQ(json.at("schema"), "orrery.predict/1");
  EXPECT_EQ(json.at("latency_s").get<double>(), a.latency_s);  // exactly: doubles read back
  EXPECT_EQ(json.at("latency_low_s").get<double>(), a.latency_low_s);
  EXPECT_EQ(json.at("latency_high_s").get<double>(), a.latency_high_s);
  EXPECT_EQ(json.at("single_call_s").get<double>(), a.single_call_s);
  EXPECT_EQ(json.at("energy_j").get<double>(), a.energy_j);
  EXPECT_EQ(json.at("flops").get<double>(), a.flops);
  EXPECT_EQ(json.at("memory").at("peak_bytes").get<double>(), a.memory.peak_bytes);
  EXPECT_EQ(json.at("memory").at("fits").get<bool>(), a.memory.fits);
  EXPECT_EQ(json.at("memory").at("peak_at"), "dot_general bf16[4096,4096]");
  ASSERT_EQ(json.at("memory").at("holders").size(), 3u);
  EXPECT_EQ(json.at("memory").at("holders")[0].at("name"), "arguments ×2");
  EXPECT_EQ(json.at("memory").at("holders")[0].at("bytes").get<double>(), 67108864);
  EXPECT_EQ(json.at("kernels").size(), a.kernels.size());
  EXPECT_EQ(json.at("kernels")[0].at("time_s").get<double>(), a.kernels[0].time_s);
  EXPECT_EQ(json.at("gaps").size(), a.gaps.size());
  EXPECT_EQ(json.at("trust").at("verdict"), a.trust.verdict);
}

TEST_F(SessionTest, TheTimelineIsMadeOnlyWhenAskedFor) {
  PredictRequest request;
  request.workload = "gpt2";
  request.device = "h200";
  EXPECT_TRUE(session_.predict(request).timeline.empty());
  request.timeline = true;
  const PredictAnswer a = session_.predict(request);
  EXPECT_EQ(static_cast<double>(a.timeline.launches.size()), a.launches);
  EXPECT_DOUBLE_EQ(a.timeline.step_end_s - a.timeline.step_start_s, a.latency_s);
  // The host is the slower one here: the last kernel ends within a step of its dispatch.
  EXPECT_LE(a.timeline.launches.back().end_s, a.timeline.step_end_s + 1e-12);
  EXPECT_GT(a.timeline.launches.back().end_s, a.timeline.step_start_s);
}

TEST_F(SessionTest, TheSameRequestGivesTheSameBytes) {
  const std::string text = request().dump();
  EXPECT_EQ(session_.call(text), session_.call(text));
  const Session other(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                      std::string(ORRERY_SOURCE_DIR) + "/data");
  EXPECT_EQ(session_.call(text), other.call(text));
}

TEST_F(SessionTest, WhatIfsChangeTheAnswer) {
  Json slow = request();
  slow["set"] = {{"memory.bandwidth", "0.1 TB/s"}};
  // 3·4096²·2 B / 0.1 TB/s = 1.007 ms: now bound by memory.
  const Json json = Json::parse(session_.call(slow.dump()));
  EXPECT_NEAR(json.at("latency_s").get<double>(), 1.00663e-3 + gap(), 1e-8);
  EXPECT_EQ(json.at("kernels")[0].at("bound"), "memory");
  Json clocked = request();
  clocked["sm_mhz"] = 915;  // half of the matrix units' clock
  EXPECT_NEAR(Json::parse(session_.call(clocked.dump())).at("latency_s").get<double>(),
              2 * 138.912e-6 + gap(), 2e-9);
}

/// Of the tile model, as the command answers.
class SessionEnergyTest : public SessionTest {
 protected:
  PredictAnswer predict(OperatingPoint::Regime regime, double sm_mhz = 0,
                        const std::vector<Override>& what_if = {}) const {
    PredictRequest request;
    request.workload = file_;
    request.device = "h200";
    request.kernel_model = "tile";
    request.point.regime = regime;
    request.point.clock = Hertz(sm_mhz * 1e6);
    request.overrides = what_if;
    return session_.predict(request);
  }
  static double watts(const PredictAnswer& a) { return a.energy_j / a.latency_s; }

  static constexpr auto kBurst = OperatingPoint::Regime::kBurst;
  static constexpr auto kSustained = OperatingPoint::Regime::kSustained;
};

TEST_F(SessionEnergyTest, ALowerClockDrawsNoMore) {
  double most = watts(predict(kSustained, 1980));
  for (const double mhz : {1800, 1600, 1300, 1000, 800, 600, 450, 345}) {
    const double drawn = watts(predict(kSustained, mhz));
    EXPECT_LE(drawn, most) << mhz;
    most = drawn;
  }
}

TEST_F(SessionEnergyTest, TheClockThatALimitLeavesDrawsAsMuchWhereItIsFixed) {
  const PredictAnswer held = predict(kSustained, 0, {{"power.limit", "300 W"}});
  EXPECT_NEAR(watts(held), 300, 0.1);
  const auto clock =
      std::ranges::find(held.provenance, "step_mhz", &std::pair<std::string, std::string>::first);
  ASSERT_NE(clock, held.provenance.end());
  EXPECT_NEAR(watts(predict(kSustained, std::stod(clock->second))), 300, 1);
}

TEST_F(SessionEnergyTest, ABurstDrawsWhatItsKernelsDraw) {
  const PredictAnswer burst = predict(kBurst);
  const PredictAnswer held = predict(kBurst, 0, {{"power.limit", "300 W"}});
  EXPECT_EQ(held.latency_s, burst.latency_s);
  EXPECT_EQ(held.energy_j, burst.energy_j);
  EXPECT_GT(watts(burst), 1.05 * watts(predict(kSustained)));
  // The product is held to 1.43371 times the 700 W, the gap beside it is at rest: 0.147951 of them.
  EXPECT_NEAR(burst.energy_j, 700 * (1.43371 * (burst.latency_s - gap()) + 0.147951 * gap()), 1e-5);
}

TEST_F(SessionEnergyTest, ALimitThatCannotBeMetIsSaid) {
  const auto said = HasSubstr("the power limit of 100 W is exceeded: h200 draws more at 495 MHz");
  EXPECT_THAT(predict(kSustained, 0, {{"power.limit", "100 W"}}).gaps, Contains(said));
  EXPECT_THAT(predict(kSustained, 0, {{"power.limit", "300 W"}}).gaps,
              Not(Contains(HasSubstr("is exceeded"))));
  EXPECT_THAT(predict(kSustained, 0, {{"power.idle", "900 W"}}).gaps,
              Contains(HasSubstr("the power limit of 700 W is exceeded")));
}

TEST_F(SessionTest, UnknownAndIllTypedFieldsAreRefused) {
  Json wrong = request();
  wrong["devise"] = "h200";
  EXPECT_THAT(refusal(wrong), HasSubstr("request field 'devise' is not known; there is: command"));
  Json number = request();
  number["workload"] = 3;
  EXPECT_THAT(refusal(number), HasSubstr("request field 'workload': expected a string"));
  Json fraction = request();
  fraction["batch"] = 1.5;
  EXPECT_THAT(refusal(fraction), HasSubstr("request field 'batch': expected an integer"));
  Json bare = request();
  bare["set"] = {{"memory.bandwidth", 6e12}};
  EXPECT_THAT(refusal(bare), HasSubstr("a quantity with its unit"));
  Json command = request();
  command["command"] = "foretell";
  EXPECT_NE(refusal(command), "");
  EXPECT_THAT(refusal({{"command", "predict"}, {"on", "h200"}}), HasSubstr("needs 'workload'"));
  EXPECT_THROW(session_.call("[1, 2]"), Error);
  EXPECT_THROW(session_.call("{\"command\": "), Error);
  EXPECT_THROW(session_.call(""), Error);
}

TEST_F(SessionTest, OptionsThatCannotApplyAreRefused) {
  Json graph = request();
  graph["batch"] = 4;
  EXPECT_THAT(refusal(graph), HasSubstr("this file holds a graph"));
  Json named = request();
  named["bind"] = {{"batch", 4}};
  EXPECT_THAT(refusal(named), HasSubstr("--bind batch"));
  Json model = {{"command", "predict"}, {"workload", "gpt2"}, {"on", "h200"}};
  model["trip_count"] = 3;
  EXPECT_THAT(refusal(model), HasSubstr("--trip-count"));
  model.erase("trip_count");
  model["phase"] = "prefill";
  model["context"] = 8;
  EXPECT_THAT(refusal(model), HasSubstr("--context is for decode"));
}

TEST_F(SessionTest, TrustIsGivenOnlyToWhatWasChecked) {
  const auto verdict = [&](const Json& json) {
    return Json::parse(session_.call(json.dump()))["trust"]["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict(request()), "validated");
  Json changed = request();
  changed["set"] = {{"memory.bandwidth", "6 TB/s"}};
  EXPECT_EQ(verdict(changed), "extrapolated");
  Json eager = request();
  eager["stack"] = "torch-eager";
  eager["kernel_model"] = "tile";
  EXPECT_EQ(verdict(eager), "validated");
  eager["on"] = "h100-sxm";  // whole models were measured on the H200 alone
  EXPECT_EQ(verdict(eager), "extrapolated");
  Json large = {{"command", "predict"}, {"workload", "llama3-405b"}, {"on", "h200"}};
  EXPECT_EQ(verdict(large), "untested");  // does not fit
  std::ofstream(file_) << "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                          "  %0 = \"other.operation\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
                          "  return %0 : tensor<4xf32>\n}\n";
  EXPECT_EQ(verdict(request()), "untested");  // what is left out takes time
}

TEST_F(SessionTest, WhatIsNotKnownIsSaid) {
  Json small = request();
  small["set"] = {{"memory.capacity", "50 MB"}};
  EXPECT_FALSE(Json::parse(session_.call(small.dump()))["memory"]["fits"].get<bool>());
  Json sustained = request();
  sustained["regime"] = "sustained";
  EXPECT_THAT(session_.call(sustained.dump()), HasSubstr("sustained is predicted as burst"));
  Json tpu = request();
  tpu["on"] = "tpu-v5e";
  const Json answer = Json::parse(session_.call(tpu.dump()));
  EXPECT_TRUE(answer["energy_j"].is_null());
  EXPECT_THAT(answer["gaps"].dump(), HasSubstr("measured on h200"));
}

TEST_F(SessionTest, UnknownNamesAreUsageErrors) {
  for (const char* key : {"on", "stack", "kernel_model", "regime"}) {
    Json wrong = request();
    wrong[key] = "no-such-thing";
    EXPECT_NE(refusal(wrong), "") << key;
  }
}

TEST_F(SessionTest, InspectCountsTheFile) {
  const InspectAnswer a = session_.inspect(file_, {});
  EXPECT_EQ(a.format, "stablehlo");
  EXPECT_EQ(a.total_flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(a.arguments_bytes, 67108864);
  EXPECT_EQ(a.unknown_operations, 0u);
  const Json json =
      Json::parse(session_.call(Json({{"command", "inspect"}, {"workload", file_}}).dump()));
  EXPECT_EQ(json.at("schema"), "orrery.inspect/1");
  EXPECT_EQ(json.at("flops").get<double>(), a.total_flops);
}

TEST_F(SessionTest, InspectTellsOfTraces) {
  const std::string folder = std::string(ORRERY_SOURCE_DIR) + "/examples/chakra/";
  const InspectAnswer a = session_.inspect(folder + "pipeline.0.et", {});
  EXPECT_EQ(a.format, "chakra");
  EXPECT_EQ(a.operations, 7u);
  ASSERT_EQ(a.by_operation.size(), 4u);
  EXPECT_EQ(a.by_operation[0].name, "COMP_NODE");
  EXPECT_EQ(a.by_operation[0].count, 4u);
  ASSERT_EQ(a.collectives.size(), 3u);
  EXPECT_EQ(a.collectives[0].kind, "all-reduce in group 1");
  EXPECT_EQ(a.collectives[0].bytes, 2.0 * (8 << 20));
}

TEST_F(SessionTest, ReplayAnswersRequests) {
  const std::string folder = std::string(ORRERY_SOURCE_DIR) + "/examples/chakra/";
  Json request = {{"command", "replay"},
                  {"prefix", folder + "pipeline"},
                  {"network", folder + "network.yml"},
                  {"system", folder + "system.json"},
                  {"groups", folder + "groups.json"},
                  {"congestion", "unaware"}};
  const Json answer = Json::parse(session_.call(request.dump()));
  EXPECT_EQ(answer.at("schema"), "orrery.replay/1");
  EXPECT_EQ(answer.at("ranks").size(), 4u);
  EXPECT_EQ(answer.at("ranks")[0].at("compute_ns"), 240'000);
  EXPECT_EQ(answer.at("total_ns"), answer.at("ranks")[0].at("finish_ns"));
  for (const char* key : {"prefix", "network", "system"}) {
    Json wrong = request;
    wrong.erase(key);
    EXPECT_NE(refusal(wrong), "") << key;
  }
  request["congestion"] = "some";
  EXPECT_NE(refusal(request), "");
}

TEST_F(SessionTest, Operators) {
  KernelRequest request;
  request.table = "ops.csv";
  request.device = "h200";
  request.kernel_model = "roofline";
  const std::vector<OperatorRow> rows = {
      {"gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})", 0, 2},
      {"gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})", 915, 3}};
  const auto answers = session_.predict_operators(request, rows).kernels;
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_NEAR(answers[0].predicted_us, 138.912, 0.001);
  EXPECT_NEAR(answers[1].predicted_us, 2 * 138.912, 0.002);
  EXPECT_LE(answers[0].low_us, answers[0].predicted_us);
  EXPECT_GE(answers[0].high_us, answers[0].predicted_us);
  try {
    session_.predict_operators(request, {{"gemm", "bf16", "{}", 0, 17}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.what(), HasSubstr("ops.csv:17"));
  }
}

TEST_F(SessionTest, AClockThatNoH200HasIsRefused) {
  Json predict = request();
  for (const double mhz : {1.98, 9999.0, 1.98e6}) {
    predict["sm_mhz"] = mhz;
    EXPECT_THAT(refusal(predict), HasSubstr("is not a clock in MHz of h200")) << mhz;
  }
  predict["sm_mhz"] = 1980;
  EXPECT_EQ(refusal(predict), "");
  Json kernel = {{"command", "kernel"}, {"on", "h200"}, {"sm_mhz", 1.98}, {"rows", Json::array()}};
  EXPECT_THAT(refusal(kernel), HasSubstr("is it in GHz?"));
  kernel["sm_mhz"] = 1200;
  EXPECT_EQ(refusal(kernel), "");
  kernel["regime"] = "sustained";  // which of the two clocks?
  EXPECT_THAT(refusal(kernel), HasSubstr("give one of them"));
}

TEST_F(SessionTest, ATableOfOperators) {
  KernelRequest request;
  request.table = "ops.csv";
  request.device = "h200";
  request.kernel_model = "roofline";
  std::string text = "note,op,dtype,params,sm_mhz\n";
  constexpr int kRows = 5000;  // several blocks
  for (int i = 1; i <= kRows; ++i)
    text += fmt::format(
        "\"{0}\",gemm,bf16,\"{{\"\"m\"\": {0}, \"\"n\"\": 4096, \"\"k\"\": 4096}}\",{1}\n", i,
        i % 3 == 0 ? "915" : "");
  const auto predicted = [&](const std::string& table) {
    std::string written;
    session_.predict_table(request, Source::from_memory("ops.csv", table),
                           [&](std::string_view piece) { written += piece; });
    return written;
  };
  const std::string written = predicted(text);
  // The same rows through the other door.
  const auto rows = read_operators(Source::from_memory("ops.csv", text));
  const auto answers = session_.predict_operators(request, rows).kernels;
  ASSERT_EQ(answers.size(), static_cast<size_t>(kRows));
  const CsvTable table = CsvTable::parse(Source::from_memory("out.csv", written));
  ASSERT_EQ(table.rows(), static_cast<size_t>(kRows));
  for (size_t i = 0; i < table.rows(); ++i) {
    EXPECT_EQ(table.at(i, table.required_column("note")), std::to_string(i + 1));
    EXPECT_EQ(table.at(i, table.required_column("predicted_us")),
              fmt::format("{:.6g}", answers[i].predicted_us));
    EXPECT_EQ(table.at(i, table.required_column("low_us")),
              fmt::format("{:.6g}", answers[i].low_us));
    EXPECT_EQ(table.at(i, table.required_column("high_us")),
              fmt::format("{:.6g}", answers[i].high_us));
    EXPECT_EQ(table.at(i, table.required_column("model")), "roofline");
  }
  EXPECT_THAT(written, HasSubstr("\n\"7\",gemm"));  // rows as they were written
  EXPECT_EQ(predicted("op,dtype,params\n"), "op,dtype,params,predicted_us,low_us,high_us,model\n");
}

TEST_F(SessionTest, ABadRowOfATableIsNamed) {
  KernelRequest request;
  request.table = "ops.csv";
  request.device = "h200";
  request.kernel_model = "roofline";
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      session_.predict_table(request, Source::from_memory("ops.csv", text),
                             [](std::string_view) {});
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3);
      return error.what();
    }
    return "";
  };
  std::string many = "op,dtype,params,sm_mhz\n";
  for (int i = 0; i < 1000; ++i) many += "add,bf16,{\"shape\": [8]},\n";
  EXPECT_EQ(refusal(many + "add,bf16,{},\n"),
            "ops.csv:1002:10: params: add needs 'shape', a list of 1 to 8 sizes");
  EXPECT_EQ(refusal(many + "add,bf16,{\"shape\": [8]},fast\n"),
            "ops.csv:1002:25: sm_mhz: 'fast' is not a clock in MHz");
  EXPECT_EQ(refusal(many + "add,bf16,{\"shape\": [8]},1.2\n"),
            "ops.csv:1002:25: sm_mhz: 1.2 is not a clock in MHz of h200 (is it in GHz?): expected "
            "99 to 2970 MHz");
  EXPECT_THAT(refusal(many + "ad,bf16,{},\n"), HasSubstr("ops.csv:1002:1: op: 'ad' is not known"));
  EXPECT_THAT(refusal(many + "add,bf61,{},\n"), HasSubstr("ops.csv:1002:5: dtype: 'bf61'"));
  EXPECT_THAT(refusal("op,dtype,params,predicted_us\n"),
              HasSubstr("ops.csv:1:17: column 'predicted_us' is there already"));
  const auto rows = read_operators(Source::from_memory("ops.csv", many + "add,bf61,{},\n"));
  try {
    session_.predict_operators(request, rows);  // the other door names the same place
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ops.csv:1002:5: dtype: 'bf61'"));
  }
  EXPECT_EQ(refusal(many + "add,bf16\n"), "ops.csv:1002:1: 2 fields, the header has 4");
  EXPECT_EQ(refusal("op,dtype\n"), "ops.csv:1:1: column 'params' is missing; there is: op, dtype");
}

TEST_F(SessionTest, OperatorsOfAnUnknownStackAreRefused) {
  KernelRequest request;
  request.device = "h200";
  request.kernel_model = "roofline";
  request.stack = "nothing";
  EXPECT_THROW(session_.predict_operators(request, {}), Error);
}

TEST_F(SessionTest, OperatorsAsJson) {
  const Json request = {
      {"command", "kernel"},
      {"on", "h200"},
      {"kernel_model", "roofline"},
      {"rows",
       {{{"op", "gemm"}, {"dtype", "bf16"}, {"params", {{"m", 4096}, {"n", 4096}, {"k", 4096}}}}}}};
  const Json json = Json::parse(session_.call(request.dump()));
  ASSERT_EQ(json.at("kernels").size(), 1u);
  EXPECT_NEAR(json.at("kernels")[0].at("predicted_us").get<double>(), 138.912, 0.001);
  EXPECT_EQ(json.at("kernels")[0].at("model"), "roofline");
}

TEST_F(SessionTest, Lists) {
  const Json hardware = Json::parse(session_.call(R"({"command": "hardware"})"));
  EXPECT_GE(hardware.at("devices").size(), 40u);
  const Json models = Json::parse(session_.call(R"({"command": "models"})"));
  EXPECT_NE(models.dump().find("roofline"), std::string::npos);
  const Json zoo = Json::parse(session_.call(R"({"command": "zoo"})"));
  EXPECT_FALSE(zoo.at("models").empty());
}

TEST_F(SessionTest, AnswersSayWhichModelAutoChose) {
  const auto model = [&](Json json) {
    json.erase("kernel_model");
    return Json::parse(session_.call(json.dump()))["provenance"]["kernel_model"];
  };
  EXPECT_EQ(model(request()), "tile");
  Json cpu = request();
  cpu["on"] = "epyc-9654";
  EXPECT_EQ(model(cpu), "roofline");
  const Json kernel = {
      {"command", "kernel"},
      {"on", "h200"},
      {"rows", {{{"op", "add"}, {"dtype", "bf16"}, {"params", {{"shape", {64, 64}}}}}}}};
  EXPECT_EQ(Json::parse(session_.call(kernel.dump()))["kernels"][0]["model"], "tile");
}

TEST_F(SessionTest, AFitIsForModelsThatTakeOne) {
  Json fitted = request();
  fitted["fit"] = file_;
  EXPECT_THAT(refusal(fitted), HasSubstr("takes no fit"));
}

TEST_F(SessionTest, ErrorsAsJson) {
  const Json json =
      Json::parse(to_json(Error(ErrorKind::kInput, {"m.mlir", 3, 7}, "expected ':'")));
  EXPECT_EQ(json.at("error").at("kind"), "input");
  EXPECT_EQ(json.at("error").at("exit_code"), 3);
  EXPECT_EQ(json.at("error").at("line"), 3);
  EXPECT_EQ(json.at("error").at("column"), 7);
}

TEST_F(SessionTest, AnswersCollectives) {
  const Json json = Json::parse(session_.call(
      R"({"command": "collective", "kind": "all-reduce", "bytes": 67108864, "ranks": 8,
          "on": "dgx-h100", "set": {"fabric.nvlink.bandwidth": "900 GB/s"}})"));
  EXPECT_EQ(json["schema"], "orrery.collective/1");
  EXPECT_EQ(json["algorithm"], "nvls");
  EXPECT_EQ(json["trust"]["verdict"], "extrapolated");
  EXPECT_LT(json["latency_low_s"], json["latency_s"]);
  // 2 · 7/8 of the bytes over the time, as nccl-tests count.
  EXPECT_NEAR(json["bus_bandwidth_bytes_per_s"].get<double>() * json["latency_s"].get<double>(),
              1.75 * 67108864, 1);
  EXPECT_THROW(session_.call(R"({"command": "collective", "kind": "all-reduce", "bytes": 8,
                                 "ranks": 8, "on": "h100-sxm"})"),
               Error);
  EXPECT_THROW(session_.call(R"({"command": "collective", "kind": "all-reduce", "bytes": 8,
                                 "ranks": 0, "on": "dgx-h100"})"),
               Error);
}

TEST_F(SessionTest, AddsToATableOfCollectives) {
  std::string text;
  CollectiveChoice choice;
  choice.cluster = "dgx-h100";
  session_.collective_table(
      choice, Source::from_memory("t.csv", "kind,bytes,ranks,note\nbarrier,0,8,\"a, b\"\n"),
      [&](std::string_view part) { text += part; });
  EXPECT_THAT(text, HasSubstr("kind,bytes,ranks,note,predicted_us,low_us,high_us,algorithm,"
                              "protocol\nbarrier,0,8,\"a, b\","));
  EXPECT_THAT(text, HasSubstr(",ring,ll\n"));
}

}  // namespace
}  // namespace orrery
