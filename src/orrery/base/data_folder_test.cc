#include "orrery/base/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "orrery/base/error.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A scratch folder in which roots can be laid out.
class DataFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "orrery_data_folder_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    scratch_ = pattern;
  }
  void TearDown() override { fs::remove_all(scratch_); }

  fs::path make_root(const std::string& relative) const {
    fs::create_directories(scratch_ / relative / "hardware");
    return scratch_ / relative;
  }
  static std::string failure(const DataRootSearch& search) {
    try {
      return "found " + find_data_root(search).string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.message();
    }
  }

  fs::path scratch_;
};

TEST_F(DataFolder, TheEnvironmentComesBeforeAll) {
  const fs::path wanted = make_root("wanted");
  const fs::path tree = make_root("tree");
  EXPECT_EQ(find_data_root({wanted.string(), tree, {}}), wanted);
}

TEST_F(DataFolder, AWrongEnvironmentIsAnErrorEvenWhereOthersWouldDo) {
  const fs::path tree = make_root("tree");
  EXPECT_THAT(failure({(scratch_ / "absent").string(), tree, {}}), HasSubstr("$ORRERY_DATA is '"));
}

TEST_F(DataFolder, TheSourceTreeComesBeforeAnInstallation) {
  const fs::path tree = make_root("tree");
  make_root("prefix/share/orrery");
  EXPECT_EQ(find_data_root({std::nullopt, tree, {scratch_ / "prefix/bin/orrery"}}), tree);
}

TEST_F(DataFolder, AnInstallationIsFoundFromWhereverItsBinariesLie) {
  const fs::path share = make_root("prefix/share/orrery");
  const fs::path gone = scratch_ / "tree_that_was_deleted";
  for (const char* binary :
       {"prefix/bin/orrery", "prefix/lib/liborrery.so.0",
        "prefix/lib/x86_64-linux-gnu/liborrery.so.0", "prefix/lib/python3/dist-packages/orrery.so"})
    EXPECT_EQ(find_data_root({std::nullopt, gone, {scratch_ / binary}}), share) << binary;
}

TEST_F(DataFolder, TheLibraryComesBeforeTheProgramThatUsesIt) {
  const fs::path share = make_root("prefix/share/orrery");
  make_root("other/share/orrery");
  EXPECT_EQ(
      find_data_root(
          {std::nullopt, {}, {scratch_ / "prefix/lib/liborrery.so", scratch_ / "other/bin/x"}}),
      share);
}

TEST_F(DataFolder, TheErrorNamesEveryPlaceAndTheWayOut) {
  const std::string message =
      failure({std::nullopt, scratch_ / "tree", {scratch_ / "prefix/bin/orrery", fs::path()}});
  EXPECT_THAT(message, HasSubstr((scratch_ / "tree").string()));
  EXPECT_THAT(message, HasSubstr((scratch_ / "prefix/share/orrery").string()));
  EXPECT_THAT(message, HasSubstr("set ORRERY_DATA"));
}

TEST_F(DataFolder, TheProcessReadsItsEnvironment) {
  const fs::path wanted = make_root("wanted");
  ASSERT_EQ(::setenv("ORRERY_DATA", wanted.c_str(), 1), 0);
  EXPECT_EQ(hardware_folder(), wanted / "hardware");
  EXPECT_EQ(fitted_data_folder(), wanted / "data");
  ASSERT_EQ(::unsetenv("ORRERY_DATA"), 0);
}

}  // namespace
}  // namespace orrery
