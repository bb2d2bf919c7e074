#include "orrery/kernel/tile/contradiction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace orrery {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

void add(std::vector<Departure>& rows, int device, int operation, double factor,
         size_t count = kFewestToContradict) {
  // Scattered by a tenth either way, so that no two are alike and the median is the factor.
  for (size_t i = 0; i < count; ++i)
    rows.push_back(
        {device, operation,
         std::log(factor) + 0.2 * (static_cast<double>(i) / static_cast<double>(count - 1) - 0.5)});
}

/// Four devices on which single products take 1.2 to 2.5 times what physics says and batched ones
/// a fifth longer, as in NeuSight's tables.
std::vector<Departure> four_devices() {
  std::vector<Departure> rows;
  for (int device = 0; device < 4; ++device) {
    const double pace = std::array{1.2, 1.3, 1.7, 2.5}[static_cast<size_t>(device)];
    add(rows, device, 0, pace);
    add(rows, device, 1, 1.2 * pace);
  }
  return rows;
}

TEST(Contradictions, AreNotFoundWhereADeviceIsSlowAtAll) {
  std::vector<Departure> rows = four_devices();
  EXPECT_THAT(find_contradictions(rows, false), IsEmpty());
  add(rows, 4, 0, 6);
  add(rows, 4, 1, 7.2);
  EXPECT_THAT(find_contradictions(rows, false), IsEmpty());
}

TEST(Contradictions, AreTheOperationThatOtherDevicesDoNotShare) {
  std::vector<Departure> rows = four_devices();
  add(rows, 4, 0, 3.6, 80);
  add(rows, 4, 1, 1.8);
  const std::vector<Contradiction> found = find_contradictions(rows, false);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].device, 4);
  EXPECT_EQ(found[0].operation, 0);
  EXPECT_EQ(found[0].rows, 80u);
  // The others' medians are √(1.3 · 1.7) and 1.2 times that: 3.6 over the first against 1.8 over
  // the second.
  EXPECT_NEAR(found[0].factor, 3.6 / 1.8 * 1.2, 1e-9);
}

TEST(Contradictions, AreNotWhatADeviceDoesBetterThanOthers) {
  std::vector<Departure> rows = four_devices();
  add(rows, 4, 0, 0.5);
  add(rows, 4, 1, 1.8);
  EXPECT_THAT(find_contradictions(rows, false), IsEmpty());
}

TEST(Contradictions, NeedWitnessesOrAFitOverOthers) {
  std::vector<Departure> rows;
  add(rows, 0, 0, 4);
  add(rows, 0, 1, 1.1);
  EXPECT_THAT(find_contradictions(rows, false), IsEmpty());
  EXPECT_THAT(find_contradictions(rows, true), SizeIs(1));
  rows.resize(rows.size() - 1);  // one row too few of the second operation
  EXPECT_THAT(find_contradictions(rows, true), IsEmpty());
}

}  // namespace
}  // namespace orrery
