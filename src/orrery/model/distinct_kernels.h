#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "orrery/kernel/kernel_model.h"
#include "orrery/model/stack.h"

namespace orrery {

/// A program's launches by their kernels: what is alike in every respect is asked about once,
/// and a model repeats its layers.
class DistinctKernels {
 public:
  /// Launches that stand `apart` share their kernel with none.
  DistinctKernels(std::span<const Launch> launches, const std::function<bool(size_t)>& apart);

  std::span<const Kernel> kernels() const { return kernels_; }
  /// How often each runs in a step.
  std::span<const double> counts() const { return counts_; }
  /// The kernel of a launch.
  uint32_t of(size_t launch) const { return kernel_of_[launch]; }

  /// What is said of each kernel, said of each launch …
  std::vector<Estimate> spread(std::span<const Estimate> of_kernels) const;
  /// … and back: of a kernel, what is said of the last of its launches.
  std::vector<Estimate> gathered(std::span<const Estimate> of_launches) const;

 private:
  std::vector<Kernel> kernels_;
  std::vector<double> counts_;
  std::vector<uint32_t> kernel_of_;
};

}  // namespace orrery
