#include "orrery/api/model_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/clock_range.h"

namespace orrery {
namespace {

void refuse_unknown_parameters(const ModelChoice& choice, const Description& model) {
  std::vector<std::string> known;
  for (const Parameter& p : model.parameters)
    if (p.settable) known.push_back(p.name);
  for (const auto& [name, value] : choice.parameters) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (known.empty())
      throw_usage(fmt::format("kernel model '{}' has no parameter that can be set", model.name));
    throw_usage(fmt::format("kernel model '{}' has no parameter '{}' that can be set{}", model.name,
                            name, suggestion(name, known)));
  }
}

}  // namespace

void require_clock(const OperatingPoint& point, const Device& device) {
  const double mhz = point.clock.value / 1e6;
  const ClockRange clocks = clock_range(device);
  if (point.clock.value != 0 && !clocks.has(mhz)) throw_usage("sm_mhz: " + clocks.refusal(mhz));
}

std::unique_ptr<Predictor> bind_choice(const ModelChoice& choice, const Device& device,
                                       const std::string& stack, const std::string& data_folder,
                                       const Catalogue& catalogue) {
  const auto& entry = Registry<KernelModel>::instance().at(choice.kernel_model, "kernel model");
  const auto model = entry.create();
  if (!choice.profile.empty() && !model->takes_profile())
    throw_usage(fmt::format("kernel model '{}' takes no profile; 'profile' and 'wave-scaling' do",
                            choice.kernel_model));
  if (!choice.origin.empty() && !model->takes_origin())
    throw_usage(
        fmt::format("kernel model '{}' takes no origin; 'wave-scaling' does", choice.kernel_model));
  refuse_unknown_parameters(choice, entry.description);
  Binding binding;
  binding.stack = stack;
  binding.fit = choice.fit;
  binding.data = data_folder;
  binding.profile = choice.profile;
  if (!choice.origin.empty()) binding.origin = catalogue.device(choice.origin);
  binding.set = choice.parameters;
  return model->bind(device, binding);
}

}  // namespace orrery
