#include "orrery/report/table.h"

#include <algorithm>

namespace orrery {

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Table::text(int indent) const {
  std::vector<size_t> widths;
  for (const Column& c : columns_) widths.push_back(display_width(c.title));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));

  std::string out;
  const auto line = [&](auto&& cell) {
    std::string text(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& content = cell(i);
      const std::string space(widths[i] - display_width(content), ' ');
      if (i > 0) text += "  ";
      text += columns_[i].align == Align::kRight ? space + content : content + space;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  static const std::string kEmpty;
  line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](size_t i) -> const std::string& { return i < row.size() ? row[i] : kEmpty; });
  return out;
}

}  // namespace orrery
