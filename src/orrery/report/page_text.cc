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

std::string percent(double part, double whole) {
  return fmt::format("{:.2f}%", whole > 0 ? 100 * part / whole : 0);
}

std::string table_html(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><thead><tr>";
  for (const std::string& head : heads) html += "<th>" + html_text(head) + "</th>";
  html += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row)
      html += fmt::format("<td{}>{}</td>", cell == "DOES NOT FIT" ? " class=\"bad\"" : "",
                          html_text(cell));
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

std::string list_html(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string html = fmt::format("  <section>\n    <h2>{}</h2>\n    <ul>", html_text(title));
  for (const std::string& line : lines) html += "<li>" + html_text(line) + "</li>";
  return html + "</ul>\n  </section>\n";
}

}  // namespace orrery
