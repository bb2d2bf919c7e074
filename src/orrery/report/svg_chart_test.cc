#include "orrery/report/svg_chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace orrery {
namespace {

TEST(SvgChart, RoundSteps) {
  EXPECT_EQ(round_steps(10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_steps(4), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(round_steps(240), (std::vector<double>{0, 50, 100, 150, 200}));
  EXPECT_EQ(round_steps(0), std::vector<double>{0});
}

TEST(SvgChart, PlacesPoints) {
  // The plot is from 58 to 548 across and from 192 up to 22, of which 1/21 is left free.
  const std::string svg =
      svg_chart({"s", "n", {{"a", "#111", {{0, 0}, {5, 10}, {10, 0}}}}, false, false, 0, 0});
  EXPECT_NE(svg.find(R"(points="58.0,192.0 303.0,30.1 548.0,192.0")"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("legend"), std::string::npos);
}

TEST(SvgChart, LogarithmsAndWhatNeverCame) {
  const double never = std::numeric_limits<double>::infinity();
  const std::string svg = svg_chart(
      {"<x>", "n", {{"a", "#111", {{5, 1}, {10, 100}, {11, never}, {3, 0}}}}, true, true, 10, 0});
  // 1 at the foot, 100 at the top, the promise of 10 half way.
  EXPECT_NE(svg.find(R"(points="303.0,192.0 548.0,22.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(y1="107.0" y2="107.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find("&lt;x&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace orrery
