#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/registry.h"
#include "orrery/hardware/device.h"
#include "orrery/kernel/estimate.h"
#include "orrery/kernel/kernel.h"

namespace orrery {

/// Under which conditions a kernel runs; clocks follow power, so time does too.
struct OperatingPoint {
  enum class Regime { kBurst, kSustained };
  Regime regime = Regime::kBurst;
  Hertz clock;  ///< Fixed compute clock; 0: what the regime gives.
  /// Kernels wait in a queue for each other: what a fit's measurements hold of the host is left
  /// out.
  bool queued = false;
  /// What the card that all others wait for draws over what a usual one does at the same work; for
  /// steps that settle.
  double draw = 1;
};

/// One operating point for all kernels of a batch, or one for each. Refers to what
/// it was made from.
class OperatingPoints {
 public:
  OperatingPoints() : OperatingPoints(kAny) {}
  // NOLINTNEXTLINE(google-explicit-constructor): one point is the usual case.
  OperatingPoints(const OperatingPoint& all) : points_(&all), step_(0) {}
  explicit OperatingPoints(std::span<const OperatingPoint> each) : points_(each.data()), step_(1) {}

  const OperatingPoint& operator[](size_t kernel) const { return points_[kernel * step_]; }

 private:
  static constexpr OperatingPoint kAny{};
  const OperatingPoint* points_;
  size_t step_;
};

/// Why an estimate is what it is.
struct Explanation {
  std::string bound;  ///< "compute", "memory", "special functions", "latency"
};

/// Where a step of many kernels settles when it is run again and again.
struct StepState {
  Hertz clock;  ///< 0: not known, and times are as they were.
  Joules energy;
  std::string gap = {};  ///< What of the power limit is not met, as a sentence; empty: nothing.
};

/// A kernel model bound to one device and stack. Thread-safe; the same question has the
/// same answer.
class Predictor {
 public:
  virtual ~Predictor() = default;
  /// Of the model that answers: `auto` binds another.
  virtual std::string_view name() const = 0;
  /// Estimates for a batch of kernels, launch gaps left out.
  virtual void predict(std::span<const Kernel> kernels, OperatingPoints points,
                       std::span<Estimate> estimates) const = 0;
  /// Moves the times of a step's kernels, each run `counts` times, from those of a cool burst to
  /// the clock that somebody fixed, or else that the step's mean power allows; `idle` is what the
  /// step takes beside them. With `OperatingPoint::draw`, times and clock are those of the card
  /// that draws most, the energy is that of a usual one, which waits for it.
  virtual StepState settle(std::span<const Kernel> kernels, std::span<const double> counts,
                           Seconds idle, const OperatingPoint& point,
                           std::span<Estimate> estimates) const {
    (void)idle;
    if (point.clock.value > 0) predict(kernels, point, estimates);
    StepState state;
    for (size_t i = 0; i < estimates.size(); ++i) state.energy += estimates[i].joules * counts[i];
    return state;
  }
  virtual Explanation explain(const Kernel& kernel, const OperatingPoint& point) const = 0;
  /// What this device or kernel lacks for a sound answer, for `gaps`.
  virtual std::vector<std::string> gaps(const Kernel& kernel) const = 0;
  /// What of the operating point it cannot follow.
  virtual std::vector<std::string> gaps(const OperatingPoint& point) const = 0;
  /// What beside the device its answers rest on, by name, for `provenance`.
  virtual std::vector<std::pair<std::string, std::string>> provenance() const { return {}; }
};

/// What beside the device a model is bound to.
struct Binding {
  std::string stack = {};    ///< The software whose kernels run.
  std::string fit = {};      ///< A file with a fit of the user's own; empty: what is shipped.
  std::string data = {};     ///< The folder of what is shipped; empty: `fitted_data_folder()`.
  std::string profile = {};  ///< A measured table of the user's own.
  std::optional<Device> origin = {};       ///< Where the profile was measured, if elsewhere.
  std::map<std::string, double> set = {};  ///< Settable parameters that differ from their default.

  double parameter(const std::string& name, double otherwise) const {
    const auto at = set.find(name);
    return at == set.end() ? otherwise : at->second;
  }
};

/// A registered way to predict kernels: `Registry<KernelModel>`.
class KernelModel {
 public:
  virtual ~KernelModel() = default;
  virtual std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const = 0;
  virtual bool takes_profile() const { return false; }
  virtual bool takes_origin() const { return false; }
};

}  // namespace orrery
