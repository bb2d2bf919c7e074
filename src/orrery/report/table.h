#pragma once

#include <string>
#include <vector>

namespace orrery {

/// A table for people: columns as wide as their content, numbers to the right.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every line indented by `indent` spaces; no trailing blanks.
  std::string text(int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters `text` takes on a terminal: UTF-8 code points.
size_t display_width(const std::string& text);

}  // namespace orrery
