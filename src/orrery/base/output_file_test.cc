#include "orrery/base/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "orrery/base/error.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest()
      : folder_(fs::path(testing::TempDir()) /
                fs::path("orrery_output_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++count;
    return count;
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, TakesThePlaceOfTheOldOneWhenItIsWhole) {
  std::ofstream(path("a")) << "old";
  {
    OutputFile out(path("a"));
    out.write("new ");
    EXPECT_EQ(content(path("a")), "old");
    out.write("text");
    out.commit();
  }
  EXPECT_EQ(content(path("a")), "new text");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, LeavesTheOldOneWhereItIsNotFinished) {
  std::ofstream(path("a")) << "old";
  {
    OutputFile out(path("a"));
    out.write("new");
  }
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, WritesThroughALink) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  OutputFile out(path("link"));
  out.write("new");
  out.commit();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("target")), "new");
}

TEST_F(OutputFileTest, DevicesAreWrittenNotReplaced) {
  OutputFile out("/dev/null");
  out.write("text");
  out.commit();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, StandardOutputHasAllOrNothing) {
  testing::internal::CaptureStdout();
  {
    OutputFile dropped("");
    dropped.write("dropped");
    OutputFile out("");
    out.write("kept");
    out.commit();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "kept");
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsRefusedAtOnce) {
  for (const std::string& name : {path("no/such/folder"), folder_.string()}) {
    try {
      const OutputFile out(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_NE(std::string(error.what()).find("cannot write '" + name + "': "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace orrery
