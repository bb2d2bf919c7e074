// The container: numbers, sections and tables, from bytes worked out by hand.

#include "orrery/workload/readers/stablehlo/bytecode_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/workload/readers/stablehlo/bytecode_for_test.h"

namespace orrery::stablehlo {
namespace {

using testing::bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::section;

/// What `read` gives at the first of `data`.
template <class Read>
auto at_bytes(const std::string& data, Read&& read) {
  const Source source = Source::from_memory("numbers", data).binary();
  ByteCursor cursor(source, {0, data.size()});
  return read(cursor);
}
uint64_t varint_of(std::initializer_list<int> data) {
  return at_bytes(bytes(data), [](ByteCursor& c) {
    const uint64_t value = c.varint();
    EXPECT_TRUE(c.at_end());
    return value;
  });
}

TEST(ByteCursor, VarintsSayInTheirFirstByteHowManyFollow) {
  EXPECT_EQ(varint_of({0x01}), 0u);
  EXPECT_EQ(varint_of({0x03}), 1u);
  EXPECT_EQ(varint_of({0xFF}), 127u);
  EXPECT_EQ(varint_of({0x02, 0x02}), 128u);  // 128 << 2 | 2
  EXPECT_EQ(varint_of({0xFE, 0xFF}), 16383u);
  EXPECT_EQ(varint_of({0x04, 0x00, 0x02}), 16384u);  // 16384 << 3 | 4
  EXPECT_EQ(varint_of({0x08, 0x00, 0x00, 0x20}), 1u << 25);
  EXPECT_EQ(varint_of({0x10, 0, 0, 0, 1}), 1u << 27);
  EXPECT_EQ(varint_of({0x20, 0, 0, 0, 0, 1}), uint64_t{1} << 34);
  EXPECT_EQ(varint_of({0x40, 0, 0, 0, 0, 0, 1}), uint64_t{1} << 41);
  EXPECT_EQ(varint_of({0x80, 0, 0, 0, 0, 0, 0, 1}), uint64_t{1} << 48);
  EXPECT_EQ(varint_of({0x00, 1, 0, 0, 0, 0, 0, 0, 0x80}), (uint64_t{1} << 63) + 1);
}

TEST(ByteCursor, SignedNumbersHaveTheirSignInTheLowestBit) {
  const auto signed_of = [](std::initializer_list<int> data) {
    return at_bytes(bytes(data), [](ByteCursor& c) { return c.signed_varint(); });
  };
  EXPECT_EQ(signed_of({0x01}), 0);
  EXPECT_EQ(signed_of({0x03}), -1);
  EXPECT_EQ(signed_of({0x05}), 1);
  EXPECT_EQ(signed_of({0xFF}), -64);
  EXPECT_EQ(signed_of({0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), INT64_MIN);
}

TEST(ByteCursor, TheTestsOwnWriterAgrees) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 20,
                               (uint64_t{1} << 56) - 1, uint64_t{1} << 56, UINT64_MAX})
    EXPECT_EQ(at_bytes(testing::varint(value), [](ByteCursor& c) { return c.varint(); }), value);
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{77}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(
        at_bytes(testing::signed_varint(value), [](ByteCursor& c) { return c.signed_varint(); }),
        value);
}

TEST(ByteCursor, TheEndIsAnErrorThatNamesTheByte) {
  const auto error_of = [](std::initializer_list<int> data, auto&& read) -> std::string {
    try {
      at_bytes(bytes(data), read);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({}, [](ByteCursor& c) { return c.byte(); }),
            "numbers: byte 0: the bytecode ends in the middle of something");
  EXPECT_EQ(error_of({0x04, 0x00}, [](ByteCursor& c) { return c.varint(); }),
            "numbers: byte 1: a number that is not finished");
  EXPECT_EQ(error_of({1, 2}, [](ByteCursor& c) { return c.bytes(3).size(); }),
            "numbers: byte 0: a length of 3 bytes where 2 are left");
  EXPECT_EQ(error_of({0x0B, 1, 1}, [](ByteCursor& c) { return c.count(); }),
            "numbers: byte 0: 5 entries where 2 bytes are left");
}

TEST(BytecodeSections, MayBeAligned) {
  // Section 5, two bytes long, aligned to 8: four bytes of padding bring it there.
  at_bytes(bytes({0x85, 0x05, 0x11, 0xCB, 0xCB, 0xCB, 0xCB, 0xCB, 7, 8, 9}), [](ByteCursor& c) {
    const Section found = read_section(c);
    EXPECT_EQ(found.kind, Section::kResources);
    EXPECT_EQ(found.inside.begin, 8u);
    EXPECT_EQ(found.inside.end, 10u);
    EXPECT_EQ(c.left(), 1u);
    return 0;
  });
}

std::string header(std::string_view rest) {
  return "ML\xEFR\x0Dme" + std::string(1, '\0') + std::string(rest);
}

/// The four sections that must be there, around the dialects "builtin" and "vhlo".
std::string tables() {
  return section(0, bytes({0x09, 0x0D, 0x05, 0x0B, 0x11}) +  // 4 strings of 6, 2, 5, 8: reversed
                        std::string("builtin\0vhlo\0x\0add_v", 8 + 5 + 2 + 5) +
                        std::string(1, '\0')) +
         section(1,
                 bytes({0x05, 0x01, 0x05,            // 2 dialects: strings 0 and 1
                        0x03, 0x03, 0x03, 0x0F})) +  // 1 name, of dialect 1: string 3, registered
         section(3, bytes({0x03, 0x03,               // 1 attribute, 1 type
                           0x01, 0x03, 0x0F,         // builtin, 1 entry: 3 bytes, encoded
                           0x03, 0x03, 0x04 | 0x00, 0x00, 0x00})) +
         section(2, bytes({1, 2, 3, 4, 5})) + section(4, bytes({0x01}));
}

TEST(BytecodeFile, TablesAreFound) {
  // The type's size is written in three bytes, as a longer number would be: 0, not encoded.
  const Source source = Source::from_memory("f", header(tables()));
  const BytecodeFile file(source);
  EXPECT_EQ(file.version, 6u);
  EXPECT_EQ(file.producer, "me");
  EXPECT_THAT(file.strings, ElementsAre("builtin", "vhlo", "x", "add_v"));
  EXPECT_THAT(file.dialects, ElementsAre("builtin", "vhlo"));
  ASSERT_EQ(file.operations.size(), 1u);
  EXPECT_EQ(file.operations[0].name, "add_v");
  EXPECT_EQ(file.operations[0].dialect, 1u);
  ASSERT_EQ(file.attributes.size(), 1u);
  EXPECT_EQ(file.attributes[0].bytes.size(), 3u);
  EXPECT_TRUE(file.attributes[0].encoded);
  ASSERT_EQ(file.types.size(), 1u);
  EXPECT_EQ(file.types[0].bytes.size(), 0u);
  EXPECT_FALSE(file.types[0].encoded);
  EXPECT_EQ(file.program.size(), 1u);
}

std::string error_of(const std::string& whole) {
  try {
    const Source source = Source::from_memory("f", whole).binary();
    const BytecodeFile file(source);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.message();
  }
  return "";
}

TEST(BytecodeFile, FaultsAreNamedWithTheirByte) {
  EXPECT_EQ(error_of("ML\xEFR"), "byte 4: the bytecode ends in the middle of something");
  EXPECT_EQ(error_of("ML\xEFR\x0F"),
            "byte 5: bytecode version 7 is newer than 6, the newest known here");
  EXPECT_EQ(error_of("ML\xEFR\x0Dme"), "byte 5: the producer's name is not closed");
  EXPECT_EQ(error_of(header("")), "byte 8: there is no section of strings");
  EXPECT_EQ(error_of(header(bytes({9, 1}))), "byte 10: section 9 is not known");
  EXPECT_EQ(error_of(header(section(4, "") + section(4, ""))),
            "byte 10: a second section of program");
  EXPECT_EQ(error_of(header(bytes({4, 0x09, 1}))), "byte 10: a length of 4 bytes where 1 are left");
  EXPECT_EQ(error_of(header(bytes({0x84, 0x01, 0x07}))),
            "byte 11: a section aligned to 3, which is no power of two");
  EXPECT_EQ(error_of(header(section(0, bytes({0x03, 0x09, 'a', 0})))),
            "byte 11: a string of 4 bytes where 2 are left");
  EXPECT_EQ(error_of(header(section(0, bytes({0x03, 0x03, 0, 0})))),
            "byte 12: strings of 1 bytes in all where 2 are left");
  EXPECT_THAT(error_of(header(section(0, bytes({0xFF})))), HasSubstr("127 entries where 0 bytes"));
}

TEST(BytecodeFile, EveryPrefixIsRefused) {
  const std::string whole = header(tables());
  EXPECT_EQ(error_of(whole), "");
  for (size_t n = 4; n < whole.size(); ++n) EXPECT_NE(error_of(whole.substr(0, n)), "") << n;
}

}  // namespace
}  // namespace orrery::stablehlo
