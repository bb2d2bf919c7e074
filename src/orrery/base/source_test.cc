#include "orrery/base/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace orrery {
namespace {

/// A folder of this test's own, gone when it ends.
class SourceFiles : public testing::Test {
 protected:
  SourceFiles()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("source_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~SourceFiles() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string error_of(const std::string& path) {
    try {
      Source::from_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3);
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST(Source, OffsetsBecomeLinesAndColumns) {
  const Source s = Source::from_memory("m", "ab\ncd\n\nx");
  const auto expect = [&](size_t offset, int64_t line, int64_t column) {
    EXPECT_EQ(s.location(offset).line, line) << offset;
    EXPECT_EQ(s.location(offset).column, column) << offset;
  };
  expect(0, 1, 1);
  expect(2, 1, 3);  // the newline itself ends the first line
  expect(3, 2, 1);
  expect(6, 3, 1);
  expect(7, 4, 1);
  expect(8, 4, 2);    // the end
  expect(999, 4, 2);  // beyond it
}

TEST(Source, FailNamesFileLineAndColumn) {
  const Source s = Source::from_memory("model.mlir", "one\ntwo");
  try {
    s.fail(5, "not so");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model.mlir:2:2: not so");
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

TEST(Source, KeepsItsTextWhenCopiedAndMoved) {
  Source copy = [] {
    const Source original = Source::from_memory("m", std::string(1000, 'x'));
    return original;
  }();
  const Source moved = std::move(copy);
  EXPECT_EQ(moved.text(), std::string(1000, 'x'));
}

TEST(Source, FaultsOfBinaryFormatsNameTheByte) {
  const Source text = Source::from_memory("m", "ab\ncd");
  const auto message_of = [](const Source& s) -> std::string {
    try {
      s.fail(4, "no good");
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message_of(text), "m:2:2: no good");
  EXPECT_EQ(message_of(text.binary()), "m: byte 4: no good");
  EXPECT_EQ(text.binary().text().data(), text.text().data());
}

TEST_F(SourceFiles, MapsARegularFile) {
  std::ofstream(path("f")) << "hello\n";
  const Source s = Source::from_file(path("f"));
  EXPECT_EQ(s.text(), "hello\n");
  EXPECT_EQ(s.name(), path("f"));
}

TEST_F(SourceFiles, AnEmptyFileIsEmptyText) {
  std::ofstream(path("empty")).flush();
  EXPECT_EQ(Source::from_file(path("empty")).text(), "");
}

TEST_F(SourceFiles, RefusesWhatIsNoFile) {
  EXPECT_EQ(error_of(path("missing")),
            path("missing") + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of(folder_.string()), folder_.string() + ": is a folder, a file was expected");
  EXPECT_EQ(error_of("/dev/null"), "/dev/null: is not a regular file");
}

TEST_F(SourceFiles, APipeIsRefusedNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);  // nobody ever writes to it
  EXPECT_EQ(error_of(path("pipe")), path("pipe") + ": is not a regular file");
}

}  // namespace
}  // namespace orrery
