#pragma once

#include <string>

#include "orrery/api/session.h"

namespace orrery {

/// Answers as people read them in a terminal. `most` bounds the lists of kernels,
/// operations and ranks.
std::string prediction_text(const PredictAnswer& answer, const PredictRequest& request,
                            size_t most);
std::string calibration_text(const CalibrateAnswer& answer, const CalibrateRequest& request);
std::string validation_text(const ValidateAnswer& answer, const ValidateRequest& request);
std::string collective_text(const CollectiveAnswer& answer, const CollectiveRequest& request);
std::string collective_fit_text(const CollectiveFitAnswer& answer);
std::string replay_text(const ReplayAnswer& answer, const ReplayRequest& request, size_t most);
std::string inspection_text(const InspectAnswer& answer, size_t most);
std::string catalogue_text(const Catalogue& catalogue);
std::string device_text(const Catalogue& catalogue, const std::string& name,
                        const std::vector<Override>& overrides);
std::string cluster_text(const Catalogue& catalogue, const std::string& name,
                         const std::vector<Override>& overrides);
std::string models_text(const Session& session);
std::string zoo_text();

/// `lines` as a list under `title`; nothing for none.
std::string list_text(const char* title, const std::vector<std::string>& lines);

/// PredictAnswer::launch_rows as a table, `name,op,dtype,params,count,predicted_us,low_us,high_us`.
std::string launches_csv(const PredictAnswer& answer);

}  // namespace orrery
