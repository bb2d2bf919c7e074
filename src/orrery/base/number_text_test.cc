#include "orrery/base/number_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace orrery {
namespace {

std::string written(double value) {
  char text[kLongestNumber];
  return {text, write_number(text, value)};
}

TEST(NumberText, SixSignificantDigits) {
  EXPECT_EQ(written(138.9124), "138.912");
  EXPECT_EQ(written(1.92), "1.92");
  EXPECT_EQ(written(26.48), "26.48");
  EXPECT_EQ(written(5), "5");
  EXPECT_EQ(written(100000), "100000");
  EXPECT_EQ(written(0.0001234567), "0.000123457");
  EXPECT_EQ(written(9.9999996), "10");  // carries into another digit
  EXPECT_EQ(written(0.00099999999), "0.001");
  EXPECT_EQ(written(999999.7), "1e+06");
  EXPECT_EQ(written(1234567), "1.23457e+06");
  EXPECT_EQ(written(0), "0");
  EXPECT_EQ(written(-2.5), "-2.5");
}

TEST(NumberText, AsPrintfDoes) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> logarithm(std::log(1e-6), std::log(1e8));
  for (int i = 0; i < 200000; ++i) {
    const double value = std::exp(logarithm(random));
    ASSERT_EQ(written(value), fmt::format("{:.6g}", value));
  }
  for (double power = 1e-6; power < 1e8; power *= 10)
    for (double value : {power, std::nextafter(power, 0), std::nextafter(power, 1e9),
                         power * (1 - 4e-7), power * (1 - 6e-7), power * (1 + 6e-7)})
      EXPECT_EQ(written(value), fmt::format("{:.6g}", value));
}

TEST(NumberText, TheLongestFit) {
  for (double value :
       {-std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min(),
        -1.23456e-300, std::nan(""), -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(written(value), fmt::format("{:.6g}", value));
}

}  // namespace
}  // namespace orrery
