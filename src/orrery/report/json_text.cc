#include "orrery/report/json_text.h"

#include <nlohmann/json.hpp>

namespace orrery {

std::string json_text(std::string_view text) {
  const std::string written =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  for (const char c : written) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace orrery
