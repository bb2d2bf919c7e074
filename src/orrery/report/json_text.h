#pragma once

#include <string>
#include <string_view>

namespace orrery {

/// `text` as a JSON string with its quotes. Bytes that are no UTF-8 are replaced, and '<'
/// is written \u003c, so that no text can end the script element of a page it stands in.
std::string json_text(std::string_view text);

}  // namespace orrery
