#include "orrery/base/csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

/// Reads one record from `at` on; false at the end of the text.
bool read_record(const Source& source, size_t& at, int64_t& line,
                 std::vector<std::string>& fields) {
  const std::string_view text = source.text();
  fields.clear();
  if (at >= text.size()) return false;
  while (true) {
    std::string field;
    if (at < text.size() && text[at] == '"') {
      const size_t opened = at++;
      while (true) {
        if (at >= text.size()) source.fail(opened, "a quoted field that is not closed");
        if (text[at] == '"') {
          if (at + 1 < text.size() && text[at + 1] == '"') {
            field += '"';
            at += 2;
            continue;
          }
          ++at;
          break;
        }
        if (text[at] == '\n') ++line;
        field += text[at++];
      }
      if (at < text.size() && text[at] != ',' && text[at] != '\n' && text[at] != '\r')
        source.fail(at, "expected ',' or the end of the line after a quoted field");
    } else {
      while (at < text.size() && text[at] != ',' && text[at] != '\n' && text[at] != '\r')
        field += text[at++];
    }
    fields.push_back(std::move(field));
    if (at < text.size() && text[at] == ',') {
      ++at;
      continue;
    }
    if (at < text.size() && text[at] == '\r') ++at;
    if (at < text.size() && text[at] == '\n') ++at;
    ++line;
    return true;
  }
}

}  // namespace

CsvTable CsvTable::parse(const Source& source) {
  CsvTable table;
  table.name_ = source.name();
  size_t at = 0;
  int64_t line = 1;
  if (!read_record(source, at, line, table.header_) ||
      (table.header_.size() == 1 && table.header_[0].empty()))
    source.fail(0, "expected a header line with the columns' names");
  std::vector<std::string_view> names(table.header_.begin(), table.header_.end());
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    source.fail(0, fmt::format("column '{}' is named twice", *twice));
  std::vector<std::string> fields;
  while (true) {
    const size_t start = at;
    const int64_t starts_on = line;
    if (!read_record(source, at, line, fields)) break;
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    if (fields.size() != table.header_.size())
      source.fail(start,
                  fmt::format("{} fields, the header has {}", fields.size(), table.header_.size()));
    for (std::string& f : fields) table.cells_.push_back(std::move(f));
    table.lines_.push_back(starts_on);
  }
  return table;
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
  throw Error(ErrorKind::kInput, {name_, 1, 1},
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
