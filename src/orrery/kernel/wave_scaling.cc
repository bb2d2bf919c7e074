#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/kernel/peak_rate.h"
#include "orrery/kernel/profile/measured_estimate.h"
#include "orrery/kernel/profile/measured_profile.h"

namespace orrery {
namespace {

/// Below, "chosen" means on the kernels that two GPUs have in common in aiconfigurator's
/// tables (A100, H100, H200, L40S) and NeuSight's (P100, T4, V100, A100);
/// wave_scaling_test.cc says what is left.

/// What a kernel reaches of its device while it works; what it takes beyond that is waiting
/// that no faster unit shortens. Chosen.
constexpr double kEfficiency = 0.4;
/// Waiting beyond so many times the least of its kind is work after all. Chosen.
constexpr double kMostFloors = 4;
/// Waiting beyond so many times a GPU's own floor is the host's: eager measurements have 20
/// to 60 µs of it, whatever the GPU's clock. Chosen.
constexpr double kMostOwnFloors = 5;
/// Share of the L2 cache that keeps operands from one run of a measurement to the next,
/// unless inputs were rotated past it. Chosen.
constexpr double kResident = 0.4;
/// Bytes that an SM has from the L2 cache in a clock: 5,120 for the 108 of an A100 (NVIDIA
/// A100 Tensor Core GPU Architecture, 2020).
constexpr double kCacheBytesPerClock = 5120.0 / 108;
/// The 90 % interval's half width for each unit of the logarithms' range of the ratios
/// that a time may scale by, and at least; libraries have other kernels for other
/// architectures. Chosen for nine in ten.
constexpr double kReachPerRange = 0.55;
constexpr double kLeastReach = 0.2;
constexpr double kLeastReachAcross = 0.6;

/// What of a GPU a time can scale with.
struct Resources {
  explicit Resources(const Device& device)
      : bandwidth(device.main_memory().bandwidth.value),
        clock(device.clock.value),
        sm_clocks(device.clock.value * device.compute_units) {
    const MemoryLevel* l2 = device.level("l2");
    cache = l2 != nullptr ? l2->capacity.value : 0;
    for (size_t i = 0; i < rate.size(); ++i) {
      const auto type = static_cast<ElementType>(i);
      rate[i] = product_rate(device, type).flops_per_second;
    }
  }
  double bandwidth, clock, sm_clocks, cache = 0;
  std::array<double, kElementTypeCount> rate{};
};

void require_gpu(const Device& device) {
  if (device.kind == "gpu" && device.clock.value > 0 && device.compute_units > 0) return;
  throw_usage(fmt::format(
      "wave scaling takes GPUs with a clock and a number of SMs, which {} is not", device.name));
}

class WaveScalingPredictor final : public Predictor {
 public:
  WaveScalingPredictor(const Device& device, const Device& origin, const Binding& binding)
      : profile_(origin, binding.profile),
        physical_(device),
        otherwise_(without_profile(device, binding)),
        origin_name_(origin.name),
        name_(device.name),
        idle_(device.idle_power),
        there_(origin),
        here_(device),
        least_reach_(device.architecture == origin.architecture ? kLeastReach : kLeastReachAcross),
        habitat_(binding.parameter("habitat", 0) != 0),
        efficiency_(binding.parameter("efficiency", kEfficiency)),
        floors_(binding.parameter("floors", kMostFloors)),
        resident_(binding.parameter("resident", profile_.cold() ? 0 : kResident)) {
    if (!(efficiency_ > 0)) throw_usage("wave-scaling: efficiency must be above 0");
    if (!(floors_ >= 0 && resident_ >= 0))
      throw_usage("wave-scaling: floors and resident must not be negative");
  }

  std::string_view name() const override { return "wave-scaling"; }

  void predict(std::span<const Kernel> kernels, OperatingPoints points,
               std::span<Estimate> estimates) const override {
    otherwise_->predict(kernels, points, estimates);
    for (size_t i = 0; i < kernels.size(); ++i) {
      // The origin's clocks say nothing of this device's; its own enter through the physics.
      OperatingPoint there = points[i];
      there.clock = Hertz();
      auto reading = profile_.find(kernels[i], there);
      if (!reading) continue;
      const double scaling = scaling_reach(kernels[i]);
      reading->seconds = habitat_ ? habitat(kernels[i], reading->seconds, points[i].clock)
                                  : scaled(kernels[i], *reading, points[i].clock);
      reading->watts = 0;  // of another board
      Estimate e = measured_estimate(*reading, estimates[i], idle_);
      // Devices err together for all kernels and for those of a family alike.
      const auto deviation = static_cast<float>(scaling / kNinetyPercent);
      const auto add = [&](float& spread, float share) {
        spread = std::sqrt(spread * spread + share * deviation * deviation);
      };
      add(e.own_spread, 0.4f);
      add(e.loadings[static_cast<size_t>(ErrorFactor::kFamily)], 0.4f);
      add(e.loadings[static_cast<size_t>(ErrorFactor::kDevice)], 0.2f);
      estimates[i] = e;
    }
  }

  Explanation explain(const Kernel& kernel, const OperatingPoint& point) const override {
    return otherwise_->explain(kernel, point);
  }
  std::vector<std::string> gaps(const Kernel& kernel) const override {
    return profile_gaps(profile_, kernel, *otherwise_);
  }
  std::vector<std::string> gaps(const OperatingPoint& point) const override {
    OperatingPoint there = point;
    there.clock = Hertz();
    std::vector<std::string> found = profile_gaps(profile_, there);
    found.push_back(
        fmt::format("kernels are taken to be those of {}: a library that has others "
                    "for {} is not seen",
                    origin_name_, name_));
    return found;
  }
  std::vector<std::pair<std::string, std::string>> provenance() const override {
    auto found = profile_provenance(profile_);
    found.emplace_back("origin", origin_name_);
    return found;
  }

 private:
  /// Habitat's: the ratio of bandwidths to the power γ, that of SM clocks to 1 − γ, with γ
  /// from the arithmetic intensity against the destination's ridge point.
  double habitat(const Kernel& kernel, double seconds, Hertz clock) const {
    const double slowed = clock.value > 0 ? clock.value / here_.clock : 1;
    const double intensity = kernel.cost.flops() / std::max(1.0, kernel.cost.bytes());
    const double rate =
        slowed * here_.rate[static_cast<size_t>(
                     kernel.cost.matrix_flops > 0 ? kernel.cost.matrix_type : ElementType::kF32)];
    const double ridge = std::max(1e-9, rate / here_.bandwidth);
    const double gamma = intensity < ridge ? 1 - 0.5 * intensity / ridge : 0.5 * ridge / intensity;
    return seconds * std::pow(there_.bandwidth / here_.bandwidth, gamma) *
           std::pow(there_.sm_clocks / (slowed * here_.sm_clocks), 1 - gamma);
  }

  double scaled(const Kernel& kernel, const MeasuredProfile::Reading& reading, Hertz clock) const {
    const PhysicalTime a = profile_.physical().of(kernel, Hertz());
    const PhysicalTime b = physical_.of(kernel, clock);
    const double work_there = std::hypot(a.compute_seconds, memory_seconds(kernel, there_));
    const double work_here = std::hypot(b.compute_seconds, memory_seconds(kernel, here_));
    const double ratio = work_there > 0 ? work_here / work_there : 1;
    const double floor = std::max(a.floor_seconds, reading.overhead);
    const double working =
        std::min(std::max(0.0, reading.seconds - floor), work_there / efficiency_);
    const double waiting = std::min(reading.seconds - working, floors_ * floor);
    const double for_the_gpu = std::min(waiting, kMostOwnFloors * a.floor_seconds);
    const double clock_here = clock.value > 0 ? clock.value : here_.clock;
    return waiting - for_the_gpu + for_the_gpu * there_.clock / clock_here +
           (reading.seconds - waiting) * ratio;
  }

  double memory_seconds(const Kernel& kernel, const Resources& r) const {
    const double bytes = kernel.cost.bytes();
    return std::max(std::max(0.0, bytes - resident_ * r.cache) / r.bandwidth,
                    bytes / (kCacheBytesPerClock * r.sm_clocks));
  }

  double scaling_reach(const Kernel& kernel) const {
    const auto type = static_cast<size_t>(kernel.cost.matrix_type);
    double least = 0, most = 0;  // of waiting that does not scale at all
    const auto take = [&](double there, double here) {
      if (!(there > 0 && here > 0)) return;
      least = std::min(least, std::log(there / here));
      most = std::max(most, std::log(there / here));
    };
    take(there_.bandwidth, here_.bandwidth);
    take(there_.clock, here_.clock);
    if (kernel.cost.matrix_flops > 0) take(there_.rate[type], here_.rate[type]);
    take(there_.sm_clocks, here_.sm_clocks);
    return std::max(least_reach_, kReachPerRange * (most - least));
  }

  MeasuredProfile profile_;
  PhysicalModel physical_;
  std::unique_ptr<Predictor> otherwise_;
  std::string origin_name_, name_;
  Watts idle_;
  Resources there_, here_;
  double least_reach_;
  bool habitat_;
  double efficiency_, floors_, resident_;
};

class WaveScaling final : public KernelModel {
 public:
  bool takes_profile() const override { return true; }
  bool takes_origin() const override { return true; }
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    if (binding.profile.empty() || !binding.origin)
      throw_usage(
          "kernel model 'wave-scaling' needs a table and where it was measured: --profile "
          "FILE.csv --origin DEVICE");
    require_gpu(device);
    require_gpu(*binding.origin);
    return std::make_unique<WaveScalingPredictor>(device, *binding.origin, binding);
  }
};

const Registration<KernelModel> kWaveScaling(
    {.name = "wave-scaling",
     .summary = "a table measured on another GPU (--profile, --origin): t = waiting · clock_o / "
                "clock_d + (t_o − waiting) · W_d / W_o, W = √(compute² + memory²) of each, waiting "
                "= what t_o exceeds W_o / efficiency by; habitat=1: t_o (bw_o / bw_d)^γ (clock · "
                "SMs of o / d)^(1−γ)",
     .source = "Yu et al., Habitat - A Runtime-Based Computational Performance Predictor for Deep "
               "Neural Network Training, USENIX ATC 2021, section 3.3; γ from its roofline rule",
     .parameters =
         {{"habitat", 0, "1: the paper's own form, for comparison", true},
          {"efficiency", kEfficiency,
           "share of its peak that a kernel reaches while it does not wait", true},
          {"floors", kMostFloors,
           "waiting is at most so many times the least of its kind in the table", true},
          {"resident", kResident,
           "share of the L2 cache that keeps operands between runs of a measurement; 0 unless "
           "given for tables of tools/measure, which rotate inputs past it",
           true}}},
    [] { return std::make_unique<WaveScaling>(); });

}  // namespace
}  // namespace orrery
