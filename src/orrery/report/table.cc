#include "orrery/report/table.h"

#include <algorithm>

namespace orrery {

size_t display_width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string hanging(const std::string& opening, std::string_view text) {
  std::string out, left = opening;
  const size_t indent = display_width(opening);
  for (const std::string& line : wrapped(text, kTextWidth - std::min(indent, kTextWidth / 2))) {
    out += left + line + "\n";
    left.assign(indent, ' ');
  }
  return out;
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
  for (const auto& row : rows_)
    line([&](size_t i) -> const std::string& { return i < row.size() ? row[i] : kEmpty; });
  return out;
}

}  // namespace orrery
