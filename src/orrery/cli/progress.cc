#include "orrery/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace orrery {

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  done_.notify_one();
  thread_.join();
}

void Progress::run() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  int seconds = 0;
  while (!done_.wait_until(lock, start + std::chrono::seconds(seconds + 1),
                           [this] { return ended_; })) {
    ++seconds;
    fmt::print(stderr, "\r{}: {} s", what_, seconds);
    std::fflush(stderr);
  }
  if (seconds > 0) fmt::print(stderr, "\r\033[K");
}

}  // namespace orrery
