#include "orrery/model/distinct_kernels.h"

#include <bit>
#include <unordered_map>

namespace orrery {
namespace {

/// Kernels that differ nearly always differ in what they do to how much.
uint64_t hash_of(const Launch& launch) {
  const Kernel& kernel = launch.kernel;
  uint64_t h = static_cast<uint64_t>(kernel.code);
  const auto mix = [&h](uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
  };
  mix(launch.fused);
  for (const double x : {kernel.cost.matrix_flops, kernel.cost.vector_flops, kernel.cost.bytes_read,
                         kernel.cost.bytes_written})
    mix(std::bit_cast<uint64_t>(x));
  for (size_t i = 0; i < kernel.loop_count; ++i) mix(static_cast<uint64_t>(kernel.loops[i].extent));
  return h;
}

}  // namespace

DistinctKernels::DistinctKernels(std::span<const Launch> launches,
                                 const std::function<bool(size_t)>& apart) {
  struct Known {
    uint32_t kernel = 0;
    const Launch* launch = nullptr;
  };
  std::unordered_multimap<uint64_t, Known> known;
  kernel_of_.reserve(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    const bool alone = apart(i);
    uint32_t found = static_cast<uint32_t>(kernels_.size());
    const uint64_t hash = hash_of(launch);
    if (!alone) {
      const auto [first, last] = known.equal_range(hash);
      for (auto at = first; at != last; ++at)
        if (at->second.launch->fused == launch.fused && at->second.launch->kernel == launch.kernel)
          found = at->second.kernel;
    }
    if (found == kernels_.size()) {
      kernels_.push_back(launch.kernel);
      counts_.push_back(0);
      if (!alone) known.emplace(hash, Known{found, &launch});
    }
    counts_[found] += launch.count;
    kernel_of_.push_back(found);
  }
}

std::vector<Estimate> DistinctKernels::spread(std::span<const Estimate> of_kernels) const {
  std::vector<Estimate> all;
  all.reserve(kernel_of_.size());
  for (const uint32_t k : kernel_of_) all.push_back(of_kernels[k]);
  return all;
}

std::vector<Estimate> DistinctKernels::gathered(std::span<const Estimate> of_launches) const {
  std::vector<Estimate> each(kernels_.size());
  for (size_t i = 0; i < kernel_of_.size(); ++i) each[kernel_of_[i]] = of_launches[i];
  return each;
}

}  // namespace orrery
