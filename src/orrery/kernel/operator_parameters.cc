#include "orrery/kernel/operator_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "orrery/base/nearest.h"

namespace orrery {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 40;
constexpr size_t kLongestQuote = 80;

constexpr std::array<std::string_view, kParameterCount> kNames = {
#define ORRERY_PARAMETER(name) #name,
    ORRERY_PARAMETERS(ORRERY_PARAMETER)
#undef ORRERY_PARAMETER
};

constexpr size_t kOneLetterNames = 11;  // which stand first

constexpr std::array<uint8_t, 256> kByLetter = [] {
  std::array<uint8_t, 256> table{};
  for (uint8_t& entry : table) entry = kParameterCount;
  for (size_t i = 0; i < kOneLetterNames; ++i)
    table[static_cast<unsigned char>(kNames[i][0])] = static_cast<uint8_t>(i);
  return table;
}();
static_assert(kNames[kOneLetterNames - 1].size() == 1 && kNames[kOneLetterNames].size() > 1);

/// kParameterCount for none.
size_t find_parameter(std::string_view key) {
  if (key.size() == 1) return kByLetter[static_cast<unsigned char>(key[0])];
  for (size_t i = kOneLetterNames; i < kParameterCount; ++i)
    if (kNames[i] == key) return i;
  return kParameterCount;
}

[[noreturn]] void fail(const std::string& message) {
  throw std::invalid_argument("params: " + message);
}

}  // namespace

std::string_view name(OperatorParameter parameter) {
  return kNames[static_cast<size_t>(parameter)];
}

class OperatorParameters::Scanner {
 public:
  Scanner(OperatorParameters& parameters, std::string_view text)
      : p_(parameters), text_(text), at_(text.data()), end_(text.data() + text.size()) {}

  void run(ParameterSet known) {
    expect('{');
    if (!take('}')) {
      do {
        key_ = quoted();
        const size_t found = find_parameter(key_);
        if (found == kParameterCount || (known >> found & 1) == 0) refuse_key(known);
        if (p_.has(static_cast<OperatorParameter>(found)))
          fail(fmt::format("'{}' is given twice", key_));
        expect(':');
        read_value(p_.values_[found]);
        p_.present_ |= ParameterSet{1} << found;
      } while (take(','));
      expect('}');
    }
    skip_space();
    if (at_ != end_) syntax_error();
  }

 private:
  [[noreturn]] void syntax_error() const {
    std::string found(text_.substr(0, kLongestQuote));
    if (found.size() < text_.size()) found += "…";
    fail(fmt::format("expected a JSON object, found '{}'", found));
  }
  [[noreturn]] void refuse_key(ParameterSet known) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < kParameterCount; ++i)
      if ((known >> i & 1) != 0) names.emplace_back(kNames[i]);
    fail(fmt::format("{} takes no '{}'{}", p_.op_, key_.substr(0, kLongestQuote),
                     suggestion(key_, names)));
  }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) syntax_error();
  }
  bool take_word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// Between the quotes as written: no known name holds an escape.
  std::string_view quoted() {
    expect('"');
    const char* begin = at_;
    while (at_ != end_ && *at_ != '"') {
      if (static_cast<unsigned char>(*at_) < 0x20) syntax_error();
      if (*at_ == '\\' && ++at_ == end_) break;
      ++at_;
    }
    if (at_ == end_) syntax_error();
    return {begin, static_cast<size_t>(at_++ - begin)};
  }

  void read_value(Value& value) {
    skip_space();
    if (at_ == end_) syntax_error();
    switch (*at_) {
      case '"': {
        const std::string_view text = quoted();
        value.kind = Kind::kText;
        value.length = static_cast<uint32_t>(std::min<size_t>(text.size(), UINT32_MAX));
        value.begin = text.data();
        return;
      }
      case '[':
        ++at_;
        read_list(value);
        return;
      case 't':
      case 'f':
        value.kind = Kind::kFlag;
        value.integer = *at_ == 't' ? 1 : 0;
        if (!take_word("true") && !take_word("false")) syntax_error();
        return;
      case 'n':
      case '{':
        fail(fmt::format("'{}' must be a number, a text, true, false or a list of integers", key_));
      default:
        read_number(value);
    }
  }

  void read_list(Value& value) {
    value.kind = Kind::kList;
    value.length = 0;
    value.first_item =
        &value == &p_.values_[static_cast<size_t>(OperatorParameter::k_shape)] ? 0 : kLongestList;
    if (!take(']')) {
      do {
        skip_space();
        if (at_ == end_) syntax_error();
        Value item;
        item.kind = Kind::kText;
        if (*at_ == '-' || (*at_ >= '0' && *at_ <= '9')) read_number(item);
        if (item.kind != Kind::kInteger) fail(fmt::format("'{}' must be a list of integers", key_));
        if (value.length < kLongestList)
          p_.items_[value.first_item + value.length++] = item.integer;
        else
          value.length = kLongestList + 1;
      } while (take(','));
      expect(']');
    }
  }

  /// Integers beyond 64 bits become the largest there is: all are refused by range.
  void read_number(Value& value) {
    const char* begin = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    const char* digits = at_;
    uint64_t magnitude = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      if (at_ - digits < 18) magnitude = 10 * magnitude + static_cast<uint64_t>(*at_ - '0');
      ++at_;
    }
    if (at_ == digits || (*digits == '0' && at_ - digits > 1)) syntax_error();
    if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) {
      read_real(begin, value);
      return;
    }
    value.kind = Kind::kInteger;
    value.integer =
        at_ - digits > 18 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(magnitude);
    if (negative) value.integer = -value.integer;
  }
  void read_real(const char* begin, Value& value) {
    const auto digits = [&] {
      const char* first = at_;
      while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
      if (at_ == first) syntax_error();
    };
    if (*at_ == '.') {
      ++at_;
      digits();
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      digits();
    }
    value.kind = Kind::kReal;
    value.real = std::numeric_limits<double>::infinity();  // kept where it is out of range
    std::from_chars(begin, at_, value.real);
  }

  OperatorParameters& p_;
  std::string_view text_, key_;
  const char* at_;
  const char* end_;
};

OperatorParameters::OperatorParameters(std::string_view op, ParameterSet known,
                                       std::string_view text)
    : op_(op) {
  Scanner(*this, text).run(known);
}

const OperatorParameters::Value& OperatorParameters::required(OperatorParameter p) const {
  if (!has(p)) fail(fmt::format("{} needs '{}'", op_, name(p)));
  return at(p);
}

int64_t OperatorParameters::checked(OperatorParameter p, int64_t value, int64_t least) const {
  if (value > kLargestSize) fail(fmt::format("'{}' is larger than 2^40", name(p)));
  if (value < least)
    fail(fmt::format("'{}' must lie within {} and 2^40, found {}", name(p), least, value));
  return value;
}

int64_t OperatorParameters::integer(OperatorParameter p, int64_t least) const {
  const Value& v = required(p);
  if (v.kind != Kind::kInteger) fail(fmt::format("'{}' must be an integer", name(p)));
  return checked(p, v.integer, least);
}

int64_t OperatorParameters::size(OperatorParameter p) const { return integer(p, 1); }

int64_t OperatorParameters::size(OperatorParameter p, int64_t otherwise) const {
  return has(p) ? integer(p, 1) : otherwise;
}

int64_t OperatorParameters::count(OperatorParameter p, int64_t otherwise) const {
  return has(p) ? integer(p, 0) : otherwise;
}

double OperatorParameters::real(OperatorParameter p, double otherwise, double most) const {
  if (!has(p)) return otherwise;
  const Value& v = at(p);
  if (v.kind != Kind::kReal && v.kind != Kind::kInteger)
    fail(fmt::format("'{}' must be a number", name(p)));
  const double value = v.kind == Kind::kReal ? v.real : static_cast<double>(v.integer);
  if (!(value >= 0 && value <= most))
    fail(fmt::format("'{}' must lie within 0 and {}, found {}", name(p), most, value));
  return value;
}

bool OperatorParameters::flag(OperatorParameter p) const {
  if (!has(p)) return false;
  if (at(p).kind != Kind::kFlag && at(p).kind != Kind::kInteger)
    fail(fmt::format("'{}' must be true or false", name(p)));
  return at(p).integer != 0;
}

std::string_view OperatorParameters::text(OperatorParameter p, std::string_view otherwise) const {
  if (!has(p)) return otherwise;
  if (at(p).kind != Kind::kText) fail(fmt::format("'{}' must be a string", name(p)));
  return {at(p).begin, at(p).length};
}

std::span<const int64_t> OperatorParameters::list(OperatorParameter p) const {
  const Value& v = at(p);
  if (!has(p) || v.kind != Kind::kList || v.length == 0 || v.length > kLongestList) return {};
  return std::span(items_).subspan(v.first_item, v.length);
}

std::span<const int64_t> OperatorParameters::shape() const {
  const auto sizes = list(OperatorParameter::k_shape);
  if (sizes.empty()) fail(fmt::format("{} needs 'shape', a list of 1 to 8 sizes", op_));
  for (int64_t size : sizes) checked(OperatorParameter::k_shape, size, 1);
  return sizes;
}

int64_t OperatorParameters::axis(size_t rank, int64_t otherwise) const {
  const auto dimensions = static_cast<int64_t>(rank);
  int64_t axis = otherwise;
  if (has(OperatorParameter::k_axis)) {
    if (at(OperatorParameter::k_axis).kind != Kind::kInteger) fail("'axis' must be an integer");
    axis = at(OperatorParameter::k_axis).integer;
  }
  if (axis < -dimensions || axis >= dimensions)
    fail(fmt::format("'axis' must lie within {} and {}, found {}", -dimensions, dimensions - 1,
                     axis));
  return axis < 0 ? axis + dimensions : axis;
}

std::span<const int64_t> OperatorParameters::order(size_t rank) const {
  const auto order = list(OperatorParameter::k_order);
  uint32_t seen = 0;
  for (int64_t d : order)
    if (d >= 0 && d < static_cast<int64_t>(rank)) seen |= 1u << d;
  if (order.size() != rank || seen != (1u << rank) - 1)
    fail(fmt::format("{} needs 'order', each of 0 to {} once", op_, rank - 1));
  return order;
}

}  // namespace orrery
