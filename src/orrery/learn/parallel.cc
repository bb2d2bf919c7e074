#include "orrery/learn/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace orrery {

void for_each_task(size_t tasks, int threads, const std::function<void(size_t, size_t)>& work) {
  const size_t workers = std::min(tasks, static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::exception_ptr> failures(workers);
  const auto run = [&](size_t worker) {
    try {
      for (size_t task = worker; task < tasks; task += workers) work(task, worker);
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t worker = 1; worker < workers; ++worker) others.emplace_back(run, worker);
    if (workers > 0) run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void share_tasks(size_t tasks, int threads, const std::function<void(size_t)>& work) {
  // Tasks begin in their order: every one before a task that fails is done or fails itself, so
  // that the first to fail is the same on any number of threads.
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> failures(tasks);
  const size_t workers = std::min(tasks, static_cast<size_t>(std::max(threads, 1)));
  for_each_task(workers, threads, [&](size_t, size_t) {
    for (size_t task = next++; task < tasks; task = next++) {
      try {
        work(task);
      } catch (...) {
        failures[task] = std::current_exception();
        next = tasks;
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace orrery
