#include "trial.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define ORRERY_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ORRERY_UNDER_ASAN 1
#endif
#endif

namespace orrery::hostile {
namespace {

#ifdef ORRERY_UNDER_ASAN
// AddressSanitizer reserves terabytes of address space, and keeps freed memory in
// quarantine and redzones around what is in use: resident memory is judged instead,
// with twice the allowance.
constexpr bool kLimitAddressSpace = false;
constexpr size_t kMemoryAllowance = 2;
#else
constexpr bool kLimitAddressSpace = true;
constexpr size_t kMemoryAllowance = 1;
#endif

// One process reads this many, to share the cost of its fork; then a fresh one takes
// over, so that what leaks does not add up to a failure.
constexpr size_t kMutationsPerProcess = 100;

/// What the child tells its parent, in memory that both see. The parent reads it
/// only when the child is gone.
struct Report {
  size_t current;  ///< The mutation in hand, or the one after the last.
  int64_t accepted;
  int64_t refused;
  double slowest_seconds;
  size_t peak_bytes;
  char failure[1024];
};

class SharedReport {
 public:
  SharedReport()
      : memory_(::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    if (memory_ == MAP_FAILED) throw_internal("no shared memory for the hostile trials");
  }
  ~SharedReport() { ::munmap(memory_, sizeof(Report)); }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  Report& operator*() { return *static_cast<Report*>(memory_); }
  Report* operator->() { return static_cast<Report*>(memory_); }

 private:
  void* memory_;
};

size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

size_t address_space_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  statm >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

void set_timer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void fail_child(Report& report, const std::string& what) {
  std::snprintf(report.failure, sizeof report.failure, "%s", what.c_str());
  ::_exit(1);
}

/// The child: tries `mutations` from `first` on, and exits 0 when all behaved.
[[noreturn]] void run_child(const std::string& name, std::string_view original,
                            std::span<const Mutation> mutations, size_t first, const Limits& limits,
                            const std::function<void(const Source&)>& exercise, Report& report) {
  const size_t own_bytes = peak_resident_bytes();
  const size_t allowed = limits.memory_bytes * kMemoryAllowance;
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (kLimitAddressSpace) {
    const rlimit memory{address_space_bytes() + allowed, address_space_bytes() + allowed};
    ::setrlimit(RLIMIT_AS, &memory);
  }
  const size_t end = std::min(mutations.size(), first + kMutationsPerProcess);
  for (report.current = first; report.current < end; ++report.current) {
    const auto began = std::chrono::steady_clock::now();
    bool accepted = false;
    set_timer(limits.seconds);
    try {
      exercise(Source::from_memory(name, damaged(original, mutations[report.current])));
      accepted = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput)
        fail_child(report, fmt::format("exit code {} instead of 0 or 3: {}", error.exit_code(),
                                       error.what()));
    } catch (const std::bad_alloc&) {
      fail_child(report, "asked for more memory than the limit");
    } catch (const std::exception& error) {
      fail_child(report, fmt::format("threw what is no orrery::Error: {}", error.what()));
    }
    set_timer(0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    report.slowest_seconds = std::max(report.slowest_seconds, took.count());
    const size_t peak = peak_resident_bytes() - own_bytes;
    report.peak_bytes = std::max(report.peak_bytes, peak);
    if (peak > allowed) fail_child(report, fmt::format("took {} bytes of memory", peak));
    ++(accepted ? report.accepted : report.refused);
  }
  ::_exit(0);
}

std::string describe_end(int status, const Report& report, const Limits& limits) {
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM) return fmt::format("took over {} s", limits.seconds);
    return fmt::format("killed by SIG{}", sigabbrev_np(WTERMSIG(status)));
  }
  if (report.failure[0] != '\0') return report.failure;
  return fmt::format("the process ended by itself with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Outcome try_all(const std::string& name, std::string_view original,
                std::span<const Mutation> mutations, const Limits& limits,
                const std::function<void(const Source&)>& exercise) {
  Outcome outcome;
  SharedReport report;
  size_t next = 0;
  while (next < mutations.size() && outcome.failures.size() < kMostFailures) {
    *report = Report{};
    std::fflush(nullptr);  // Else the child would write what we have buffered a second time.
    const pid_t child = ::fork();
    if (child < 0) throw_internal("cannot fork for the hostile trials");
    if (child == 0) run_child(name, original, mutations, next, limits, exercise, *report);
    int status = 0;
    ::waitpid(child, &status, 0);

    outcome.accepted += report->accepted;
    outcome.refused += report->refused;
    outcome.slowest_seconds = std::max(outcome.slowest_seconds, report->slowest_seconds);
    outcome.peak_bytes = std::max(outcome.peak_bytes, report->peak_bytes);
    // A child that exits with 0 before its time was ended by what it ran.
    const size_t planned = std::min(mutations.size(), next + kMutationsPerProcess);
    next = report->current;
    if (status != 0 || next != planned) {
      outcome.failures.push_back({mutations[next], describe_end(status, *report, limits)});
      ++next;
    }
  }
  return outcome;
}

}  // namespace orrery::hostile
