#include "orrery/api/accuracy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "orrery/api/session.h"

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Accuracy, IsWhatItsRowsAre) {
  // Errors 0, 0.5, 0.2 and 1; the third lies outside its interval.
  const std::vector<JudgedRow> rows = {{"t", 2, "add", 1, 1, 0.9, 1.3},
                                       {"t", 3, "add", 2, 3, 1, 4},
                                       {"t", 4, "add", 5, 4, 3, 4.8},
                                       {"t", 5, "add", 4, 8, 2, 10}};
  const Accuracy a = accuracy_of("all", rows);
  EXPECT_EQ(a.rows, 4u);
  EXPECT_DOUBLE_EQ(a.mean_error, 1.7 / 4);
  EXPECT_DOUBLE_EQ(a.median_error, 0.35);
  EXPECT_DOUBLE_EQ(a.p90_error, 0.5 + 0.7 * 0.5);
  EXPECT_DOUBLE_EQ(a.worst_error, 1);
  EXPECT_DOUBLE_EQ(a.spearman, 0.8);  // ranks 1 2 4 3 and 1 2 3 4: 1 - 6·2 / 60
  EXPECT_DOUBLE_EQ(a.coverage, 0.75);
  EXPECT_NEAR(a.coverage_p, 1 - 0.6561, 1e-9);               // all outcomes but 4 of 4
  EXPECT_DOUBLE_EQ(a.median_half_width, (0.225 + 0.5) / 2);  // of 0.2, 0.5, 0.225, 0.5
  // Over the measured times: widths 0.4, 1.5, 0.36, 2, and 20 × 0.04 for the one outside.
  EXPECT_NEAR(a.interval_score, (0.4 + 1.5 + 0.36 + 0.8 + 2) / 4, 1e-12);
  // Nine in ten of 0, 1/4, 1/3, 1/2 are below 0.45; 2 · (1 - 0.45) is 0.1 above the truth.
  EXPECT_NEAR(a.constant_interval_score, (2 * 0.45 * (1 + 1.5 + 0.8 + 2) + 20 * 0.1) / 4, 1e-12);
  const auto worst = worst_of(rows, 2);
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_EQ(worst[0].line, 5u);
  EXPECT_EQ(worst[1].line, 3u);
}

TEST(Accuracy, ByNameIsSorted) {
  const std::vector<JudgedRow> rows = {
      {"t", 2, "b", 1, 1, 1, 1}, {"t", 3, "a", 1, 2, 1, 2}, {"t", 4, "b", 1, 1.5, 1, 2}};
  const std::vector<std::string> names = {"b", "a", "b"};
  const auto all = accuracy_by(rows, names);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_DOUBLE_EQ(all[0].mean_error, 1);
  EXPECT_EQ(all[1].rows, 2u);
  EXPECT_DOUBLE_EQ(all[1].mean_error, 0.25);
}

/// Additions whose time is 1.7 µs and their bytes at 4 TB/s.
std::string additions(int count, double extra_us = 0) {
  std::string text = "op,dtype,params,us,sm_mhz\n";
  for (int i = 1; i <= count; ++i) {
    const int rows = 16 * i;
    text += fmt::format("add,bf16,\"{{\"\"shape\"\": [{}, 4096]}}\",{:.4f},1980\n", rows,
                        extra_us + 1.7 + 3.0 * rows * 4096 * 2 / 4e6);
  }
  return text;
}

class CalibrationTest : public testing::Test {
 protected:
  CalibrationTest()
      : session_(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                 std::string(ORRERY_SOURCE_DIR) + "/data"),
        folder_(std::filesystem::path(testing::TempDir()) /
                ("calibration_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~CalibrationTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  CalibrateRequest request(const std::string& table) const {
    CalibrateRequest r;
    r.device = "h200";
    r.tables = {table};
    r.out = (folder_ / "fit.json").string();
    return r;
  }
  std::string fit_text() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "fit.json").rdbuf();
    return text.str();
  }
  std::string refusal(const CalibrateRequest& r) const {
    try {
      session_.calibrate(r);
    } catch (const Error& error) {
      return fmt::format("{} {}", error.exit_code(), error.what());
    }
    return "";
  }

  Session session_;
  std::filesystem::path folder_;
};

TEST_F(CalibrationTest, TablesThatContradictEachOtherAreRefused) {
  std::string tripled = "op,dtype,params,us,sm_mhz\n";
  for (int i = 1; i <= 40; ++i)
    tripled += fmt::format("add,bf16,\"{{\"\"shape\"\": [{}, 4096]}}\",{:.4f},1980\n", 16 * i,
                           3 * (1.7 + 3.0 * 16 * i * 4096 * 2 / 4e6));
  CalibrateRequest r = request(file("one.csv", additions(40)));
  r.tables.push_back(file("three.csv", tripled));
  // 1.7 µs and 0.0983 of bytes, three times as much in the second.
  EXPECT_EQ(refusal(r), fmt::format("3 {}:2: 5.39 us where {}:2 has 1.80 us for the same add bf16 "
                                    "(and 39 more such problems)",
                                    r.tables[1], r.tables[0]));
  r.tables.pop_back();
  r.tables.push_back(file("again.csv", additions(40)));
  EXPECT_EQ(refusal(r), "");
}

TEST_F(CalibrationTest, AClockInGigahertzIsRefused) {
  std::string text = additions(40);
  for (size_t at = text.find(",1980\n"); at != std::string::npos; at = text.find(",1980\n", at))
    text.replace(at, 6, ",1.98\n");
  const CalibrateRequest r = request(file("ghz.csv", text));
  EXPECT_EQ(refusal(r), fmt::format("3 {}:2:43: sm_mhz: 1.98 is not a clock in MHz of h200 (is it "
                                    "in GHz?): expected 99 to 2970 MHz",
                                    r.tables[0]));
  ValidateRequest v;
  v.table = r.tables[0];
  v.device = "h200";
  EXPECT_THROW(session_.validate(v), Error);
}

TEST_F(CalibrationTest, NoRowToJudgeSaysWhatWasAskedFor) {
  ValidateRequest v;
  v.table = file("one.csv", additions(1));
  v.device = "h200";
  v.kernel_model = "roofline";
  const auto refused = [&]() -> std::string {
    try {
      session_.validate(v);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  v.held_out = 1000;
  EXPECT_EQ(refused(), "no row of it was held out of a fit, one in 1000");
  v.regime = "sustained";
  EXPECT_EQ(refused(), "no row of it was measured sustained and held out of a fit, one in 1000");
  v.held_out = 0;
  EXPECT_EQ(refused(), "no row of it was measured sustained");
}

TEST_F(CalibrationTest, FitsWhatItIsGiven) {
  const CalibrateRequest r = request(file("t.csv", additions(60)));
  const CalibrateAnswer a = session_.calibrate(r);
  EXPECT_EQ(a.all.rows, 60u);
  EXPECT_LT(a.all.mean_error, 0.05);
  ASSERT_EQ(a.by_class.size(), 1u);
  EXPECT_EQ(a.by_class[0].name, "elementwise");
  EXPECT_EQ(a.by_operator[0].name, "add bf16");
  EXPECT_EQ(a.worst.size(), 5u);
  EXPECT_TRUE(a.left_out.empty());
  EXPECT_EQ(a.command,
            fmt::format("orrery calibrate h200 --from {} --stack torch --seed 1", r.tables[0]));
  const Json fit = Json::parse(fit_text());
  EXPECT_EQ(fit.at("device"), "h200");
  EXPECT_EQ(fit.at("stack"), "torch");
  EXPECT_EQ(fit.at("command"), a.command);
  const std::string first = fit_text();
  session_.calibrate(r);
  EXPECT_EQ(fit_text(), first);

  // And predicts with it, closer than without.
  ValidateRequest v;
  v.table = file("other.csv", additions(55));
  v.device = "h200";
  v.fit = r.out;
  const ValidateAnswer judged = session_.validate(v);
  ASSERT_EQ(judged.models.size(), 2u);
  EXPECT_EQ(judged.models[0].model, "tile");
  EXPECT_EQ(judged.models[1].model, "roofline");
  EXPECT_LT(judged.models[0].all.mean_error, 0.03);
  EXPECT_GT(judged.models[1].all.mean_error, 0.1);
  EXPECT_TRUE(judged.notes.empty());
  EXPECT_TRUE(judged.gaps.empty());
  v.table = r.tables[0];
  EXPECT_THAT(session_.validate(v).notes, ElementsAre(HasSubstr("fitted to this very table")));
  v.kernel_model = "roofline";
  v.fit = "";
  EXPECT_EQ(session_.validate(v).models.size(), 1u);
}

TEST_F(CalibrationTest, OneFitForAnyDevice) {
  const std::string table = file("t.csv", additions(60));
  CalibrateRequest r = request("h100-sxm=" + table);
  r.device = "generic";
  r.tables.push_back("h200=" + table);
  r.tables.push_back("a100-sxm-80gb=" + file("slow.csv", additions(60, 0.5)));
  const CalibrateAnswer a = session_.calibrate(r);
  EXPECT_EQ(a.all.rows, 180u);
  ASSERT_EQ(a.by_operator.size(), 3u);
  EXPECT_EQ(a.by_operator[0].name, "a100-sxm-80gb add bf16");
  EXPECT_EQ(a.by_operator[0].rows, 60u);
  EXPECT_TRUE(a.notes.empty());
  const Json fit = Json::parse(fit_text());
  EXPECT_EQ(fit.at("device"), "generic");
  EXPECT_EQ(fit.at("devices"), Json({"h100-sxm", "h200", "a100-sxm-80gb"}));

  r.tables.pop_back();
  EXPECT_THAT(session_.calibrate(r).notes,
              ElementsAre(HasSubstr("fewer than 3 devices have elementwise")));
  r.tables = {table};
  EXPECT_THAT(refusal(r), HasSubstr("give it as DEVICE=" + table));
  r.tables = {"h2000=" + table};
  EXPECT_THAT(refusal(r), HasSubstr("h200"));
  r.tables = {"h200=" + table};
  r.prior = "none";
  EXPECT_THAT(refusal(r), HasSubstr("begins from nothing"));
}

TEST_F(CalibrationTest, TablesThatNameTheirDevicesNeedNoOther) {
  std::string table = "op,device,latency_ms,B,H\n";
  for (const char* device : {"Tesla T4", "Tesla P4", "NVIDIA L4"})
    for (int i = 1; i <= 25; ++i)
      table += fmt::format("add,{},{:.5f},{},1024\n", device, 0.034 + i * 4e-3, 64 * i);
  CalibrateRequest r = request(file("t.csv", table));
  r.device = "generic";
  EXPECT_EQ(session_.calibrate(r).all.rows, 75u);
  EXPECT_EQ(Json::parse(fit_text()).at("devices"), Json({"t4", "p4", "l4"}));
  EXPECT_EQ(Json::parse(fit_text()).at("eager"), 1);
  r.tables.push_back("h200=" + file("cold.csv", additions(60)));
  EXPECT_THAT(refusal(r), HasSubstr("another protocol"));
}

TEST_F(CalibrationTest, FewRowsBeginFromAFitOverOthers) {
  CalibrateRequest generic = request("h100-sxm=" + file("t.csv", additions(60)));
  generic.device = "generic";
  generic.out = (folder_ / "prior.json").string();
  session_.calibrate(generic);

  CalibrateRequest r = request(file("few.csv", additions(12)));
  EXPECT_THAT(refusal(r), HasSubstr("no class of kernels has 20 rows"));
  r.prior = generic.out;
  const CalibrateAnswer a = session_.calibrate(r);
  EXPECT_EQ(a.all.rows, 12u);
  EXPECT_LT(a.all.mean_error, 0.1);
  EXPECT_THAT(a.command, HasSubstr(" --prior " + generic.out));
  EXPECT_THAT(a.notes, ElementsAre(HasSubstr("began from " + generic.out)));
  r.device = "h100-sxm";
  EXPECT_THAT(refusal(r), HasSubstr("was made from rows of h100-sxm too"));
}

TEST_F(CalibrationTest, SaysWhatIsLeftOut) {
  const std::string few =
      "op,dtype,params,us\nsort,fp32,\"{\"\"shape\"\": [64, 4096]}\",30\n"
      "sort,fp32,\"{\"\"shape\"\": [128, 4096]}\",40\n";
  CalibrateRequest r = request(file("t.csv", additions(30)));
  r.tables.push_back(file("few.csv", few));
  const CalibrateAnswer a = session_.calibrate(r);
  ASSERT_EQ(a.left_out.size(), 1u);
  EXPECT_EQ(a.left_out[0].operation, "sort fp32");
  EXPECT_EQ(a.left_out[0].rows, 2u);
  EXPECT_EQ(a.left_out[0].reason, "of the class scan there are fewer than 20 rows");
  EXPECT_THAT(refusal(request(r.tables[1])), HasSubstr("3 " + r.tables[1] + ": no class"));
}

TEST_F(CalibrationTest, RepeatsCountOnceAndItSaysSo) {
  const std::string table = additions(30);
  const std::string first = table.substr(table.find('\n') + 1);
  const CalibrateRequest r = request(file("t.csv", table + first.substr(0, first.find('\n') + 1)));
  const CalibrateAnswer a = session_.calibrate(r);
  EXPECT_EQ(a.all.rows, 30u);
  ASSERT_EQ(a.left_out.size(), 1u);
  EXPECT_EQ(a.left_out[0].rows, 1u);
  EXPECT_EQ(a.left_out[0].reason, "a repeat: the middle one counts");
}

TEST_F(CalibrationTest, HeldOutRowsAreNotFitted) {
  CalibrateRequest r = request(file("t.csv", additions(200)));
  r.hold_out = 5;
  const CalibrateAnswer a = session_.calibrate(r);
  ASSERT_EQ(a.left_out.size(), 1u);
  EXPECT_EQ(a.left_out[0].reason, "held out to be judged by");
  EXPECT_EQ(a.left_out[0].rows + a.all.rows, 200u);
  EXPECT_NEAR(static_cast<double>(a.left_out[0].rows), 40, 20);
  ValidateRequest v;
  v.table = r.tables[0];
  v.device = r.device;
  v.held_out = 5;
  EXPECT_EQ(session_.validate(v).models[0].all.rows, a.left_out[0].rows);
}

TEST_F(CalibrationTest, RowsOfOtherDevicesAreCounted) {
  std::string table = "op,device,latency_ms,B,H\n";
  for (int i = 1; i <= 25; ++i)
    table += fmt::format("add,Tesla T4,{:.5f},{},1024\n", 0.004 + i * 1e-3, 64 * i);
  table += "add,NVIDIA L4,0.01,64,1024\n";
  CalibrateRequest r = request(file("t.csv", table));
  r.device = "t4";
  const CalibrateAnswer a = session_.calibrate(r);
  ASSERT_EQ(a.left_out.size(), 1u);
  EXPECT_EQ(a.left_out[0].reason, "measured on l4");
  EXPECT_EQ(a.left_out[0].rows, 1u);
  EXPECT_EQ(a.all.rows, 25u);
  r.device = "h200";
  EXPECT_THAT(refusal(r), HasSubstr("no row of it was measured on h200"));
}

TEST_F(CalibrationTest, MovesRowsToANodeByItsEmptyLaunch) {
  CalibrateRequest plain = request(file("t.csv", additions(30)));
  CalibrateRequest moved =
      request(file("slow.csv", additions(30, 1) + "empty,,{},3,\nempty,,{},3,\n"));
  moved.node_us = 2;
  const CalibrateAnswer a = session_.calibrate(moved);
  EXPECT_THAT(a.notes, ElementsAre(HasSubstr("moved by -1.000 us, from an empty launch of 3.000 us "
                                             "to one of 2 us")));
  EXPECT_THAT(a.command, HasSubstr(" --node-us 2"));
  for (const JudgedRow& row : a.worst)  // as if the node had measured them
    EXPECT_NEAR(row.measured * 1e6, 1.7 + 3.0 * 16 * (row.line - 1) * 4096 * 2 / 4e6, 1e-3);
  plain.node_us = 2;
  EXPECT_THAT(session_.calibrate(plain).notes, ElementsAre(HasSubstr("no rows of op empty")));
  moved.tables = {file("over.csv", additions(30) + "empty,,{},3,\n")};
  moved.node_us = 0.1;
  EXPECT_THAT(refusal(moved), HasSubstr("over.csv:2: nothing is left of this time"));
}

TEST_F(CalibrationTest, RefusesABadTable) {
  EXPECT_THAT(refusal(request(file(
                  "t.csv", additions(30) + "add,bf16,\"{\"\"shape\"\": [4096, 4096]}\",0.02,\n"))),
              HasSubstr("t.csv:32: 20.0 ns"));
  CalibrateRequest r = request(file("t.csv", additions(30)));
  r.stack = "../torch";
  EXPECT_THAT(refusal(r), HasSubstr("2 a stack is named by"));
  r = request(file("t.csv", additions(30)));
  r.out = (folder_ / "no" / "such.json").string();
  EXPECT_THAT(refusal(r), HasSubstr("2 "));
  r.device = "tpu-v9";
  EXPECT_THAT(refusal(r), HasSubstr("unknown device"));
}

TEST_F(CalibrationTest, ThroughJson) {
  const std::string table = file("t.csv", additions(30));
  const std::string out = (folder_ / "fit.json").string();
  const Json a = Json::parse(session_.call(
      Json({{"command", "calibrate"}, {"on", "h200"}, {"from", {table}}, {"out", out}}).dump()));
  EXPECT_EQ(a.at("schema"), "orrery.calibrate/1");
  EXPECT_EQ(a.at("all").at("rows"), 30);
  EXPECT_EQ(a.at("out"), out);
  const Json v = Json::parse(session_.call(
      Json({{"command", "validate"}, {"on", "h200"}, {"table", table}, {"fit", out}}).dump()));
  EXPECT_EQ(v.at("schema"), "orrery.validate/1");
  EXPECT_EQ(v.at("models")[0].at("model"), "tile");
  EXPECT_EQ(v.at("models")[0].at("all").at("rows"), 30);
  for (const char* wrong :
       {R"({"command": "calibrate", "on": "h200"})",
        R"({"command": "calibrate", "on": "h200", "from": [3]})",
        R"({"command": "calibrate", "on": "h200", "from": []})",
        R"({"command": "validate", "on": "h200"})",
        R"({"command": "validate", "on": "h200", "table": "t", "regime": "x"})"})
    EXPECT_THROW(session_.call(wrong), Error) << wrong;
}

}  // namespace
}  // namespace orrery
