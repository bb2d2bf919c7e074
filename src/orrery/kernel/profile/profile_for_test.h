#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "orrery/hardware/catalogue.h"

namespace orrery {

inline Device catalogue_device(const std::string& name) {
  return Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device(name);
}

/// The path of a table that holds `text`, of the running test alone.
inline std::string written(const std::string& name, const std::string& text) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string path = testing::TempDir() + test->test_suite_name() + "." + test->name() + "." + name;
  std::ofstream(path) << text;
  return path;
}

}  // namespace orrery
