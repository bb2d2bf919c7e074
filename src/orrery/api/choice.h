#pragma once

#include <memory>
#include <string>

#include "orrery/api/session.h"

namespace orrery {

/// The chosen model bound to `device`. Throws `kUsage` for a model, an origin or a parameter
/// that is not known, and for what the model does not take.
std::unique_ptr<Predictor> bind_choice(const ModelChoice& choice, const Device& device,
                                       const std::string& stack, const std::string& data_folder,
                                       const Catalogue& catalogue);

}  // namespace orrery
