#include "orrery/learn/json_value.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace orrery {
namespace {

JsonValue parse(std::string text) {
  return JsonValue::parse(Source::from_memory("fit.json", std::move(text)));
}

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(JsonValue, ReadsWhatIsThere) {
  const JsonValue root =
      parse(R"({"a": [1, -2, 3], "b": {"c": 2.5, "d": "text"}, "n": 7, "m": 1e2})");
  EXPECT_EQ(root.member("a").whole_numbers(3, -2, 3), (std::vector<int32_t>{1, -2, 3}));
  EXPECT_EQ(root.member("a").elements(1, 3).at(1).number(), -2.0);
  EXPECT_EQ(root.member("a").numbers(3), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(root.member("b").member("c").number(), 2.5);
  EXPECT_EQ(root.member("b").member("d").text(), "text");
  EXPECT_EQ(root.member("n").whole(0, 7), 7);
  EXPECT_EQ(root.member("m").number(), 100.0);
  EXPECT_TRUE(root.has("b"));
  EXPECT_FALSE(root.has("c"));
  EXPECT_EQ(root.member("b").members().at(1).first, "d");
}

TEST(JsonValue, SaysWhereAndWhatWasExpected) {
  const JsonValue root = parse(R"({"a": {"b": [[1], "x", 3.5, 1e30, 18446744073709551615]}})");
  const JsonValue b = root.member("a").member("b");
  EXPECT_EQ(error_of([&] { root.member("c"); }), "fit.json: member \"c\" is missing");
  EXPECT_EQ(error_of([&] { b.member("c"); }),
            "fit.json: a.b: expected an object, found an array of 5");
  EXPECT_EQ(error_of([&] {
              root.member("a").expect_only({"c", "d"});
            }),
            "fit.json: a: unknown member \"b\"; known are \"c\", \"d\"");
  EXPECT_EQ(error_of([&] { b.elements(6, 6); }), "fit.json: a.b: expected 6 elements, found 5");
  EXPECT_EQ(error_of([&] { b.elements(0, 2); }),
            "fit.json: a.b: expected 0 to 2 elements, found 5");
  const auto all = b.elements(5, 5);
  EXPECT_EQ(error_of([&] { all[0].elements(1, 1).at(0).whole(2, 9); }),
            "fit.json: a.b[0][0]: expected a whole number from 2 to 9, found 1");
  EXPECT_EQ(error_of([&] { all[1].number(); }),
            "fit.json: a.b[1]: expected a number, found a string");
  EXPECT_EQ(error_of([&] { all[2].whole(0, 9); }),
            "fit.json: a.b[2]: expected a whole number from 0 to 9, found 3.5");
  EXPECT_EQ(error_of([&] { all[4].whole(0, INT64_MAX); }),
            "fit.json: a.b[4]: expected a whole number from 0 to 9223372036854775807, found "
            "18446744073709551615");
  EXPECT_EQ(error_of([&] { all[0].text(); }),
            "fit.json: a.b[0]: expected a string, found an array of 1");
  EXPECT_EQ(error_of([&] { b.whole_numbers(4, 0, 9); }),
            "fit.json: a.b: expected an array of 4, found an array of 5");
  EXPECT_EQ(error_of([&] { b.numbers(5); }),
            "fit.json: a.b[0]: expected a number, found an array of 1");
  EXPECT_EQ(error_of([&] { b.numbers(2); }),
            "fit.json: a.b: expected an array of 2, found an array of 5");
  EXPECT_EQ(error_of([&] { b.whole_numbers(5, 0, 9); }),
            "fit.json: a.b[0]: expected a whole number from 0 to 9, found an array of 1");
}

TEST(JsonValue, SaysWhereItIsNotJson) {
  EXPECT_TRUE(error_of([] { parse("{\n  \"a\": ]}"); }).starts_with("fit.json:2:8: not JSON: "));
  EXPECT_TRUE(error_of([] { parse(""); }).starts_with("fit.json:1:1: not JSON: "));
  // A number that no double holds is refused, not read as infinity.
  EXPECT_TRUE(error_of([] { parse("[1e999]"); }).starts_with("fit.json:1:"));
  EXPECT_TRUE(error_of([] { parse(std::string(100000, '[')); }).starts_with("fit.json:1:"));
}

TEST(JsonValue, NumbersReadBackAsTheyWere) {
  EXPECT_EQ(json_number(0.1f), "0.1");
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(3.0f), "3");
  for (const float value :
       {1.0f / 3, 16777216.0f, 1e-45f, -3.4028235e38f, std::numeric_limits<float>::min()})
    EXPECT_EQ(static_cast<float>(parse(json_number(value)).number()), value);
  for (const double value : {1.0 / 3, 5e-324, -1.7976931348623157e308})
    EXPECT_EQ(parse(json_number(value)).number(), value);
}

TEST(JsonValue, StringsAreEscaped) {
  EXPECT_EQ(json_string("a\"b\n"), R"("a\"b\n")");
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace orrery
