#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/workload/readers/hlo/translation.h"
#include "orrery/workload/workload.h"

namespace orrery::hlo {

inline Workload read_text(std::string text, const ReadOptions& options = {}) {
  return read_module(Source::from_memory("test.hlo", std::move(text)), options);
}

/// A module whose entry computation, after `before`, has these lines.
inline std::string module_of(std::string_view lines, std::string_view before = "") {
  return "HloModule m\n" + std::string(before) + "\nENTRY main {\n" + std::string(lines) + "\n}\n";
}

/// The operation the file calls `name`; the test fails when there is none.
inline OpView named(const Workload& workload, std::string_view name) {
  for (uint32_t i = 0; i < workload.ops().size(); ++i)
    if (workload.string(workload.ops()[i].name) == name) return workload.view(OpId{i});
  ADD_FAILURE() << "no operation " << name;
  return workload.view(OpId{0});
}

inline std::vector<int64_t> list(const OpView& op, Attr key) {
  const auto numbers = op.integers(key);
  return {numbers.begin(), numbers.end()};
}

/// What the error of reading `text` says; empty when it is read.
inline std::string error_of(std::string text) {
  try {
    read_text(std::move(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

inline int64_t count(const Workload& workload, Opcode code) {
  int64_t found = 0;
  for (const Op& op : workload.ops()) found += op.code == code ? 1 : 0;
  return found;
}

}  // namespace orrery::hlo
