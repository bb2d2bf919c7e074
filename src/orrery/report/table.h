#pragma once

#include <string>
#include <string_view>
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

/// How wide running text is made, in characters.
inline constexpr size_t kTextWidth = 100;

/// `text` broken at spaces into lines of at most `width` characters; a longer word
/// stands alone.
std::vector<std::string> wrapped(std::string_view text, size_t width);

/// `text` wrapped to `kTextWidth` behind `opening`, further lines indented as far.
std::string hanging(const std::string& opening, std::string_view text);

}  // namespace orrery
