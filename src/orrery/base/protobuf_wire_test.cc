#include "orrery/base/protobuf_wire.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

Source bytes(std::string text) { return Source::from_memory("t.pb", std::move(text)); }

std::string failure(const std::string& text, void (*read)(ProtobufReader&)) {
  const Source source = bytes(text);
  try {
    ProtobufReader reader(source);
    while (reader.next()) read(reader);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "";
}

// Examples of the encoding guide, https://protobuf.dev/programming-guides/encoding/.
TEST(ProtobufWire, ReadsTheGuidesExamples) {
  const Source source = bytes(std::string("\x08\x96\x01", 3) + "\x12\x07testing" +
                              std::string("\x1a\x03\x08\x96\x01", 5) +
                              std::string("\x32\x06\x03\x8e\x02\x9e\xa7\x05", 8));
  ProtobufReader reader(source);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(), 1u);
  EXPECT_EQ(reader.int64(), 150);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.bytes(), "testing");
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.offset(), 12u);
  ProtobufReader inner = reader.message();
  ASSERT_TRUE(inner.next());
  EXPECT_EQ(inner.offset(), 14u);
  EXPECT_EQ(inner.int64(), 150);
  EXPECT_FALSE(inner.next());
  ASSERT_TRUE(reader.next());
  std::vector<int64_t> packed;
  reader.append_int64(packed, 10);
  EXPECT_EQ(packed, (std::vector<int64_t>{3, 270, 86942}));
  EXPECT_FALSE(reader.next());
}

TEST(ProtobufWire, ReadsNegativeAndFixedNumbers) {
  const Source source = bytes(std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11) +
                              std::string("\x15\x00\x00\xc0\x3f", 5) +
                              std::string("\x19\x00\x00\x00\x00\x00\x00\xf8\x3f", 9));
  ProtobufReader reader(source);
  reader.next();
  EXPECT_EQ(reader.int32(), -1);
  reader.next();
  EXPECT_EQ(reader.float32(), 1.5f);
  reader.next();
  EXPECT_EQ(reader.float64(), 1.5);
}

TEST(ProtobufWire, RefusesWhatIsMalformedSayingWhere) {
  const auto skip = [](ProtobufReader& r) { r.skip(); };
  EXPECT_EQ(failure("\x08\x96", skip), "t.pb: byte 0: the data ends inside a varint");
  EXPECT_EQ(failure(std::string("\x08\x01\x12\x05"
                                "abc"),
                    skip),
            "t.pb: byte 2: field 2 is 5 bytes long, but only 3 are left");
  EXPECT_EQ(failure("\x0b", skip), "t.pb: byte 0: field 1 is a group, which is not supported");
  EXPECT_EQ(failure("\x0f", skip), "t.pb: byte 0: field 1 has the unknown wire type 7");
  EXPECT_NE(failure(std::string("\x00\x01", 2), skip).find("field number 0"), std::string::npos);
  EXPECT_EQ(failure("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", skip),
            "t.pb: byte 0: a varint of more than 64 bits");
  EXPECT_EQ(failure("\x15\x01", skip), "t.pb: byte 0: the data ends inside field 2");
  EXPECT_EQ(failure("\x08\x01", [](ProtobufReader& r) { r.bytes(); }),
            "t.pb: byte 0: field 1 has wire type 0; a string or message was expected");
}

TEST(ProtobufWire, BoundsListsBeforeTheyGrow) {
  EXPECT_EQ(failure("\x0a\x04\x01\x02\x03\x04",
                    [](ProtobufReader& r) {
                      std::vector<int64_t> list;
                      r.append_int64(list, 3);
                    }),
            "t.pb: byte 0: field 1 holds more than 3 elements");
  EXPECT_EQ(failure(std::string("\x0a\x03\x00\x00\x00", 5),
                    [](ProtobufReader& r) {
                      std::vector<float> list;
                      r.append_float32(list, 3);
                    }),
            "t.pb: byte 0: the data ends inside field 1");
}

}  // namespace
}  // namespace orrery
