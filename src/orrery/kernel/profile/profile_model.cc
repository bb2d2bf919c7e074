#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "orrery/kernel/profile/measured_estimate.h"
#include "orrery/kernel/profile/measured_profile.h"
#include "orrery/kernel/profile/physical_time.h"

namespace orrery {
namespace {

class ProfilePredictor final : public Predictor {
 public:
  ProfilePredictor(const Device& device, const Binding& binding)
      : profile_(device.as_described ? *device.as_described : device, binding.profile),
        otherwise_(without_profile(device, binding)),
        idle_(device.idle_power) {
    if (device.as_described) what_if_.emplace(*device.as_described, device);
  }

  std::string_view name() const override { return "profile"; }

  void predict(std::span<const Kernel> kernels, OperatingPoints points,
               std::span<Estimate> estimates) const override {
    otherwise_->predict(kernels, points, estimates);
    for (size_t i = 0; i < kernels.size(); ++i)
      if (const auto reading = profile_.find(kernels[i], points[i])) {
        estimates[i] = measured_estimate(*reading, estimates[i], idle_);
        if (what_if_) estimates[i].seconds = estimates[i].seconds * moved(kernels[i], points[i]);
      }
  }

  Explanation explain(const Kernel& kernel, const OperatingPoint& point) const override {
    return otherwise_->explain(kernel, point);
  }

  std::vector<std::string> gaps(const Kernel& kernel) const override {
    return profile_gaps(profile_, kernel, *otherwise_);
  }
  std::vector<std::string> gaps(const OperatingPoint& point) const override {
    return profile_gaps(profile_, point);
  }
  std::vector<std::pair<std::string, std::string>> provenance() const override {
    return profile_provenance(profile_);
  }

 private:
  /// Rows were measured on the device as it is: a what-if moves them as it moves the physical
  /// estimate.
  double moved(const Kernel& kernel, const OperatingPoint& point) const {
    const double before = what_if_->first.of(kernel, point.clock).seconds;
    return before > 0 ? what_if_->second.of(kernel, point.clock).seconds / before : 1;
  }

  MeasuredProfile profile_;
  std::unique_ptr<Predictor> otherwise_;
  Watts idle_;
  std::optional<std::pair<PhysicalModel, PhysicalModel>> what_if_;  // before, and with it
};

class Profile final : public KernelModel {
 public:
  bool takes_profile() const override { return true; }
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    if (binding.profile.empty())
      throw_usage("kernel model 'profile' needs a measured table: --profile FILE.csv");
    return std::make_unique<ProfilePredictor>(device, binding);
  }
};

const Registration<KernelModel> kProfile(
    {.name = "profile",
     .summary = "your own measured table (--profile): a measured kernel's median time; else "
                "physical estimate / utilisation, ln utilisation = Σ w ln u / Σ w over the 8 "
                "nearest rows of the same kind, w = (d² + 0.01)^-3/2 in octaves of size; kinds "
                "that the table lacks as auto has them without it",
     .source = "Shepard, A two-dimensional interpolation function for irregularly-spaced data, ACM "
               "1968",
     .parameters = {}},
    [] { return std::make_unique<Profile>(); });

}  // namespace
}  // namespace orrery
