#include "orrery/base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace orrery {
namespace {

TEST(ParseNumber, TakesAllOfATextOrNothing) {
  EXPECT_EQ(parse_number<int64_t>("42"), 42);
  EXPECT_EQ(parse_number<int64_t>("-7"), -7);
  EXPECT_EQ(parse_number<double>("2.5e3"), 2500);
  for (const char* text : {"", " 4", "4 ", "4x", "+4", "4,5"}) {
    EXPECT_FALSE(parse_number<int64_t>(text)) << text;
    EXPECT_FALSE(parse_number<double>(text)) << text;
  }
  EXPECT_FALSE(parse_number<int64_t>("4.5"));
  EXPECT_FALSE(parse_number<int64_t>("9223372036854775808"));  // 2^63
}

}  // namespace
}  // namespace orrery
