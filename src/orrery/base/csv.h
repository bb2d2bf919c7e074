#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// A comma-separated table as RFC 4180 describes it: a header line, fields that
/// may be quoted with "" for a quote inside, CRLF or LF. Cells are read where they
/// lie; the table keeps its source.
class CsvTable {
 public:
  /// Throws `kInput` with line and column for an unclosed quote, a row of another
  /// width than the header, a repeated column name, no header or more than
  /// `kMostCells` fields.
  static CsvTable parse(const Source& source);
  static constexpr size_t kMostCells = size_t{1} << 26;

  size_t rows() const { return lines_.size(); }
  const std::vector<std::string>& header() const { return header_; }
  /// The column's index, or -1.
  int column(std::string_view name) const;
  /// The column's index; `kInput` naming those there are when it is missing.
  size_t required_column(std::string_view name) const;
  std::string_view at(size_t row, size_t column) const {
    return cells_[row * header_.size() + column];
  }
  int64_t line(size_t row) const { return lines_[row]; }
  /// Where that cell begins.
  SourceLocation location(size_t row, size_t column) const;

 private:
  explicit CsvTable(const Source& source)
      : source_(source), unescaped_(std::make_shared<std::deque<std::string>>()) {}

  Source source_;
  std::vector<std::string> header_;
  std::vector<std::string_view> cells_;
  /// Cells that had a doubled quote; shared, so that copies of the table view the same.
  std::shared_ptr<std::deque<std::string>> unescaped_;
  std::vector<int64_t> lines_;
  std::vector<size_t> offsets_;  ///< Of each row in the source.
};

/// A field as CSV writes it, quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace orrery
