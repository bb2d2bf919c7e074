#include "orrery/learn/conformal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

/// Residuals 1·step … n·step, each with this scale.
void add(std::vector<HeldOutRow>& rows, const std::string& group, int n, double step,
         double scale = 1) {
  for (int i = n; i >= 1; --i) rows.push_back({group, scale, i * step});
}

ConformalIntervals read(std::string text) {
  return intervals_from_json(JsonValue::parse(Source::from_memory("c.json", std::move(text))));
}

std::string error_of(std::string text) {
  try {
    read(std::move(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Conformal, ALargeGroupHasItsOwnRanks) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 99, 1);
  const ConformalIntervals intervals(rows);
  // (99 + 1) · 0.05 is the 5th, (99 + 1) · 0.95 the 95th.
  EXPECT_EQ(intervals.of("gemm"), (IntervalMultipliers{5, 95, 99}));
  EXPECT_EQ(intervals.of("never seen"), (IntervalMultipliers{5, 95, 99}));
}

TEST(Conformal, RanksAreRoundedOutwards) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 60, 2);
  // 61 · 0.05 = 3.05: the 3rd; 61 · 0.95 = 57.95: the 58th.
  EXPECT_EQ(ConformalIntervals(rows).of("gemm"), (IntervalMultipliers{6, 116, 60}));
  // For 80 %: 6.1 and 54.9.
  EXPECT_EQ(ConformalIntervals(rows, 0.8).of("gemm"), (IntervalMultipliers{12, 110, 60}));
}

TEST(Conformal, ResidualsAreMeasuredInTheirScale) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 99, 4, 2);
  EXPECT_EQ(ConformalIntervals(rows).of("gemm"), (IntervalMultipliers{10, 190, 99}));
}

TEST(Conformal, ASmallGroupIsPulledTowardsAllRows) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 969, 1);  // 1 … 969
  add(rows, "sort", 30, 1e-3);
  const ConformalIntervals intervals(rows);
  // Of 999 rows the 50th is gemm's 20th, and the 950th its 920th. Of sort's 30 the 1st
  // (1.55) and, as 29.45 asks for, the 30th. 30 rows count for 30 / 60.
  EXPECT_EQ(intervals.of("other"), (IntervalMultipliers{20, 920, 999}));
  EXPECT_EQ(intervals.of("sort").rows, 30u);
  EXPECT_DOUBLE_EQ(intervals.of("sort").low, 0.5 * 1e-3 + 0.5 * 20);
  EXPECT_DOUBLE_EQ(intervals.of("sort").high, 0.5 * 30e-3 + 0.5 * 920);
}

TEST(Conformal, AFewRowsGiveTheOutermost) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 3, 1);
  EXPECT_EQ(ConformalIntervals(rows).of("gemm"), (IntervalMultipliers{1, 3, 3}));
}

TEST(Conformal, NineInTenNewRowsLieInside) {
  SplitMix64 random(17);
  const auto draw = [&] { return random.uniform() + random.uniform() + random.uniform() - 1.2; };
  std::vector<HeldOutRow> rows;
  for (int i = 0; i < 2000; ++i) {
    const double scale = 0.1 + random.uniform();
    rows.push_back({"a", scale, draw() * scale});
  }
  const IntervalMultipliers m = ConformalIntervals(rows).of("a");
  int inside = 0;
  for (int i = 0; i < 20000; ++i) {
    const double ratio = draw();
    inside += ratio >= m.low && ratio <= m.high ? 1 : 0;
  }
  // The quantiles of 2,000 rows move the coverage by 0.007, one standard deviation.
  EXPECT_NEAR(inside / 20000.0, 0.9, 0.025);
}

TEST(Conformal, RoundTripsThroughJson) {
  std::vector<HeldOutRow> rows;
  add(rows, "gemm", 61, 1.0 / 3, 0.7);
  add(rows, "a \"quoted\" group", 7, -0.1);
  const ConformalIntervals intervals(rows, 0.8);
  EXPECT_EQ(read(to_json(intervals)), intervals);
  EXPECT_EQ(read(to_json(ConformalIntervals())), ConformalIntervals());
  EXPECT_EQ(to_json(read(R"({"coverage":0.9,"pooled":[-1.6,1.7,200],"groups":{"b":[-1,1,9],
                             "a":[-2,2.5,120]}})")),
            "{\"coverage\":0.9,\"pooled\":[-1.6,1.7,200],\"groups\":{\n\"a\":[-2,2.5,120],\n"
            "\"b\":[-1,1,9]}}");
}

TEST(Conformal, RefusesWhatIsNotAnInterval) {
  EXPECT_EQ(error_of(R"({"coverage":1,"pooled":[0,1,2],"groups":{}})"),
            "c.json: coverage: expected a number between 0 and 1");
  EXPECT_EQ(error_of(R"({"coverage":0.9,"pooled":[2,1,2],"groups":{}})"),
            "c.json: pooled: the low multiplier is above the high one");
  EXPECT_EQ(error_of(R"({"coverage":0.9,"pooled":[0,1,2],"groups":{"g":[0,1]}})"),
            "c.json: groups.g: expected 3 elements, found 2");
  EXPECT_EQ(error_of(R"({"coverage":0.9,"pooled":[0,1,-2],"groups":{}})"),
            "c.json: pooled[2]: expected a whole number from 0 to 9223372036854775807, found -2");
  EXPECT_EQ(error_of(R"({"coverage":0.9,"pooled":[0,1,2]})"),
            "c.json: member \"groups\" is missing");
  const std::vector<HeldOutRow> none, no_scale = {{"a", 0, 1}}, not_finite = {{"a", 1, NAN}};
  EXPECT_THROW(ConformalIntervals{none}, Error);
  EXPECT_THROW(ConformalIntervals{no_scale}, Error);
  EXPECT_THROW(ConformalIntervals{not_finite}, Error);
  EXPECT_THROW(ConformalIntervals(std::vector<HeldOutRow>{{"a", 1, 1}}, 1.5), Error);
}

}  // namespace
}  // namespace orrery
