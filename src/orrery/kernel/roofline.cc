#include "orrery/kernel/roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/peak_rate.h"
#include "orrery/kernel/unmeasured.h"

namespace orrery {
namespace {

using E = ElementType;

/// No kernel on a GPU is shorter than its launch, a wave of threads and the write of its
/// results: what a product of 64×64 matrices takes on an H200
/// (`kernel_us` in data/measured/h200_launch_costs.json).
constexpr double kGpuFloorSeconds = 1.92e-6;

double inverse(double rate) { return rate > 0 ? 1 / rate : 0; }

class RooflinePredictor final : public Predictor {
 public:
  explicit RooflinePredictor(const Device& device) : device_(device), bounds_(device) {}

  std::string_view name() const override { return "roofline"; }

  void predict(std::span<const Kernel> kernels, OperatingPoints points,
               std::span<Estimate> estimates) const override {
    for (size_t i = 0; i < kernels.size(); ++i) {
      const RooflineTimes t = bounds_.times(kernels[i].cost, points[i].clock);
      Estimate& e = estimates[i];
      e = unmeasured_;
      e.seconds = Seconds(t.bound());
      // At the roofline one resource is used fully: the board draws its limit.
      const Seconds busy(t.busy());
      e.joules = device_.power_limit * busy + device_.idle_power * (e.seconds - busy);
    }
  }

  Explanation explain(const Kernel& kernel, const OperatingPoint& point) const override {
    const RooflineTimes t = bounds_.times(kernel.cost, point.clock);
    Explanation x;
    x.bound = t.busy() < t.floor                               ? "latency"
              : t.memory >= t.compute && t.memory >= t.special ? "memory"
              : t.compute >= t.special                         ? "compute"
                                                               : "special functions";
    return x;
  }

  std::vector<std::string> gaps(const Kernel& kernel) const override {
    return unpublished_rates(device_, kernel);
  }

  std::vector<std::string> gaps(const OperatingPoint& point) const override {
    std::vector<std::string> found;
    if (point.regime == OperatingPoint::Regime::kSustained)
      found.emplace_back(
          "the roofline does not know the clock a device sustains: sustained is predicted as "
          "burst");
    if (point.clock.value > 0 && device_.clock.value <= 0)
      found.push_back(fmt::format("the clock of {} is not published: a fixed clock changes nothing",
                                  device_.name));
    if (device_.kind == "gpu" && device_.name != "h200")
      found.emplace_back("the shortest time of a kernel was measured on an H200");
    return found;
  }

 private:
  Device device_;
  RooflineBounds bounds_;
  Estimate unmeasured_ = unmeasured_estimate(Seconds());
};

class Roofline final : public KernelModel {
 public:
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    if (!binding.fit.empty())
      throw_usage(fmt::format("the roofline of {} takes no fit", device.name));
    return std::make_unique<RooflinePredictor>(device);
  }
};

const Registration<KernelModel> kRoofline(
    {.name = "roofline",
     .summary = "time = max(matrix FLOPs / matrix rate, vector FLOPs / vector rate, special "
                "functions / their "
                "rate, bytes / memory bandwidth, floor), rates from the data sheet; energy = "
                "board power limit × time at the roofline, idle power below the floor",
     .source = "Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009",
     .parameters =
         {{"floor", kGpuFloorSeconds,
           "seconds that no kernel on a GPU stays below; measured, "
           "data/measured/h200_launch_costs.json"},
          {"best", kUnmeasuredBest,
           "low end of the 90 % interval as a multiple of the roofline; a stated prior"},
          {"worst", kUnmeasuredWorst,
           "high end of the 90 % interval as a multiple of the roofline; a stated prior"}}},
    [] { return std::make_unique<Roofline>(); });

}  // namespace

RooflineBounds::RooflineBounds(const Device& device)
    : clock_(device.clock),
      matrix_clock_(device.matrix_clock.value > 0 ? device.matrix_clock : device.clock) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    const Rate vector = find_rate(device.vector, type);
    const Rate matrix = product_rate(device, type);
    seconds_per_matrix_[static_cast<size_t>(i)] = inverse(matrix.flops_per_second);
    seconds_per_vector_[static_cast<size_t>(i)] = inverse(vector.flops_per_second);
  }
  seconds_per_special_ =
      inverse(device.special.value > 0 ? device.special.value : device.vector[E::kF32].value / 4);
  seconds_per_byte_ = inverse(device.main_memory().bandwidth.value);
  floor_ = device.kind == "gpu" ? kGpuFloorSeconds : 0;
}

RooflineTimes RooflineBounds::times(const Cost& c, Hertz clock) const {
  const bool stated = clock.value <= 0 || clock_.value <= 0;
  const double matrix = stated ? 1 : matrix_clock_ / clock;
  const double vector = stated ? 1 : clock_ / clock;
  RooflineTimes t;
  t.compute =
      std::max(matrix * c.matrix_flops * seconds_per_matrix_[static_cast<size_t>(c.matrix_type)],
               vector * c.vector_flops * seconds_per_vector_[static_cast<size_t>(c.vector_type)]);
  t.special = vector * c.transcendental_flops * seconds_per_special_;
  t.memory = c.bytes() * seconds_per_byte_;
  t.floor = floor_;
  return t;
}

}  // namespace orrery
