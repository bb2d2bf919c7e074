#pragma once

#include <string>

#include "orrery/api/train.h"

namespace orrery {

std::string train_text(const TrainAnswer& answer, const TrainRequest& request);

}  // namespace orrery
