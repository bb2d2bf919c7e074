#include "orrery/learn/feature_bins.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace orrery {
namespace {

Matrix column(const std::vector<float>& values) {
  Matrix matrix(values.size(), 1);
  for (size_t r = 0; r < values.size(); ++r) matrix.row(r)[0] = values[r];
  return matrix;
}

TEST(FeatureBins, FewValuesArePartedInTheirMiddles) {
  const FeatureBins bins(column({3, 1, 2, 1, 10}), 128);
  EXPECT_EQ(std::vector<float>(bins.thresholds(0).begin(), bins.thresholds(0).end()),
            (std::vector<float>{1.5, 2.5, 6.5}));
  EXPECT_EQ(std::vector<uint8_t>(bins.column(0).begin(), bins.column(0).end()),
            (std::vector<uint8_t>{2, 0, 1, 0, 3}));
}

TEST(FeatureBins, ManyValuesArePartedEvenly) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const FeatureBins bins(column(values), 4);
  // Parts begin at 250, 500 and 750; thresholds lie half a step below.
  EXPECT_EQ(std::vector<float>(bins.thresholds(0).begin(), bins.thresholds(0).end()),
            (std::vector<float>{249.5, 499.5, 749.5}));
  std::vector<int> count(4);
  for (const uint8_t bin : bins.column(0)) ++count.at(bin);
  EXPECT_EQ(count, std::vector<int>(4, 250));
}

TEST(FeatureBins, TiesStayTogether) {
  // Nine in ten values are 5: it gets one bin, below and above it others.
  std::vector<float> values(90, 5);
  for (int i = 0; i < 5; ++i) values.push_back(static_cast<float>(i) / 10);
  for (int i = 0; i < 5; ++i) values.push_back(static_cast<float>(6 + i));
  const FeatureBins bins(column(values), 4);
  ASSERT_EQ(bins.thresholds(0).size(), 1u);
  EXPECT_GT(bins.thresholds(0)[0], 0.4f);
  EXPECT_LT(bins.thresholds(0)[0], 5.0f);
}

TEST(FeatureBins, AConstantHasNoThreshold) {
  const FeatureBins bins(column({2, 2, 2}), 128);
  EXPECT_TRUE(bins.thresholds(0).empty());
  EXPECT_EQ(bins.column(0)[2], 0);
}

TEST(FeatureBins, UsesAll256Bins) {
  std::vector<float> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const FeatureBins bins(column(values), 256);
  EXPECT_EQ(bins.thresholds(0).size(), 255u);
  EXPECT_EQ(bins.column(0)[0], 0);
  EXPECT_EQ(bins.column(0)[2999], 255);
}

TEST(FeatureBins, ThresholdsAreShortDecimals) {
  EXPECT_EQ(short_decimal_between(1, 2), 1.5f);
  EXPECT_EQ(short_decimal_between(-1, 1), 0.0f);
  EXPECT_EQ(short_decimal_between(3.14159f, 3.14300f), 3.142f);  // the middle is 3.142295
  EXPECT_EQ(short_decimal_between(1000, 1003), 1002.0f);         // not 1000, which is an edge
  // No number lies between neighbours: the lower one parts them.
  const float next = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(short_decimal_between(1.0f, next), 1.0f);
  const float largest = std::numeric_limits<float>::max();
  const float middle = short_decimal_between(-largest, largest);
  EXPECT_EQ(middle, 0.0f);
  const float half = short_decimal_between(std::nextafter(largest, 0.0f), largest);
  EXPECT_GE(half, std::nextafter(largest, 0.0f));
  EXPECT_LT(half, largest);
}

}  // namespace
}  // namespace orrery
