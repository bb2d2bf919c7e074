#pragma once

#include <span>
#include <vector>

#include "orrery/model/stack.h"

namespace orrery {

/// What a framework's library launches for the operations of a workload, where that is not one
/// kernel an operation. Made for one workload and device, by a stack (Stack::library_launches).
class LibraryLaunches {
 public:
  virtual ~LibraryLaunches() = default;
  /// Whether `of` says what `op` launches; otherwise it is fused by the stack's rules.
  virtual bool decides(OpId /*op*/) const { return true; }
  /// For one run of `op`, in order. Empty: it is a view of its first operand, or its work is
  /// done by another operation's kernels.
  virtual std::span<const Launch> of(OpId op) const = 0;
  /// For one step, after everything else.
  virtual std::span<const Launch> at_the_end() const = 0;
};

}  // namespace orrery
