#pragma once

namespace orrery {

/// Also the version of the CMake project; a test keeps the two equal.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace orrery
