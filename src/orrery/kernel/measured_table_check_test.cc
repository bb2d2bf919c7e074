#include "orrery/kernel/measured_table_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/hardware/catalogue.h"

namespace orrery {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Severity = TableProblem::Severity;

Device catalogue_device(const std::string& name) {
  return Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device(name);
}

std::unique_ptr<Predictor> roofline(const std::string& device) {
  const Device d = catalogue_device(device);
  return Registry<KernelModel>::instance().at("roofline", "kernel model").create()->bind(d, {});
}

/// Twenty-four bf16 products of an H200, all at 1.5 times their roofline or floor.
std::vector<std::pair<std::string, double>> sound_rows() {
  std::vector<std::pair<std::string, double>> rows;
  for (int m = 64; m <= 8192; m *= 2)
    for (int n = 1024; n <= 4096; n *= 2)
      rows.emplace_back(
          fmt::format("gemm,bf16,\"{{\"\"m\"\": {}, \"\"n\"\": {}, \"\"k\"\": 4096}}\"", m, n),
          1.5 * std::max({2.0 * m * n * 4096 / 989.4e6, 2.0 * (m * n + (m + n) * 4096.0) / 4.8e6,
                          1.92}));
  return rows;
}

MeasuredTable table_of(const std::vector<std::pair<std::string, double>>& rows, double unit = 1) {
  std::string text = "op,dtype,params,us\n";
  for (const auto& [operation, us] : rows) text += fmt::format("{},{:.6g}\n", operation, us * unit);
  return read_measured_table(Source::from_memory("t.csv", text));
}

std::vector<TableProblem> problems(const std::vector<std::pair<std::string, double>>& rows,
                                   double unit = 1) {
  return check_measured_table(table_of(rows, unit), *roofline("h200"));
}

TEST(MeasuredTableCheck, FindsNothingInASoundTable) {
  EXPECT_THAT(problems(sound_rows()), IsEmpty());
}

TEST(MeasuredTableCheck, FindsATableInAnotherUnit) {
  const auto milliseconds = problems(sound_rows(), 1e-3);
  ASSERT_THAT(milliseconds, SizeIs(1));
  EXPECT_EQ(milliseconds[0].severity, Severity::kRefuse);
  EXPECT_THAT(milliseconds[0].reason,
              HasSubstr("times look like milliseconds where microseconds are expected"));
  const auto nanoseconds = problems(sound_rows(), 1e3);
  ASSERT_THAT(nanoseconds, SizeIs(1));
  EXPECT_THAT(nanoseconds[0].reason,
              HasSubstr("times look like nanoseconds where microseconds are expected"));
}

TEST(MeasuredTableCheck, NamesARowThatIsWrongNotAGoodOne) {
  const auto rows = sound_rows();
  for (const double unit : {1e-3, 1e3})
    for (size_t count = 2; count <= 6; ++count)
      for (size_t good = 1; 2 * good >= count && good < count; ++good) {
        // First the good rows, as many as the others or more; then the other way round.
        auto few = std::vector(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count));
        for (size_t i = good; i < count; ++i) few[i].second *= unit;
        auto found = problems(few);
        ASSERT_THAT(found, SizeIs(count - good)) << count << " " << good << " " << unit;
        EXPECT_EQ(found[0].line, 2 + good);
        std::reverse(few.begin(), few.end());
        found = problems(few);
        ASSERT_THAT(found, SizeIs(count - good));
        EXPECT_EQ(found.back().line, 1 + count - good);
      }
  // Where most are wrong the table is, and the first of them is named.
  auto three = std::vector(rows.begin(), rows.begin() + 3);
  three[1].second *= 1000;
  three[2].second *= 1000;
  const auto found = problems(three);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].line, 3u);
  EXPECT_THAT(found[0].reason, HasSubstr("times look like nanoseconds"));
}

TEST(MeasuredTableCheck, NamesTheUnitTheFormatExpects) {
  const MeasuredTable table = read_measured_table(Source::from_memory(
      "t.csv", "op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,4096,4096,4096,200\n"));
  const auto found = check_measured_table(table, *roofline("h200"));  // 200 µs as ms
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].reason,
              HasSubstr("times look like microseconds where milliseconds are expected"));
}

TEST(MeasuredTableCheck, FindsARowInAnotherUnit) {
  auto rows = sound_rows();
  rows[10].second *= 1000;
  auto found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].line, 12u);
  EXPECT_NE(found[0].other_line, 0u);
  EXPECT_EQ(found[0].severity, Severity::kRefuse);
  // 512×2048×4096: 2·512·2048·4096 / 989.4e12 s = 8.68 µs, one and a half times that 13.0.
  EXPECT_THAT(found[0].reason, testing::MatchesRegex("13.0 ms where rows like it .lines [0-9]+ and "
                                                     "[0-9]+. suggest 13.0 us: a wrong unit."));
  rows[10].second /= 1e6;
  found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].line, 12u);
  EXPECT_EQ(found[0].severity, Severity::kRefuse);
  EXPECT_EQ(found[0].reason,
            "13.0 ns where the device's peak rates allow no less than 8.68 us: a wrong unit, or "
            "another device?");
}

TEST(MeasuredTableCheck, FindsSeveralRowsInAnotherUnit) {
  auto rows = sound_rows();
  for (size_t i = 0; i < 24; i += 3) rows[i].second *= 1000;
  EXPECT_THAT(problems(rows), SizeIs(8));
}

TEST(MeasuredTableCheck, FindsARowInAnotherUnitAmongFew) {
  std::vector<std::pair<std::string, double>> rows = {
      {"add,bf16,\"{\"\"shape\"\": [16777216]}\"", 25},
      {"gelu,bf16,\"{\"\"shape\"\": [16777216]}\"", 20},
      {"softmax,bf16,\"{\"\"shape\"\": [4096, 4096]}\"", 18},
      {"gemm,bf16,\"{\"\"m\"\": 4096, \"\"n\"\": 4096, \"\"k\"\": 4096}\"", 190}};
  EXPECT_THAT(problems(rows), IsEmpty());
  rows[1].second *= 1000;
  const auto found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].line, 3u);
  EXPECT_EQ(found[0].severity, Severity::kRefuse);
}

TEST(MeasuredTableCheck, FindsARowOfAnotherKernel) {
  auto rows = sound_rows();
  rows[20].second *= 20;
  auto found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].line, 22u);
  EXPECT_EQ(found[0].severity, Severity::kWarn);
  rows[20].second *= 5;
  found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::kRefuse);
}

TEST(MeasuredTableCheck, FindsContradictionsButNotRepeats) {
  auto rows = sound_rows();
  rows.push_back(rows[5]);
  rows.back().second *= 1.4;
  EXPECT_THAT(problems(rows), IsEmpty());
  rows.push_back(rows[5]);
  rows.back().second *= 1.6;
  const auto found = problems(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].other_line, 7u);
  EXPECT_EQ(found[0].line, 27u);
  EXPECT_THAT(found[0].reason, HasSubstr("where line 7 has"));
  EXPECT_THAT(found[0].reason, HasSubstr("for the same gemm bf16"));
}

/// Repeats of a product of 8192³ in bf16 on an H200: microseconds and MHz.
std::vector<TableProblem> problems_of_repeats(
    const std::vector<std::pair<double, std::string>>& rows) {
  std::string text = "op,dtype,params,us,sm_mhz\n";
  for (const auto& [us, mhz] : rows)
    text += fmt::format("gemm,bf16,\"{{\"\"m\"\":8192,\"\"n\"\":8192,\"\"k\"\":8192}}\",{},{}\n",
                        us, mhz);
  return check_measured_table(read_measured_table(Source::from_memory("t.csv", text)),
                              *roofline("h200"));
}

TEST(MeasuredTableCheck, RepeatsAtTwoClocksDoNotContradict) {
  EXPECT_THAT(problems_of_repeats({{1410, "1980"}, {2800, "990"}}), IsEmpty());
  EXPECT_THAT(problems_of_repeats({{1410, "1980"}, {1420, ""}, {2800, "990"}}), IsEmpty());
  // As fast at half the clock, as what waits for memory is.
  EXPECT_THAT(problems_of_repeats({{1410, "1980"}, {1500, "990"}}), IsEmpty());
  // 1.6 times as many cycles, or slower at a higher clock.
  for (const auto& [us, mhz] : {std::pair(4600.0, "990"), std::pair(900.0, "990")}) {
    const auto found = problems_of_repeats({{1410, "1980"}, {us, mhz}});
    ASSERT_THAT(found, SizeIs(1)) << us;
    EXPECT_EQ(found[0].line, 3u);
    EXPECT_EQ(found[0].other_line, 2u);
    EXPECT_THAT(found[0].reason,
                HasSubstr("for the same gemm bf16, at 990 MHz where that was at 1980 MHz"));
  }
  // One without a clock had the highest.
  EXPECT_THAT(problems_of_repeats({{1410, "1980"}, {2800, ""}}), SizeIs(1));
  EXPECT_THAT(problems_of_repeats({{2800, "990"}, {1410, ""}}), SizeIs(1));
  EXPECT_THAT(problems_of_repeats({{1410, ""}, {2800, ""}}), SizeIs(1));
  EXPECT_THAT(problems_of_repeats({{1410, "1980"}, {2800, "1980"}}), SizeIs(1));
}

TEST(MeasuredTableCheck, ARooflineIsThatOfTheRowsClock) {
  // 1.11 ms at the boost clock; at 297 MHz 6.8 ms, which no product beats tenfold.
  EXPECT_THAT(problems_of_repeats({{600, "1980"}}), IsEmpty());
  EXPECT_THAT(problems_of_repeats({{600, "297"}}), SizeIs(1));
}

TEST(MeasuredTableCheck, FindsContradictionsBetweenTables) {
  const auto measurements = [](const std::string& file, double us, const std::string& shape) {
    const MeasuredTable table = read_measured_table(Source::from_memory(
        file, fmt::format("op,dtype,params,us\nadd,bf16,{{\"shape\": [{}]}},{}\n", shape, us)));
    return measurement(table, table.rows[0]);
  };
  refuse_contradictions({});
  refuse_contradictions(std::vector{measurements("a.csv", 30, "16777216"),
                                    measurements("b.csv", 31, "16777216"),
                                    measurements("b.csv", 90, "8388608")});
  try {
    refuse_contradictions(
        std::vector{measurements("a.csv", 30, "16777216"), measurements("b.csv", 90, "16777216")});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "b.csv:2: 90.0 us where a.csv:2 has 30.0 us for the same add bf16");
    EXPECT_EQ(error.exit_code(), 3);
  }
}

TEST(MeasuredTableCheck, RefusesAtTheFirstProblem) {
  auto rows = sound_rows();
  const MeasuredTable sound = table_of(rows);
  refuse_on_problems(sound, {});
  refuse_on_problems(sound, {{Severity::kWarn, 3, 0, "odd"}});
  try {
    refuse_on_problems(sound, {{Severity::kWarn, 3, 0, "odd"},
                               {Severity::kRefuse, 4, 0, "wrong"},
                               {Severity::kRefuse, 5, 4, "wrong too"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "t.csv:4: wrong (and 1 more such problem)");
    EXPECT_EQ(error.exit_code(), 3);
  }
}

/// Which device a table without a device column was measured on.
std::string device_of(const std::string& file) {
  for (const auto& [prefix, device] :
       std::map<std::string, std::string>{{"a100_sxm", "a100-sxm-80gb"},
                                          {"h100_sxm", "h100-sxm"},
                                          {"h200", "h200"},
                                          {"l40s", "l40s"}})
    if (file.starts_with(prefix)) return device;
  return "h200";
}

TEST(MeasuredTableCheck, RefusesNoRealTable) {
  ORRERY_SHARED_DATA_OR_SKIP(gpu, "gpu");
  ORRERY_SHARED_DATA_OR_SKIP(h200, "h200");
  std::set<std::filesystem::path> files = {std::filesystem::path(h200) / "kernels.csv",
                                           std::filesystem::path(h200) / "power_points.csv"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(gpu))
    if (entry.path().extension() == ".csv" && entry.path().filename() != "models_e2e.csv")
      files.insert(entry.path());
  EXPECT_EQ(files.size(), 37u);
  size_t rows = 0, odd = 0;
  for (const auto& file : files) {
    const Device usual = catalogue_device(device_of(file.filename().string()));
    const MeasuredTable table = read_measured_table(file, clock_range(usual));
    rows += table.rows.size();
    for (const std::string& name : table.devices) {
      const std::string device =
          name.empty() ? device_of(file.filename().string()) : catalogue_name(name);
      const auto found = check_measured_table(rows_on_device(table, device), *roofline(device));
      for (const TableProblem& p : found) {
        if (p.severity == Severity::kRefuse) ADD_FAILURE() << file << ":" << p.line << p.reason;
        ++odd;
      }
    }
  }
  // Counted by a CSV reader of another language; the 37 points of power_points.csv twice.
  EXPECT_EQ(rows, 268703u);
  // Some are: a product of 17×2048×768 in 57 µs between others in 6.
  EXPECT_LE(odd, 12u);
}

TEST(MeasuredTableCheck, FindsAWrongUnitInAnyRowOfRealTables) {
  ORRERY_SHARED_DATA_OR_SKIP(own, "h200/kernels.csv");
  ORRERY_SHARED_DATA_OR_SKIP(attention, "gpu/silicon/h200_sxm_generation_attention.csv");
  const auto predictor = roofline("h200");
  for (const std::string& file : {own, attention}) {
    MeasuredTable table = read_measured_table(std::filesystem::path(file));
    size_t tried = 0, refused = 0;
    for (size_t i = 0; i < table.rows.size(); i += 1 + table.rows.size() / 60)
      for (const double unit : {1e-3, 1e3}) {
        const double seconds = table.rows[i].seconds;
        table.rows[i].seconds *= unit;
        for (const TableProblem& p : check_measured_table(table, *predictor))
          if (p.line == table.rows[i].line && p.severity == Severity::kRefuse) ++refused;
        ++tried;
        table.rows[i].seconds = seconds;
      }
    EXPECT_GE(tried, 100u);
    EXPECT_EQ(refused, tried) << file;
  }
}

}  // namespace
}  // namespace orrery
