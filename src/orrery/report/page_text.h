#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery {

/// `text` as the content of an element or of a quoted attribute.
std::string html_text(std::string_view text);

/// `page` with each marker replaced by its text; markers stand in it once and in this order.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& markers);

/// A share of a width: "12.50%".
std::string percent(double part, double whole);

/// A table; cells that say DOES NOT FIT stand out.
std::string table_html(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows);

/// A section with a list; nothing for an empty one.
std::string list_html(const std::string& title, const std::vector<std::string>& lines);

}  // namespace orrery
