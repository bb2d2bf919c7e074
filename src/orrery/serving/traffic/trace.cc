#include "orrery/serving/traffic/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "orrery/base/csv.h"
#include "orrery/base/error.h"

namespace orrery {
namespace {

constexpr double kLatest = 1e12;  ///< Seconds; thirty thousand years.

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || at != end || text.empty()) return std::nullopt;
  return value;
}

std::optional<int32_t> token_count(double value) {
  if (!(value >= 1 && value <= static_cast<double>(kLongestRequest)) || value != std::floor(value))
    return std::nullopt;
  return static_cast<int32_t>(value);
}

/// Days from 1970-01-01 in the Gregorian calendar.
int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = year / 400;
  const int64_t of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/// "2023-11-16 18:15:46.6805900", with a T between and a time zone behind if need be; the zone is
/// not looked at.
std::optional<double> date_and_time(std::string_view text) {
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto part = [&](size_t begin, size_t size, double least, double most) -> double {
    for (size_t i = begin; i < begin + size; ++i)
      if (text[i] < '0' || text[i] > '9') return NAN;
    const double value = *number(text.substr(begin, size));
    return value >= least && value <= most ? value : NAN;
  };
  const double year = part(0, 4, 1970, 9999);
  const double month = part(5, 2, 1, 12);
  const double day = part(8, 2, 1, 31);
  double seconds = part(11, 2, 0, 23) * 3600 + part(14, 2, 0, 59) * 60 + part(17, 2, 0, 60);
  if (std::isnan(year + month + day + seconds)) return std::nullopt;
  size_t end = 19;
  if (end < text.size() && text[end] == '.') {
    ++end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    seconds += number(fmt::format("0{}", text.substr(19, end - 19))).value_or(0);
  }
  const std::string_view zone = text.substr(end);
  if (!zone.empty() && zone[0] != '+' && zone[0] != '-' && zone[0] != 'Z') return std::nullopt;
  return static_cast<double>(days_from_civil(
             static_cast<int64_t>(year), static_cast<int64_t>(month), static_cast<int64_t>(day))) *
             86400 +
         seconds;
}

/// Sorts by time, keeping the order of the file among equals, and begins at 0.
void set_in_order(Trace& trace) {
  std::stable_sort(trace.rows.begin(), trace.rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.arrival < b.arrival; });
  if (trace.rows.empty()) return;
  const Seconds first = trace.rows.front().arrival;
  for (TraceRow& row : trace.rows) row.arrival = row.arrival - first;
}

/// Names of times in seconds, or date and time.
constexpr std::array<std::string_view, 5> kTimes = {"arrived_at", "arrival_s", "arrival_time",
                                                    "arrival", "timestamp"};

int first_column(const CsvReader& reader, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const int column = reader.column(name); column >= 0) return column;
  return -1;
}

/// Whoever wrote the table, and however they write.
int time_column(const CsvReader& reader) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const std::string_view name : kTimes)
    for (size_t i = 0; i < reader.header().size(); ++i)
      if (std::ranges::equal(trimmed(reader.header()[i]), name, {}, small))
        return static_cast<int>(i);
  return -1;
}

std::optional<int32_t> whole_number(double value) {
  constexpr double kMost = 1 << 30;
  if (!(value >= -kMost && value <= kMost) || value != std::floor(value)) return std::nullopt;
  return static_cast<int32_t>(value);
}

Trace read_csv(const Source& source) {
  CsvReader reader(source);
  const int time = time_column(reader);
  const int priority = first_column(reader, {"priority"});
  const int prompt = first_column(reader, {"num_prefill_tokens", "ContextTokens", "input_tokens"});
  const int output =
      first_column(reader, {"num_decode_tokens", "GeneratedTokens", "output_tokens"});
  if (prompt < 0 || output < 0)
    throw Error(ErrorKind::kInput, {source.name(), 1, 1},
                "a table of requests has the columns num_prefill_tokens and num_decode_tokens, "
                "and arrived_at in seconds");
  Trace trace;
  trace.timed = time >= 0;
  const auto tokens = [&](int column) {
    const auto at = static_cast<size_t>(column);
    const std::optional<double> value = number(trimmed(reader.field(at)));
    const std::optional<int32_t> count = value ? token_count(*value) : std::nullopt;
    if (!count)
      throw Error(ErrorKind::kInput, reader.location(at),
                  fmt::format("expected a number of tokens, 1 or more, found '{}'",
                              reader.field(at).substr(0, 40)));
    return *count;
  };
  while (reader.next()) {
    TraceRow row;
    if (time >= 0) {
      const auto at = static_cast<size_t>(time);
      const std::string_view text = trimmed(reader.field(at));
      std::optional<double> value = date_and_time(text);
      if (!value) value = number(text);
      if (!value || !(*value >= 0 && *value <= kLatest))
        throw Error(ErrorKind::kInput, reader.location(at),
                    fmt::format("expected seconds, 0 or more, or a date and time, found '{}'",
                                text.substr(0, 40)));
      row.arrival = Seconds(*value);
    }
    row.lengths = {tokens(prompt), tokens(output)};
    if (priority >= 0) {
      const auto at = static_cast<size_t>(priority);
      const std::optional<double> value = number(trimmed(reader.field(at)));
      const std::optional<int32_t> whole = value ? whole_number(*value) : std::nullopt;
      if (!whole)
        throw Error(ErrorKind::kInput, reader.location(at),
                    fmt::format("expected a priority, a whole number, found '{}'",
                                reader.field(at).substr(0, 40)));
      row.priority = *whole;
    }
    trace.rows.push_back(row);
  }
  return trace;
}

constexpr size_t kBytesOfToken = 4;

/// Tokens of a text by its bytes.
int32_t tokens_of(std::string_view text) {
  return static_cast<int32_t>(std::min<size_t>(
      std::max<size_t>(1, (text.size() + kBytesOfToken - 1) / kBytesOfToken), kLongestRequest));
}

/// The object of one request.
class JsonRequest {
 public:
  JsonRequest(const Source& source, size_t begin, std::string_view line)
      : source_(source), begin_(begin) {
    try {
      object_ = nlohmann::json::parse(line);
    } catch (const nlohmann::json::parse_error& e) {
      source_.fail(begin_ + std::min(line.size(), e.byte == 0 ? 0 : e.byte - 1),
                   "expected a JSON object of one request");
    } catch (const nlohmann::json::out_of_range&) {
      source_.fail(begin_, "a number that is too large");
    }
    if (!object_.is_object()) source_.fail(begin_, "expected a JSON object of one request");
  }

  /// The first of the members that is there.
  std::optional<double> find(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const auto at = object_.find(name);
      if (at == object_.end()) continue;
      if (!at->is_number()) source_.fail(begin_, fmt::format("'{}' is not a number", name));
      return at->get<double>();
    }
    return std::nullopt;
  }

  /// A number, or the tokens of the first of `texts` that is there.
  int32_t tokens(std::initializer_list<std::string_view> names,
                 std::initializer_list<std::string_view> texts) {
    const std::optional<double> value = find(names);
    if (!value) {
      for (const std::string_view name : texts)
        if (const auto at = object_.find(name); at != object_.end() && at->is_string()) {
          counted_ = true;
          return tokens_of(at->get_ref<const std::string&>());
        }
      source_.fail(begin_, fmt::format("expected a number of tokens as '{}', or text as '{}'",
                                       *names.begin(), *texts.begin()));
    }
    const std::optional<int32_t> count = token_count(*value);
    if (!count)
      source_.fail(begin_, fmt::format("'{}' must be a number of tokens, 1 or more, not {}",
                                       *names.begin(), *value));
    return *count;
  }

  std::optional<Seconds> time() const {
    std::optional<double> value = find({"arrival_s", "arrived_at", "arrival_time", "arrival"});
    if (const std::optional<double> ms = find({"timestamp"}); !value && ms) value = *ms * 1e-3;
    if (const std::optional<double> ns = find({"arrival_time_ns"}); !value && ns)
      value = *ns * 1e-9;
    if (!value) return std::nullopt;
    if (!(*value >= 0 && *value <= kLatest)) source_.fail(begin_, "a time is 0 or more");
    return Seconds(*value);
  }

  /// Nothing of a conversation in which nobody answers.
  std::optional<RequestLengths> lengths() {
    for (const char* name : {"conversations", "conversation"})
      if (const auto talk = object_.find(name); talk != object_.end()) return first_turns(*talk);
    return RequestLengths{tokens({"prompt_len", "input_tokens", "input_length", "input_toks"},
                                 {"prompt", "input", "instruction"}),
                          tokens({"output_len", "expected_output_len", "output_tokens",
                                  "output_length", "output_toks"},
                                 {"output", "completion", "response"})};
  }
  bool counted() const { return counted_; }
  int32_t priority() const {
    const std::optional<double> value = find({"priority"});
    if (!value) return 0;
    const std::optional<int32_t> whole = whole_number(*value);
    if (!whole) source_.fail(begin_, "'priority' is not a whole number");
    return *whole;
  }

 private:
  std::optional<RequestLengths> first_turns(const nlohmann::json& talk) {
    if (!talk.is_array()) source_.fail(begin_, "expected a conversation as an array of turns");
    if (talk.size() < 2) return std::nullopt;
    counted_ = true;
    return RequestLengths{turn(talk[0]), turn(talk[1])};
  }
  int32_t turn(const nlohmann::json& turn) const {
    for (const char* name : {"value", "content", "text"})
      if (turn.is_object())
        if (const auto text = turn.find(name); text != turn.end() && text->is_string())
          return tokens_of(text->get_ref<const std::string&>());
    source_.fail(begin_, "expected a turn of a conversation with its text as 'value'");
  }

  const Source& source_;
  size_t begin_;
  nlohmann::json object_;
  bool counted_ = false;
};

/// Takes down one request after the other.
class JsonTrace {
 public:
  explicit JsonTrace(const Source& source) : source_(source) {}

  void add(size_t begin, size_t end) {
    JsonRequest json(source_, begin, source_.text().substr(begin, end - begin));
    const std::optional<RequestLengths> lengths = json.lengths();
    if (!lengths) {
      ++trace_.unanswered;
      return;
    }
    TraceRow row;
    row.lengths = *lengths;
    row.priority = json.priority();
    const std::optional<Seconds> time = json.time();
    if (!trace_.rows.empty() && time.has_value() != trace_.timed)
      source_.fail(begin, "some requests have a time and others have none");
    trace_.timed = time.has_value();
    trace_.counted = trace_.counted || json.counted();
    row.arrival = time.value_or(Seconds(0));
    trace_.rows.push_back(row);
  }
  Trace take() { return std::move(trace_); }

 private:
  const Source& source_;
  Trace trace_;
};

Trace read_json_lines(const Source& source) {
  JsonTrace trace(source);
  const std::string_view text = source.text();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (text.substr(begin, end - begin).find_first_not_of(" \t\r") != std::string_view::npos)
      trace.add(begin, end);
    begin = end + 1;
  }
  return trace.take();
}

/// Where the value that begins here ends: at the comma or bracket that follows it.
size_t end_of_element(std::string_view text, size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == ',' || c == ']') && depth == 0) {
      return at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return text.size();
}

/// One object after the other: such files are too large to be held as a whole.
Trace read_json_array(const Source& source, size_t begin) {
  JsonTrace trace(source);
  const std::string_view text = source.text();
  const auto next = [&](size_t at) {
    return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
  };
  size_t at = next(begin + 1);
  const bool empty = at < text.size() && text[at] == ']';
  while (!empty) {
    const size_t end = end_of_element(text, at);
    trace.add(at, end);
    if (end == text.size()) source.fail(end, "expected , or ] after a request");
    at = next(end + 1);
    if (text[end] == ']') break;
  }
  if (!empty && at < text.size()) source.fail(at, "expected nothing after the array of requests");
  return trace.take();
}

class Replay final : public RequestSource {
 public:
  Replay(std::shared_ptr<const Trace> trace, const TraceReplay& replay)
      : trace_(std::move(trace)),
        speed_(replay.speed),
        left_(replay.count > 0 ? replay.count : static_cast<int64_t>(trace_->rows.size())) {
    const auto rows = static_cast<double>(trace_->rows.size());
    // A trace that begins again does so after a gap like the others.
    const double last = trace_->rows.back().arrival.value;
    period_ = rows > 1 ? last * rows / (rows - 1) : 0;
  }

  Seconds next_arrival() const override {
    if (left_ == 0) return kNever;
    const double time = period_ * static_cast<double>(rounds_) + trace_->rows[next_].arrival.value;
    return Seconds(time / speed_);
  }

  Request take() override {
    Request request;
    request.arrival = next_arrival();
    const RequestLengths& lengths = trace_->rows[next_].lengths;
    request.prompt = lengths.prompt;
    request.output = lengths.output;
    request.priority = trace_->rows[next_].priority;
    --left_;
    if (++next_ == trace_->rows.size()) {
      next_ = 0;
      ++rounds_;
    }
    return request;
  }

 private:
  std::shared_ptr<const Trace> trace_;
  double speed_;
  int64_t left_;
  double period_ = 0;
  size_t next_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace

std::vector<std::string> Trace::gaps(bool arrivals) const {
  std::vector<std::string> gaps;
  if (arrivals && !timed)
    gaps.emplace_back("the table does not say when requests came: they all come at once");
  if (counted)
    gaps.emplace_back(fmt::format(
        "tokens of the table's text were not counted but guessed: {} bytes each", kBytesOfToken));
  if (unanswered > 0)
    gaps.emplace_back(
        fmt::format("{} conversations of the table without an answer were left out", unanswered));
  return gaps;
}

Trace read_trace(const Source& source) {
  const size_t first = source.text().find_first_not_of(" \t\r\n");
  const char begins = first != std::string_view::npos ? source.text()[first] : ' ';
  Trace trace = begins == '{'   ? read_json_lines(source)
                : begins == '[' ? read_json_array(source, first)
                                : read_csv(source);
  if (trace.rows.empty()) throw_input(source.name(), "there are no requests");
  set_in_order(trace);
  return trace;
}

std::unique_ptr<RequestSource> make_replay(std::shared_ptr<const Trace> trace,
                                           const TraceReplay& replay) {
  if (trace == nullptr || trace->rows.empty()) throw_usage("there are no requests");
  if (!(replay.speed > 0 && replay.speed <= 1e9))
    throw_usage(fmt::format("speed of a trace must be more than 0, not {}", replay.speed));
  if (replay.count < 0)
    throw_usage(fmt::format("number of requests must be 1 or more, not {}", replay.count));
  return std::make_unique<Replay>(std::move(trace), replay);
}

std::vector<RequestLengths> lengths_of(const Trace& trace) {
  std::vector<RequestLengths> lengths;
  lengths.reserve(trace.rows.size());
  for (const TraceRow& row : trace.rows) lengths.push_back(row.lengths);
  return lengths;
}

}  // namespace orrery
