#pragma once

#include <map>
#include <memory>
#include <string>

#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"

namespace orrery {

/// Which model times kernels, and what of the user's own it rests on.
struct ModelChoice {
  std::string kernel_model = "auto";
  std::string fit;                           ///< A file with a fit, for models that take one.
  std::string profile;                       ///< A measured table, for profile and wave-scaling.
  std::string origin;                        ///< The device it was measured on, for wave-scaling.
  std::map<std::string, double> parameters;  ///< Of the model, by name.
};

/// The chosen model bound to `device`. Throws `kUsage` for a model, an origin or a parameter
/// that is not known, and for what the model does not take.
std::unique_ptr<Predictor> bind_choice(const ModelChoice& choice, const Device& device,
                                       const std::string& stack, const std::string& data_folder,
                                       const Catalogue& catalogue);

/// Throws `kUsage` for a fixed clock that `device` cannot have (kernel/clock_range.h).
void require_clock(const OperatingPoint& point, const Device& device);

}  // namespace orrery
