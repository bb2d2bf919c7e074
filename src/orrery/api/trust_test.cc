#include "orrery/api/trust.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace orrery {
namespace {

std::string record(const char* engine, const char* device, const char* model,
                   const char* arrangement, int cases) {
  return std::string("  - {what: deployments, kind: deployment, data: d, engine: ") + engine +
         ", device: " + device + ", kernel_model: auto, model: " + model +
         ", arrangement: " + arrangement + ", cases: " + std::to_string(cases) +
         ", tpot_median_error: 4 %, tpot_p90_error: 9 %, tpot_inside_interval: 1, "
         "ttft_median_error: 20 %, ttft_p90_error: 50 %, ttft_inside_interval: 1}\n";
}

class DeploymentTrust : public testing::Test {
 protected:
  // Tests run side by side: each has a folder of its own.
  DeploymentTrust()
      : folder_(testing::TempDir() + "/deployment_trust." +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/validation.yaml")
        << "records:\n"
        << record("vllm", "h100-sxm", "dense", "aggregated", 11)
        << record("vllm", "h200", "experts", "aggregated", 12)
        << record("vllm", "gb200", "experts", "disaggregated", 13)
        << record("sglang", "b300", "experts", "aggregated", 14);
  }
  Trust of(const DeploymentKind& kind) const { return trust_of(folder_, kind); }

  std::string folder_;
};

constexpr const char* kSeen =
    " measured aggregated deployments of mixture-of-experts models with vllm on h200: time per "
    "token off by 4 % (median) and 9 % (p90), first token by 20 % and 50 %";

TEST_F(DeploymentTrust, IsValidatedWhereItsKindWasMeasured) {
  const Trust trust = of({"vllm", "h200", true, false, {}});
  EXPECT_EQ(trust.verdict, "validated");
  EXPECT_EQ(trust.detail, std::string("12") + kSeen);
}

TEST_F(DeploymentTrust, IsExtrapolatedWithWhatThoseDidNotHave) {
  const Trust trust = of({"vllm", "h200", true, false, {"speculation", "a step profile"}});
  EXPECT_EQ(trust.verdict, "extrapolated");
  EXPECT_EQ(trust.detail,
            std::string("checked without speculation, a step profile only: 12") + kSeen);
}

TEST_F(DeploymentTrust, TakesTheNearestOfTheEngine) {
  const auto cases = [&](const DeploymentKind& kind) {
    const Trust trust = of(kind);
    EXPECT_EQ(trust.verdict, "extrapolated");
    const std::string opening = "checked elsewhere only: ";
    EXPECT_EQ(trust.detail.substr(0, opening.size()), opening);
    return std::stoi(trust.detail.substr(opening.size()));
  };
  EXPECT_EQ(cases({"vllm", "a100-sxm-80gb", true, false, {}}), 12);
  EXPECT_EQ(cases({"vllm", "h200", true, true, {}}), 13);
  EXPECT_EQ(cases({"vllm", "h200", false, false, {}}), 11);
  EXPECT_EQ(cases({"sglang", "h200", false, false, {}}), 14);
}

TEST_F(DeploymentTrust, IsUntestedWhereTheEngineWasNotMeasured) {
  const Trust trust = of({"trtllm", "h200", true, false, {}});
  EXPECT_EQ(trust.verdict, "untested");
  EXPECT_EQ(trust.detail, "no measured deployment with trtllm was compared");
}

}  // namespace
}  // namespace orrery
