#include "orrery/base/csv.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace orrery {
namespace {

CsvTable parse(std::string text) {
  return CsvTable::parse(Source::from_memory("t.csv", std::move(text)));
}

std::string error_of(std::string text) {
  try {
    parse(std::move(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Csv, ReadsPlainAndQuotedFields) {
  const CsvTable t = parse(
      "op,dtype,params\n"
      "gemm,bf16,\"{\"\"m\"\": 8, \"\"n\"\": 4}\"\n"
      "add,fp32,\n");
  ASSERT_EQ(t.rows(), 2u);
  EXPECT_EQ(t.at(0, 2), "{\"m\": 8, \"n\": 4}");
  EXPECT_EQ(t.at(1, 0), "add");
  EXPECT_EQ(t.at(1, 2), "");
  EXPECT_EQ(t.column("dtype"), 1);
  EXPECT_EQ(t.column("us"), -1);
  EXPECT_EQ(t.required_column("params"), 2u);
}

TEST(Csv, QuotesMayStandAnywhereInAField) {
  // Characters are looked at eight at a time: a quote before, in and behind each of them, with
  // the file's end near and far.
  for (size_t length = 0; length < 40; ++length)
    for (size_t quote = 0; quote <= length; ++quote)
      for (const char* end : {"", "\n", ",12345678\n"}) {
        std::string text(length, 'x'), written = "\"";
        text.insert(quote, "\"");
        for (const char c : text) written += c == '"' ? "\"\"" : std::string(1, c);
        const bool two = *end == ',';
        const CsvTable t = parse((two ? "a,b\n" : "a\n") + written + "\"" + end);
        ASSERT_EQ(t.rows(), 1u);
        EXPECT_EQ(t.at(0, 0), text);
        if (two) {
          EXPECT_EQ(t.at(0, 1), "12345678");
        }
      }
}

TEST(Csv, TakesCarriageReturnsAndAMissingLastNewline) {
  const CsvTable t = parse("a,b\r\n1,2\r\n3,4");
  ASSERT_EQ(t.rows(), 2u);
  EXPECT_EQ(t.at(0, 1), "2");
  EXPECT_EQ(t.at(1, 1), "4");
}

TEST(Csv, KnowsTheLineOfARowAcrossLineBreaksInQuotes) {
  const CsvTable t = parse("a,b\n\"one\ntwo\",2\n\n3,4\n");
  ASSERT_EQ(t.rows(), 2u);
  EXPECT_EQ(t.at(0, 0), "one\ntwo");
  EXPECT_EQ(t.line(0), 2);
  EXPECT_EQ(t.line(1), 5);  // after the broken field and an empty line
}

TEST(Csv, KnowsWhereACellBegins) {
  CsvReader reader(
      Source::from_memory("t.csv", "a,b,c\n1,\"x \"\"y\"\"\",3\n4,\"two\nlines\",6\n"));
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(1), "x \"y\"");
  const SourceLocation last = reader.location(2);  // after 1, and "x ""y""",
  EXPECT_EQ(last.line, 2);
  EXPECT_EQ(last.column, 13);
  ASSERT_TRUE(reader.next());
  const SourceLocation after_break = reader.location(2);  // after lines",
  EXPECT_EQ(after_break.line, 4);
  EXPECT_EQ(after_break.column, 8);
}

TEST(Csv, AByteOrderMarkIsPassedOver) {
  CsvReader reader(Source::from_memory("t.csv", "\xEF\xBB\xBF\"op\",us\n\xEF\xBB\xBF,2\n"));
  EXPECT_EQ(reader.required_column("op"), 0u);
  EXPECT_EQ(reader.location(1).column, 6);  // as an editor shows it
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(0), "\xEF\xBB\xBF");  // elsewhere it is text
  EXPECT_EQ(error_of("\xEF\xBB\xBF"), "t.csv:1:1: expected a header line with the columns' names");
}

TEST(Csv, ACopyOutlivesTheTable) {
  auto first = std::make_unique<CsvTable>(parse("a\n\"say \"\"no\"\"\"\n"));
  const CsvTable copy = *first;
  first.reset();
  EXPECT_EQ(copy.at(0, 0), "say \"no\"");
}

TEST(Csv, Errors) {
  EXPECT_EQ(error_of(""), "t.csv:1:1: expected a header line with the columns' names");
  EXPECT_EQ(error_of("a,b\n1,2,3\n"), "t.csv:2:1: 3 fields, the header has 2");
  EXPECT_EQ(error_of("a,b\n1,2\n3\n"), "t.csv:3:1: 1 fields, the header has 2");
  EXPECT_EQ(error_of("a,b\n1,\"2\n"), "t.csv:2:3: a quoted field that is not closed");
  EXPECT_EQ(error_of("a,b\n\"1\"x,2\n"),
            "t.csv:2:4: expected ',' or the end of the line after a quoted field");
  EXPECT_EQ(error_of("a,b,a\n"), "t.csv:1:1: column 'a' is named twice");
}

TEST(Csv, AMissingColumnNamesThoseThereAre) {
  try {
    parse("op,dtype\n").required_column("params");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "t.csv:1:1: column 'params' is missing; there is: op, dtype");
    EXPECT_EQ(error.exit_code(), 3);
  }
}

TEST(Csv, AHeaderOfManyColumnsIsReadInTime) {
  std::string header = "c0";
  for (int i = 1; i < 200000; ++i) header += ",c" + std::to_string(i);
  EXPECT_EQ(parse(header + "\n").header().size(), 200000u);  // by comparing pairs: 2·10^10
}

TEST(Csv, AReaderGivesFieldsAndTheRecordAsWritten) {
  const Source source = Source::from_memory(
      "t.csv", "op,params,\"us\"\r\ngemm,\"{\"\"m\"\": 8}\",\"1\n2\"\r\n\r\n\"a\",,\"\"\"\"");
  CsvReader reader(source);
  EXPECT_EQ(reader.required_column("us"), 2u);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(0), "gemm");
  EXPECT_EQ(reader.field(1), "{\"m\": 8}");
  EXPECT_EQ(reader.field(2), "1\n2");
  EXPECT_EQ(reader.record(), "gemm,\"{\"\"m\"\": 8}\",\"1\n2\"");
  EXPECT_EQ(reader.line(), 2);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(0), "a");
  EXPECT_EQ(reader.field(1), "");
  EXPECT_EQ(reader.field(2), "\"");
  EXPECT_EQ(reader.line(), 5);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST(Csv, ARowOfManyFieldsIsCountedNotKept) {
  EXPECT_EQ(error_of("a,b\n" + std::string(1000000, ',') + "\n"),
            "t.csv:2:1: 1000001 fields, the header has 2");
}

TEST(Csv, WrittenFieldsAreReadBack) {
  for (const std::string text : {"plain", "", "a,b", "say \"no\"", "two\nlines", "cr\rhere"}) {
    const CsvTable t = parse("h,x\n" + csv_field(text) + ",1\n");
    ASSERT_EQ(t.rows(), 1u) << text;
    EXPECT_EQ(t.at(0, 0), text);
  }
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("\xEF\xBB\xBF"
                      "op"),
            "\"\xEF\xBB\xBF"
            "op\"");
  EXPECT_EQ(csv_field("a\"b"), "\"a\"\"b\"");
}

}  // namespace
}  // namespace orrery
