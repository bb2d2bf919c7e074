#include "orrery/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace orrery {
namespace {

std::string refusal(const char* text, Dimension dimension) {
  try {
    parse_quantity(text, dimension);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ParseQuantity, ReadsEveryDimensionInItsBaseUnit) {
  EXPECT_DOUBLE_EQ(parse_quantity("2 us", Dimension::kTime), 2e-6);
  EXPECT_DOUBLE_EQ(parse_quantity("2 µs", Dimension::kTime), 2e-6);
  EXPECT_DOUBLE_EQ(parse_quantity("1.5ns", Dimension::kTime), 1.5e-9);
  EXPECT_DOUBLE_EQ(parse_quantity("20 pJ", Dimension::kEnergy), 20e-12);
  EXPECT_DOUBLE_EQ(parse_quantity("700 W", Dimension::kPower), 700);
  EXPECT_DOUBLE_EQ(parse_quantity("1.2 kW", Dimension::kPower), 1200);
  EXPECT_DOUBLE_EQ(parse_quantity("1980 MHz", Dimension::kFrequency), 1.98e9);
  EXPECT_DOUBLE_EQ(parse_quantity("141 GB", Dimension::kBytes), 141e9);
  EXPECT_DOUBLE_EQ(parse_quantity("4.8 TB/s", Dimension::kBandwidth), 4.8e12);
  EXPECT_DOUBLE_EQ(parse_quantity("989 TFLOP/s", Dimension::kRate), 989e12);
  EXPECT_DOUBLE_EQ(parse_quantity("989 TFLOPS", Dimension::kRate), 989e12);
  EXPECT_DOUBLE_EQ(parse_quantity("1979 TOP/s", Dimension::kRate), 1979e12);
  EXPECT_DOUBLE_EQ(parse_quantity("2.5 USD/h", Dimension::kPrice), 2.5);
  EXPECT_DOUBLE_EQ(parse_quantity("132", Dimension::kCount), 132);
}

TEST(ParseQuantity, TellsBinaryFromDecimalAndBitsFromBytes) {
  EXPECT_DOUBLE_EQ(parse_quantity("50 MB", Dimension::kBytes), 50e6);
  EXPECT_DOUBLE_EQ(parse_quantity("50 MiB", Dimension::kBytes), 50.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(parse_quantity("256 KiB", Dimension::kBytes), 262144);
  EXPECT_DOUBLE_EQ(parse_quantity("80 GiB", Dimension::kBytes), 85899345920.0);
  EXPECT_DOUBLE_EQ(parse_quantity("400 Gb/s", Dimension::kBandwidth), 50e9);
  EXPECT_DOUBLE_EQ(parse_quantity("400 GB/s", Dimension::kBandwidth), 400e9);
  EXPECT_DOUBLE_EQ(parse_quantity("16 b", Dimension::kBytes), 2);
}

TEST(ParseQuantity, SpacesAroundDoNotMatter) {
  EXPECT_DOUBLE_EQ(parse_quantity("  4.8TB/s\t", Dimension::kBandwidth), 4.8e12);
  EXPECT_DOUBLE_EQ(parse_quantity("4.8e12   B/s", Dimension::kBandwidth), 4.8e12);
}

TEST(ParseQuantity, RefusesAMissingUnit) {
  EXPECT_EQ(refusal("4.8", Dimension::kBandwidth),
            "'4.8' has no unit; write it out, e.g. '4.8 TB/s'");
  EXPECT_EQ(refusal("132 cores", Dimension::kCount), "'132 cores' is a count and takes no unit");
}

TEST(ParseQuantity, RefusesAnotherDimensionsUnit) {
  EXPECT_EQ(refusal("141 GB", Dimension::kBandwidth),
            "'141 GB' has the unit 'GB'; expected one like '4.8 TB/s'");
  EXPECT_NE(refusal("4.8 TB/s", Dimension::kBytes), "");
  EXPECT_NE(refusal("700 V", Dimension::kPower), "");
  EXPECT_NE(refusal("1980 QHz", Dimension::kFrequency), "");
  EXPECT_NE(refusal("10 Xs", Dimension::kTime), "");
}

TEST(ParseQuantity, RefusesWhatIsNoFiniteNumber) {
  for (const char* text : {"", "  ", "fast", "GB", "nan GB", "inf GB", "1e999 GB", "--3 GB"})
    EXPECT_NE(refusal(text, Dimension::kBytes), "") << text;
}

TEST(FormatSi, KeepsThreeFigures) {
  EXPECT_EQ(format_si(6.9e12, "FLOP"), "6.90 TFLOP");
  EXPECT_EQ(format_seconds(0.0142), "14.2 ms");
  EXPECT_EQ(format_bytes(13.4e9), "13.4 GB");
  EXPECT_EQ(format_joules(142), "142 J");
  EXPECT_EQ(format_seconds(2.5e-6), "2.50 us");
  EXPECT_EQ(format_si(1, "B"), "1.00 B");
}

TEST(FormatSi, RoundsUpToTheNextPrefix) {
  EXPECT_EQ(format_si(999.6, "s"), "1.00 ks");  // not "1000 s"
  EXPECT_EQ(format_si(999.4, "s"), "999 s");
  EXPECT_EQ(format_si(9.996, "s"), "10.0 s");  // not "10.00 s"
  EXPECT_EQ(format_si(99.96, "s"), "100 s");   // not "100.0 s"
  EXPECT_EQ(format_si(999.6e-6, "s"), "1.00 ms");
}

TEST(FormatSi, ZeroNegativeAndExtremes) {
  EXPECT_EQ(format_si(0, "B"), "0 B");
  EXPECT_EQ(format_si(-2.5e-3, "s"), "-2.50 ms");
  EXPECT_EQ(format_si(-999.6, "s"), "-1.00 ks");
  EXPECT_EQ(format_si(3e21, "FLOP"), "3000 EFLOP");  // no prefix beyond
  EXPECT_EQ(format_si(INFINITY, "s"), "inf s");
}

TEST(Quantity, ArithmeticKeepsTheUnit) {
  const Seconds time = Bytes(4.8e12) / BytesPerSecond(4.8e12);
  EXPECT_EQ(time, Seconds(1));
  EXPECT_EQ((Watts(700) * Seconds(2)).value, 1400);
  EXPECT_EQ(Seconds(3) / Seconds(2), 1.5);
  EXPECT_LT(Seconds(1), Seconds(2));
}

}  // namespace
}  // namespace orrery
