// Real modules: every one of the shared data is read whole, with no operation unknown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery::stablehlo {
namespace {

using testing::HasSubstr;

/// Not valid as a whole: most of its 608 parts are expected to fail (data/README.md).
const std::set<std::string> kSeveralModules = {"ops_stablehlo.mlir"};

std::vector<std::string> modules_under(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".mlir") found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

Workload read_file(const std::string& path) {
  return read_workload(Source::from_file(path), ReadOptions{});
}

TEST(StableHloFiles, EveryModuleIsReadWithoutAnUnknownOperation) {
  ORRERY_SHARED_DATA_OR_SKIP(measured, "h200/stablehlo");
  ORRERY_SHARED_DATA_OR_SKIP(others, "stablehlo");
  std::vector<std::string> files = modules_under(measured);
  for (std::string& file : modules_under(others)) files.push_back(std::move(file));
  EXPECT_GE(files.size(), 80u);
  for (const std::string& file : files) {
    if (kSeveralModules.contains(std::filesystem::path(file).filename().string())) continue;
    try {
      const Workload w = read_file(file);
      EXPECT_EQ(count(w, Opcode::k_unknown), 0) << file;
      for (const std::string& note : w.notes())
        EXPECT_THAT(note, testing::Not(HasSubstr("not known"))) << file;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

/// As `grep -c 'stablehlo.NAME '` counts them.
void expect_counts(const std::string& file, const std::map<std::string, int64_t>& expected) {
  const Workload w = read_file(file);
  for (const auto& [written, number] : expected) {
    const auto code = opcode_from_name(written);
    ASSERT_TRUE(code) << written;
    EXPECT_EQ(count(w, *code), number) << file << ": " << written;
  }
}

TEST(StableHloFiles, OperationCountsEqualThoseByGrep) {
  ORRERY_SHARED_DATA_OR_SKIP(llama, "h200/stablehlo/llama2_7b_b1_s512_prefill.mlir");
  expect_counts(llama, {{"broadcast_in_dim", 1583},
                        {"constant", 713},
                        {"multiply", 644},
                        {"convert", 387},
                        {"dot_general", 289},
                        {"add", 260},
                        {"divide", 226},
                        {"reduce", 129},
                        {"slice", 128},
                        {"call", 96},
                        {"rsqrt", 65},
                        {"exponential", 33},
                        {"gather", 1},
                        {"return", 4}});
  ORRERY_SHARED_DATA_OR_SKIP(resnet, "h200/stablehlo/resnet50_b64_train.mlir");
  // Of its reductions only one reduce_window and the select_and_scatter have bodies:
  // an add and a compare (of 405 and 51) stand in them.
  expect_counts(resnet, {{"convolution", 158},
                         {"multiply", 905},
                         {"reduce", 537},
                         {"add", 405},
                         {"call", 52},
                         {"compare", 51},
                         {"reverse", 52},
                         {"dot_general", 3},
                         {"select_and_scatter", 1},
                         {"reduce_window", 1},
                         {"maximum", 14},
                         {"return", 19}});
  ORRERY_SHARED_DATA_OR_SKIP(bert, "stablehlo/public/GleasonK_stablehlo-exports/pt_bert.mlir");
  expect_counts(bert, {{"broadcast_in_dim", 778},
                       {"multiply", 608},
                       {"add", 422},
                       {"transpose", 157},
                       {"dot_general", 97},
                       {"compare", 77},
                       {"reduce", 66},
                       {"call", 45},
                       {"gather", 9},
                       {"concatenate", 6},
                       {"tanh", 1}});
}

TEST(StableHloFiles, TheCompatibilityFileShowsEveryOperationOfTheSpecification) {
  ORRERY_SHARED_DATA_OR_SKIP(
      file, "stablehlo/public/openxla_stablehlo/stablehlo_legalize_to_vhlo.1_20_0.mlir");
  // StableHLO 1.20, docs/spec.md "Ops", with those of dynamism and the deprecated ones.
  static constexpr std::string_view kOperations[] = {"abs",
                                                     "add",
                                                     "after_all",
                                                     "all_gather",
                                                     "all_reduce",
                                                     "all_to_all",
                                                     "and",
                                                     "async_done",
                                                     "async_start",
                                                     "atan2",
                                                     "batch_norm_grad",
                                                     "batch_norm_inference",
                                                     "batch_norm_training",
                                                     "bitcast_convert",
                                                     "broadcast",
                                                     "broadcast_in_dim",
                                                     "case",
                                                     "cbrt",
                                                     "ceil",
                                                     "cholesky",
                                                     "clamp",
                                                     "collective_broadcast",
                                                     "collective_permute",
                                                     "collective_reduce",
                                                     "compare",
                                                     "complex",
                                                     "composite",
                                                     "concatenate",
                                                     "constant",
                                                     "convert",
                                                     "convolution",
                                                     "cosine",
                                                     "count_leading_zeros",
                                                     "create_token",
                                                     "custom_call",
                                                     "divide",
                                                     "dot",
                                                     "dot_general",
                                                     "dynamic_broadcast_in_dim",
                                                     "dynamic_conv",
                                                     "dynamic_gather",
                                                     "dynamic_iota",
                                                     "dynamic_pad",
                                                     "dynamic_reshape",
                                                     "dynamic_slice",
                                                     "dynamic_update_slice",
                                                     "einsum",
                                                     "exponential",
                                                     "exponential_minus_one",
                                                     "fft",
                                                     "floor",
                                                     "gather",
                                                     "get_dimension_size",
                                                     "get_tuple_element",
                                                     "if",
                                                     "imag",
                                                     "infeed",
                                                     "iota",
                                                     "is_finite",
                                                     "log",
                                                     "log_plus_one",
                                                     "logistic",
                                                     "map",
                                                     "maximum",
                                                     "minimum",
                                                     "multiply",
                                                     "negate",
                                                     "not",
                                                     "optimization_barrier",
                                                     "or",
                                                     "outfeed",
                                                     "pad",
                                                     "partition_id",
                                                     "popcnt",
                                                     "power",
                                                     "real",
                                                     "real_dynamic_slice",
                                                     "recv",
                                                     "reduce",
                                                     "reduce_precision",
                                                     "reduce_scatter",
                                                     "reduce_window",
                                                     "remainder",
                                                     "replica_id",
                                                     "reshape",
                                                     "return",
                                                     "reverse",
                                                     "rng",
                                                     "rng_bit_generator",
                                                     "round_nearest_afz",
                                                     "round_nearest_even",
                                                     "rsqrt",
                                                     "scatter",
                                                     "select",
                                                     "select_and_scatter",
                                                     "send",
                                                     "set_dimension_size",
                                                     "shift_left",
                                                     "shift_right_arithmetic",
                                                     "shift_right_logical",
                                                     "sign",
                                                     "sine",
                                                     "slice",
                                                     "sort",
                                                     "sqrt",
                                                     "subtract",
                                                     "tan",
                                                     "tanh",
                                                     "torch_index_select",
                                                     "transpose",
                                                     "triangular_solve",
                                                     "tuple",
                                                     "unary_einsum",
                                                     "uniform_dequantize",
                                                     "uniform_quantize",
                                                     "while",
                                                     "xor"};
  static_assert(std::size(kOperations) == 117);
  const Workload w = read_file(file);
  std::set<Opcode> seen;
  for (const Op& op : w.ops()) seen.insert(op.code);
  for (const std::string_view written : kOperations) {
    const auto code = opcode_from_name(written);
    ASSERT_TRUE(code) << written;
    EXPECT_TRUE(seen.contains(*code)) << written;
  }
  EXPECT_FALSE(seen.contains(Opcode::k_unknown));
}

TEST(StableHloFiles, TheScannedModuleHasItsTripCount) {
  ORRERY_SHARED_DATA_OR_SKIP(file, "h200/stablehlo/llama2_7b_b1_s512_prefill_scan.mlir");
  const Workload w = read_file(file);
  EXPECT_EQ(find_op(w, Opcode::k_while).integer(Attr::kTripCount, -1), 32);  // its layers
}

}  // namespace
}  // namespace orrery::stablehlo
