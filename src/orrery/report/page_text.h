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

}  // namespace orrery
