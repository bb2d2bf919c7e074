#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// A comma-separated table as RFC 4180 describes it: a header line, fields that
/// may be quoted with "" for a quote inside, CRLF or LF.
class CsvTable {
 public:
  /// Throws `kInput` with line and column for an unclosed quote, a row of another
  /// width than the header, a repeated column name or no header.
  static CsvTable parse(const Source& source);

  size_t rows() const { return lines_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  /// The column's index, or -1.
  int column(std::string_view name) const;
  /// The column's index; `kInput` naming those there are when it is missing.
  size_t required_column(std::string_view name) const;
  std::string_view at(size_t row, size_t column) const { return cells_[row * header_.size() + column]; }
  int64_t line(size_t row) const { return lines_[row]; }

 private:
  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::string> cells_;
  std::vector<int64_t> lines_;
};

/// A field as CSV writes it, quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace orrery
