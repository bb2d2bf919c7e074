#include "orrery/model/distinct_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using testing::ElementsAre;

bool none(size_t) { return false; }

Launch launch(Opcode code, double bytes, double count, uint32_t fused = 1) {
  Launch one;
  one.kernel.code = code;
  one.kernel.cost.bytes_read = bytes;
  one.count = count;
  one.fused = fused;
  return one;
}

TEST(DistinctKernels, AreAskedOnceAndCountedAsOftenAsTheyRun) {
  const std::vector<Launch> launches{launch(Opcode::k_add, 8, 1), launch(Opcode::k_add, 16, 2),
                                     launch(Opcode::k_add, 8, 5), launch(Opcode::k_add, 8, 1, 3),
                                     launch(Opcode::k_multiply, 8, 1)};
  const DistinctKernels distinct(launches, none);
  EXPECT_EQ(distinct.kernels().size(), 4u);
  EXPECT_THAT(distinct.counts(), ElementsAre(6, 2, 1, 1));
  std::vector<Estimate> each(4);
  for (size_t k = 0; k < each.size(); ++k) each[k].seconds = Seconds(static_cast<double>(k));
  const std::vector<Estimate> all = distinct.spread(each);
  std::vector<double> seconds;
  for (const Estimate& e : all) seconds.push_back(e.seconds.value);
  EXPECT_THAT(seconds, ElementsAre(0, 1, 0, 2, 3));
  EXPECT_EQ(distinct.gathered(all)[3].seconds.value, 3);
}

TEST(DistinctKernels, WithTheSameWorkButOtherShapesStayApart) {
  std::vector<Launch> launches(2, launch(Opcode::k_transpose, 64, 1));
  launches[0].kernel.shape = MoveShape{.elements = 64, .read_run = 1};
  launches[1].kernel.shape = MoveShape{.elements = 64, .read_run = 8};
  EXPECT_EQ(DistinctKernels(launches, none).kernels().size(), 2u);
}

TEST(DistinctKernels, ThoseApartShareWithNone) {
  const std::vector<Launch> launches(3, launch(Opcode::k_all_reduce, 64, 1));
  const DistinctKernels distinct(launches, [](size_t i) { return i == 1; });
  EXPECT_THAT(distinct.counts(), ElementsAre(2, 1));
  EXPECT_EQ(distinct.of(1), 1u);
}

}  // namespace
}  // namespace orrery
