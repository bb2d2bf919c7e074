#include "orrery/learn/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace orrery {
namespace {

TEST(Parallel, RunsEveryTaskOnceWhateverTheThreads) {
  for (const int threads : {0, 1, 2, 3, 8}) {
    std::vector<int> runs(5);
    for_each_task(runs.size(), threads, [&](size_t task, size_t worker) {
      ++runs[task];
      EXPECT_LT(worker, static_cast<size_t>(std::max(threads, 1)));
    });
    EXPECT_EQ(runs, std::vector<int>(5, 1)) << threads;
  }
  for_each_task(0, 2, [](size_t, size_t) { FAIL(); });
}

TEST(Parallel, PassesOnWhatATaskThrows) {
  for (const int threads : {1, 2})
    EXPECT_THROW(for_each_task(4, threads,
                               [](size_t task, size_t) {
                                 if (task == 3) throw std::runtime_error("three");
                               }),
                 std::runtime_error);
}

}  // namespace
}  // namespace orrery
