// The roofline's times on an H200, worked out from its data sheet: 989.4 TFLOP/s of
// bf16 products, 494.7 of TF32, 1,978.9 of fp8, 66.9 TFLOP/s of fp32 on vector units,
// 4.18 T special functions a second, 4.8 TB/s.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<Predictor> roofline(const std::vector<Override>& overrides = {}) {
  const Device h200 =
      Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200", overrides);
  return Registry<KernelModel>::instance().at("roofline", "kernel model").create()->bind(h200, {});
}

double microseconds(const Predictor& predictor, const Kernel& kernel, double mhz = 0) {
  Estimate estimate;
  OperatingPoint point;
  point.clock = Hertz(mhz * 1e6);
  predictor.predict({&kernel, 1}, point, {&estimate, 1});
  return estimate.seconds.value * 1e6;
}

constexpr const char* kSquare = R"({"m": 4096, "n": 4096, "k": 4096})";

TEST(Roofline, ALargeProductIsBoundByCompute) {
  const auto predictor = roofline();
  const Kernel gemm = operator_kernel("gemm", "bf16", kSquare);
  // 2·4096³ / 989.4e12 = 138.9 µs; 3·4096²·2 B / 4.8e12 = 21.0 µs.
  EXPECT_NEAR(microseconds(*predictor, gemm), 138.912, 0.001);
  const Explanation why = predictor->explain(gemm, {});
  EXPECT_EQ(why.bound, "compute");
  EXPECT_THAT(predictor->gaps(gemm), IsEmpty());
}

TEST(Roofline, ElementwiseWorkIsBoundByMemory) {
  const auto predictor = roofline();
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  EXPECT_NEAR(microseconds(*predictor, add), 3 * 16777216 * 2 / 4.8e6, 1e-6);
  EXPECT_EQ(predictor->explain(add, {}).bound, "memory");
}

TEST(Roofline, ShortHeadsAreBoundBySpecialFunctions) {
  const auto predictor = roofline();
  const Kernel attention =
      operator_kernel("sdpa", "bf16", R"({"b": 1, "h": 16, "s": 8192, "d": 32})");
  // 16·8192² exponentials / 4.18e12 = 256.9 µs; products 2·16·8192²·64 / 989.4e12 = 138.9 µs.
  EXPECT_NEAR(microseconds(*predictor, attention), 16 * 8192.0 * 8192 / 4.18e6, 1e-3);
  EXPECT_EQ(predictor->explain(attention, {}).bound, "special functions");
}

TEST(Roofline, RatesByType) {
  const auto predictor = roofline();
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const auto time = [&](const char* dtype) {
    return microseconds(*predictor, operator_kernel("gemm", dtype, kSquare));
  };
  EXPECT_NEAR(time("tf32"), flops / 494.7e6, 1e-3);
  EXPECT_NEAR(time("fp16"), flops / 989.4e6, 1e-3);
  EXPECT_NEAR(time("fp8"), flops / 1978.9e6, 1e-3);
  EXPECT_NEAR(time("fp64"), flops / 66.9e6, 1e-3);
  EXPECT_NEAR(time("fp32"), flops / 66.9e6, 1e-3);  // on the vector units
}

TEST(Roofline, ATypeWithoutARateTakesTheNextWiderOneAndSaysSo) {
  const auto predictor = roofline();
  const Kernel fp4 = operator_kernel("gemm", "fp4", kSquare);
  EXPECT_NEAR(microseconds(*predictor, fp4), 2.0 * 4096 * 4096 * 4096 / 1978.9e6, 1e-3);
  EXPECT_THAT(predictor->gaps(fp4),
              ElementsAre(HasSubstr("no published rate for f4E2M1FN products: taken at that of "
                                    "f8E4M3FN")));
  EXPECT_THAT(predictor->gaps(operator_kernel("gemm", "fp32", kSquare)), IsEmpty());
}

TEST(Roofline, AFixedClockSlowsArithmeticNotMemory) {
  const auto predictor = roofline();
  const Kernel gemm = operator_kernel("gemm", "bf16", kSquare);
  // Matrix rates are stated at 1,830 MHz: half of it doubles the time.
  EXPECT_NEAR(microseconds(*predictor, gemm, 915), 2 * 138.912, 0.002);
  const Kernel fp64 = operator_kernel("gemm", "fp64", kSquare);
  EXPECT_NEAR(microseconds(*predictor, fp64, 1830), microseconds(*predictor, fp64), 1e-6);
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  EXPECT_EQ(microseconds(*predictor, add, 915), microseconds(*predictor, add));
}

TEST(Roofline, TheVectorUnitsScaleWithTheBoostClock) {
  const auto predictor = roofline();
  const Kernel attention =
      operator_kernel("sdpa", "bf16", R"({"b": 1, "h": 16, "s": 8192, "d": 32})");
  EXPECT_NEAR(microseconds(*predictor, attention, 990), 2 * 16 * 8192.0 * 8192 / 4.18e6, 1e-3);
}

TEST(Roofline, WhatIfs) {
  const auto predictor = roofline({{"memory.bandwidth", "9.6 TB/s"}});
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  EXPECT_NEAR(microseconds(*predictor, add), 3 * 16777216 * 2 / 9.6e6, 1e-6);
}

TEST(Roofline, TheIntervalRunsFromJustBelowToFiveTimes) {
  const auto predictor = roofline();
  const Kernel gemm = operator_kernel("gemm", "bf16", kSquare);
  Estimate e;
  predictor->predict({&gemm, 1}, {}, {&e, 1});
  const double family = e.loadings[static_cast<size_t>(ErrorFactor::kFamily)];
  const double spread = std::sqrt(e.own_spread * e.own_spread + family * family);
  EXPECT_NEAR(std::exp(e.skew - kNinetyPercent * spread), 0.95, 1e-4);
  EXPECT_NEAR(std::exp(e.skew + kNinetyPercent * spread), 5.0, 1e-3);
  EXPECT_NEAR(e.joules.value, 700 * e.seconds.value, 1e-12);  // the board's limit, 700 W
}

}  // namespace
}  // namespace orrery
