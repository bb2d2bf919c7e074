#include "orrery/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Two devices of 2 ms and 3 ms, of which the second cannot hold it.
CompareAnswer answer() {
  CompareAnswer a;
  a.on.resize(2);
  a.on[0].entry.device = "h200";
  a.on[0].prediction.latency_s = a.on[0].prediction.latency_high_s = 2e-3;
  a.on[0].prediction.kernel_model = a.on[1].prediction.kernel_model = "tile";
  a.on[1].entry = {"<b>\"l4\"", "", {{"memory.bandwidth", "600GB/s"}}};
  a.on[1].prediction.latency_s = 3e-3;
  a.on[1].prediction.latency_high_s = 4e-3;
  a.on[1].prediction.memory.fits = false;
  a.on[1].ratio = {1.5, 1.25, 1.75};
  a.on[1].difference[static_cast<size_t>(Cause::kArithmetic)] = -0.5e-3;
  a.on[1].difference[static_cast<size_t>(Cause::kBandwidth)] = 1.5e-3;
  a.families = {{"gemm", {1.5e-3, 2.5e-3}}, {"launch gaps", {0.5e-3, 0.5e-3}}};
  a.gaps = {"common & known"};
  return a;
}

CompareRequest request() {
  CompareRequest r;
  r.workload = "model<1>";
  return r;
}

TEST(CompareText, ShowsSharesOfTheDifferenceTheLargestCauseFirst) {
  const std::string text = comparison_text(answer(), request());
  EXPECT_THAT(text, HasSubstr("1.50 × as long"));
  EXPECT_THAT(text, HasSubstr("1.25 … 1.75"));
  EXPECT_THAT(text, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(text, HasSubstr("memory.bandwidth = 600GB/s"));
  const size_t bandwidth = text.find("memory bandwidth  +1.50 ms  150 %");
  const size_t arithmetic = text.find("arithmetic rate    −500 us  −50 %");
  const size_t together = text.find("together          +1.00 ms  100 %");
  EXPECT_NE(together, std::string::npos) << text;
  EXPECT_LT(bandwidth, arithmetic);
  EXPECT_LT(arithmetic, together);
  EXPECT_THAT(text, Not(HasSubstr("waiting for the host")));
}

TEST(CompareText, EqualTimesHaveNoShares) {
  CompareAnswer a = answer();
  a.on[1].prediction.latency_s = 2e-3;
  a.on[1].difference = {};
  EXPECT_THAT(comparison_text(a, request()), HasSubstr("together        0      –"));
}

TEST(CompareText, DevicesThatStandThereTwiceAreNumbered) {
  std::vector<Compared> on(3);
  on[0].entry.device = on[2].entry.device = "h200";
  on[1].entry.device = "l4";
  EXPECT_THAT(compare_titles(on), ElementsAre("h200 [1]", "l4", "h200 [3]"));
}

TEST(ComparePage, NeedsNothingBesideItselfAndEscapesNames) {
  const std::string page = comparison_page(answer(), request());
  for (const char* outside :
       {"http://", "https://", "src=", "href=", "url(", "@import", "<script", "{{", "<b>"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("<h1>model&lt;1&gt;</h1>"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&quot;l4&quot;"));
  EXPECT_THAT(page, HasSubstr("common &amp; known"));
  // Of the longest whisker, 4 ms: 1.5 ms of products are 37.5 %.
  EXPECT_THAT(page, HasSubstr("flex:0 0 37.50%"));
  // 1.5 ms is the largest cause: the right half. −0.5 ms is a sixth, left of the middle.
  EXPECT_THAT(page, HasSubstr(R"(class="longer" style="left:50.00%;width:50.00%")"));
  EXPECT_THAT(page, HasSubstr(R"(style="left:33.33%;width:16.67%")"));
}

}  // namespace
}  // namespace orrery
