#include "orrery/learn/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

namespace orrery {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = size_t{256} << 20;

const Json& json(const std::shared_ptr<const void>& value) {
  return *static_cast<const Json*>(value.get());
}

/// nullopt for what is not a whole number, or too large for any limit here.
std::optional<int64_t> as_whole(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.get<int64_t>();
}

std::string shown(const Json& value) {
  if (value.is_primitive() && !value.is_string())
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return value.is_array() ? fmt::format("an array of {}", value.size())
                          : fmt::format("{} {}", value.is_object() ? "an" : "a", value.type_name());
}

}  // namespace

JsonValue JsonValue::parse(const Source& source) {
  if (source.text().size() > kMaxBytes)
    throw_input(source.name(), fmt::format("larger than {} MiB", kMaxBytes >> 20));
  try {
    return {std::make_shared<const Json>(Json::parse(source.text())),
            std::make_shared<const std::string>(source.name()), ""};
  } catch (const Json::parse_error& e) {
    // nlohmann names its own line and column first; ours are in the location.
    std::string message = e.what();
    const size_t colon = message.find(": ");
    if (colon != std::string::npos) message = message.substr(colon + 2);
    source.fail(e.byte == 0 ? 0 : e.byte - 1, "not JSON: " + message);
  } catch (const Json::exception& e) {
    source.fail(0, fmt::format("not JSON: {}", e.what()));
  }
}

void JsonValue::fail(std::string_view message) const {
  throw_input(*file_, path_.empty() ? std::string(message) : fmt::format("{}: {}", path_, message));
}

JsonValue JsonValue::member(std::string_view name) const {
  const Json& object = json(value_);
  if (!object.is_object()) fail("expected an object, found " + shown(object));
  const auto at = object.find(name);
  if (at == object.end()) fail(fmt::format("member \"{}\" is missing", name));
  return {std::shared_ptr<const void>(value_, &*at), file_,
          path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name)};
}

bool JsonValue::has(std::string_view name) const { return json(value_).contains(name); }

void JsonValue::expect_only(std::initializer_list<std::string_view> names) const {
  const Json& object = json(value_);
  if (!object.is_object()) fail("expected an object, found " + shown(object));
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(names, name) == names.end())
      fail(fmt::format("unknown member {}; known are \"{}\"", json_string(name),
                       fmt::join(names, "\", \"")));
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  const Json& object = json(value_);
  if (!object.is_object()) fail("expected an object, found " + shown(object));
  std::vector<std::pair<std::string, JsonValue>> all;
  for (const auto& [name, value] : object.items()) all.emplace_back(name, member(name));
  return all;
}

size_t JsonValue::count(size_t least, size_t most) const {
  const Json& array = json(value_);
  if (!array.is_array()) fail("expected an array, found " + shown(array));
  if (array.size() < least || array.size() > most)
    fail(least == most
             ? fmt::format("expected {} elements, found {}", least, array.size())
             : fmt::format("expected {} to {} elements, found {}", least, most, array.size()));
  return array.size();
}

std::vector<JsonValue> JsonValue::elements(size_t least, size_t most) const {
  std::vector<JsonValue> all;
  all.reserve(count(least, most));
  const Json& array = json(value_);
  for (size_t i = 0; i < array.size(); ++i)
    all.push_back(
        {std::shared_ptr<const void>(value_, &array[i]), file_, fmt::format("{}[{}]", path_, i)});
  return all;
}

std::vector<int32_t> JsonValue::whole_numbers(size_t count, int32_t low, int32_t high) const {
  const Json& array = json(value_);
  if (!array.is_array() || array.size() != count)
    fail(fmt::format("expected an array of {}, found {}", count, shown(array)));
  std::vector<int32_t> numbers;
  numbers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto whole = as_whole(array[i]);
    if (!whole || *whole < low || *whole > high)
      throw_input(*file_, fmt::format("{}[{}]: expected a whole number from {} to {}, found {}",
                                      path_, i, low, high, shown(array[i])));
    numbers.push_back(static_cast<int32_t>(*whole));
  }
  return numbers;
}

std::vector<double> JsonValue::numbers(size_t count) const {
  const Json& array = json(value_);
  if (!array.is_array() || array.size() != count)
    fail(fmt::format("expected an array of {}, found {}", count, shown(array)));
  std::vector<double> numbers;
  numbers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!array[i].is_number())
      throw_input(*file_,
                  fmt::format("{}[{}]: expected a number, found {}", path_, i, shown(array[i])));
    numbers.push_back(array[i].get<double>());
  }
  return numbers;
}

double JsonValue::number() const {
  const Json& value = json(value_);
  if (!value.is_number()) fail("expected a number, found " + shown(value));
  return value.get<double>();  // the parser refuses what a double cannot hold
}

int64_t JsonValue::whole(int64_t low, int64_t high) const {
  const auto value = as_whole(json(value_));
  if (!value || *value < low || *value > high)
    fail(fmt::format("expected a whole number from {} to {}, found {}", low, high,
                     shown(json(value_))));
  return *value;
}

std::string JsonValue::text() const {
  const Json& value = json(value_);
  if (!value.is_string()) fail("expected a string, found " + shown(value));
  return value.get<std::string>();
}

bool JsonValue::is_text() const { return json(value_).is_string(); }

std::string json_number(double value) { return fmt::format("{}", value); }

std::string json_number(float value) {
  std::string text = fmt::format("{}", value);
  // Decimal to double to float rounds twice, which seldom matters, and here never.
  if (static_cast<float>(std::strtod(text.c_str(), nullptr)) != value)
    text = json_number(static_cast<double>(value));
  return text;
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace orrery
