#include "orrery/kernel/clock_range.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

Device device_of(double boost_mhz) {
  Device device;
  device.name = "d";
  device.clock = Hertz(boost_mhz * 1e6);
  return device;
}

TEST(ClockRange, HasWhatIsNearTheBoostClock) {
  const ClockRange range = clock_range(device_of(1980));  // 99 to 2,970 MHz
  for (const double mhz : {100.0, 345.0, 1980.0, 2900.0}) EXPECT_TRUE(range.has(mhz)) << mhz;
  for (const double mhz : {0.0, -1.0, 1.98, 98.0, 2971.0, 9999.0, 1.98e6})
    EXPECT_FALSE(range.has(mhz)) << mhz;
}

TEST(ClockRange, OfAnUnknownClockOnlyTheUnitIsChecked) {
  const ClockRange range = clock_range(device_of(0));
  for (const double mhz : {10.0, 5000.0}) EXPECT_TRUE(range.has(mhz)) << mhz;
  for (const double mhz : {1.2, 1.2e6}) EXPECT_FALSE(range.has(mhz)) << mhz;
}

TEST(ClockRange, SaysWhichUnitItMayBe) {
  const ClockRange range = clock_range(device_of(1980));
  EXPECT_EQ(range.refusal(1.98),
            "1.98 is not a clock in MHz of d (is it in GHz?): expected 99 to 2970 MHz");
  EXPECT_EQ(range.refusal(1.98e6),
            "1.98e+06 is not a clock in MHz of d (is it in kHz?): expected 99 to 2970 MHz");
  EXPECT_EQ(range.refusal(9999), "9999 is not a clock in MHz of d: expected 99 to 2970 MHz");
  EXPECT_EQ(ClockRange().refusal(1.2),
            "1.2 is not a clock in MHz (is it in GHz?): expected 10 to 100000 MHz");
}

}  // namespace
}  // namespace orrery
