#include "orrery/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace orrery {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

PredictRequest request_for(const std::string& workload) {
  PredictRequest request;
  request.workload = workload;
  request.device = "h200";
  request.timeline = true;
  return request;
}

PredictAnswer answer_to(const PredictRequest& request) {
  return Session(std::string(ORRERY_SOURCE_DIR) + "/hardware",
                 std::string(ORRERY_SOURCE_DIR) + "/data")
      .predict(request);
}

/// What a browser takes for the data: up to the first end of a script.
Json data_of(const std::string& page) {
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(opening) + opening.size();
  return Json::parse(page.substr(begin, page.find("</script", begin) - begin));
}

std::string file(const char* name) {
  std::ostringstream text;
  text << std::ifstream(std::string(ORRERY_SOURCE_DIR) + "/src/orrery/report/page/" + name).rdbuf();
  return text.str();
}

TEST(HtmlTest, HoldsItsScriptAndItsStyleAndAsksForNothingElse) {
  const PredictRequest request = request_for("mobilenet-v2");
  const std::string page = html_report(answer_to(request), request);
  EXPECT_THAT(page, HasSubstr(file("page.js")));
  EXPECT_THAT(page, HasSubstr(file("page.css")));
  for (const char* outside : {"http://", "https://", "src=", "href=", "url(", "@import", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
}

TEST(HtmlTest, TheDataAreTheAnswers) {
  PredictRequest request = request_for("bert-base");
  request.read.build.batch = 8;
  request.read.build.phase = "train";
  const PredictAnswer answer = answer_to(request);
  const Json data = data_of(html_report(answer, request));
  EXPECT_EQ(data.at("workload"), "bert-base");
  EXPECT_NEAR(data.at("latency").get<double>(), answer.latency_s, 1e-8 * answer.latency_s);
  EXPECT_NEAR(data.at("low").get<double>(), answer.latency_low_s, 1e-3 * answer.latency_s);
  EXPECT_NEAR(data.at("memory").at("peak").get<double>(), answer.memory.peak_bytes, 1);
  EXPECT_EQ(data.at("gaps").size(), answer.gaps.size());
  EXPECT_EQ(data.at("folded"), false);

  const Json& launches = data.at("launches");
  const Json& kernels = data.at("kernels");
  ASSERT_EQ(launches.at("kernel").size(), answer.timeline.launches.size());
  double seconds = 0;
  double counted = 0;
  double start = 0;
  for (size_t i = 0; i < launches.at("kernel").size(); ++i) {
    const size_t k = launches.at("kernel")[i];
    const double time = launches.at("count")[i].get<double>() * kernels.at("time")[k].get<double>();
    start += launches.at("start")[i].get<double>() * 1e-9;
    EXPECT_NEAR(start, answer.timeline.launches[i].start_s, 1e-9);
    EXPECT_LT(launches.at("part")[i], data.at("parts").at("name").size());
    seconds += time;
    counted += launches.at("count")[i].get<double>();
  }
  EXPECT_EQ(counted, answer.launches);
  double expected = 0;
  for (const KernelSummary& k : answer.kernels) expected += k.time_s;
  EXPECT_NEAR(seconds, expected, 1e-5 * expected);
  // Every layer is a part of the encoder, which is one of the whole.
  const Json& parents = data.at("parts").at("parent");
  const auto part_name = [&](size_t p) -> std::string {
    return data.at("strings")[data.at("parts").at("name")[p].get<size_t>()];
  };
  size_t layers = 0;
  for (size_t p = 0; p < parents.size(); ++p) {
    const size_t parent = parents[p];
    if (part_name(p).starts_with("layer.") && part_name(parent) == "encoder" &&
        parents[parent] == 0)
      ++layers;
  }
  EXPECT_EQ(layers, 12u);
  EXPECT_EQ(data.at("roofs")[0][0], "bf16 products");
  EXPECT_NEAR(data.at("roofs")[0][1].get<double>(), 989.4e12, 1e11);
  EXPECT_NEAR(data.at("bandwidth").get<double>(), 4.8e12, 1e9);
}

TEST(HtmlTest, ThirtyThousandLaunchesTakeLessThanThreeMegabytes) {
  PredictRequest request = request_for("llama3-405b");
  request.stack = "torch-eager";
  request.read.build.phase = "train";
  request.read.build.sequence = 512;
  const PredictAnswer answer = answer_to(request);
  EXPECT_GT(answer.launches, 30'000);
  EXPECT_LT(html_report(answer, request).size(), 3'000'000u);
}

/// Two kernels, the second of which runs `times` times, a nanosecond each.
PredictAnswer made_up(size_t times) {
  PredictAnswer answer;
  answer.latency_s = 1;
  Timeline& t = answer.timeline;
  t.kernels = {{"long", "gemm", "dot_general", "compute", 1e-3, 1e-3, 1e-3, 1, 1, 1},
               {"short", "elementwise", "add", "memory", 1e-9, 1e-9, 1e-9, 1, 1, 1}};
  t.parts = {{"whole", 0}};
  for (size_t i = 0; i < times; ++i) t.launches.push_back({1, 0, 1, 0, 0, 0, 0});
  t.launches.push_back({0, 0, 1, 0, 0, 0, 0});
  return answer;
}

TEST(HtmlTest, OfTooManyLaunchesTheLongestAreShown) {
  const Json data = data_of(html_report(made_up(kMostPageLaunches + 6), request_for("w")));
  const Json& shown = data.at("launches").at("kernel");
  ASSERT_EQ(shown.size(), kMostPageLaunches);
  EXPECT_EQ(shown.back(), 0);
  EXPECT_EQ(data.at("left_out").at("launches"), 7);
  EXPECT_NEAR(data.at("left_out").at("time").get<double>(), 7e-9, 1e-12);
}

TEST(HtmlTest, NoNameCanBreakOutOfThePage) {
  const std::string hostile = "</script><script>alert(1)</script><!--\"'&\xff\xe2\x80\xa8";
  PredictAnswer answer = made_up(1);
  answer.timeline.kernels[0].name = hostile;
  answer.timeline.parts = {{"whole", 0}, {hostile, 0}};
  answer.gaps = {hostile};
  answer.provenance = {{hostile, hostile}};
  PredictRequest request = request_for(hostile);
  const std::string page = html_report(answer, request);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;script&gt;alert(1)"));
  const Json data = data_of(page);
  const std::string read_back =
      "</script><script>alert(1)</script><!--\"'&\xEF\xBF\xBD\xe2\x80\xa8";
  EXPECT_EQ(data.at("workload"), read_back);
  EXPECT_EQ(data.at("gaps")[0], read_back);
  EXPECT_EQ(data.at("strings")[data.at("kernels").at("name")[0].get<size_t>()], read_back);
}

TEST(HtmlTest, MemoryOverTimeIsTakenOver) {
  PredictAnswer answer = made_up(1);
  answer.timeline.memory = {{0, 100}, {0.5, 12345678}};
  const Json held = data_of(html_report(answer, request_for("w"))).at("held");
  EXPECT_THAT(held.at("time"), ElementsAre(0, 0.5));
  EXPECT_THAT(held.at("bytes"), ElementsAre(100, 12346000));
}

TEST(HtmlTest, TheSameAnswerGivesTheSameBytes) {
  const PredictRequest request = request_for("gpt2");
  EXPECT_EQ(html_report(answer_to(request), request), html_report(answer_to(request), request));
}

}  // namespace
}  // namespace orrery
