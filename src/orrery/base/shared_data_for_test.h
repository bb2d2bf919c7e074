#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace orrery {

/// A path under the measured data that lies beside a developer's checkout
/// (`../shared/data`, or $ORRERY_SHARED_DATA); nothing on a machine without it.
inline std::optional<std::string> shared_data(const std::string& relative) {
  const char* folder = std::getenv("ORRERY_SHARED_DATA");
  const std::filesystem::path root =
      folder != nullptr ? folder
                        : std::filesystem::path(ORRERY_SOURCE_DIR) / ".." / "shared" / "data";
  const auto path = root / relative;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.lexically_normal().string();
}

}  // namespace orrery

/// Skips the test, saying so, where the shared data is absent; else defines `name`.
#define ORRERY_SHARED_DATA_OR_SKIP(name, relative)                           \
  const auto name##_found = ::orrery::shared_data(relative);                 \
  if (!name##_found) GTEST_SKIP() << "shared data not here: " << (relative); \
  const std::string& name = *name##_found
