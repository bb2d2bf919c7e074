#include "orrery/kernel/unmeasured.h"

#include <fmt/format.h>

#include <cmath>

#include "orrery/kernel/peak_rate.h"

namespace orrery {

namespace {

Estimate estimate_between(double best, double worst) {
  const auto spread = static_cast<float>(std::log(worst / best) / (2 * kNinetyPercent));
  Estimate e;
  e.own_spread = spread / 2;
  e.skew = static_cast<float>(std::log(worst * best) / 2);
  // Most of such an error is common to kernels of one kind.
  e.loadings[static_cast<size_t>(ErrorFactor::kFamily)] = spread * 0.8660254f;  // √(1 − ½²)
  return e;
}

}  // namespace

Estimate unmeasured_estimate(Seconds seconds, bool counted) {
  static const Estimate kUnmeasured = estimate_between(kUnmeasuredBest, kUnmeasuredWorst);
  static const Estimate kCounted = estimate_between(kCountedBest, kCountedWorst);
  Estimate e = counted ? kCounted : kUnmeasured;
  e.seconds = seconds;
  return e;
}

std::vector<std::string> unpublished_rates(const Device& device, const Kernel& kernel) {
  std::vector<std::string> found;
  const Cost& c = kernel.cost;
  if (c.matrix_flops > 0) {
    const Rate rate = product_rate(device, c.matrix_type);
    if (rate.flops_per_second == 0)
      found.push_back(
          fmt::format("{} has no published rate for {} products: their arithmetic is not timed",
                      device.name, mlir_name(c.matrix_type)));
    else if (rate.used != c.matrix_type)
      found.push_back(fmt::format("{} has no published rate for {} products: taken at that of {}",
                                  device.name, mlir_name(c.matrix_type), mlir_name(rate.used)));
  }
  if (c.vector_flops > 0 && find_rate(device.vector, c.vector_type).flops_per_second == 0)
    found.push_back(
        fmt::format("{} has no published vector rate for {}: that arithmetic is not timed",
                    device.name, mlir_name(c.vector_type)));
  if (c.transcendental_flops > 0 && device.special.value <= 0)
    found.push_back(
        device.vector[ElementType::kF32].value > 0
            ? fmt::format("{} has no published rate for special functions: taken at a quarter of "
                          "its fp32 vector rate, as on NVIDIA's SMs",
                          device.name)
            : fmt::format("{} has no published rate for special functions: they are not timed",
                          device.name));
  if (kernel.code == Opcode::k_custom_call && c.flops() == 0)
    found.emplace_back("custom calls are timed by the bytes of their operands and results alone");
  return found;
}

}  // namespace orrery
