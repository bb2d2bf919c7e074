#include "orrery/base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace orrery {
namespace {

/// RFC 1952's frame around one stored (uncompressed) DEFLATE block, put together by
/// hand: header, 01 length ~length, the bytes, CRC-32 and size.
const std::string kHello(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
    "\x01\x05\x00\xfa\xff"
    "hello"
    "\x86\xa6\x10\x36\x05\x00\x00\x00",
    28);

std::string compressed(const std::string& text) {
  std::string out(::compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string inflated_text(const std::string& bytes, size_t most = kMostInflatedBytes) {
  return std::string(inflated(Source::from_memory("t.gz", bytes), most).text());
}

std::string error_of(const std::string& bytes, size_t most = kMostInflatedBytes) {
  try {
    inflated_text(bytes, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Gzip, InflatesOneMemberAndSeveral) {
  EXPECT_EQ(inflated_text(kHello), "hello");
  EXPECT_EQ(inflated_text(kHello + kHello), "hellohello");
  std::string long_text;
  for (int i = 0; i < 200000; ++i) long_text += std::to_string(i) + "\n";
  EXPECT_EQ(inflated_text(compressed(long_text)), long_text);
}

TEST(Gzip, LeavesOtherBytesAlone) {
  EXPECT_EQ(inflated_text("op,dtype\n"), "op,dtype\n");
  EXPECT_EQ(inflated_text(""), "");
  EXPECT_EQ(inflated_text("\x1f"), "\x1f");
}

TEST(Gzip, RefusesWhatIsCutShort) {
  for (size_t size = 2; size < kHello.size(); ++size)
    EXPECT_EQ(error_of(kHello.substr(0, size)),
              "t.gz: the compressed data ends too early: the file is cut short")
        << size;
}

TEST(Gzip, RefusesDamage) {
  std::string wrong_sum = kHello;
  wrong_sum[20] ^= 1;
  EXPECT_EQ(error_of(wrong_sum), "t.gz: the compressed data is damaged (incorrect data check)");
  EXPECT_EQ(error_of(kHello + "tail"),
            "t.gz: the compressed data is damaged (incorrect header check)");
}

TEST(Gzip, RefusesABomb) {
  const std::string bomb = compressed(std::string(size_t{64} << 20, 'x'));
  EXPECT_LT(bomb.size(), size_t{70000});
  EXPECT_EQ(error_of(bomb, size_t{32} << 20), "t.gz: inflates to more than 33.6 MB");
  EXPECT_EQ(error_of(kHello, 4), "t.gz: inflates to more than 4.00 B");
  EXPECT_EQ(inflated_text(kHello, 5), "hello");
}

}  // namespace
}  // namespace orrery
