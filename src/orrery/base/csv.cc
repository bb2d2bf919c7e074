#include "orrery/base/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace orrery {
namespace {

int find_column(const std::vector<std::string>& header, std::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

size_t require_column(const std::string& file, const std::vector<std::string>& header,
                      std::string_view name) {
  const int index = find_column(header, name);
  if (index >= 0) return static_cast<size_t>(index);
  std::string known;
  for (const std::string& h : header) known += (known.empty() ? "" : ", ") + h;
  throw Error(ErrorKind::kInput, {file, 1, 1},
              fmt::format("column '{}' is missing; there is: {}", name, known));
}

/// Spreadsheets write it before UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Characters that are looked at together.
constexpr size_t kTogether = sizeof(uint64_t);

/// How many of them come before the first quote.
size_t before_quote(uint64_t characters) {
  static_assert(std::endian::native == std::endian::little, "the first character is the lowest");
  constexpr uint64_t kEach = 0x0101010101010101;
  const uint64_t differing = characters ^ kEach * '"';
  // Of a zero byte, and of none below the first of them, the highest bit is set.
  const uint64_t quotes = (differing - kEach) & ~differing & kEach << 7;
  return static_cast<size_t>(std::countr_zero(quotes)) / 8;
}

bool ends_field(char c) { return c == ',' || c == '\n' || c == '\r'; }

}  // namespace

CsvReader::CsvReader(const Source& source)
    : source_(source),
      at_(source_.text().data()),
      end_(source_.text().data() + source_.text().size()) {
  if (source_.text().starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
  if (!read_record() || (field_count_ == 1 && fields_[0].length == 0))
    source_.fail(0, "expected a header line with the columns' names");
  for (size_t c = 0; c < field_count_; ++c) header_.emplace_back(field(c));
  std::vector<std::string_view> names(header_.begin(), header_.end());
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    source_.fail(0, fmt::format("column '{}' is named twice", *twice));
}

int CsvReader::column(std::string_view name) const { return find_column(header_, name); }

size_t CsvReader::required_column(std::string_view name) const {
  return require_column(source_.name(), header_, name);
}

bool CsvReader::next() {
  do {
    if (!read_record()) return false;
  } while (field_count_ == 1 && fields_[0].length == 0);
  if (field_count_ != header_.size())
    fail(record_.data(), fmt::format("{} fields, the header has {}", field_count_, header_.size()));
  return true;
}

SourceLocation CsvReader::location(size_t column) const {
  // Not from the file's beginning: of a long table every row may be asked.
  const char* const start = fields_[column].start;
  const std::string_view before(record_.data(), static_cast<size_t>(start - record_.data()));
  const size_t newline = before.rfind('\n');
  const size_t on_its_line =
      newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return {source_.name(), record_line_ + std::count(before.begin(), before.end(), '\n'),
          static_cast<int64_t>(on_its_line) + 1};
}

void CsvReader::fail(const char* at, std::string message) const {
  source_.fail(static_cast<size_t>(at - source_.text().data()), std::move(message));
}

bool CsvReader::read_record() {
  if (at_ == end_) return false;
  const char* at = at_;
  record_line_ = line_;
  field_count_ = 0;
  unescaped_size_ = 0;
  while (true) {
    // Fields beyond the header's are counted, not kept: their row is refused.
    if (field_count_ == fields_.size() && header_.empty()) fields_.emplace_back();
    Field& field = fields_[std::min(field_count_++, fields_.size() - 1)];
    field.start = at;
    if (at != end_ && *at == '"') {
      at = read_quoted(at, field);
      if (at != end_ && !ends_field(*at))
        fail(at, "expected ',' or the end of the line after a quoted field");
    } else {
      field.begin = at;
      while (at != end_ && !ends_field(*at)) ++at;
      field.length = static_cast<size_t>(at - field.begin);
    }
    if (at == end_ || *at != ',') break;
    ++at;
  }
  record_ = {at_, static_cast<size_t>(at - at_)};
  if (at != end_ && *at == '\r') ++at;
  if (at != end_ && *at == '\n') ++at;
  ++line_;
  at_ = at;
  return true;
}

const char* CsvReader::read_quoted(const char* at, Field& field) {
  const char* const opened = at++;
  const char* const end = end_;  // kept in registers: characters written could change members
  size_t size = unescaped_size_, room = unescaped_.size();
  char* text = unescaped_.data();
  while (at != end) {
    if (room - size <= kTogether) {
      room = 2 * room + 256;
      unescaped_.resize(room);
      text = unescaped_.data();
    }
    size_t plain = *at == '"' ? 0 : 1;
    if (static_cast<size_t>(end - at) >= kTogether) {
      uint64_t together = 0;
      std::memcpy(&together, at, kTogether);
      std::memcpy(text + size, &together, kTogether);
      plain = before_quote(together);
    } else {
      text[size] = *at;
    }
    at += plain;
    size += plain;
    if (at == end || *at != '"') continue;
    if (++at == end || *at != '"') {
      field = {opened, nullptr, unescaped_size_, size - unescaped_size_};
      unescaped_size_ = size;
      if (std::memchr(opened, '\n', static_cast<size_t>(at - opened)) != nullptr)
        line_ += std::count(opened, at, '\n');
      return at;
    }
    text[size++] = *at++;
  }
  fail(opened, "a quoted field that is not closed");
}

CsvTable CsvTable::parse(const Source& source) {
  CsvReader reader(source);
  CsvTable table;
  table.name_ = source.name();
  table.header_ = reader.header();
  while (reader.next()) {
    for (size_t c = 0; c < table.header_.size(); ++c) table.cells_.emplace_back(reader.field(c));
    table.lines_.push_back(reader.line());
  }
  return table;
}

int CsvTable::column(std::string_view name) const { return find_column(header_, name); }

size_t CsvTable::required_column(std::string_view name) const {
  return require_column(name_, header_, name);
}

std::string csv_field(std::string_view text) {
  // A mark at the beginning of a file would be passed over.
  if (text.find_first_of(",\"\n\r") == std::string_view::npos && !text.starts_with(kByteOrderMark))
    return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace orrery
