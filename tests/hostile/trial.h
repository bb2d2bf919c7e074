#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mutation.h"
#include "orrery/base/source.h"

namespace orrery::hostile {

/// What one damaged file may take.
struct Limits {
  double seconds = 5;
  size_t memory_bytes = size_t{1} << 30;  ///< On top of what the test itself holds.
};

struct Failure {
  Mutation mutation;
  std::string what;  ///< "killed by SIGSEGV", "took over 5 s", "std::bad_alloc" …
};

struct Outcome {
  int64_t accepted = 0;  ///< Read in full: exit code 0.
  int64_t refused = 0;   ///< An error of kind `kInput`: exit code 3.
  double slowest_seconds = 0;
  size_t peak_bytes = 0;  ///< Most resident memory, on top of the test's own.
  std::vector<Failure> failures;
};

/// Hands every damaged copy of `original` to `exercise`, in forked processes that
/// are limited in time and memory, so that a crash or a hang costs one process and
/// is put down to the mutation that caused it. `exercise` may return, or throw an
/// `Error` of kind `kInput`; whatever else it does is a failure. Stops after
/// `kMostFailures` of them. `name` is the file's name as a reader will see it.
Outcome try_all(const std::string& name, std::string_view original,
                std::span<const Mutation> mutations, const Limits& limits,
                const std::function<void(const Source&)>& exercise);

inline constexpr size_t kMostFailures = 10;

}  // namespace orrery::hostile
