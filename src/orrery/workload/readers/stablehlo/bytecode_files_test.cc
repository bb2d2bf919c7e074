// Real artifacts: what has text beside it gives the same workload, damaged ones are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"
#include "orrery/workload/readers/stablehlo/workload_text_for_test.h"

namespace orrery::stablehlo {
namespace {

std::vector<std::string> bytecode_under(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().string().ends_with(".mlir.bc")) found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

Workload read_file(const std::string& path) {
  return read_workload(Source::from_file(path), ReadOptions{});
}

FunctionId find_function(const Workload& workload, std::string_view name) {
  for (uint32_t i = 0; i < workload.functions().size(); ++i)
    if (workload.string(workload.functions()[i].name) == name) return FunctionId{i};
  ADD_FAILURE() << "no function " << name;
  return workload.entry();
}

TEST(BytecodeFiles, TextAndBytecodeGiveTheSameWorkload) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "stablehlo/public");
  int pairs = 0;
  for (const std::string& file : bytecode_under(folder)) {
    const std::string text = file.substr(0, file.size() - 3);
    if (!std::filesystem::exists(text)) continue;
    ++pairs;
    const Workload from_bytecode = read_file(file);
    const Workload from_text = read_file(text);
    const std::vector<std::string> ours = WorkloadText(from_bytecode).lines();
    const std::vector<std::string> theirs = WorkloadText(from_text).lines();
    EXPECT_EQ(ours.size(), theirs.size()) << file;
    int shown = 0;
    for (size_t i = 0; i < std::min(ours.size(), theirs.size()) && shown < 3; ++i) {
      EXPECT_EQ(ours[i], theirs[i]) << file;
      shown += ours[i] == theirs[i] ? 0 : 1;
    }
    ASSERT_EQ(from_bytecode.functions().size(), from_text.functions().size());
    for (uint32_t i = 0; i < from_text.functions().size(); ++i) {
      if (!from_text.functions()[i].body.valid()) continue;
      const std::string_view name = from_text.string(from_text.functions()[i].name);
      const TotalCost expected = total_cost(from_text, FunctionId{i});
      const TotalCost found = total_cost(from_bytecode, find_function(from_bytecode, name));
      EXPECT_EQ(found.flops_by_unit_and_type, expected.flops_by_unit_and_type) << file << name;
      EXPECT_EQ(found.bytes_read, expected.bytes_read) << file << name;
      EXPECT_EQ(found.bytes_written, expected.bytes_written) << file << name;
    }
  }
  EXPECT_EQ(pairs, 7);
}

TEST(BytecodeFiles, AlphaFoldIsRead) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "stablehlo/public/GleasonK_stablehlo-exports/alphafold.mlir.bc");
  const Workload w = read_file(file);
  EXPECT_EQ(w.name(), "jit_alphafold_predict");
  EXPECT_EQ(count(w, Opcode::k_unknown), 0);
  EXPECT_THAT(w.notes(), ::testing::Each(::testing::Not(::testing::HasSubstr("not known"))));
  EXPECT_GT(w.ops().size(), 60000u);
  EXPECT_GT(count(w, Opcode::k_while), 0);
  for (const Op& op : w.ops())
    if (op.code == Opcode::k_dot_general) {
      EXPECT_EQ(op.operand_count, 2u);
    }
}

/// Reads and costs; errors are what damage may give.
void survive(std::string damaged) {
  try {
    const Workload w =
        read_workload(Source::from_memory("damaged.mlir.bc", std::move(damaged)), {});
    if (w.entry().valid()) total_cost(w, w.entry());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
  }
}

TEST(BytecodeFiles, DamagedOnesAreReadOrRefused) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "stablehlo/public");
  std::mt19937 random(1);
  for (const std::string& file : bytecode_under(folder)) {
    const Source source = Source::from_file(file);
    const std::string whole(source.text());
    const bool large = whole.size() > 1000000;
    for (int i = 0; i < (large ? 20 : 300); ++i) {
      survive(whole.substr(0, random() % whole.size()));
      std::string flipped = whole;
      flipped[random() % whole.size()] ^= static_cast<char>(1 << random() % 8);
      survive(std::move(flipped));
      std::string overwritten = whole;
      overwritten[random() % whole.size()] = static_cast<char>(random());
      survive(std::move(overwritten));
    }
  }
}

}  // namespace
}  // namespace orrery::stablehlo
