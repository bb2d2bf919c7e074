#include "orrery/learn/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
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

TEST(Parallel, SharesTasksByWhoIsFree) {
  for (const int threads : {0, 1, 2, 3, 8}) {
    std::vector<int> runs(20);
    share_tasks(runs.size(), threads, [&](size_t task) { ++runs[task]; });
    EXPECT_EQ(runs, std::vector<int>(20, 1)) << threads;
  }
  share_tasks(0, 2, [](size_t) { FAIL(); });
}

TEST(Parallel, TheFirstSharedTaskThatThrowsIsTheSameOnAnyThreads) {
  for (const int threads : {1, 2, 4})
    for (int again = 0; again < 20; ++again) {
      try {
        share_tasks(9, threads, [](size_t task) {
          if (task >= 3) throw std::runtime_error(std::to_string(task));
        });
        FAIL();
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "3");
      }
    }
}

}  // namespace
}  // namespace orrery
