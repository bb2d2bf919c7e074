#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/profile/profile_for_test.h"

namespace orrery {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kTable =
    "op,dtype,params,us,watts\n"
    "add,bf16,{\"shape\": [16777216]},28,500\n"
    "add,bf16,{\"shape\": [33554432]},52,520\n";

std::unique_ptr<Predictor> bound(const std::string& model, const std::string& table,
                                 const Device& device = catalogue_device("h200")) {
  Binding binding;
  binding.profile = table;
  return Registry<KernelModel>::instance()
      .at(model, "kernel model")
      .create()
      ->bind(device, binding);
}

Estimate estimate(const Predictor& predictor, const Kernel& kernel) {
  Estimate e;
  predictor.predict({&kernel, 1}, {}, {&e, 1});
  return e;
}

TEST(ProfileModel, MeasuredTimePowerAndInterval) {
  const auto profile = bound("profile", written("t.csv", kTable));
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  const Estimate e = estimate(*profile, add);
  EXPECT_NEAR(e.seconds.value, 28e-6, 1e-12);
  EXPECT_NEAR(e.joules.value, 500 * 28e-6, 1e-9);
  const TimeInterval t = interval(e);
  EXPECT_NEAR(std::log(t.high / t.value), 0.03, 1e-6);
  EXPECT_NEAR(std::log(t.low / t.value), -0.03, 1e-6);
  EXPECT_THAT(profile->gaps(add), IsEmpty());
  EXPECT_EQ(profile->explain(add, {}).bound, "memory");
  EXPECT_THAT(profile->provenance(), Contains(Pair("profile", HasSubstr("2 rows of 2 kernels"))));
}

TEST(ProfileModel, AWhatIfMovesMeasuredRowsAsItMovesPhysics) {
  const Device half =
      Catalogue(ORRERY_SOURCE_DIR "/hardware").device("h200", {{"memory.bandwidth", "2.4 TB/s"}});
  const Kernel add = operator_kernel("add", "bf16", R"({"shape": [16777216]})");
  // 101 MB: 21 us at 4.8 TB/s and 42 at half of it, beside a floor of some 2.
  const std::string table = written("t.csv", kTable);
  const double ratio = estimate(*bound("profile", table, half), add).seconds /
                       estimate(*bound("profile", table), add).seconds;
  EXPECT_GT(ratio, 1.85);
  EXPECT_LT(ratio, 1.96);
}

TEST(ProfileModel, KindsTheTableLacksAreThoseOfAuto) {
  const auto profile = bound("profile", written("t.csv", kTable));
  const auto otherwise = bound("auto", "");
  const Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 512, "n": 512, "k": 512})");
  EXPECT_EQ(estimate(*profile, gemm).seconds, estimate(*otherwise, gemm).seconds);
  EXPECT_THAT(profile->gaps(gemm),
              Contains(HasSubstr("has no dot_general bf16 of this kind: predicted by tile")));
}

TEST(ProfileModel, FarFromEveryRowIsAGap) {
  const auto profile = bound("profile", written("t.csv", kTable));
  EXPECT_THAT(profile->gaps(operator_kernel("add", "bf16", R"({"shape": [1024]})")),
              ElementsAre(HasSubstr("utilisation is that of the nearest")));
}

TEST(ProfileModel, WhatTheTableDoesNotSayOfTheOperatingPoint) {
  const auto profile = bound("profile", written("t.csv", kTable));
  OperatingPoint point;
  EXPECT_THAT(profile->gaps(point), IsEmpty());
  point.regime = OperatingPoint::Regime::kSustained;
  point.clock = Hertz(1.5e9);
  EXPECT_THAT(profile->gaps(point), ElementsAre(HasSubstr("not measured under sustained load"),
                                                HasSubstr("does not say at which clock")));
}

TEST(ProfileModel, AutoTakesTheTable) {
  const auto chosen = bound("auto", written("t.csv", kTable));
  EXPECT_EQ(chosen->name(), "profile");
}

TEST(ProfileModel, NeedsATable) {
  try {
    bound("profile", "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 2);
    EXPECT_THAT(e.message(), HasSubstr("--profile FILE.csv"));
  }
  EXPECT_THROW(bound("profile", "/nowhere.csv"), Error);
}

}  // namespace
}  // namespace orrery
