#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/workload.h"

namespace orrery::stablehlo {

inline Workload read_text(std::string text, const ReadOptions& options = {}) {
  return read_workload(Source::from_memory("test.mlir", std::move(text)), options);
}

/// A function of the given signature around `lines`: its first line is line 2.
inline std::string function_of(std::string_view signature, std::string_view lines) {
  return "func.func @main" + std::string(signature) + " {\n" + std::string(lines) + "\n}\n";
}

/// The `which`th operation of that code in program order; the test fails without one.
inline OpView find_op(const Workload& workload, Opcode code, int which = 0) {
  for (uint32_t i = 0; i < workload.ops().size(); ++i)
    if (workload.ops()[i].code == code && which-- == 0) return workload.view(OpId{i});
  ADD_FAILURE() << "no such operation " << name(code);
  return workload.view(OpId{0});
}

inline std::vector<int64_t> list(const OpView& op, Attr key) {
  const auto numbers = op.integers(key);
  return {numbers.begin(), numbers.end()};
}

inline int64_t count(const Workload& workload, Opcode code) {
  int64_t found = 0;
  for (const Op& op : workload.ops()) found += op.code == code ? 1 : 0;
  return found;
}

/// "LINE:COLUMN: message" of the error that reading `text` gives; "" when it is read.
inline std::string error_of(std::string text, const ReadOptions& options = {}) {
  try {
    read_text(std::move(text), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::to_string(error.where().line) + ":" + std::to_string(error.where().column) + ": " +
           error.message();
  }
  return "";
}

}  // namespace orrery::stablehlo
