#include "orrery/base/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace orrery {
namespace {

/// Reads records one after the other without copying what needs no unescaping.
class RecordReader {
 public:
  RecordReader(const Source& source, std::deque<std::string>& unescaped, size_t offset = 0)
      : source_(source), text_(source.text()), unescaped_(unescaped), at_(offset) {}

  size_t offset() const { return at_; }
  int64_t line() const { return line_; }

  /// Appends the next record's fields; false at the end of the text.
  bool next(std::vector<std::string_view>& fields) {
    if (at_ >= text_.size()) return false;
    fields.push_back(field());
    while (to_next_field()) fields.push_back(field());
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
    return true;
  }

  std::string_view field() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted_field();
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
      ++at_;
    return text_.substr(start, at_ - start);
  }

  bool to_next_field() {
    if (at_ >= text_.size() || text_[at_] != ',') return false;
    ++at_;
    return true;
  }

 private:
  std::string_view quoted_field() {
    const size_t opened = at_;
    size_t start = at_ + 1;
    std::string* joined = nullptr;
    std::string_view content;
    while (true) {
      const size_t quote = text_.find('"', start);
      if (quote == std::string_view::npos)
        source_.fail(opened, "a quoted field that is not closed");
      const std::string_view part = text_.substr(start, quote - start);
      line_ += std::count(part.begin(), part.end(), '\n');
      const bool doubled = quote + 1 < text_.size() && text_[quote + 1] == '"';
      if (doubled && joined == nullptr) joined = &unescaped_.emplace_back();
      if (joined == nullptr) {
        content = part;
      } else {
        joined->append(part);
        if (doubled) joined->push_back('"');
        content = *joined;
      }
      start = quote + (doubled ? 2 : 1);
      if (!doubled) break;
    }
    at_ = start;
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
      source_.fail(at_, "expected ',' or the end of the line after a quoted field");
    return content;
  }

  const Source& source_;
  std::string_view text_;
  std::deque<std::string>& unescaped_;
  size_t at_;
  int64_t line_ = 1;
};

}  // namespace

CsvTable CsvTable::parse(const Source& source) {
  CsvTable table(source);
  RecordReader reader(source, *table.unescaped_);
  std::vector<std::string_view>& cells = table.cells_;
  if (!reader.next(cells) || (cells.size() == 1 && cells[0].empty()))
    source.fail(0, "expected a header line with the columns' names");
  table.header_.assign(cells.begin(), cells.end());
  std::sort(cells.begin(), cells.end());
  if (const auto twice = std::adjacent_find(cells.begin(), cells.end()); twice != cells.end())
    source.fail(0, fmt::format("column '{}' is named twice", *twice));
  cells.clear();
  const size_t width = table.header_.size();
  while (true) {
    const size_t start = reader.offset();
    const int64_t starts_on = reader.line();
    const size_t before = cells.size();
    if (!reader.next(cells)) break;
    const size_t found = cells.size() - before;
    if (found == 1 && cells.back().empty()) {  // an empty line
      cells.pop_back();
      continue;
    }
    if (found != width)
      source.fail(start, fmt::format("{} fields, the header has {}", found, width));
    if (cells.size() > kMostCells)
      source.fail(start, fmt::format("more than {} fields in one table", kMostCells));
    table.lines_.push_back(starts_on);
    table.offsets_.push_back(start);
  }
  return table;
}

SourceLocation CsvTable::location(size_t row, size_t column) const {
  std::deque<std::string> unescaped;
  RecordReader reader(source_, unescaped, offsets_[row]);
  for (size_t i = 0; i < column; ++i) {
    reader.field();
    reader.to_next_field();
  }
  return source_.location(reader.offset());
}

int CsvTable::column(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  return found == header_.end() ? -1 : static_cast<int>(found - header_.begin());
}

size_t CsvTable::required_column(std::string_view name) const {
  const int index = column(name);
  if (index >= 0) return static_cast<size_t>(index);
  std::string known;
  for (const std::string& h : header_) known += (known.empty() ? "" : ", ") + h;
  throw Error(ErrorKind::kInput, {source_.name(), 1, 1},
              fmt::format("column '{}' is missing; there is: {}", name, known));
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace orrery
