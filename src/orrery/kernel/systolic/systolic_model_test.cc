// Times on a TPU v5e, worked out from its file: 4 arrays of 128 × 128 cells, 197 TFLOP/s of
// bf16 and 393 of int8, so a bf16 cycle is 2·4·128²/197e12 = 0.66534 ns; 128 MiB on the chip.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/unmeasured.h"

namespace orrery {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::unique_ptr<Predictor> bound(const std::string& device, const Binding& binding = {},
                                 const std::vector<Override>& overrides = {}) {
  return Registry<KernelModel>::instance()
      .at("systolic", "kernel model")
      .create()
      ->bind(Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device(device, overrides),
             binding);
}

double microseconds(const Predictor& predictor, const Kernel& kernel) {
  Estimate estimate;
  predictor.predict({&kernel, 1}, {}, {&estimate, 1});
  return estimate.seconds.value * 1e6;
}

constexpr double kCycle = 2.0 * 4 * 128 * 128 / 197e6;  // µs

TEST(Systolic, ALargeProduct) {
  const auto v5e = bound("tpu-v5e");
  const Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})");
  // 32 · 32 folds over 4 arrays, 4,096 steps each; 2·128 + 128 − 2 once; 1 µs floor.
  EXPECT_NEAR(microseconds(*v5e, gemm), (256 * 4096 + 382) * kCycle + 1, 1e-6);
  EXPECT_EQ(v5e->explain(gemm, {}).bound, "compute");
}

TEST(Systolic, AFewColumnsWasteMostOfTheArray) {
  const auto v5e = bound("tpu-v5e");
  // One fold of 16 columns, its 65,536 rows over four arrays: as long as with all 128.
  const char* narrow = R"({"m": 65536, "n": 16, "k": 128})";
  EXPECT_NEAR(microseconds(*v5e, operator_kernel("gemm", "int8", narrow)),
              std::max((16384 + 382) * kCycle * 197 / 393,
                       operator_kernel("gemm", "int8", narrow).cost.bytes() / 819e3) +
                  1,
              1e-6);
}

TEST(Systolic, SeparateFoldsAsScaleSimHasThem) {
  Binding binding;
  binding.set = {{"overlap", 0}, {"dataflow", 1}, {"floor", 0}};
  const Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})");
  EXPECT_NEAR(microseconds(*bound("tpu-v5e", binding), gemm), 256 * (4096 + 254) * kCycle, 1e-6);
}

TEST(Systolic, AFloorIsATime) {
  for (const double floor : {-1.0, 1.5, 1e300}) {
    Binding binding;
    binding.set = {{"floor", floor}};
    EXPECT_THROW(bound("tpu-v5e", binding), Error) << floor;
  }
}

TEST(Systolic, ConvolutionsAsImplicitProducts) {
  const auto v5e = bound("tpu-v5e");
  const Kernel conv = operator_kernel(
      "conv2d", "bf16",
      R"({"n": 32, "c": 256, "h": 14, "w": 14, "k": 256, "r": 3, "s": 3, "stride": 1, "pad": 1})");
  // m = 32·14·14 = 6,272, k = 2,304, n = 256: 18 · 2 folds over 4 arrays.
  EXPECT_NEAR(microseconds(*v5e, conv), (9 * 6272 + 382) * kCycle + 1, 1e-6);
}

TEST(Systolic, DepthwiseConvolutionsUseOneColumn) {
  const auto v5e = bound("tpu-v5e");
  const Kernel conv = operator_kernel(
      "conv2d", "bf16",
      R"({"n": 8, "c": 64, "h": 56, "w": 56, "k": 64, "r": 3, "s": 3, "stride": 1, "pad": 1,
          "groups": 64})");
  EXPECT_NEAR(microseconds(*v5e, conv), (16 * 8 * 56 * 56 + 382) * kCycle + 1, 1e-6);
}

TEST(Systolic, SharedHeadsStreamTogether) {
  const auto v5e = bound("tpu-v5e");
  const Kernel attention = operator_kernel(
      "sdpa", "bf16", R"({"b": 1, "h": 32, "kv": 8, "s": 2048, "t": 2048, "d": 128})");
  // 8 products of 4 · 2,048 rows by 2,048 keys: 16 folds each; the second has 16 along its
  // depth. 8 · 16 / 4 rounds of 8,192 steps, twice.
  EXPECT_NEAR(microseconds(*v5e, attention), 2 * (32 * 8192 + 382) * kCycle + 1, 1e-6);
}

TEST(Systolic, OperandsTooLargeForTheChipAreReadAgain) {
  // 2 MiB on the chip, half of it for sums: blocks of 512 × 512 outputs, so each operand of
  // 4,096 × 4,096 is read eight times.
  const auto small =
      bound("tpu-v5e", {}, {{"memory.vmem.capacity", "2 MiB"}, {"memory.bandwidth", "10 GB/s"}});
  const Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})");
  const double operand = 4096.0 * 4096 * 2;
  EXPECT_NEAR(microseconds(*small, gemm), (2 * 8 + 1) * operand / 10e3 + 1, 1e-3);
  EXPECT_EQ(small->explain(gemm, {}).bound, "memory");
}

TEST(Systolic, AllElseAsTheRoofline) {
  const auto v5e = bound("tpu-v5e");
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  EXPECT_NEAR(microseconds(*v5e, add), 3 * 16777216 * 2 / 819e3 + 1, 0.2);
  EXPECT_EQ(v5e->explain(add, {}).bound, "memory");
}

TEST(Systolic, WiderFloatsRunAsBf16AndSaySo) {
  const auto v5e = bound("tpu-v5e");
  const char* square = R"({"m": 4096, "n": 4096, "k": 4096})";
  const Kernel fp32 = operator_kernel("gemm", "fp32", square);
  EXPECT_NEAR(microseconds(*v5e, fp32), microseconds(*v5e, operator_kernel("gemm", "bf16", square)),
              1e-9);
  EXPECT_THAT(v5e->gaps(fp32), Contains(HasSubstr("f32 products run on the arrays")));
}

TEST(Systolic, TheIntervalIsThatOfNoMeasurement) {
  const Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 512, "n": 512, "k": 512})");
  Estimate e;
  bound("tpu-v4")->predict({&gemm, 1}, {}, {&e, 1});
  const TimeInterval t = interval(e);
  EXPECT_NEAR(t.low / t.value, kUnmeasuredBest, 1e-4);
  EXPECT_NEAR(t.high / t.value, kUnmeasuredWorst, 1e-3);
  const auto counted = interval(unmeasured_estimate(Seconds(2), true));
  EXPECT_NEAR(counted.low.value, 2 * 0.7, 1e-4);
  EXPECT_NEAR(counted.high.value, 2 * 1.45, 1e-4);
}

TEST(Systolic, OtherMachinesAreRefused) {
  EXPECT_THROW(bound("h200"), Error);
  Binding binding;
  binding.set = {{"dataflow", 3}};
  EXPECT_THROW(bound("tpu-v5e", binding), Error);
}

}  // namespace
}  // namespace orrery
