#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "orrery/api/session.h"

namespace orrery {

/// Keys in the order they were added.
using JsonAnswer = nlohmann::ordered_json;

inline std::string write(const JsonAnswer& json) {
  // Text from a user's file may hold any bytes: replace what is no UTF-8.
  return json.dump(2, ' ', false, JsonAnswer::error_handler_t::replace);
}

/// "orrery.predict/1"
inline JsonAnswer schema(const char* name) {
  return fmt::format("orrery.{}/{}", name, kSchemaVersion);
}

/// Parts that answers about training share (train.cc).
JsonAnswer strategy_json(const Strategy& strategy);
JsonAnswer breakdown_json(const StepEstimate& estimate);

/// Of an engine (serving_json.cc).
JsonAnswer layout_json(const ServingLayout& layout);

}  // namespace orrery
