#include "orrery/serving/engine/measured_collectives.h"

#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/cluster/collectives_for_test.h"

namespace orrery {
namespace {

RaggedGrid line(double first, double second) {
  return {1, {{{1000}, first, 2}, {{3000}, second, 3}}};
}

const MeasuredCollectives kMeasured(std::make_shared<MillisecondCalls>(),
                                    {{CollectiveKind::kAllReduce, 4, 4, line(10, 30), "a.csv"},
                                     {CollectiveKind::kAllReduce, 16, 8, line(50, 70), "a.csv"},
                                     {CollectiveKind::kSendReceive, 2, 2, line(1, 3), "s.csv"},
                                     {CollectiveKind::kSendReceive, 2, 1, line(8, 9), "s.csv"}},
                                    8);

double microseconds(CollectiveKind kind, RankGroup group) {
  return kMeasured.predict({kind, Bytes(2000), group}).estimate.seconds.value * 1e6;
}

TEST(MeasuredCollectives, AnswersWhereATableHasTheGroup) {
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kAllReduce, {4, 1}), 20);
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kAllReduce, {16, 1}), 60);
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kAllGather, {4, 1}), 1000);
  // Four devices of four nodes are not four of one.
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kAllReduce, {4, 8}), 1000);
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kSendReceive, {4, 2}), 2);
  EXPECT_DOUBLE_EQ(microseconds(CollectiveKind::kSendReceive, {2, 8}), 8.5);
}

TEST(MeasuredCollectives, SaysWhichGroupsItsTablesHave) {
  EXPECT_TRUE(kMeasured.has({CollectiveKind::kAllReduce, Bytes(1), {4, 1}}));
  EXPECT_FALSE(kMeasured.has({CollectiveKind::kAllGather, Bytes(1), {4, 1}}));
  try {
    kMeasured.has({CollectiveKind::kAllReduce, Bytes(1), {2, 1}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInfeasible);
    EXPECT_STREQ(e.what(),
                 "a.csv:1:1: no row of all-reduce between 2 devices, 2 of a node; there is 4 (4 a "
                 "node), 16 (8 a node)");
  }
  EXPECT_EQ(kMeasured.provenance().size(), 2U);
}

}  // namespace
}  // namespace orrery
