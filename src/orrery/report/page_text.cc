#include "orrery/report/page_text.h"

#include <fmt/format.h>

#include "orrery/base/error.h"

namespace orrery {

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& markers) {
  std::string written;
  for (const auto& [marker, text] : markers) {
    const size_t at = page.find(marker);
    if (at == std::string_view::npos) throw_internal(fmt::format("the page lacks {}", marker));
    written += page.substr(0, at);
    written += text;
    page.remove_prefix(at + marker.size());
  }
  return written + std::string(page);
}

}  // namespace orrery
