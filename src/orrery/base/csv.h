#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// Reads a comma-separated table as RFC 4180 describes it, record after record: a
/// header line, fields that may be quoted with "" for a quote inside, CRLF or LF.
/// Fields point into the source, quoted ones into a buffer, so that a table of any
/// length takes the memory of one record. A byte-order mark before the header is passed over.
///
///     CsvReader reader(source);
///     const size_t op = reader.required_column("op");
///     while (reader.next()) use(reader.field(op));
///
/// Throws `kInput` with line and column for an unclosed quote, a row of another
/// width than the header, a repeated column name or no header.
class CsvReader {
 public:
  /// Reads the header.
  explicit CsvReader(const Source& source);

  const std::vector<std::string>& header() const { return header_; }
  /// The column's index, or -1.
  int column(std::string_view name) const;
  /// The column's index; `kInput` naming those there are when it is missing.
  size_t required_column(std::string_view name) const;

  /// Goes to the next record, past empty lines; false at the end.
  bool next();
  /// Of the current record, until the next call of `next`.
  std::string_view field(size_t column) const {
    const Field& f = fields_[column];
    return {f.begin == nullptr ? unescaped_.data() + f.offset : f.begin, f.length};
  }
  /// The current record as it is written, without its end of line; it points into the source.
  std::string_view record() const { return record_; }
  /// The line the current record begins on.
  int64_t line() const { return record_line_; }
  /// Where the current record's field begins.
  SourceLocation location(size_t column) const;

 private:
  struct Field {
    const char* start = nullptr;  ///< In the source, an opening quote included.
    const char* begin = nullptr;  ///< Null: in the buffer.
    size_t offset = 0;            ///< Then where.
    size_t length = 0;
  };
  bool read_record();
  const char* read_quoted(const char* at, Field& field);
  [[noreturn]] void fail(const char* at, std::string message) const;

  Source source_;
  const char* at_;
  const char* end_;
  int64_t line_ = 1;
  std::vector<std::string> header_;
  std::vector<Field> fields_;
  size_t field_count_ = 0;
  std::string unescaped_;      ///< The record's quoted fields, one behind the other …
  size_t unescaped_size_ = 0;  ///< … in so many characters.
  std::string_view record_;
  int64_t record_line_ = 0;
};

/// A whole table in memory.
class CsvTable {
 public:
  /// Throws as `CsvReader` does.
  static CsvTable parse(const Source& source);

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

 private:
  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::string> cells_;
  std::vector<int64_t> lines_;
};

/// A field as CSV writes it, quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace orrery
