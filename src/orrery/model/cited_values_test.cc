#include "orrery/model/cited_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>

#include "orrery/base/error.h"

namespace orrery {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

class CitedValuesTest : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".yaml");
    std::ofstream(path_) << text;
    return path_.string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string refusal(const std::string& text) {
    try {
      (void)CitedValues(file(text)).at("gap", Dimension::kTime);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << "not refused: " << text;
    return {};
  }

 private:
  std::filesystem::path path_;
};

TEST_F(CitedValuesTest, QuantitiesComeInTheirBaseUnit) {
  const CitedValues values(
      file("gap: {value: 1.5 us, source: a paper}\n"
           "library: {cublas: {value: 2 us, source: measured}}\n"));
  EXPECT_DOUBLE_EQ(values.at("gap", Dimension::kTime), 1.5e-6);
  EXPECT_DOUBLE_EQ(values.at(values.root()["library"], "cublas", Dimension::kTime), 2e-6);
}

TEST_F(CitedValuesTest, WhatLacksASourceOrAUnitIsNamedWithItsPlace) {
  const std::string expected = "'gap': expected {value: QUANTITY, source: WHERE FROM}";
  EXPECT_THAT(refusal("\ngap: {value: 1 us}\n"), AllOf(HasSubstr(":2:6"), EndsWith(expected)));
  EXPECT_THAT(refusal("gap: 1 us\n"), EndsWith(expected));
  EXPECT_THAT(refusal("other: 1\n"), EndsWith(expected));
  EXPECT_THAT(refusal("gap: {value: 1 GB, source: x}\n"), HasSubstr("'gap': "));
  EXPECT_THAT(refusal("gap: {value: [1], source: x}\n"), HasSubstr("'gap': expected a quantity"));
  EXPECT_THAT(refusal("- 1\n"), HasSubstr("expected a map"));
  EXPECT_THAT(refusal("gap: {value\n"), HasSubstr("yaml:"));
}

}  // namespace
}  // namespace orrery
