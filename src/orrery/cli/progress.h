#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace orrery {

/// While it lives, says on a terminal's standard error what is going on and for how long,
/// from the first second on; its line is gone afterwards. Elsewhere it does nothing.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void run();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace orrery
