#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/source.h"

namespace orrery {

/// A value of a JSON document that holds a fitted model. Each reading function says
/// what it expects and throws `kInput` with the file and the value's path when it
/// finds something else: "h200.json: trees[12].splits[3]: expected 2 elements, found 3".
/// It keeps the document alive.
class JsonValue {
 public:
  /// The whole document; `kInput` with line and column where it is not JSON, and for
  /// one larger than 256 MiB.
  static JsonValue parse(const Source& source);

  /// The object's member; it must be there.
  JsonValue member(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Throws unless this is an object with no members but these.
  void expect_only(std::initializer_list<std::string_view> names) const;
  /// All members of an object, by name.
  std::vector<std::pair<std::string, JsonValue>> members() const;

  /// The array's elements, of which there must be `least` to `most`.
  std::vector<JsonValue> elements(size_t least, size_t most) const;
  /// The number of the array's elements, of which there must be `least` to `most`.
  size_t count(size_t least, size_t most) const;
  /// An array of whole numbers, each from `low` to `high`, `count` of them.
  std::vector<int32_t> whole_numbers(size_t count, int32_t low, int32_t high) const;

  /// An array of `count` finite numbers.
  std::vector<double> numbers(size_t count) const;

  /// A finite number.
  double number() const;
  /// A whole number from `low` to `high`.
  int64_t whole(int64_t low, int64_t high) const;
  std::string text() const;
  bool is_text() const;

  [[noreturn]] void fail(std::string_view message) const;

 private:
  JsonValue(std::shared_ptr<const void> value, std::shared_ptr<const std::string> file,
            std::string path)
      : value_(std::move(value)), file_(std::move(file)), path_(std::move(path)) {}

  std::shared_ptr<const void> value_;  // a nlohmann::json, which installed headers do not need
  std::shared_ptr<const std::string> file_;
  std::string path_;
};

/// The shortest decimal that reads back as this very number, as JSON writes it.
std::string json_number(double value);
/// The same for a number that is cast to float when it is read.
std::string json_number(float value);
/// With quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace orrery
